"""Outputs of networks on the backend of Keras that KERAS_BACKEND names.

A program of its own, because a process has one backend. It reads the models in a
folder, Keras' files and directories of Hugging Face, and writes their outputs. As a
program it runs where TensorFlow cannot be imported:

python -m tests.backend_outputs FOLDER
"""

import os
import pathlib
import sys

if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
    # Keras imports it, where it is installed, to read and write .keras files.
    sys.modules["tensorflow"] = None

import keras
import numpy as np

from modeling import kernels, sequences
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


def differentiate(function, variables):
    """The gradients of a function of the values of variables, by its scalar."""
    values = [1.0 * keras.ops.convert_to_tensor(variable) for variable in variables]
    if BACKEND == "jax":
        import jax

        return jax.jit(jax.grad(function))(values)
    if BACKEND == "torch":
        values = [value.detach().clone().requires_grad_() for value in values]
        function(values).backward()
        return [0 * x if x.grad is None else x.grad for x in values]
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(values)
        total = function(values)
    return tape.gradient(total, values, unconnected_gradients="zero")


def gradients(model, features, step=5):
    """{path of a variable: gradient} of a number that all outputs enter; dropout."""
    variables = model.trainable_variables

    def total(values):
        # The seed of a step, which dropout follows from on every backend.
        seed = kernels.fused.make_seed(keras.ops.convert_to_tensor([3, step]))
        with keras.StatelessScope([*zip(variables, values, strict=True)]):
            outputs = model(features, training=True, seed=seed)
        floats = [x for x in keras.tree.flatten(outputs) if "float" in str(x.dtype)]
        return sum(keras.ops.mean(keras.ops.sin(x)) for x in floats)

    values = differentiate(total, variables)
    paths = (variable.path.split("/", 1)[1] for variable in variables)
    return dict(zip(paths, values, strict=True))


def attention():
    """{name: values and gradients} of rows with padding, and of blocks of a row."""
    draws = np.random.default_rng(3).normal(size=(4, 2, 3, 6, 8)).astype(np.float32)
    *inputs, weights = map(keras.ops.convert_to_tensor, draws)
    blocks = np.array([0, 0, 1, 1, 1, 2])
    masks = {
        "padding": np.array([[1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0]]),
        "blocks": np.broadcast_to(blocks[:, None] == blocks, (2, 6, 6)),
    }
    results = {}
    for name, mask in masks.items():
        bias = kernels.attention_bias(keras.ops.convert_to_tensor(mask.astype("int32")))

        def attend(values, bias=bias):
            options = {"scale": 0.4, "rate": 0.0, "seed": None, "site": 0}
            return kernels.attend(*values, bias, **options)

        slopes = differentiate(lambda x: keras.ops.sum(attend(x) * weights), inputs)
        results[name] = {"values": attend(inputs), "gradients": slopes}
    return results


def compute(model, features):
    """{name: array} of a call, `predict`, layers, gradients, and jax.jit on JAX."""
    tensors = {name: keras.ops.convert_to_tensor(x) for name, x in features.items()}
    outputs = {
        "call": model(tensors),
        "predict": model.predict(features, verbose=0),
        "encode": model.encode(sequences.as_rows(tensors), None),
        "gradients": gradients(model, tensors),
        "attention": attention(),
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
