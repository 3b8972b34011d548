"""What a model carries over from each batch to the next, row by row."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from training.optimization import accumulation


@dataclasses.dataclass(frozen=True)
class CarriedStates:
    """States of the rows of a batch, which the next batch of these rows begins with.

    A model finds those of its rows among the features, and has the new ones among its
    outputs, by the names of `variables`, float32 [B, ...]. These are equal on all
    replicas, each of which reads and gives its own rows.

    Differs from bilm-tf: states are part of checkpoints; there a run that goes on
    begins with zeros.
    """

    variables: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def in_checkpoints(self) -> dict[str, Any]:
        """{name: variable} for a run's checkpoints; a release has no such names."""
        return {f"carried/{name}": found for name, found in self.variables.items()}

    def reset(self) -> None:
        """Makes all states 0, as at the beginning of a text."""
        for variable in self.variables.values():
            variable.assign(tf.zeros_like(variable))

    def rows(self) -> dict[str, tf.Tensor]:
        """The states of this replica's rows; to be called on replicas."""
        context = tf.distribute.get_replica_context()
        count, index = context.num_replicas_in_sync, context.replica_id_in_sync_group
        return {
            name: accumulation.cut(variable.read_value(), count)[index]
            for name, variable in self.variables.items()
        }

    def chosen(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Those outputs of a model that are states."""
        return {name: outputs[name] for name in self.variables}

    def update(self, rows: Mapping[str, Any]) -> None:
        """Stores the new states of this replica's rows; all replicas must call it."""
        if not self.variables:
            return
        context = tf.distribute.get_replica_context()
        count, index = context.num_replicas_in_sync, context.replica_id_in_sync_group
        values = [rows[name] for name in self.variables]
        if count > 1:
            values = [accumulation.placed(value, index, count) for value in values]
            values = context.all_reduce(tf.distribute.ReduceOp.SUM, values)
        context.merge_call(self._assign, args=(values,))

    def _assign(self, strategy, values):
        for variable, value in zip(self.variables.values(), values, strict=True):
            strategy.extended.update(
                variable, lambda one, new: one.assign(new), args=(value,), group=False
            )


def make(
    shapes: Mapping[str, Sequence[int]], rows: int, strategy: Any
) -> CarriedStates:
    """States of so many rows, all 0, of these shapes without their first axis."""
    with strategy.scope():
        return CarriedStates(
            {
                name: tf.Variable(tf.zeros([rows, *shape]), trainable=False, name=name)
                for name, shape in shapes.items()
            }
        )
