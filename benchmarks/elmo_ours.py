"""This project's side of benchmarks/elmo.py: `python -m benchmarks.elmo_ours JOB`."""

import json
import pathlib
import sys
import time

from cli import environment

environment.prepare()  # before TensorFlow is imported

import keras
import numpy as np
import tensorflow as tf

from benchmarks import elmo_work, ours, sides
from contract import features
from modeling import pretrainers
from modeling.checkpoints import pretrained
from modeling.elmo import files, lstm, objective
from training import steps
from training.distribution import carried_states
from training.optimization import adagrad, loss_scale


def run(job):
    """Does one turn.

    Returns:
        "tokens_per_second", as "check" the last loss of training or a sum of values
        extracted, and "peak_memory_mb".
    """
    found = ACTIONS[job.action](job)
    return {**found, "peak_memory_mb": sides.peak_memory_mb()}


def read_config(job):
    """The config in the directory of a job."""
    return pretrained.read_config(str(pathlib.Path(job.directory, "options.json")))


def prepare(job):
    """Writes random weights beside the options."""
    keras.utils.set_random_seed(0)
    model = pretrainers.build("none", None, read_config(job))
    path = pathlib.Path(job.directory, files.WEIGHTS_FILE)
    files.save(path, model)
    return {"weights": model.config.num_weights()}


def batches(work, num_steps):
    """Features of training, each distinct word of a batch once, as our pipeline."""
    for read, following in work.windows(num_steps):
        distinct, places = np.unique(read, return_inverse=True)
        grids = (*places.reshape(read.shape), *following)
        yield {
            features.DISTINCT_WORDS: work.characters[distinct],
            features.INPUT_MASK: np.ones(read.shape[1:], np.int32),
            features.SAMPLING_SEED: np.zeros((read.shape[1], 2), np.int32),
            **{
                name: grid.astype(np.int32)
                for name, grid in zip(features.BILM_FEATURES, grids, strict=True)
            },
        }


def train(job):
    """Steps of the compiled loop of our runs; the first of the warm-up traces it."""
    keras.utils.set_random_seed(0)
    model = objective.BidirectionalLM(read_config(job))
    model.build()
    optimizer = adagrad.Adagrad(
        clip_norm=elmo_work.CLIP_NORM, gradient_factor=elmo_work.UNROLL
    )
    optimizer.build(model.trainable_variables)
    strategy = tf.distribute.get_strategy()
    work = elmo_work.Work.load(job.directory)
    count = job.warm_up + job.steps
    rows = work.streams.shape[1]
    run_steps = steps.train_function(
        *(model, optimizer, objective.objective(), strategy),
        seed=1,
        jit_compile=False,
        carried=carried_states.make(model.states, rows, strategy),
    )
    first = next(batches(work, 1))
    signature = {
        name: tf.TensorSpec([None, *value.shape[1:]], value.dtype)
        for name, value in first.items()
    }
    dataset = tf.data.Dataset.from_generator(
        lambda: batches(work, count), output_signature=signature
    )
    iterator = iter(dataset.prefetch(2))
    rates = tf.fill([count], elmo_work.RATE)
    step, scaling = tf.constant(0, tf.int64), loss_scale.of({})
    run_steps(iterator, rates, tf.constant(job.warm_up), step, scaling)
    begin = time.perf_counter()
    results, _ = run_steps(iterator, rates, tf.constant(job.steps), step, scaling)
    loss = float(results["loss"])
    seconds = time.perf_counter() - begin
    tokens = job.steps * rows * elmo_work.UNROLL
    return {"tokens_per_second": tokens / seconds, "check": loss}


def extract(job, batch_size=elmo_work.SENTENCES):
    """All layers of batches of sentences, each beginning where the last one ended."""
    network = ours.open_model(job.directory, "none").network
    states = network.zero_states(batch_size)

    @tf.function(
        input_signature=[
            tf.TensorSpec([batch_size, None, elmo_work.CHARACTERS], tf.int32),
            lstm.States(*(tf.TensorSpec(x.shape, x.dtype) for x in states)),
        ]
    )
    def layers_of(ids, states):
        mask = tf.cast(ids[..., 0] > 0, tf.int32)
        outputs = network(ids, mask, tf.zeros_like(mask), states=states)
        layers = [outputs["embedding_output"], *outputs["layer_outputs"]]
        return tf.stack(layers, axis=1)[:, :, 1:-1], outputs["states"]

    def call(batch):
        nonlocal states
        layers, states = layers_of(tf.constant(batch), states)
        return layers.numpy()

    work = elmo_work.Work.load(job.directory)
    return elmo_work.time_batches(call, job, work, batch_size)


ACTIONS = {
    "prepare": prepare,
    "train": train,
    "extract": extract,
    "extract_one": lambda job: extract(job, batch_size=1),
}


if __name__ == "__main__":
    print(json.dumps(run(elmo_work.Job.from_json(sys.argv[1]))))
