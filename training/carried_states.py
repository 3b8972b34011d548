"""ELMo's states, which go on from each batch of pretraining to the next, by row."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from training import batch_parts, train_step

STATES = "states"  # beside the losses of a step


@dataclasses.dataclass(frozen=True)
class CarriedStates:
    """States of the rows of a batch, which the next batch of these rows begins with.

    A model reads those of its rows among the features, and has the new ones among its
    outputs, by the names of `variables`, float32 [B, ...]. These are equal on all
    replicas, each of which reads and updates its rows.

    Differs from bilm-tf: states are part of checkpoints; there a run that goes on
    begins with zeros.
    """

    variables: Mapping[str, tf.Variable]

    @classmethod
    def make(
        cls,
        shapes: Mapping[str, Sequence[int]],
        rows: int,
        strategy: tf.distribute.Strategy,
    ) -> "CarriedStates":
        """States of so many rows, all 0, of these shapes without their first axis."""
        with strategy.scope():
            return cls(
                {
                    name: tf.Variable(
                        tf.zeros([rows, *shape]), trainable=False, name=name
                    )
                    for name, shape in shapes.items()
                }
            )

    def in_checkpoints(self) -> dict[str, tf.Variable]:
        """{name: variable} for a run's checkpoints; a release has no such names."""
        return {f"carried/{name}": each for name, each in self.variables.items()}

    def reset(self) -> None:
        """Makes all states 0, as at the beginning of a text."""
        for variable in self.variables.values():
            variable.assign(tf.zeros_like(variable))

    def choose(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Those outputs of a model that are states."""
        return {name: outputs[name] for name in self.variables}

    def run(
        self, function: Callable[..., dict[str, Any]], batch: Any, *arguments: Any
    ) -> dict[str, Any]:
        """Calls `function` with the states of this replica's rows, and stores the new.

        Its result has them as STATES; all replicas must call it.
        """
        context = tf.distribute.get_replica_context()
        count, index = context.num_replicas_in_sync, context.replica_id_in_sync_group
        rows = {
            name: batch_parts.split_parts(variable.read_value(), count)[index]
            for name, variable in self.variables.items()
        }
        results = dict(function(batch | rows, *arguments))
        rows = results.pop(STATES)
        values = [rows[name] for name in self.variables]
        if count > 1:
            values = [batch_parts.place_part(value, index, count) for value in values]
            values = context.all_reduce(tf.distribute.ReduceOp.SUM, values)
        context.merge_call(self._assign, args=(values,))
        return results

    def _assign(self, strategy, values):
        for variable, value in zip(self.variables.values(), values, strict=True):
            strategy.extended.update(
                variable, lambda one, new: one.assign(new), args=(value,), group=False
            )


class CarryingTrainStep(train_step.TrainStep):
    """A TrainStep whose model continues from the states of the step before."""

    def __init__(self, states: CarriedStates, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._states = states

    def _replica_gradients(self, batch, *arguments):
        return self._states.run(super()._replica_gradients, batch, *arguments)

    def _part(self, number, batch, **arguments):
        results = super()._part(number, batch, **arguments)
        placed = {
            name: batch_parts.place_part(rows, number, self._micro_batches)
            for name, rows in results[STATES].items()
        }
        return {**results, STATES: placed}

    def _measures(self, batch, outputs):
        measures = super()._measures(batch, outputs)
        return {**measures, STATES: self._states.choose(outputs)}
