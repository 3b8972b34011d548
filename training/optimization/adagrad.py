"""The optimizer of ELMo's pretraining: Adagrad as TensorFlow 1 has it."""

from typing import NamedTuple

import keras
import tensorflow as tf

from training.optimization import clipping
from training.optimization import gradients as gradients_lib


class _Numbers(NamedTuple):
    clip: tf.Tensor  # multiplies gradients
    learning_rate: tf.Tensor


@keras.saving.register_keras_serializable("bert")
class Adagrad(clipping.ClippedOptimizer):
    """Adagrad (Duchi et al., 2011), whose accumulators begin at 1.

    allenai/bilm-tf, training.py, `train`, and tf.train.AdagradOptimizer:

        s = s + g^2
        p = p - rate * g / sqrt(s)

    after multiplying all gradients by `gradient_factor`, there the steps of a batch,
    and clipping them together to `clip_norm`, 0 for none. There is no weight decay.
    Rows of a table that no word of the batch needs are neither read nor written; their
    gradient is 0, so that they stay what they are either way.
    """

    slot_names = ("Adagrad",)
    first_value = 1.0
    takes_rows = True

    def __init__(
        self,
        learning_rate=0.2,
        *,
        clip_norm=10.0,
        gradient_factor=1.0,
        name="adagrad",
    ):
        super().__init__(
            learning_rate,
            clip_norm=clip_norm,
            gradient_factor=gradient_factor,
            name=name,
        )

    def summable(self, gradient):
        """All rows of a table, of which slices are some."""
        if isinstance(gradient, tf.IndexedSlices):
            return tf.convert_to_tensor(gradient)
        return gradient

    def _by_row(self, gradient):
        if isinstance(gradient, tf.IndexedSlices):
            return gradients_lib.by_row(gradient)
        return gradient

    def _numbers(self, clip, learning_rate, step):
        return _Numbers(clip, learning_rate)

    def _update(self, path):
        return _update

    def get_config(self):
        """Constructor arguments, for Keras."""
        return {**super().get_config(), "gradient_factor": self.gradient_factor}


def _update(variable, slots, gradient, numbers):
    held = {"var": variable.handle, "accum": slots[0].handle}
    rate = numbers.learning_rate
    if isinstance(gradient, tf.IndexedSlices):
        values, rows = gradient.values * numbers.clip, gradient.indices
        tf.raw_ops.ResourceSparseApplyAdagrad(
            **held, lr=rate, grad=values, indices=rows
        )
    else:
        gradient = gradient * numbers.clip
        tf.raw_ops.ResourceApplyAdagrad(**held, lr=rate, grad=gradient)
