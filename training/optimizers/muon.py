"""Muon for the matrices of hidden layers, and BERT's Adam for all else."""

import re

import keras
import tensorflow as tf

from contract import errors
from training import gradients_tf
from training.optimizers import bert_adam

_HIDDEN = re.compile(r"(^|/)block_\d+/.*kernel$")
# Kernels that are several matrices side by side, and how many.
_JOINED = {"query_key_value/kernel": 3}
# Of Jordan's quintic iteration, which steepest leads small singular values to about 1.
_STEPS = 5
_COEFFICIENTS = 3.4445, -4.7750, 2.0315
_EPSILON = 1e-7  # added to norms
_ADAM_RMS = 0.2  # of Adam's usual updates


@keras.saving.register_keras_serializable("bert")
class Muon(bert_adam.BertAdam):
    """Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/).

    For kernels of blocks, with Nesterov's momentum:

        m = momentum * m + (1 - momentum) * g
        u = orthogonal((1 - momentum) * g + momentum * m)
        p = p - rate * (0.2 * sqrt(max(rows, columns)) * u + weight_decay_rate * p)

    after clipping all gradients together. Embeddings, norms, biases and heads move as
    by BertAdam, with the same rate.

    The scale is that of Liu et al., 2025 (arXiv:2502.16982, section 2.2): entries of an
    update are then as large as those of Adam, so Adam's rates, schedules and weight
    decay are right for both. With Jordan's scale, sqrt(max(1, rows / columns)), each
    part would need a rate of its own. Query, key and value of one kernel are three
    matrices, as Jordan recommends.

    keras.optimizers.Muon has the same formula, but no clipping of micro-batches'
    sums, rates by layer or skipped steps.
    """

    def __init__(self, learning_rate=5e-5, *, momentum=0.95, name="muon", **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)
        self.momentum = momentum

    def slots_of(self, variable):
        if _HIDDEN.search(variable.path):
            return {"muon_m": 0.0}
        return super().slots_of(variable)

    @classmethod
    def check(cls, variables):
        """Refuses a run in which Adam would do all."""
        if not any(_HIDDEN.search(each.path) for each in variables):
            raise errors.InputError(
                "--optimizer=muon is for kernels of a Transformer's blocks, and this "
                "run trains none; choose --optimizer=adam"
            )

    def _update(self, path, variable, slots, gradient, numbers):
        if not _HIDDEN.search(path):
            super()._update(path, variable, slots, gradient, numbers)
            return
        (momentum,) = slots
        gradient = gradient * (numbers.clip * (1.0 - self.momentum))
        mean = self.momentum * gradients_tf.read(momentum) + gradient
        number = next((n for end, n in _JOINED.items() if path.endswith(end)), 1)
        matrices = tf.stack(
            tf.split(gradient + self.momentum * mean, number, axis=-1)
        )  # [number, ..., R, C]
        scale = _ADAM_RMS * max(matrices.shape[-2:]) ** 0.5
        update = tf.concat(tf.unstack(scale * orthogonal(matrices)), axis=-1)
        value = gradients_tf.read(variable)
        update += self.weight_decay_rate * value
        momentum.assign(mean)
        variable.assign(value - numbers.learning_rate * update)

    def get_config(self):
        """Constructor arguments, for Keras."""
        return {**super().get_config(), "momentum": self.momentum}


def orthogonal(matrices: tf.Tensor) -> tf.Tensor:
    """About U V^T of matrices U S V^T [..., R, C], float32, by Newton and Schulz.

    Singular values become 0.7 to 1.2, but for those much smaller than the largest.
    """
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = tf.linalg.matrix_transpose(matrices) if is_tall else matrices
    x /= tf.norm(x, axis=(-2, -1), keepdims=True) + _EPSILON
    a, b, c = _COEFFICIENTS
    for _ in range(_STEPS):
        gram = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * gram + c * tf.matmul(gram, gram), x)
    return tf.linalg.matrix_transpose(x) if is_tall else x
