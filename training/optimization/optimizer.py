"""The optimizer of google-research/bert: optimization.py in Keras 3."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from training.optimization import clipping


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
class BertAdam(clipping.ClippedOptimizer):
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
            t = tf.cast(step + 1, tf.float32)
            correction = tf.sqrt(1.0 - self.beta_2**t) / (1.0 - self.beta_1**t)
        return Numbers(
            clip=clip,
            learning_rate=learning_rate,
            correction=tf.convert_to_tensor(correction, tf.float32),
        )

    def _update(self, path):
        return functools.partial(_update, rule=self._rule(decays=is_decayed(path)))

    def _rule(self, *, decays):
        rate = self.weight_decay_rate if decays else 0.0
        return Rule(self.beta_1, self.beta_2, self.epsilon, rate, no_trust)

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


def _update(variable, slots, gradient, numbers, *, rule):
    held = variable, *slots
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
