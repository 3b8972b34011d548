"""Gradients of embedding tables, from which a batch gathers some rows.

TensorFlow returns them as slices: the gathered rows, with repetitions. The original
clips by the norm of these slices, unsummed, and a test holds us to that. Exchanges
between devices need fixed shapes, which slices lack; their sums and squares have them,
and add up over micro-batches and replicas.
"""

from typing import NamedTuple

import tensorflow as tf


class Rows(NamedTuple):
    """A table's gradient: slices summed by row, and the sum of the slices' squares."""

    total: tf.Tensor
    squares: tf.Tensor


def summed(gradient):
    """Slices as Rows; any other gradient, or None, unchanged."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    squares = _squares(gradient.values)
    return Rows(tf.convert_to_tensor(gradient), squares)


def by_row(slices):
    """IndexedSlices with each row once, whose norm is that of the whole gradient."""
    rows, places = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, slices.dense_shape)


def dense(gradient):
    """What to update a variable with, a tensor or slices; None unchanged."""
    return gradient.total if isinstance(gradient, Rows) else gradient


def global_norm(gradients):
    """The norm of all gradients together, float32 scalar; None counts as 0."""
    found = [_squares(value) for value in gradients if value is not None]
    return tf.sqrt(tf.add_n(found))


def _squares(value):
    if isinstance(value, Rows):
        return value.squares
    if isinstance(value, tf.IndexedSlices):
        value = value.values
    return 2.0 * tf.nn.l2_loss(value)  # reads once and writes nothing


def divided(gradient, divisor):
    """The gradient divided by a float32 scalar; None unchanged."""
    if gradient is None:
        return None
    if isinstance(gradient, Rows):
        return Rows(gradient.total / divisor, gradient.squares / divisor**2)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.math.scalar_mul(1.0 / divisor, gradient)
    return gradient / divisor


def sum_of_replicas(gradients):
    """Sums each gradient over replicas; all of them must call it."""
    reached = [i for i, value in enumerate(gradients) if value is not None]
    context = tf.distribute.get_replica_context()
    sums = context.all_reduce(
        tf.distribute.ReduceOp.SUM, [gradients[i] for i in reached]
    )
    found = [None] * len(gradients)
    for i, value in zip(reached, sums, strict=True):
        found[i] = value
    return found
