"""The optimizer of ELMo, which TensorFlow alone runs."""

import keras
import tensorflow as tf

from contract import errors
from training.optimizers import clipped


@keras.saving.register_keras_serializable("bert")
class Adagrad(clipped.ClippedOptimizer):
    """ELMo's Adagrad (Duchi et al., 2011), whose accumulators begin at 1.

    allenai/bilm-tf, training.py, `train`, and tf.train.AdagradOptimizer:

        s = s + g^2
        p = p - rate * g / sqrt(s)

    after multiplying all gradients by `gradient_factor`, there the steps of a batch,
    and clipping them together to `clip_norm`, 0 for none. There is no weight decay.
    Rows of a table that no word of the batch needs are neither read nor written; their
    gradient is 0, so that they stay what they are either way.
    """

    supports_sparse = True

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

    @classmethod
    def arguments(cls, settings, of_task):
        name, decay = settings.optimizer, "weight_decay_rate"
        errors.refuse(
            (
                settings.adam_bias_correction,
                f"{settings.typed('adam_bias_correction')} is for --optimizer=adam, "
                f"but it is {name}, which has no moments; leave one of them out",
            ),
            (
                getattr(settings, decay) != settings.defaults()[decay],
                f"{settings.typed(decay)}: --optimizer={name} has no weight decay; "
                "leave one of them out",
            ),
        )
        return dict(of_task)

    def slots_of(self, variable):
        return {"Adagrad": 1.0}

    def prepare_for_sum(self, gradient):
        """All rows of a table, of which slices are some."""
        if isinstance(gradient, tf.IndexedSlices):
            return tf.convert_to_tensor(gradient)
        return gradient

    def _deduplicate(self, gradient):
        """Slices with each row once, whose norm is that of the whole gradient."""
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        rows, places = tf.unique(gradient.indices)
        values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
        return tf.IndexedSlices(values, rows, gradient.dense_shape)

    def _numbers(self, clip, learning_rate, step):
        return clipped.Numbers(clip, learning_rate, tf.ones_like(clip))

    def _update(self, path, variable, slots, gradient, numbers):
        handles = {"var": variable.handle, "accum": slots[0].handle}
        rate = numbers.learning_rate
        if isinstance(gradient, tf.IndexedSlices):
            tf.raw_ops.ResourceSparseApplyAdagrad(
                **handles,
                lr=rate,
                grad=gradient.values * numbers.clip,
                indices=gradient.indices,
            )
        else:
            gradient = gradient * numbers.clip
            tf.raw_ops.ResourceApplyAdagrad(**handles, lr=rate, grad=gradient)

    def get_config(self):
        """Constructor arguments, for Keras."""
        return {**super().get_config(), "gradient_factor": self.gradient_factor}
