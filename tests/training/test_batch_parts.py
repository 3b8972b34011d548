"""Tests of training/batch_parts.py."""

import numpy as np
import tensorflow as tf

from training import batch_parts


def test_parts_are_consecutive_and_keep_what_is_known_of_shapes():
    value = tf.reshape(tf.range(24), [6, 2, 2])
    parts = batch_parts.split_parts(value, 3)
    np.testing.assert_array_equal(parts, np.arange(24).reshape(3, 2, 2, 2))
    split = tf.function(lambda value: batch_parts.split_parts(value, 3))
    spec = tf.TensorSpec([None, 5], tf.int32)
    assert split.get_concrete_function(spec).output_shapes == [3, None, 5]
