"""LAMB, for batches of thousands (You et al., 2020, arXiv:1904.00962)."""

import keras
import tensorflow as tf

from training.optimization import optimizer


@keras.saving.register_keras_serializable("bert")
class BertLamb(optimizer.BertAdam):
    """Adam's direction, scaled to the length of the variable it changes.

    You et al., algorithm 2, as Google trains BERT and ALBERT with it:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g^2
        u = m / (sqrt(v) + epsilon) + weight_decay_rate * p
        p = p - rate * |p| / |u| * u

    The trust ratio |p| / |u| is 1 where a norm is 0, and without weight decay.
    Clipping, bias correction, moments and thus checkpoints are those of BertAdam.
    """

    def _rule(self, *, decays):
        rule = super()._rule(decays=decays)
        return rule._replace(trust=_trust) if decays else rule


def _trust(variable, update):
    """|p| / |u|, or 1 where one of them is 0."""
    weight_norm, update_norm = tf.norm(variable), tf.norm(update)
    ratio = tf.math.divide_no_nan(weight_norm, update_norm)
    return tf.where(ratio > 0.0, ratio, 1.0)
