"""The optimizer of google-research/bert: optimization.py in Keras 3."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from training.optimization import gradients as gradients_lib


def is_decayed(path):
    """Whether weight decay applies to the variable at `path`: no layer norm, no bias.

    The original searches the name for "LayerNorm", "layer_norm" and "bias"; every such
    variable ends in one of these three words here. The weights of a mix of layers have
    a penalty of their own.
    """
    return path.rsplit("/", 1)[-1] not in {"bias", "gamma", "beta", "weights"}


class Numbers(NamedTuple):
    """What is one number for all variables of an update, float32 scalars."""

    clip: tf.Tensor  # multiplies gradients
    learning_rate: tf.Tensor
    correction: tf.Tensor  # of bias, multiplies the means; 1 for none


class Rule(NamedTuple):
    """How one variable is updated; each rule is compiled once, whatever the run."""

    beta_1: float
    beta_2: float
    epsilon: float
    weight_decay_rate: float
    trust: Callable[[Any, Any], Any]  # variable, update -> multiplies the rate


def no_trust(variable, update):
    """The trust of Adam, whose rate is the same for every variable."""
    return 1.0


@keras.saving.register_keras_serializable("bert")
class BertAdam(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay and, by default, without bias correction.

    optimization.py, AdamWeightDecayOptimizer and create_optimizer:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        p = p - rate * (m / (sqrt(v) + epsilon) + weight_decay_rate * p)

    after clipping all gradients together to the global norm `clip_norm`, 0 for none,
    once they are summed over replicas, whose number thus changes nothing.
    `bias_correction` divides by 1 - beta^t, as Kingma and Ba do. `learning_rate`, a
    number or a schedule such as keras_schedule.LinearWithWarmup, is for `apply`, which
    `fit` calls; the training loop passes a rate to `apply_reduced`.

    Differs from google-research/bert: on TPU the original clips on each shard, before
    the sum.
    """

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
        super().__init__(learning_rate=learning_rate, name=name)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.max_norm = clip_norm
        self.bias_correction = bias_correction

    def build(self, variables):
        """Creates both moments of every variable, filled with zeros."""
        if self.built:
            return
        super().build(variables)
        self._means = self._moments(variables, "adam_m")
        self._squares = self._moments(variables, "adam_v")

    def _moments(self, variables, name):
        return [self.add_variable_from_reference(v, name=name) for v in variables]

    def slots(self):
        """[(variable, adam_m, adam_v)], for saving; empty before `build`."""
        if not self.built:
            return []
        return list(
            zip(self._trainable_variables, self._means, self._squares, strict=True)
        )

    def apply(self, grads, trainable_variables=None):
        """Sums over replicas, clips and updates; what Keras' `fit` calls."""
        if trainable_variables is not None:
            self.build(list(trainable_variables))
        grads = gradients_lib.sum_of_replicas(
            [gradients_lib.summed(gradient) for gradient in grads]
        )
        self.apply_reduced(grads, self.learning_rate, self.iterations)
        self.iterations.assign_add(1)

    def apply_reduced(self, gradients, learning_rate, step, *, only_finite=False):
        """Clips gradients already summed over replicas, and updates every variable.

        To be called on replicas; returns the float32 global norm before clipping.

        Args:
            gradients: in the order of `build`, each a tensor, IndexedSlices or
                gradients.Rows; None leaves a variable and its moments alone, undecayed,
                as in optimization.py.
            step: int scalar, updates done so far.
            only_finite: change nothing where the global norm is not finite.
        """
        gradients = [gradients_lib.summed(gradient) for gradient in gradients]
        norm = gradients_lib.global_norm(gradients)
        gradients = [gradients_lib.dense(gradient) for gradient in gradients]
        clip = 1.0
        if self.max_norm:
            # Not a number where the norm is infinite, which must not pass unseen.
            clip = self.max_norm / tf.maximum(norm, self.max_norm) + (norm - norm)
        numbers = self._numbers(clip, tf.cast(learning_rate, tf.float32), step)
        is_finite = tf.math.is_finite(norm) if only_finite else None
        tf.distribute.get_replica_context().merge_call(
            self._update_all, args=(gradients, numbers, is_finite)
        )
        return norm

    def _numbers(self, clip, learning_rate, step):
        correction = 1.0
        if self.bias_correction:
            t = tf.cast(step + 1, tf.float32)
            correction = tf.sqrt(1.0 - self.beta_2**t) / (1.0 - self.beta_1**t)
        return Numbers(
            clip=tf.convert_to_tensor(clip, tf.float32),
            learning_rate=learning_rate,
            correction=tf.convert_to_tensor(correction, tf.float32),
        )

    def _update_all(self, strategy, gradients, numbers, is_finite):
        for gradient, (variable, mean, square) in zip(
            gradients, self.slots(), strict=True
        ):
            if gradient is None:
                continue
            strategy.extended.update(
                variable.value,
                _update_where_finite,
                args=(is_finite, gradient, mean.value, square.value, numbers),
                kwargs={"rule": self._rule(decays=is_decayed(variable.path))},
                group=False,
            )

    def _rule(self, *, decays):
        rate = self.weight_decay_rate if decays else 0.0
        return Rule(self.beta_1, self.beta_2, self.epsilon, rate, no_trust)

    def get_config(self):
        """Constructor arguments, for Keras."""
        return {
            "learning_rate": super().get_config()["learning_rate"],
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "clip_norm": self.max_norm,
            "bias_correction": self.bias_correction,
            "name": self.name,
        }


def _update_where_finite(variable, is_finite, *args, rule):
    if is_finite is None:
        _update(variable, *args, rule=rule)
        return

    def update():
        _update(variable, *args, rule=rule)
        return True

    tf.cond(is_finite, update, lambda: False)


def _update(variable, gradient, mean, square, numbers, *, rule):
    held = variable, mean, square
    values = [one.read_value() for one in held]
    for one, value in zip(held, _moved(*values, gradient, numbers, rule), strict=True):
        one.assign(value)


@functools.partial(tf.function, jit_compile=True, autograph=False)
def _moved(variable, mean, square, gradient, numbers, rule):
    """One pass over a variable, its moments and its gradient, instead of ten."""
    gradient = gradient * numbers.clip
    mean = rule.beta_1 * mean + (1.0 - rule.beta_1) * gradient
    square = rule.beta_2 * square + (1.0 - rule.beta_2) * tf.square(gradient)
    update = numbers.correction * mean / (tf.sqrt(square) + rule.epsilon)
    if rule.weight_decay_rate:
        update += rule.weight_decay_rate * variable
    rate = numbers.learning_rate * rule.trust(variable, update)
    return variable - rate * update, mean, square
