"""Gradients as TensorFlow returns them, and updates of variables on all replicas.

Gradients of embedding tables, from which a batch gathers some rows, need care.
TensorFlow returns them as slices: the gathered rows, with repetitions. The original
clips by the norm of these slices, unsummed. Exchanges between devices need fixed
shapes, which slices lack; their sums and squares (`Rows`) have them, and add up over
micro-batches and replicas.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf


class Rows(NamedTuple):
    """A table's gradient: slices summed by row, and the sum of the slices' squares."""

    total: tf.Tensor
    squares: tf.Tensor


Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | Rows | None  # None: not reached


def prepare_for_sum(gradient: Gradient) -> Gradient:
    """A gradient as it is added to those of other parts of a batch."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return Rows(tf.convert_to_tensor(gradient), _squares(gradient))


def _squares(gradient: Gradient) -> tf.Tensor:
    if isinstance(gradient, Rows):
        return gradient.squares
    if isinstance(gradient, tf.IndexedSlices):
        gradient = gradient.values
    return 2.0 * tf.nn.l2_loss(gradient)  # reads once and writes nothing


def global_norm(gradients: Sequence[Gradient]) -> tf.Tensor:
    """The norm of all gradients together, float32 scalar; None counts as 0."""
    return tf.sqrt(
        tf.add_n([_squares(value) for value in gradients if value is not None])
    )


def multiply(gradient: Gradient, factor: tf.Tensor) -> Gradient:
    """The gradient multiplied by a float32 scalar."""
    if gradient is None:
        return None
    if isinstance(gradient, Rows):
        return Rows(gradient.total * factor, gradient.squares * factor**2)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.math.scalar_mul(factor, gradient)
    return gradient * factor


def sum_over_replicas(gradients: Sequence[Gradient]) -> list[Gradient]:
    """Sums each gradient over replicas; all of them must call it."""
    reached = [value for value in gradients if value is not None]
    context = tf.distribute.get_replica_context()
    sums = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, reached))
    return [None if value is None else next(sums) for value in gradients]


read = tf.convert_to_tensor  # the values of a variable


def compile_rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which passes over a variable once instead of once an operation."""
    return tf.function(function, jit_compile=True, autograph=False)


def update_all(update, variables, gradients, numbers, is_finite=None) -> None:
    """Calls update(path, variable, slots, gradient, numbers) for each variable.

    To be called on replicas. `variables` are (variable, *slots), each with numbers of
    its own; what has the gradient None is left alone, and all where `is_finite` is
    false.
    """

    def update_where_finite(variable, is_finite, gradient, numbers, *slots, path):
        def change():
            update(path, variable, slots, gradient, numbers)
            return True

        if is_finite is None:
            change()
        else:
            tf.cond(is_finite, change, lambda: False)

    def merge(strategy, gradients, numbers, is_finite):
        each = zip(gradients, numbers, variables, strict=True)
        for gradient, own, (variable, *slots) in each:
            if gradient is None:
                continue
            dense = gradient.total if isinstance(gradient, Rows) else gradient
            strategy.extended.update(
                variable.value,
                update_where_finite,
                args=(is_finite, dense, own, *(slot.value for slot in slots)),
                kwargs={"path": variable.path},
                group=False,
            )

    context = tf.distribute.get_replica_context()
    context.merge_call(merge, args=(gradients, numbers, is_finite))
