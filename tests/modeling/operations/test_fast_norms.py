"""Residuals and norms in one pass against plain operations."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling.operations import fast_norms, fast_ops
from tests.modeling.operations import references

WIDTH = 24


def norm_layer(policy="float32"):
    layer = keras.layers.LayerNormalization(epsilon=1e-12, dtype=policy)
    layer.build((None, None, WIDTH))
    layer.gamma.assign(tf.random.stateless_uniform([WIDTH], [1, 1], 0.5, 1.5))
    layer.beta.assign(tf.random.stateless_normal([WIDTH], [1, 2]))
    return layer


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_norm_of_sum_is_that_of_plain_operations(rate):
    """Outputs and all gradients, with the same mask."""
    layer, seed = norm_layer(), tf.constant([3, 4], tf.int64)
    residual, x = (tf.random.stateless_normal([3, 7, WIDTH], [2, i]) for i in (1, 2))
    parameters = tf.convert_to_tensor(layer.gamma), tf.convert_to_tensor(layer.beta)

    def plain(residual, x, gamma, beta):
        total = residual + fast_ops.dropout(x, rate, seed, 5)
        mean, variance = tf.nn.moments(total, -1, keepdims=True)
        return (total - mean) * tf.math.rsqrt(variance + 1e-12) * gamma + beta

    expected = references.value_and_gradients(plain, residual, x, *parameters)
    variables = [layer.gamma.value, layer.beta.value]
    with tf.GradientTape() as tape:
        y = fast_norms.norm_of_sum(layer, residual, x, rate, seed, 5)
        upstream = tf.random.stateless_normal(tf.shape(y), [7, 7])
        total = tf.reduce_sum(y * upstream)
    references.assert_near([tape.gradient(total, variables[0])], expected[3:4])

    def fused(residual, x):
        return fast_norms.norm_of_sum(layer, residual, x, rate, seed, 5)

    references.assert_near(
        references.value_and_gradients(fused, residual, x), expected[:3]
    )
    # The twin: another mask.
    other = fast_norms.norm_of_sum(layer, residual, x, 0.3, seed, 6)
    assert np.abs(other - expected[0]).max() > 0.1


def test_norm_of_sum_without_seed_is_the_layer():
    layer = norm_layer()
    x = tf.random.stateless_normal([2, WIDTH], [2, 1])
    actual = fast_norms.norm_of_sum(layer, x, 2 * x, 0.3, None, 5)
    np.testing.assert_allclose(actual, layer(3 * x), rtol=0, atol=2e-6)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_norm_of_sum_of_half_types_is_rounded_once(dtype):
    seed = tf.constant([3, 4], tf.int64)
    residual, x = (
        tf.cast(tf.random.stateless_normal([40, WIDTH], [2, i]), dtype) for i in (1, 2)
    )
    norm = norm_layer(keras.dtype_policies.DTypePolicy(f"mixed_{dtype.name}"))

    def run(norm, *inputs):
        return fast_norms.norm_of_sum(norm, *inputs, 0.3, seed, 5)

    half = references.value_and_gradients(functools.partial(run, norm), residual, x)
    whole = references.value_and_gradients(
        functools.partial(run, norm_layer()),
        *(tf.cast(value, tf.float32) for value in (residual, x)),
    )
    assert {value.dtype for value in half} == {dtype}
    step = 2.0**-8 if dtype == tf.bfloat16 else 2.0**-11
    # Values are rounded by half a step, gradients those of an upstream that was, too.
    np.testing.assert_allclose(tf.cast(half[0], tf.float32), whole[0], rtol=step)
    for ours, theirs in zip(half[1:], whole[1:], strict=True):
        np.testing.assert_allclose(tf.cast(ours, tf.float32), theirs, atol=8 * step)


def moments_norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-12) * gamma + beta


def tensors(count):
    return [tf.random.stateless_normal([3, 7, WIDTH], [2, i]) for i in range(count)]


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_sum_and_norm_are_those_of_plain_operations(rate):
    """Both outputs and all gradients, with the same mask."""
    layer, seed = norm_layer(), tf.constant([3, 4], tf.int64)
    parameters = tf.convert_to_tensor(layer.gamma), tf.convert_to_tensor(layer.beta)

    def simple(residual, x, gamma, beta):
        total = residual + fast_ops.dropout(x, rate, seed, 5)
        return tf.concat([total, 2 * moments_norm(total, gamma, beta)], 0)

    def fused(residual, x, site=5):
        pair = fast_norms.sum_and_norm(layer, residual, x, rate, seed, site)
        return tf.concat([pair[0], 2 * pair[1]], 0)

    expected = references.value_and_gradients(simple, *tensors(2), *parameters)
    references.assert_near(
        references.value_and_gradients(fused, *tensors(2)), expected[:3], 2e-5
    )
    variables = [layer.gamma.value, layer.beta.value]
    with tf.GradientTape() as tape:
        y = fused(*tensors(2))
        total = tf.reduce_sum(y * tf.random.stateless_normal(tf.shape(y), [7, 7]))
    references.assert_near(tape.gradient(total, variables), expected[3:], 2e-5)
    if rate:  # the twin: another mask
        assert np.abs(fused(*tensors(2), site=6) - expected[0]).max() > 0.1


@pytest.mark.parametrize("fused", [False, True])
def test_norm_is_that_of_plain_operations(fused):
    layer = norm_layer()
    parameters = tf.convert_to_tensor(layer.gamma), tf.convert_to_tensor(layer.beta)
    expected = references.value_and_gradients(moments_norm, *tensors(1), *parameters)
    found = references.value_and_gradients(
        lambda x: fast_norms.norm(layer, x, fused=fused), *tensors(1)
    )
    references.assert_near(found, expected[:2])


def test_residual_sum_is_that_of_plain_operations():
    seed = tf.constant([3, 4], tf.int64)
    expected = references.value_and_gradients(
        lambda residual, x: residual + fast_ops.dropout(x, 0.3, seed, 5), *tensors(2)
    )
    found = references.value_and_gradients(
        lambda *both: fast_norms.residual_sum(*both, 0.3, seed, 5), *tensors(2)
    )
    references.assert_near(found, expected)
    bare = fast_norms.residual_sum(*tensors(2), 0.3, None, 5)
    np.testing.assert_array_equal(bare, sum(tensors(2)))
    assert np.abs(bare - expected[0]).max() > 0.1  # the twin


def test_sums_of_half_types_are_float32():
    """For the residual of GPT-2 is never normalised before its end."""
    seed = tf.constant([3, 4], tf.int64)
    layer = norm_layer("mixed_bfloat16")
    residual, x = tensors(2)
    half = tf.cast(x, tf.bfloat16)
    for given in (None, seed):
        total, normal = fast_norms.sum_and_norm(layer, residual, half, 0.0, given, 5)
        assert (total.dtype, normal.dtype) == (tf.float32, tf.bfloat16)
        np.testing.assert_array_equal(total, residual + tf.cast(half, tf.float32))
        ends = fast_norms.residual_sum(residual, half, 0.0, given, 5)
        np.testing.assert_array_equal(ends, total)
