"""The base of the optimizers, which clip all gradients together first."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from modeling.checkpoints import names
from training import gradients_tf, layer_rates


class Numbers(NamedTuple):
    """Float32 scalars of one update, the same for all variables."""

    clip: Any  # multiplies gradients
    learning_rate: Any
    correction: Any  # of bias, multiplies the means; 1 for none


class ClippedOptimizer(keras.optimizers.Optimizer):
    """Clips all gradients to a global norm, then updates each variable and its slots.

    Gradients are summed over replicas before, whose number thus changes nothing.
    A class declares all that holds of it: which settings of a command it reads
    (`arguments`), the values beside each variable (`slots_of`), how both are updated,
    and the weights to evaluate with, if they are not those that it trains
    (`evaluation_weights`). One that `supports_sparse` updates only the rows of which a
    gradient has slices. `layers`, if set, gives each variable of a model a rate by its
    layer.

    Args:
        learning_rate: a number or a schedule such as LinearWithWarmup, for
            `apply`, which `fit` calls; the training loop passes a rate to
            `apply_reduced`.
        clip_norm: the largest global norm, 0 for none.
        gradient_factor: multiplies gradients before they are clipped.
    """

    supports_sparse: ClassVar[bool] = False
    layers: layer_rates.LayerRates | None = None

    def __init__(self, learning_rate, *, clip_norm, gradient_factor=1.0, name):
        super().__init__(learning_rate=learning_rate, name=name)
        self.max_norm = clip_norm
        self.gradient_factor = gradient_factor

    @classmethod
    def arguments(cls, settings: Any, of_task: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments but the rate, by a command's settings; InputError for wrong ones.

        `settings` are as tasks.settings.training.Training, `of_task` arguments that the
        task decides for the optimizer that is usual for it.
        """
        raise NotImplementedError

    @classmethod
    def check(cls, variables: Sequence[Any]) -> None:
        """Raises InputError where it is not made for a model of these variables."""

    def slots_of(self, variable: Any) -> dict[str, float]:
        """{name: first value} of what is stored beside a variable, of its shape.

        A checkpoint has them behind the name of the variable and a slash.
        """
        raise NotImplementedError

    def build(self, variables):
        """Creates the slots of every variable, filled with their first values."""
        if self.built:
            return
        super().build(variables)
        rows: list[tuple[Any, dict[str, Any]]] = [(each, {}) for each in variables]
        first = [self.slots_of(each) for each in variables]
        # Name by name, as files of Keras have them.
        for name in dict.fromkeys(name for values in first for name in values):
            for (variable, made), values in zip(rows, first, strict=True):
                if name in values:
                    made[name] = self.add_variable_from_reference(
                        variable,
                        name=name,
                        initializer=keras.initializers.Constant(values[name]),
                    )
        # No list, which Keras would take for variables of the optimizer.
        self._rows = lambda: rows

    def named_slots(self) -> list[tuple[Any, dict[str, Any]]]:
        """[(variable, {name: slot})], for saving; empty before `build`."""
        return self._rows() if self.built else []

    def slots(self) -> list[tuple[Any, ...]]:
        """[(variable, *slots)]; empty before `build`."""
        return [(variable, *slots.values()) for variable, slots in self.named_slots()]

    def evaluation_weights(self) -> list[tuple[Any, Any]]:
        """[(variable, value)] of what is evaluated, saved and exported instead of it.

        Where these are averages of what is trained, a checkpoint has both.
        """
        return []

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within it variables have the values to evaluate with."""
        pairs = self.evaluation_weights()
        trained = [gradients_tf.read(variable.value) for variable, _ in pairs]
        try:
            for variable, value in pairs:
                variable.assign(value)
            yield
        finally:
            for (variable, _), value in zip(pairs, trained, strict=True):
                variable.assign(value)

    def prepare_for_sum(self, gradient: Any) -> Any:
        """A gradient as it is added to those of other parts of a batch."""
        return gradients_tf.prepare_for_sum(gradient)

    def _deduplicate(self, gradient: Any) -> Any:
        """A gradient whose slices, if it has them, are summed by row."""
        return self.prepare_for_sum(gradient)

    def apply(self, grads, trainable_variables=None):
        """Sums over replicas, clips and updates; what Keras' `fit` calls."""
        if trainable_variables is not None:
            self.build(list(trainable_variables))
        grads = [self.prepare_for_sum(value) for value in grads]
        grads = gradients_tf.sum_over_replicas(grads)
        self.apply_reduced(grads, self.learning_rate, self.iterations)
        self.iterations.assign_add(1)

    def apply_reduced(
        self,
        gradients: Sequence[Any],
        learning_rate: Any,
        step: Any,
        *,
        only_finite: bool = False,
    ) -> Any:
        """Clips gradients already summed over replicas, and updates every variable.

        To be called on replicas; returns the float32 global norm before clipping.

        Args:
            gradients: in the order of `build`; None leaves a variable and its slots
                alone, undecayed, as in optimization.py.
            step: int scalar, updates done so far.
            only_finite: change nothing where the global norm is not finite.
        """
        gradients = [self._deduplicate(gradient) for gradient in gradients]
        gradients, factors, firsts = self._by_layer(gradients, step)
        norm = self.gradient_factor * gradients_tf.global_norm(gradients)
        clip = 1.0
        if self.max_norm:
            # Not a number where the norm is infinite, which must not pass unseen.
            clip = self.max_norm / ops.maximum(norm, self.max_norm) + (norm - norm)
        clip = ops.convert_to_tensor(clip * self.gradient_factor, "float32")
        rate = ops.cast(learning_rate, "float32")
        numbers = [self._numbers(clip, rate, step)] * len(gradients)
        if self.layers:  # bias is corrected by the steps since the first one
            since = {first: ops.maximum(step - first, 0) for first in {*firsts}}
            own = {first: self._numbers(clip, rate, since[first]) for first in since}
            numbers = [
                own[first]._replace(learning_rate=own[first].learning_rate * factor)
                for first, factor in zip(firsts, factors, strict=True)
            ]
        is_finite = ops.isfinite(norm) if only_finite else None
        gradients_tf.update_all(
            self._update, self.slots(), gradients, numbers, is_finite
        )
        return norm

    def _by_layer(self, gradients, step):
        """Gradients and factors of rates, both 0 for layers that wait; first steps.

        Such a layer adds nothing to the norm. As it has not been trained before, its
        moments stay 0; a rate of 0 stops weight decay, too. What the loss does not
        reach, such as a pooler, is no head for which others wait.
        """
        firsts = [0] * len(gradients)
        if not self.layers:
            return gradients, [], firsts
        paths = [names.relative_path(variable) for variable, _ in self.named_slots()]
        factors = self.layers.factors(paths)
        reached = [i for i, gradient in enumerate(gradients) if gradient is not None]
        steps = self.layers.first_steps([paths[place] for place in reached])
        for place, first in zip(reached, steps, strict=True):
            firsts[place] = first
            if first:
                share = ops.cast(ops.greater_equal(step, first), "float32")
                gradients[place] = gradients_tf.multiply(gradients[place], share)
                factors[place] *= share
        return gradients, factors, firsts

    def _numbers(self, clip, learning_rate, step):
        """The scalars of an update of all variables; `clip` multiplies gradients."""
        raise NotImplementedError

    def _update(self, path, variable, slots, gradient, numbers):
        """Updates one variable and its slots."""
        raise NotImplementedError

    def get_config(self):
        """Constructor arguments, for Keras."""
        return {
            "learning_rate": super().get_config()["learning_rate"],
            "clip_norm": self.max_norm,
            "name": self.name,
        }
