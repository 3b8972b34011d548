"""Two language models, forward and backward, that share a softmax over words (ELMo).

allenai/bilm-tf, training.py: `_build_loss`. Training compares the word that follows
with a sample of the others, evaluation with all of them.
"""

import math
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from modeling import losses as losses_lib
from modeling import models
from modeling.configs import keras_configs
from modeling.networks.elmo import lstm

DIRECTIONS = ("forward", "backward")
_ALGORITHM = "philox"  # named because the default one depends on the device
_NEVER = tf.int32.max  # the place of a class that is not drawn


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
        step_seed = _folded(seed, drawn)
        uniform = _uniform(chunk, step_seed)
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


def _uniform(count, seed):
    """Between 0 and 1, float64 [count]; float32 is too coarse for large vocabularies.

    Of integers, for which devices and compilers agree.
    """
    bits = tf.random.stateless_uniform(
        [count, 2], seed, None, None, tf.int32, alg=_ALGORITHM
    )
    halves = tf.cast(bits, tf.float64) + 2.0**31
    return halves[:, 0] * 2.0**-32 + halves[:, 1] * 2.0**-64


def draw_both(seed, count, num_classes):
    """Candidates of the forward and of the backward direction, by one seed.

    Differs from bilm-tf: all devices compare with the same sample, which follows from
    seed and step; there each draws its own.
    """
    seeds = (_folded(seed, k) for k in range(len(DIRECTIONS)))
    return [draw(each, count, num_classes) for each in seeds]


def _folded(seed, number):
    return tf.random.experimental.stateless_fold_in(seed, number, alg=_ALGORITHM)


def probabilities(ids, num_classes):
    """The probability of each class: log((id + 2) / (id + 1)) / log(V + 1), float32."""
    ids = ops.cast(ids, "float32")
    return ops.log1p(1.0 / (ids + 1.0)) / math.log(num_classes + 1.0)


def expected_counts(ids, tries, num_classes):
    """How often a class is among the candidates of so many tries, on average.

    Differs from bilm-tf: one formula; its sampler takes tries * probability where no
    class was drawn twice.
    """
    return -ops.expm1(tries * ops.log1p(-probabilities(ids, num_classes)))


