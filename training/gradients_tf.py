"""Gradients as TensorFlow returns them, and updates of variables on all replicas.

Gradients of embedding tables, from which a batch gathers some rows, need care.
TensorFlow returns them as slices: the gathered rows, with repetitions. The original
clips by the norm of these slices, unsummed. Exchanges between devices need fixed
shapes, which slices lack; their sums and squares (`Rows`) have them, and add up over
micro-batches and replicas.
"""

import itertools
import re
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
    """The function, which passes over a variable once instead of once an operation.

    It is compiled once a process for variables of one shape, whatever the run.
    """
    return tf.function(function, jit_compile=True, autograph=False)


_BLOCK = re.compile(r".*/block_\d+/")
_FEW_BLOCKS = 4  # which are traced sooner one by one


def update_all(update, variables, gradients, numbers, is_finite=None) -> None:
    """Calls update(path, variable, slots, gradient, numbers) for each variable.

    To be called on replicas. `variables` are (variable, *slots), each with numbers of
    its own; what has the gradient None is left alone, and all where `is_finite` is
    false. Equal blocks of a deep network share a function of the graph on each device.
    """
    is_deep = len({_block(each.path) for each, *_ in variables}) > _FEW_BLOCKS
    functions: dict[tuple[str, ...], Any] = {}

    def merge(strategy, gradients, numbers, is_finite):
        is_shared = is_deep and not isinstance(strategy, tf.distribute.TPUStrategy)
        rows = zip(variables, gradients, numbers, strict=True)
        reached = [row for row in rows if row[1] is not None]
        for _, group in itertools.groupby(reached, lambda row: _block(row[0][0].path)):
            keras_variables, totals, own = zip(*group, strict=True)
            paths = [each.path for each, *_ in keras_variables]
            key = tuple(_BLOCK.sub("", path) for path in paths)
            if key not in functions:
                functions[key] = _function_of(update, paths, is_shared)
            # A function would take the first distributed variable for every other of
            # its shape, and so gets their copies.
            copies = [
                [strategy.experimental_local_results(each.value) for each in those]
                for those in keras_variables
            ]
            dense = [x.total if isinstance(x, Rows) else x for x in totals]
            strategy.extended.update(
                keras_variables[0][0].value,
                functions[key],
                args=(copies, dense, own, is_finite),
                group=False,
            )

    context = tf.distribute.get_replica_context()
    context.merge_call(merge, args=(gradients, numbers, is_finite))


def _block(path: str) -> str:
    """The beginning of a path up to its block; "" for a variable of none."""
    block = _BLOCK.match(path)
    return block[0] if block else ""


def _function_of(update, paths, is_shared):
    """Updates a replica's copies of variables; one function of the graph if shared."""

    def update_them(variables, gradients, numbers, is_finite):
        def change():
            rows = zip(paths, variables, gradients, numbers, strict=True)
            for path, (variable, *slots), gradient, own in rows:
                update(path, variable, slots, gradient, own)
            return True

        if is_finite is None:
            change()
        else:
            tf.cond(is_finite, change, lambda: False)

    attributes = {"_noinline": True}
    shared = tf.function(
        update_them, autograph=False, experimental_attributes=attributes
    )
    call = shared if is_shared else update_them

    def update_copies(first, copies, gradients, numbers, is_finite):
        place = [copy is first for copy in copies[0][0]].index(True)
        variables = [[each[place] for each in row] for row in copies]
        call(variables, gradients, numbers, is_finite)

    return update_copies
