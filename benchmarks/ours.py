"""This project's side of a comparison: `python -m benchmarks.ours JOB`.

JOB is a `sides.Job` as JSON. Prints the result of `run` as JSON. A job of an export
runs in the environment of a server.
"""

import importlib.metadata
import json
import sys
import time

from benchmarks import rows, sides
from cli import environment

JOB = sides.Job(**json.loads(sys.argv[1])) if __name__ == "__main__" else None
# As in our programs, before any other import of TensorFlow.
environment.prepare(serves=JOB is not None and bool(JOB.export))
environment.import_tensorflow()

import keras
import numpy as np
import tensorflow as tf

import bert_reborn as bert
from contract import features
from data_pipeline.batches import batching, sharing
from loading import model_directory
from modeling import contrastive, losses, pretrainers
from modeling.checkpoints import checkpoint
from serving import formats
from training import contrastive_step, run_plan, train_step
from training.distribution import devices
from training.optimizers import bert_adam

OBJECTIVES = {
    "classifier": lambda: losses.classifier("classification"),
    "pretraining": losses.pretraining,
    "text_encoder": lambda: contrastive.in_batch_negatives(20.0),
}


def run(job):
    """Does one turn.

    Returns:
        "seconds" of all timed steps; of training their mean "loss" and "start_s", from
        the command to the end of the warm-up; of texts what `sides.time_answers`
        returns; and what `sides.described` adds.
    """
    figures = ACTIONS[job.action](job)
    x = tf.random.stateless_normal([sides.PEAK_SIZE, sides.PEAK_SIZE], [1, 2])
    product = tf.function(lambda: tf.matmul(x, x))
    versions = {"TensorFlow": tf.__version__, "Keras": keras.__version__}
    versions |= {  # what runs an export, and nothing else imports
        name: importlib.metadata.version(name)
        for name in rows.RUNTIMES
        if name in sys.modules
    }
    return sides.described(figures, product, versions)


def open_model(job):
    """The model of a job, with its weights."""
    files = model_directory.locate(job.pretrained, needs_all=False)
    config = model_directory.read_config(files.config_file)
    with checkpoint.drawing_after():  # as in our runs, only what the weights lack
        model = pretrainers.build(job.head, job.num_classes, config)
        print(checkpoint.load(model, files.init_checkpoint), file=sys.stderr)
    return model


def dataset_of(job):
    """The batches of all steps; sequences of an example share rows as in our runs."""
    batches = sides.read_batches(job)
    # Lengths differ from batch to batch, all other sizes are the same.
    sizes = {name: list(values.shape) for name, values in batches[0].items()}
    for name in features.ENCODER_INPUTS:
        sizes[name][-1] = None
    specs = {
        name: tf.TensorSpec(sizes[name], values.dtype)
        for name, values in batches[0].items()
    }
    dataset = tf.data.Dataset.from_generator(lambda: batches, output_signature=specs)
    dataset = batching.without_autotuning(dataset.prefetch(2))
    has_groups = batches[0][features.INPUT_IDS].ndim == 3
    return sharing.share_rows(dataset, 1) if has_groups else dataset


def train(job):
    """Steps of the compiled loop of our runs; the warm-up traces it."""
    model = open_model(job)
    adam = bert_adam.BertAdam()
    adam.build(model.trainable_variables)
    strategy = tf.distribute.get_strategy()
    is_contrast = job.head == "text_encoder"
    step_class = (
        contrastive_step.ContrastiveTrainStep if is_contrast else train_step.TrainStep
    )
    rewrites = job.head == "pretraining" or devices.rewrites_steps(strategy)
    plan = run_plan.Plan(
        output_dir="", seed=1, strategy=strategy, rewrites_graphs=rewrites
    )
    run_steps = step_class(plan, model, adam, OBJECTIVES[job.head]())
    iterator = iter(devices.distributed(strategy, dataset_of(job)))
    rates = tf.fill([max(job.warm_up, job.steps)], 1e-5)
    step, scaling = tf.constant(0, tf.int64), train_step.Scaling.from_state({})
    run_steps(iterator, rates, tf.constant(job.warm_up), step, scaling)
    begin, warm_at = time.perf_counter(), time.time()
    results, _ = run_steps(iterator, rates, tf.constant(job.steps), step, scaling)
    loss = float(results["loss"])
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "loss": loss, "start_s": warm_at - job.begun}


def answer(job):
    """Batches of texts to probabilities or vectors, by an export or in Python."""
    has_vectors = job.head == "text_encoder"
    if job.export:
        version = formats.open_version(job.export)
        name = "vector" if has_vectors else "probabilities"

        def run(texts):
            return version.predict("", {"text": np.array(texts, object)})[name]

    elif has_vectors:
        run = bert.embedder(job.pretrained, max_seq_length=job.max_seq_length).embed
    else:
        loaded = bert.load(job.pretrained, max_seq_length=job.max_seq_length)

        def run(texts):
            shares = [row["probabilities"] for row in loaded.predict(texts)]
            return np.array([[*each.values()] for each in shares])

    return sides.time_answers(run, job)


ACTIONS = {"train": train, "answer": answer}


if __name__ == "__main__":
    print(json.dumps(run(JOB)))
