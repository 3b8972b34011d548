"""Outputs of networks on the backend of Keras that KERAS_BACKEND names.

A program of its own, because a process has one backend. It reads the models in a
folder, Keras' files and directories of Hugging Face, and writes their outputs. As a
program it runs where TensorFlow cannot be imported:

python -m tests.backend_outputs FOLDER
"""

import os
import pathlib
import sys

if __name__ == "__main__" and os.environ["KERAS_BACKEND"] != "tensorflow":
    # Keras imports it, where it is installed, to read and write .keras files.
    sys.modules["tensorflow"] = None

import keras
import numpy as np

from modeling import sequences
from modeling.checkpoints import conversion, keras_files, pretrained

BACKEND = keras.backend.backend()


def flat(outputs):
    """{name: array} of nested outputs."""
    return {
        "/".join(map(str, path)): np.asarray(keras.ops.convert_to_numpy(value))
        for path, value in keras.tree.flatten_with_path(outputs)
    }


def in_jax_jit(model, features):
    import jax

    weights = [
        [variable.value for variable in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables)
    ]
    return jax.jit(lambda *inputs: model.stateless_call(*inputs)[0])(*weights, features)


def compute(model, features):
    """{name: array} of a call, of `predict`, of layers, and of jax.jit on JAX."""
    tensors = {name: keras.ops.convert_to_tensor(x) for name, x in features.items()}
    outputs = {
        "call": model(tensors),
        "predict": model.predict(features, verbose=0),
        "encode": model.encode(sequences.as_rows(tensors), None),
    }
    if hasattr(model, "logits"):
        outputs["logits"] = model.logits(tensors)
    if BACKEND == "jax":
        outputs["jit"] = in_jax_jit(model, tensors)
    return flat(outputs)


def read(path):
    if keras_files.is_keras(path):
        return keras_files.load(path)
    config = pretrained.read_config(str(path / "config.json"))
    return conversion.read(str(path), config).model


def main(folder):
    folder = pathlib.Path(folder)
    for path in sorted(folder.glob("*.npz")):
        features = dict(np.load(path))
        source = path.with_suffix("")
        source = (
            source if source.is_dir() else path.with_suffix(keras_files.MODEL_ENDING)
        )
        model = read(source)
        written = folder / BACKEND
        written.mkdir(exist_ok=True)
        np.savez(written / path.name, **compute(model, features))
        model.save(written / f"{path.stem}{keras_files.MODEL_ENDING}")


if __name__ == "__main__":
    main(sys.argv[1])
