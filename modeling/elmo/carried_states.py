"""An ELMo whose states go from text to text, as in the original's dumps of vectors.

Differs from bilm-tf: only where `--carry_states` asks for it; else each line begins
with states of zero.
"""

import tensorflow as tf
from keras import ops

from contract import features as names


class Reader:
    """An `elmo.ElmoNetwork` that reads texts one after another, its states variables.

    The result is that of running the network on one text after another, each from the
    states of the one before. Words are embedded together, and the texts of a batch
    are one sequence for the layers: from the first to the last for the forward
    direction, and from the last to the first, at whose end the backward one begins.

    Call shapes: the three features of B texts, and unique_ids [B] -> {embedding_output
    [B, S, 2 P], layer_outputs L x [B, S, 2 P]}. A row of the id -1 changes no state.
    """

    def __init__(self, network):
        """Sets the states that the first text begins with: zeros."""
        self.network = network
        zeros = network.zero_states(1)
        self._kind = type(zeros)
        # Of any number of rows: the loop over words does not see that there is one.
        self._states = [
            tf.Variable(x, trainable=False, shape=[*x.shape[:2], None, x.shape[3]])
            for x in zeros
        ]

    def __call__(self, features, training=False):
        assert not training
        is_token = tf.cast(features[names.INPUT_MASK], tf.bool)
        is_token &= features[names.UNIQUE_IDS][:, tf.newaxis] >= 0
        x = self.network.token_vectors(features[names.INPUT_IDS])  # [B, S, P]
        streams = _join(x, is_token), _join(x[::-1], is_token[::-1])
        pairs, after = self.network.directions(
            *streams, states=self._kind(*map(tf.convert_to_tensor, self._states))
        )
        for variable, value in zip(self._states, after, strict=True):
            variable.assign(value)
        layers = [
            ops.concatenate(
                [_split(a, is_token), _split(b, is_token[::-1])[::-1]], axis=-1
            )
            for a, b in pairs
        ]
        first = ops.concatenate([x, x], axis=-1)
        return {"embedding_output": first, "layer_outputs": layers}


def _join(values, is_token):
    """The vectors of real tokens end to end, [B, S, P] -> [1, T, P]."""
    return tf.boolean_mask(values, is_token)[tf.newaxis]


def _split(values, is_token):
    """The inverse of `_join`, [1, T, P] -> [B, S, P], with zeros for padding."""
    shape = tf.concat([tf.shape(is_token), tf.shape(values)[2:]], axis=0)
    return tf.scatter_nd(tf.where(is_token), values[0], tf.cast(shape, tf.int64))
