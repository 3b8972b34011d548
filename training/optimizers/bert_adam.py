"""The optimizers of BERT and GPT, and LAMB."""

from typing import ClassVar, NamedTuple

import keras
from keras import ops

from contract import errors
from training import gradients_tf
from training.optimizers import clipped


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
class BertAdam(clipped.ClippedOptimizer):
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

    @classmethod
    def arguments(cls, settings, of_task):
        return {
            "bias_correction": settings.adam_bias_correction,
            "weight_decay_rate": settings.weight_decay_rate,
        }

    def slots_of(self, variable):
        return {"adam_m": 0.0, "adam_v": 0.0}

    def _numbers(self, clip, learning_rate, step):
        correction = 1.0
        if self.bias_correction:
            t = ops.cast(step + 1, "float32")
            correction = ops.sqrt(1.0 - self.beta_2**t) / (1.0 - self.beta_1**t)
        return clipped.Numbers(
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

    @classmethod
    def arguments(cls, settings, of_task):
        errors.refuse(
            (
                "adam_bias_correction" in settings.given
                and not settings.adam_bias_correction,
                f"{settings.typed('adam_bias_correction')} contradicts --optimizer="
                f"{settings.optimizer}, which always corrects the bias; leave one of "
                "them out",
            )
        )
        return {**super().arguments(settings, of_task), "bias_correction": True}

    def _numbers(self, clip, learning_rate, step):
        numbers = super()._numbers(clip, learning_rate, step)
        rate = numbers.learning_rate * numbers.correction
        one = ops.ones_like(numbers.correction)
        return numbers._replace(learning_rate=rate, correction=one)
