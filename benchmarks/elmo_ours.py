"""This project's side of benchmarks/elmo.py: `python -m benchmarks.elmo_ours JOB`.

The action "prepare" writes random weights beside the options of a directory.
"""

import json
import pathlib
import sys

from training import environment

environment.prepare()  # before TensorFlow is imported

import keras
import tensorflow as tf

from benchmarks import elmo_work, ours, sides
from modeling import pretrainers
from modeling.checkpoints import pretrained
from modeling.checkpoints.formats import elmo_weights
from modeling.operations import lstm


def run(job):
    """Does one turn.

    Returns:
        "tokens_per_second", a check of what was computed ("loss" of training, "sum" of
        extracted values) and "peak_memory_mb".
    """
    found = ACTIONS[job.action](job)
    return {**found, "peak_memory_mb": sides.peak_memory_mb()}


def prepare(job):
    """Writes weights.hdf5."""
    keras.utils.set_random_seed(0)
    directory = pathlib.Path(job.directory)
    config = pretrained.read_config(str(directory / "options.json"))
    model = pretrainers.build("none", None, config)
    elmo_weights.save(directory / elmo_weights.WEIGHTS_FILE, model)
    return {"weights": config.num_weights()}


def extract(job, batch_size=32):
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
    "extract": extract,
    "extract_one": lambda job: extract(job, batch_size=1),
}


if __name__ == "__main__":
    print(json.dumps(run(elmo_work.Job.from_json(sys.argv[1]))))
