"""The optimizer of GPT: opt.py of openai/finetune-transformer-lm."""

import keras
import tensorflow as tf

from contract import errors
from training.optimization import optimizer


@keras.saving.register_keras_serializable("bert")
class GptAdam(optimizer.BertAdam):
    """Adam whose bias correction scales the weight decay, too.

    With t counted from 1, after clipping as BertAdam does:

        rate_t = rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
        p = p - rate_t * (m / (sqrt(v) + epsilon) + weight_decay_rate * p)

    GPT decays what has more than one axis, which is what `optimizer.is_decayed` names:
    tables and kernels.
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
        one = tf.ones_like(numbers.correction)
        return numbers._replace(learning_rate=rate, correction=one)
