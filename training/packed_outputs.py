"""Runs a network over packed texts, whatever the backend of Keras is."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from contract import tensorflow_later
from contract.tensorflow_later import tf
from data_pipeline.batches import batching, packing
from terminal import progress

BATCH_SIZE = 64
_LENGTHS = 16  # multiples of it are compiled


def predict_function(
    model: Any, most_tokens: int, forward: Callable[..., dict[str, Any]] | None = None
) -> Callable[[packing.Packed], dict[str, np.ndarray]]:
    """Builds the function from packed examples to their outputs [N, ...], in order.

    `forward`, by default the model, is called as forward(features, training=False), and
    computes with the variables of the model. No example has more than `most_tokens`.
    """
    forward = forward or model
    if tensorflow_later.is_backend():
        from training import inference

        function = inference.predict_function(
            forward, tf.distribute.get_strategy(), jit_compile=False
        )
        return lambda packed: inference.predict_packed(function, packed, BATCH_SIZE)
    if keras.backend.backend() == "jax":
        return functools.partial(_predict, _in_jax(forward, model, most_tokens))
    import torch

    return functools.partial(_predict, torch.no_grad()(forward))


def _in_jax(forward, model, most_tokens):
    """The compiled function of features in arrays, for few shapes of them."""
    import jax

    @jax.jit
    def compiled(values, inputs):
        state = zip(model.variables, values, strict=True)
        with keras.StatelessScope(state_mapping=state):
            return forward(inputs, training=False)

    def run(inputs, training):
        length = next(iter(inputs.values())).shape[-1]
        more = min(-length % _LENGTHS, most_tokens - length)
        padded = {
            name: np.pad(grid, [(0, 0)] * (grid.ndim - 1) + [(0, more)])
            for name, grid in inputs.items()
        }
        return compiled([variable.value for variable in model.variables], padded)

    return run


def _predict(function, packed):
    """As inference.predict_packed; fewer examples than a batch are made up for."""
    size = min(BATCH_SIZE, 1 << (len(packed) - 1).bit_length())
    order = batching.evaluation_order(packed.lengths, size)
    results: dict[str, list[np.ndarray]] = {}
    for rows in progress.track(order, len(order), "predicting: batch"):
        inputs = packing.gather(packed, np.maximum(rows, 0))
        for name, value in function(inputs, training=False).items():
            results.setdefault(name, []).append(keras.ops.convert_to_numpy(value))
    places = np.argsort(order.ravel(), kind="stable")[-len(packed) :]
    return {name: np.concatenate(each)[places] for name, each in results.items()}
