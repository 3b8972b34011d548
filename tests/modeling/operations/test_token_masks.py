"""Rows of a batch that are read by position, and the vectors of texts."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.features import layer_choices
from modeling.operations import token_masks

POSITIONS = np.array([[0, 5, 5, 0], [1, 2, 2, 15], [0, 0, 0, 0]], np.int32)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("shape", [(None, None, None), (3, 16, 8)])
def test_rows_at_positions_and_their_gradient(shape, dtype, is_compiled):
    rng = np.random.default_rng(1)
    values = tf.cast(rng.integers(-8, 8, (3, 16, 8)), dtype)  # sums of them are exact

    @tf.function(jit_compile=is_compiled)
    def read(x, positions):
        with tf.GradientTape() as tape:
            tape.watch(x)
            rows = token_masks.rows_at(x, positions)
            total = tf.reduce_sum(rows * rows)
        return rows, tape.gradient(total, x)

    specs = tf.TensorSpec(shape, dtype), tf.TensorSpec([shape[0], None], tf.int64)
    rows, gradient = read.get_concrete_function(*specs)(
        values, tf.constant(POSITIONS, tf.int64)
    )
    assert rows.dtype == dtype
    batch = np.arange(3)[:, None]
    wanted = values.numpy().astype(np.float32)
    np.testing.assert_array_equal(rows, wanted[batch, POSITIONS])
    slope = np.zeros_like(wanted)
    np.add.at(slope, (batch, POSITIONS), 2 * wanted[batch, POSITIONS])
    np.testing.assert_array_equal(tf.cast(gradient, tf.float32), slope)


def test_rows_of_a_mask_are_read_whole():
    mask = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    found = token_masks.rows_at(tf.constant(mask), tf.constant([[2], [0]]))
    np.testing.assert_array_equal(found, mask[[0, 1], [2, 0]][:, None])


@pytest.mark.parametrize("place", ["first", "last", "mean"])
def test_vector_of_a_text_without_tokens_is_finite(place):
    """Zeros where it is a mean, as an ELMo's pooled output."""
    values = np.arange(2 * 3 * 2, dtype=np.float32).reshape(2, 3, 2)
    mask = np.array([[1, 1, 0], [0, 0, 0]], np.int32)
    expected = {"first": [0, 1], "last": [2, 3], "mean": [1, 2]}[place]
    found = layer_choices.of_text(tf.constant(values), tf.constant(mask), place)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], [0, 0] if place == "mean" else [6, 7])
