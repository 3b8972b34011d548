"""Weights after some steps of `fit`, on the backend that KERAS_BACKEND names.

It trains the .keras files of a folder, on all devices of JAX, and writes their weights:

python -m tests.backend_training FOLDER CLIP_NORM [LEARNING_RATE]
"""

import sys

from tests import backend_outputs  # without TensorFlow from here on

import pathlib  # isort: skip

import keras
import numpy as np

from modeling.checkpoints import keras_files
from training import optimizers

NUM_STEPS, BATCH = 20, 8


def train(path, clip_norm, peak=1e-3):
    """{variable: values} and the losses of the epochs, of a classifier's file."""
    is_jax = backend_outputs.BACKEND == "jax"
    count = len(keras.distribution.list_devices()) if is_jax else 1
    if count > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel())
    model, data = keras_files.load(str(path)), dict(np.load(path.with_suffix(".npz")))
    rate = optimizers.LinearWithWarmup(peak, NUM_STEPS, 2)
    model.compile(
        optimizer=optimizers.BertAdam(rate, clip_norm=clip_norm),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    labels = {"logits": data.pop("labels")}
    history = model.fit(data, labels, BATCH, shuffle=False, verbose=0)
    values = {
        variable.path.split("/", 1)[1]: keras.ops.convert_to_numpy(variable)
        for variable in model.trainable_variables
    }
    return {**values, "loss": np.array(history.history["loss"]), "devices": count}


def main(folder, *settings):
    folder = pathlib.Path(folder)
    for path in sorted(folder.glob("*.keras")):
        values = train(path, *map(float, settings))
        np.savez(folder / f"{path.stem}-trained.npz", **values)


if __name__ == "__main__":
    main(*sys.argv[1:])
