"""Parts of a batch: those of replicas, and micro-batches."""

from typing import Any

import tensorflow as tf


def split_parts(value: tf.Tensor, count: int) -> tf.Tensor:
    """Equal parts of consecutive examples: [B, ...] -> [count, B / count, ...]."""
    parts = tf.reshape(value, tf.concat([[count, -1], tf.shape(value)[1:]], axis=0))
    size = value.shape[0] and value.shape[0] // count
    return tf.ensure_shape(parts, [count, size, *value.shape[1:]])


def place_part(value: tf.Tensor, index: Any, count: int) -> tf.Tensor:
    """The part at `index` of `split_parts`, in a whole that is 0 elsewhere."""
    if count == 1:
        return value
    size, index = tf.shape(value)[0], tf.cast(index, tf.int32)
    rows = [index * size, (count - 1 - index) * size]
    whole = tf.pad(value, tf.stack([rows, *([[0, 0]] * (len(value.shape) - 1))]))
    size = value.shape[0] and value.shape[0] * count
    return tf.ensure_shape(whole, [size, *value.shape[1:]])
