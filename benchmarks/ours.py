"""This project's side of a comparison: `python -m benchmarks.ours JOB`.

JOB is a `sides.Job` as JSON. Prints the result of `run` as JSON. A job whose weights
stay the same runs in the environment of a server.
"""

import json
import sys
import time

from benchmarks import sides
from cli import environment

JOB = sides.Job(**json.loads(sys.argv[1])) if __name__ == "__main__" else None
# Before TensorFlow is imported.
environment.prepare(serves=JOB is not None and JOB.keeps_weights)

import keras
import numpy as np
import tensorflow as tf

from benchmarks.on_backend import open_model
from contract import features
from data_pipeline.batches import batching, packing, sharing
from modeling import contrastive, losses
from modeling.generation import decoding, sampling
from serving import formats, runtimes
from training import contrastive_step, inference, optimizers, train_step
from training.distribution import devices

OBJECTIVES = {
    "classifier": lambda: losses.classifier("classification"),
    "pretraining": losses.pretraining,
    "tagger": losses.tagger,
    "span": losses.span,
    "language_model": losses.next_token,
    "text_encoder": lambda: contrastive.in_batch_negatives(20.0),
}
STEPS = {"text_encoder": contrastive_step.ContrastiveTrainStep}
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def peak_gflops(dtype=tf.float32):
    """`sides.peak_gflops` of TensorFlow."""
    size = [sides.PEAK_SIZE, sides.PEAK_SIZE]
    x = tf.cast(tf.random.stateless_normal(size, [1, 2]), dtype)
    return sides.peak_gflops(tf.function(lambda: tf.matmul(x, x)))


def run(job):
    """Does one turn.

    Returns:
        "seconds" of all timed steps; of training their mean "loss" and "start_s", from
        the command to the end of the warm-up; of exports "p50_ms" and "p99_ms" of a
        step; "peak_gflops", "peak_memory_mb", "versions" and "environment".
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(POLICIES[job.precision])
    try:
        figures = ACTIONS[job.action](job)
    finally:
        keras.config.set_dtype_policy(before)
    return {
        **figures,
        "peak_memory_mb": sides.peak_memory_mb(),  # before the product that takes some
        "peak_gflops": peak_gflops(job.precision),
        "versions": {"TensorFlow": tf.__version__, "Keras": keras.__version__},
        "environment": sides.environment(),
    }


def batches_of(work):
    """The batches of all steps, made by the pipeline of our runs."""
    packed = packing.Packed(
        work.tokens,
        work.splits,
        work.first_lengths,
        num_sequences=work.num_sequences,
    )
    rows = {
        name: tf.RaggedTensor.from_row_splits(values, work.splits)
        for name, values in work.token_targets.items()
    }
    batches = batching.batches(packed, work.order, targets={**work.targets, **rows})
    return sharing.share_rows(batches, 1) if work.num_sequences > 1 else batches


def train(job):
    """Training steps from the job's weights."""
    model = open_model(job.pretrained, job.head, job.num_classes)
    work = sides.Work.load(job.work)
    figures = time_training(model, job.head, work, job.warm_up, job.steps)
    return figures | {"start_s": figures["warm_at"] - job.begun}


def time_training(model, head, work, warm_up, num_steps):
    """Steps of the compiled loop of our runs; the warm-up traces it."""
    adam = optimizers.BertAdam()
    adam.build(model.trainable_variables)
    strategy = tf.distribute.get_strategy()
    run_steps = STEPS.get(head, train_step.TrainStep)(
        model, adam, OBJECTIVES[head](), strategy, seed=1, jit_compile=False
    )
    iterator = iter(devices.distributed(strategy, batches_of(work)))
    rates = tf.fill([max(warm_up, num_steps)], 1e-5)
    step, scaling = tf.constant(0, tf.int64), train_step.Scaling.from_state({})
    run_steps(iterator, rates, tf.constant(warm_up), step, scaling)
    begin, warm_at = time.perf_counter(), time.time()
    results, _ = run_steps(iterator, rates, tf.constant(num_steps), step, scaling)
    loss = float(results["loss"])
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "loss": loss, "warm_at": warm_at}


def predict(job):
    """Steps of the function that evaluates and predicts in our runs."""
    if job.export:
        fetch = runtimes.open_network(job.export)
    else:
        model = open_model(job.pretrained, job.head, job.num_classes)
        strategy = tf.distribute.get_strategy()
        function = inference.predict_function(model, strategy, jit_compile=False)

        def fetch(batch):
            return {name: value.numpy() for name, value in function(batch).items()}

    batches = batches_of(sides.Work.load(job.work)).take(job.warm_up + job.steps)
    return {"seconds": sum(sides.seconds_of(fetch, batches, job.warm_up))}


def write(job):
    """The likeliest NEW_TOKENS after each sequence, by our runs' loop."""
    model, written = open_model(job.pretrained, job.head), []
    greedy = decoding.GenerationConfig(sampling.Sampling(temperature=0))
    decoder = decoding.Decoder(model, greedy)

    def follow(batch):
        ids = batch[features.INPUT_IDS].tolist()
        numbers, count = list(range(len(ids))), sides.NEW_TOKENS
        texts = decoding.generate(decoder, ids, numbers, max_new_tokens=count)
        written.append([text for text, _ in texts])

    batches = sides.Work.load(job.work).batches(job.warm_up + job.steps)
    seconds = sides.seconds_of(follow, batches, job.warm_up)
    return {"seconds": sum(seconds), "written": written[job.warm_up :]}


def answer(job):
    """Batches of texts to their probabilities, by an export's signature."""
    version = formats.open_version(job.export)

    def classify(texts):
        return version.predict("", {"text": np.array(texts, object)})["probabilities"]

    return sides.time_answers(classify, job)


ACTIONS = {"train": train, "predict": predict, "write": write, "answer": answer}


if __name__ == "__main__":
    print(json.dumps(run(JOB)))