class WordSoftmax(keras_configs.Configured, keras.layers.Layer):
    """Losses of the words that follow, by a table of words for both directions.

    Call shapes: for each direction hidden [B, T, P] and targets int [B, T]; for each
    direction `candidates`, or None for all words -> for each direction [B, T] float32.
    """

    def __init__(self, config, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config = config

    def build(self, input_shape=None, *_):
        size, width = self.config.vocab_size, self.config.projection_dim
        self.kernel = self.add_weight(
            shape=(size, width),
            initializer=keras.initializers.RandomNormal(0.0, width**-0.5),
            name="kernel",
        )
        self.bias = self.add_weight(shape=(size,), initializer="zeros", name="bias")

    def call(self, hidden, targets, candidates=None):
        table = ops.convert_to_tensor(self.kernel)
        rows = [ops.reshape(x, (-1, x.shape[-1])) for x in hidden]  # [B * T, P]
        rows = [ops.cast(x, self.compute_dtype) for x in rows]
        labels = [ops.reshape(x, (-1,)) for x in targets]  # [B * T]
        if candidates is None:
            losses = self._against_all(rows, labels, table)
        else:
            losses = self._against(candidates, rows, labels, table)
        pairs = zip(losses, targets, strict=True)
        return tuple(ops.reshape(x, ops.shape(y)) for x, y in pairs)

    def _against_all(self, rows, labels, table):
        kernel = ops.transpose(ops.cast(table, self.compute_dtype))  # [P, V]
        logits = (ops.matmul(x, kernel) for x in rows)
        logits = (ops.cast(x, "float32") + self.bias for x in logits)  # [B * T, V]
        return map(losses_lib.cross_entropy, logits, labels)

    def _against(self, candidates, rows, labels, table):
        # All words at once, so that there is one gradient of slices.
        ids = [
            x for x, own in zip(labels, candidates, strict=True) for x in (x, own.ids)
        ]
        sizes = [ops.shape(x)[0] for x in ids]
        joined = ops.concatenate(ids)
        kernels = tf.split(tf.gather(table, joined), sizes)
        biases = tf.split(tf.gather(ops.convert_to_tensor(self.bias), joined), sizes)
        for k, (x, own) in enumerate(zip(rows, candidates, strict=True)):
            true, drawn = (
                self._logits(x, kernels[n], biases[n], ids[n], own.tries, n == 2 * k)
                for n in (2 * k, 2 * k + 1)
            )
            is_hit = labels[k][:, None] == own.ids
            # The word to predict may be among those that are drawn.
            drawn = ops.where(is_hit, losses_lib.EXCLUDED, drawn)
            logits = ops.concatenate([true, drawn], axis=1)
            yield losses_lib.cross_entropy(logits, ops.zeros_like(labels[k]))

    def _logits(self, rows, kernels, biases, ids, tries, is_own):
        """Logits of a word for each row, [N, 1], or of some words for all, [N, C]."""
        kernels = ops.cast(kernels, rows.dtype)
        if is_own:
            logits = ops.sum(rows * kernels, axis=1, keepdims=True)
        else:
            logits = ops.matmul(rows, ops.transpose(kernels))
        counts = expected_counts(ids, tries, self.config.vocab_size)
        added = biases - ops.log(counts)
        return ops.cast(logits, "float32") + (added[:, None] if is_own else added)


class BidirectionalLM(models.BertModel):
    """The language models of an ELMo, of streams in both directions.

    `states` are {name: shape}, what is carried from batch to batch beside an axis of
    rows. The two streams are different texts; the backward one comes in the order in
    which it is read, each sentence from its end.

    Call shapes: distinct_words [U, 50], words [B, T] of each direction, which
    are rows of it, targets [B, T], states [B, ...] -> {"forward_losses",
    "backward_losses"} [B, T] float32 and the states that follow. In training
    sampling_seed [B, 2] decides what a sampled softmax compares with.
    """

    uses_pooler = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.bidirectional_lm = WordSoftmax(
            config, name="bidirectional_lm", dtype=self.given_dtype
        )

    @property
    def states(self):
        """{name: shape without rows} of the features and outputs that are states."""
        config, layers = self.config, (self.config.num_hidden_layers, 2)
        return {
            "cell_states": (*layers, config.lstm_dim),
            "hidden_states": (*layers, config.projection_dim),
        }

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        vectors = self.network.token_vectors(features["distinct_words"], seed)  # [U, P]
        forward, backward = (
            keras.ops.take(vectors, features[f"{direction}_words"], axis=0)
            for direction in DIRECTIONS
        )
        states = (keras.ops.moveaxis(features[name], 0, 2) for name in self.states)
        layers, after = self.network.directions(
            forward,
            keras.ops.flip(backward, axis=1),
            states=lstm.States(*states),
            seed=seed,
        )
        forward, backward = self.network.top(layers, seed)
        losses = self.bidirectional_lm(
            (forward, keras.ops.flip(backward, axis=1)),
            [features[f"{name}_targets"] for name in DIRECTIONS],
            candidates=self._candidates(features, training),
        )
        after = (keras.ops.moveaxis(state, 2, 0) for state in after)
        return {
            **dict(zip(("forward_losses", "backward_losses"), losses, strict=True)),
            **dict(zip(self.states, after, strict=True)),
        }

    def _candidates(self, features, training):
        """The words that each direction is compared with; None for all words."""
        if not (training and self.config.sample_softmax):
            return None
        return draw_both(
            features["sampling_seed"][0],
            self.config.num_negative_samples,
            self.config.vocab_size,
        )


def objective():
    """Mean of both directions' mean losses; metrics are those of each.

    Features: input_mask [B, T]. Outputs: forward_losses, backward_losses [B, T].
    """
    both = losses_lib.together(
        *(
            losses_lib.weighted_mean(
                direction,
                lambda features: features["input_mask"],
                lambda features, outputs, name=f"{direction}_losses": outputs[name],
            )
            for direction in DIRECTIONS
        )
    )

    def count(features):
        return both.counts(features)["forward_loss"]

    def total(features, outputs):
        forward, backward = both.totals(features, outputs).values()
        return 0.5 * (forward + backward)

    def metrics(features, outputs):
        counts = both.counts(features)
        totals = both.totals(features, outputs)
        return {name: (totals[name], counts[name]) for name in totals}

    return losses_lib.one_part("next_token_loss", count, total, metrics)
