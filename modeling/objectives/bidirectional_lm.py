"""Two language models, forward and backward, that share a softmax over words (ELMo).

allenai/bilm-tf, training.py: `_build_loss`. Training compares the word that follows
with a sample of the others, evaluation with all of them.
"""

import math
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from modeling import losses
from modeling.configs import keras_configs

DIRECTIONS = ("forward", "backward")
_NEVER = tf.int32.max  # the place of a class that is not drawn
_HIT = -1e30  # the logit of a sampled word that is the one to predict


class Candidates(NamedTuple):
    """Classes [N] that a batch is trained against, each once, int32.

    `tries` is how many draws it took until there were as many, float32 scalar.
    """

    ids: tf.Tensor
    tries: tf.Tensor


def draw(seed, count, num_classes):
    """Draws distinct classes until there are `count`, small ids more often.

    A class has the probability of `probabilities`, so words are to be in the order of
    their frequency. An equal seed, int [2], gives equal candidates, on any device.
    """
    chunk = 2 * count

    def draw_more(places, drawn):
        step_seed = tf.random.experimental.stateless_fold_in(seed, drawn)
        # float32 has fewer numbers between 0 and 1 than a large vocabulary needs.
        uniform = tf.random.stateless_uniform([chunk], step_seed, dtype="float64")
        ids = tf.exp(uniform * math.log(num_classes + 1.0))  # [1, V + 1)
        ids = tf.minimum(tf.cast(ids, tf.int32), num_classes) - 1
        order = drawn + tf.range(chunk)
        firsts = tf.math.unsorted_segment_min(order, ids, num_classes)  # [V]
        return tf.minimum(places, firsts), drawn + chunk

    def is_short(places, drawn):
        return tf.math.count_nonzero(places < _NEVER, dtype=tf.int32) < count

    start = tf.fill([num_classes], _NEVER), 0
    places, _ = tf.while_loop(is_short, draw_more, start)
    firsts, ids = tf.math.top_k(-places, count)
    return Candidates(ids, tf.cast(1 - firsts[-1], tf.float32))


def probabilities(ids, num_classes):
    """Of drawing each class: log((id + 2) / (id + 1)) / log(V + 1), float32."""
    ids = ops.cast(ids, "float32")
    return ops.log1p(1.0 / (ids + 1.0)) / math.log(num_classes + 1.0)


def expected_counts(ids, tries, num_classes):
    """How often a class is among the candidates of so many tries, on average."""
    return -ops.expm1(tries * ops.log1p(-probabilities(ids, num_classes)))


class WordSoftmax(keras_configs.Configured, keras.layers.Layer):
    """Losses of the words that follow, of both directions, by one table of words.

    Call shapes: two lists, of each direction: hidden [B, T, P], targets int [B, T];
    table [V, P], or None for a table of its own; candidates of each direction, or None
    for all words -> a list of [B, T] float32.
    """

    def __init__(self, config, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config = config

    def build(self, input_shape=None, *_):
        size, width = self.config.vocab_size, self.config.projection_dim
        if not self.config.share_embedding_softmax:
            self.kernel = self.add_weight(
                shape=(size, width),
                initializer=keras.initializers.RandomNormal(0.0, width**-0.5),
                name="kernel",
            )
        self.bias = self.add_weight(shape=(size,), initializer="zeros", name="bias")

    def call(self, hidden, targets, table=None, candidates=None):
        table = self.kernel if table is None else table
        flat = [ops.reshape(x, (-1, x.shape[-1])) for x in hidden]  # [B * T, P]
        flat = [ops.cast(x, self.compute_dtype) for x in flat]
        labels = [ops.reshape(x, (-1,)) for x in targets]  # [B * T]
        if candidates is None:
            found = self._full(flat, labels, table)
        else:
            found = self._sampled(flat, labels, table, candidates)
        return [ops.reshape(x, ops.shape(y)) for x, y in zip(found, targets)]

    def _full(self, hidden, labels, table):
        kernel = ops.transpose(ops.cast(table, self.compute_dtype))
        found = []
        for x, own in zip(hidden, labels, strict=True):
            logits = ops.cast(ops.matmul(x, kernel), "float32") + self.bias
            found.append(losses.cross_entropy(logits, own))
        return found

    def _sampled(self, hidden, labels, table, candidates):
        # All rows at once, so that their gradient is one of slices.
        ids = [part for pair in zip(labels, (c.ids for c in candidates)) for part in pair]
        sizes = [len(candidates[0].ids)]
        ...


def sampled_losses(hidden, labels, rows, biases, candidates, num_classes):
    ...
