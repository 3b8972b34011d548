"""What optimizers share that clip all gradients together before an update."""

from typing import ClassVar

import keras
import tensorflow as tf

from training.optimization import gradients as gradients_lib


class ClippedOptimizer(keras.optimizers.Optimizer):
    """Clips all gradients to a global norm, then updates each variable and its slots.

    Gradients are summed over replicas before, whose number thus changes nothing. A
    subclass says what `slot_names` it keeps beside each variable, with which
    `first_value`; how it updates them; and whether it `takes_rows`, that is, updates
    the rows alone of which a gradient has slices.

    Args:
        learning_rate: a number or a schedule such as keras_schedule.LinearWithWarmup,
            for `apply`, which `fit` calls; the training loop passes a rate to
            `apply_reduced`.
        clip_norm: the largest global norm, 0 for none.
        gradient_factor: multiplies gradients before they are clipped.
    """

    slot_names: ClassVar[tuple[str, ...]] = ()
    first_value: ClassVar[float] = 0.0
    takes_rows: ClassVar[bool] = False

    def __init__(self, learning_rate, *, clip_norm, gradient_factor=1.0, name):
        super().__init__(learning_rate=learning_rate, name=name)
        self.max_norm = clip_norm
        self.gradient_factor = gradient_factor

    def build(self, variables):
        """Creates the slots of every variable, filled with the first value."""
        if self.built:
            return
        super().build(variables)
        self._updated = list(variables)
        first = keras.initializers.Constant(self.first_value)
        self._slots = [
            [
                self.add_variable_from_reference(v, name=name, initializer=first)
                for v in variables
            ]
            for name in self.slot_names
        ]

    def slots(self):
        """[(variable, *its slots)], for saving; empty before `build`."""
        if not self.built:
            return []
        return list(zip(self._updated, *self._slots, strict=True))

    def summable(self, gradient):
        """A gradient as it is added to those of other parts of a batch."""
        return gradients_lib.summed(gradient)

    def _by_row(self, gradient):
        """A gradient whose slices, if it has them, are summed by row."""
        return self.summable(gradient)

    def apply(self, grads, trainable_variables=None):
        """Sums over replicas, clips and updates; what Keras' `fit` calls."""
        if trainable_variables is not None:
            self.build(list(trainable_variables))
        grads = gradients_lib.sum_of_replicas(
            [self.summable(gradient) for gradient in grads]
        )
        self.apply_reduced(grads, self.learning_rate, self.iterations)
        self.iterations.assign_add(1)

    def apply_reduced(self, gradients, learning_rate, step, *, only_finite=False):
        """Clips gradients already summed over replicas, and updates every variable.

        To be called on replicas; returns the float32 global norm before clipping.

        Args:
            gradients: in the order of `build`, each a tensor, IndexedSlices or
                gradients.Rows; None leaves a variable and its slots alone, undecayed,
                as in optimization.py.
            step: int scalar, updates done so far.
            only_finite: change nothing where the global norm is not finite.
        """
        gradients = [self._by_row(gradient) for gradient in gradients]
        norm = self.gradient_factor * gradients_lib.global_norm(gradients)
        gradients = [gradients_lib.dense(gradient) for gradient in gradients]
        clip = 1.0
        if self.max_norm:
            # Not a number where the norm is infinite, which must not pass unseen.
            clip = self.max_norm / tf.maximum(norm, self.max_norm) + (norm - norm)
        clip = tf.convert_to_tensor(clip * self.gradient_factor, tf.float32)
        numbers = self._numbers(clip, tf.cast(learning_rate, tf.float32), step)
        is_finite = tf.math.is_finite(norm) if only_finite else None
        tf.distribute.get_replica_context().merge_call(
            self._update_all, args=(gradients, numbers, is_finite)
        )
        return norm

    def _update_all(self, strategy, gradients, numbers, is_finite):
        for gradient, (variable, *slots) in zip(gradients, self.slots(), strict=True):
            if gradient is None:
                continue
            strategy.extended.update(
                variable.value,
                _update_where_finite,
                args=(is_finite, gradient, numbers, *(slot.value for slot in slots)),
                kwargs={"update": self._update(variable.path)},
                group=False,
            )

    def _numbers(self, clip, learning_rate, step):
        """What is one for all variables; `clip` multiplies gradients."""
        raise NotImplementedError

    def _update(self, path):
        """The update of a variable: variable, slots, gradient, numbers -> None."""
        raise NotImplementedError

    def get_config(self):
        """Constructor arguments, for Keras."""
        return {
            "learning_rate": super().get_config()["learning_rate"],
            "clip_norm": self.max_norm,
            "name": self.name,
        }


def _update_where_finite(variable, is_finite, gradient, numbers, *slots, update):
    if is_finite is None:
        update(variable, slots, gradient, numbers)
        return

    def updated():
        update(variable, slots, gradient, numbers)
        return True

    tf.cond(is_finite, updated, lambda: False)
