"""Runs a network over packed texts, whatever the backend of Keras is."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from contract import tensorflow_later
from contract.tensorflow_later import tf
from data_pipeline.batches import batching, packing
from terminal import progress

BATCH_SIZE, _WORK = 64, "predicting: batch"
_LENGTHS = 16  # multiples of it, so that JAX compiles few


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

        strategy = tf.distribute.get_strategy()
        function = inference.predict_function(forward, strategy, jit_compile=False)
        return lambda packed: inference.predict_packed(function, packed, BATCH_SIZE)
    if keras.backend.backend() == "jax":
        compute = _in_jax(model, forward)
    else:
        import torch

        compute = torch.no_grad()(lambda inputs: forward(inputs, training=False))

    def predict(packed):
        # As inference.predict_packed, but few examples fill up a batch, too.
        size = min(BATCH_SIZE, 1 << (len(packed) - 1).bit_length())
        order = batching.evaluation_order(packed.lengths, size)[::-1]
        results: dict[str, list[np.ndarray]] = {}
        for rows in progress.track(np.maximum(order, 0), len(order), _WORK):
            longest = packed.lengths[rows].max()
            length = min(longest + -longest % _LENGTHS, most_tokens)
            inputs = packing.gather(packed, rows, length)
            for name, value in compute(inputs).items():
                results.setdefault(name, []).append(keras.ops.convert_to_numpy(value))
        places = np.argsort(order.ravel(), kind="stable")[-len(packed) :]
        return {name: np.concatenate(each)[places] for name, each in results.items()}

    return predict


def _in_jax(model, forward):
    import jax

    @jax.jit
    def compiled(values, inputs):
        state = zip(model.variables, values, strict=True)
        with keras.StatelessScope(state_mapping=state):
            return forward(inputs, training=False)

    return lambda inputs: compiled([v.value for v in model.variables], inputs)
