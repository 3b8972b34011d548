"""What fused operations are compared with."""

import numpy as np
import tensorflow as tf


def value_and_gradients(function, *inputs):
    """Of outputs weighted at random, with the gradients of inputs."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = function(*inputs)
        upstream = tf.random.stateless_normal(tf.shape(y), [7, 7])
        total = tf.reduce_sum(tf.cast(y, tf.float32) * upstream)
    return [y, *tape.gradient(total, inputs)]


def assert_near(actual, expected, tolerance=1e-5):
    """As float32 sums of some ten terms of order 1."""
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, atol=tolerance)
