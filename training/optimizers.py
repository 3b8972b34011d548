"""The optimizers of BERT, LAMB and GPT, which clip all gradients together first."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
from keras import ops

from contract import errors
from modeling.checkpoints import names
from training import gradients_tf, layer_rates, schedule


class ClippedOptimizer(keras.optimizers.Optimizer):
    """Clips all gradients to a global norm, then updates each variable and its slots.

    Gradients are summed over replicas before, whose number thus changes nothing.
    `slot_names` are the values beside each variable, which begin as `first_value`. One
    that `supports_sparse` updates only the rows of which a gradient has slices.
    `layers`, if set, gives each variable of a model a rate by its layer.

    Args:
        learning_rate: a number or a schedule such as LinearWithWarmup, for
            `apply`, which `fit` calls; the training loop passes a rate to
            `apply_reduced`.
        clip_norm: the largest global norm, 0 for none.
        gradient_factor: multiplies gradients before they are clipped.
    """

    slot_names: ClassVar[tuple[str, ...]] = ()
    first_value: ClassVar[float] = 0.0
    supports_sparse: ClassVar[bool] = False
    layers: layer_rates.LayerRates | None = None

    def __init__(self, learning_rate, *, clip_norm, gradient_factor=1.0, name):
        super().__init__(learning_rate=learning_rate, name=name)
        self.max_norm = clip_norm
        self.gradient_factor = gradient_factor

    def build(self, variables):
        """Creates the slots of every variable, filled with the first value."""
        if self.built:
            return
        super().build(variables)
        # No list, which Keras would take for variables of the optimizer.
        self._updated = lambda: variables
        first = keras.initializers.Constant(self.first_value)
        self._slots = [
            [
                self.add_variable_from_reference(v, name=name, initializer=first)
                for v in variables
            ]
            for name in self.slot_names
        ]

    def slots(self) -> list[tuple[Any, ...]]:
        """[(variable, *slots)], for saving; empty before `build`."""
        if not self.built:
            return []
        return list(zip(self._updated(), *self._slots, strict=True))

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
        paths = [names.relative_path(variable) for variable in self._updated()]
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


class Numbers(NamedTuple):
    """Float32 scalars of one update, the same for all variables."""

    clip: Any  # multiplies gradients
    learning_rate: Any
    correction: Any  # of bias, multiplies the means; 1 for none


class Rule(NamedTuple):
    """How one variable is updated."""

    beta_1: float
    beta_2: float
    epsilon: float
    weight_decay_rate: float = 0.0
    has_trust_ratio: bool = False


def is_decayed(path: str) -> bool:
    """Whether weight decay applies to the variable at `path`: no layer norm, no bias.

    The original searches the name for "LayerNorm", "layer_norm" and "bias"; every such
    variable ends in one of these three words here. The weights of a mix of layers have
    a penalty of their own.
    """
    return path.rsplit("/", 1)[-1] not in {"bias", "gamma", "beta", "weights"}


@keras.saving.register_keras_serializable("bert")
class BertAdam(ClippedOptimizer):
    """Adam with decoupled weight decay and, by default, without bias correction.

    optimization.py, AdamWeightDecayOptimizer and create_optimizer:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        p = p - rate * (m / (sqrt(v) + epsilon) + weight_decay_rate * p)

    after clipping all gradients together to the global norm `clip_norm`, 0 for none.
    `bias_correction` divides by 1 - beta^t, as Kingma and Ba do.

    Differs from google-research/bert: on TPU the original clips on each shard, before
    the sum.
    """

    slot_names = ("adam_m", "adam_v")
    has_trust_ratio: ClassVar[bool] = False  # for variables that decay

    def __init__(
        self,
        learning_rate=5e-5,
        *,
        weight_decay_rate=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        clip_norm=1.0,
        bias_correction=False,
        name="adam",
    ):
        super().__init__(learning_rate, clip_norm=clip_norm, name=name)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction

    def _numbers(self, clip, learning_rate, step):
        correction = 1.0
        if self.bias_correction:
            t = ops.cast(step + 1, "float32")
            correction = ops.sqrt(1.0 - self.beta_2**t) / (1.0 - self.beta_1**t)
        return Numbers(
            clip=clip,
            learning_rate=learning_rate,
            correction=ops.convert_to_tensor(correction, "float32"),
        )

    def _update(self, path, variable, slots, gradient, numbers):
        rule = Rule(self.beta_1, self.beta_2, self.epsilon)
        if is_decayed(path):
            rule = rule._replace(
                weight_decay_rate=self.weight_decay_rate,
                has_trust_ratio=self.has_trust_ratio,
            )
        variables = variable, *slots
        value, mean, square = map(gradients_tf.read, variables)
        moved = _adam_update(value, mean, square, gradient, numbers, rule)
        for each, new in zip(variables, moved, strict=True):
            each.assign(new)

    def get_config(self):
        """Constructor arguments, for Keras."""
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
        }


@gradients_tf.compile_rule
def _adam_update(variable, mean, square, gradient, numbers, rule):
    """One pass over a variable, its moments and its gradient, instead of ten."""
    gradient = gradient * numbers.clip
    mean = rule.beta_1 * mean + (1.0 - rule.beta_1) * gradient
    square = rule.beta_2 * square + (1.0 - rule.beta_2) * ops.square(gradient)
    update = numbers.correction * mean / (ops.sqrt(square) + rule.epsilon)
    if rule.weight_decay_rate:
        update += rule.weight_decay_rate * variable
    rate = numbers.learning_rate
    if rule.has_trust_ratio:
        rate *= _trust_ratio(variable, update)
    return variable - rate * update, mean, square


def _trust_ratio(variable, update):
    """|p| / |u|, or 1 where one of them is 0."""
    squares = (ops.sum(ops.square(x)) for x in (variable, update))
    ratio = ops.divide_no_nan(*map(ops.sqrt, squares))
    return ops.where(ratio > 0.0, ratio, 1.0)


@keras.saving.register_keras_serializable("bert")
class BertLamb(BertAdam):
    """LAMB, for batches of thousands (You et al., 2020, arXiv:1904.00962).

    Algorithm 2, as Google trains BERT and ALBERT with it: Adam's direction, scaled to
    the length of the variable it changes.

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        u = m / (sqrt(v) + epsilon) + weight_decay_rate * p
        p = p - rate * |p| / |u| * u

    The trust ratio |p| / |u| is 1 where a norm is 0, and without weight decay.
    Clipping, bias correction, moments and thus checkpoints are those of BertAdam.
    """

    has_trust_ratio = True


@keras.saving.register_keras_serializable("bert")
class GptAdam(BertAdam):
    """GPT's Adam, whose bias correction scales the weight decay, too.

    opt.py of openai/finetune-transformer-lm. With t counted from 1, after clipping as
    BertAdam does:

        rate_t = rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
        p = p - rate_t * (m / (sqrt(v) + epsilon) + weight_decay_rate * p)

    GPT decays what has more than one axis, and so does `is_decayed`: tables and
    kernels.
    """

    def __init__(
        self, learning_rate=6.25e-5, *, epsilon=1e-8, bias_correction=True, **kwargs
    ):
        if not bias_correction:
            raise errors.InputError(
                "GPT's Adam corrects the bias of its moments; choose BertAdam for "
                "updates without it"
            )
        super().__init__(
            learning_rate, epsilon=epsilon, bias_correction=bias_correction, **kwargs
        )

    def _numbers(self, clip, learning_rate, step):
        numbers = super()._numbers(clip, learning_rate, step)
        rate = numbers.learning_rate * numbers.correction
        one = ops.ones_like(numbers.correction)
        return numbers._replace(learning_rate=rate, correction=one)


@keras.saving.register_keras_serializable("bert")
class LinearWithWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """schedule.linear_with_warmup for `fit` of Keras; 0 after the last step.

    Raises:
        ValueError: no step, more steps of warm-up than steps, or a rate that is below 0
            or not finite.
    """

    def __init__(self, learning_rate, num_train_steps, num_warmup_steps=0):
        if not 0 <= num_warmup_steps <= num_train_steps or num_train_steps < 1:
            raise errors.InputError(
                f"num_train_steps={num_train_steps}, num_warmup_steps="
                f"{num_warmup_steps}; give at least one step, and no more of warm-up"
            )
        if not 0 <= learning_rate < math.inf:
            raise errors.InputError(
                f"learning_rate={learning_rate}; give a finite number of 0 or more"
            )
        self.arguments = {
            "learning_rate": learning_rate,
            "num_train_steps": num_train_steps,
            "num_warmup_steps": num_warmup_steps,
        }
        rate = schedule.linear_with_warmup(**self.arguments)
        rates = [rate(step) for step in range(num_train_steps + 1)]
        self.rates = np.array(rates, np.float32)

    def __call__(self, step):
        """The rate of a step counted from 0, float32 scalar."""
        step = keras.ops.minimum(keras.ops.cast(step, "int32"), len(self.rates) - 1)
        return keras.ops.take(self.rates, step)

    def get_config(self):
        """Constructor arguments, for Keras."""
        return self.arguments
