"""Gradients of tables, of which a batch gathers some rows.

TensorFlow gives such a gradient as slices: the rows that were gathered, some of them
several times. The original clips by the norm of these slices, unsummed, and a test
holds us to that. Sums and squares add up over micro-batches and replicas and have
fixed shapes, which exchanges between devices need; slices have neither.
"""

from typing import NamedTuple

import tensorflow as tf


class Rows(NamedTuple):
    """The gradient of a table.

    Attributes:
        total: like the table, the slices summed by row.
        squares: float32 scalar, sum of the squares of the slices.
    """

    total: tf.Tensor
    squares: tf.Tensor


def summed(gradient):
    """Slices as Rows; any other gradient, or None, as it is."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    squares = tf.reduce_sum(tf.square(gradient.values))
    return Rows(tf.convert_to_tensor(gradient), squares)


def dense(gradient):
    """What a variable moves by; None as it is."""
    return gradient.total if isinstance(gradient, Rows) else gradient


def global_norm(gradients):
    """The norm of all together, float32 scalar; None counts as 0."""
    squares = [
        value.squares if isinstance(value, Rows) else tf.reduce_sum(tf.square(value))
        for value in gradients
        if value is not None
    ]
    return tf.sqrt(tf.add_n(squares))


def divided(gradient, divisor):
    """A gradient divided by a float32 scalar; None as it is."""
    if gradient is None:
        return None
    if isinstance(gradient, Rows):
        return Rows(gradient.total / divisor, gradient.squares / divisor**2)
    return gradient / divisor


def sum_of_replicas(gradients):
    """The sum over replicas of each; to be called on all of them."""
    reached = [i for i, value in enumerate(gradients) if value is not None]
    context = tf.distribute.get_replica_context()
    sums = context.all_reduce(
        tf.distribute.ReduceOp.SUM, [gradients[i] for i in reached]
    )
    found = [None] * len(gradients)
    for i, value in zip(reached, sums, strict=True):
        found[i] = value
    return found
