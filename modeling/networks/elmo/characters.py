"""Vectors of words, from their characters; what ELMo begins with."""

import math

import keras
import tensorflow as tf
from keras import ops

from modeling import bert, kernels, kernels_tf
from modeling.configs import keras_configs
from modeling.networks.elmo import config as elmo_config

_CARRY_BIAS = -2.0  # a highway begins with most of a word as it is
_SHORT_WORD = 13  # characters; its two marks included


def normal(fan_in):
    """A new initializer on every call."""
    return keras.initializers.RandomNormal(stddev=math.sqrt(1 / fan_in))


def uniform(limit):
    """A new initializer on every call."""
    return keras.initializers.RandomUniform(-limit, limit)


def dense(units, fan_in, name, dtype, bias=0.0):
    """An affine map to a last axis of `units`, initialised as the original does."""
    return bert.Dense(
        units,
        kernel_initializer=normal(fan_in),
        bias_initializer=keras.initializers.Constant(bias),
        name=name,
        dtype=dtype,
    )


class Convolution(keras_configs.Configured, keras.layers.Layer):
    """The largest value of each filter at any place of a word, and the activation.

    Call shapes: characters [N, C, d] -> [N, number of filters].
    """

    arguments = ("config", "index")

    def __init__(self, config, index, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.index = index

    def build(self, input_shape):
        (width, count), size = self.config.filters[self.index], self.config.char_dim
        is_relu = self.config.activation == "relu"
        self.kernel = self.add_weight(
            shape=(1, width, size, count),
            initializer=uniform(0.05) if is_relu else normal(width * size),
            name="kernel",
        )
        self.bias = self.add_weight(shape=(count,), initializer="zeros", name="bias")

    def call(self, characters):
        kernel = ops.squeeze(self.kernel, 0)
        sums = ops.conv(characters, kernel, padding="valid")  # [N, places, count]
        most = ops.max(sums, axis=1) + self.bias  # the same as the largest of sums
        return ops.relu(most) if self.config.activation == "relu" else ops.tanh(most)


class Highway(keras_configs.Configured, keras.layers.Layer):
    """A part of each value changed, the rest carried (Srivastava et al., 2015).

    Call shapes: [N, W] -> [N, W].
    """

    arguments = ("width",)

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.carry = dense(width, width, "carry", self.given_dtype, _CARRY_BIAS)
        self.transform = dense(width, width, "transform", self.given_dtype)

    def build(self, input_shape):
        for part in (self.carry, self.transform):
            part.build((None, self.width))

    def call(self, x):
        gate = ops.sigmoid(self.carry(x))
        return gate * ops.relu(self.transform(x)) + (1.0 - gate) * x


class Characters(keras_configs.Configured, keras.layers.Layer):
    """Words from their characters: convolutions, highways and a projection.

    Call shapes: input_ids [..., 50] int, characters' ids + 1 and 0 for padding ->
    [..., P] of the compute dtype. The row of padding, zeros, is no part of the table.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        dtype, width = self.given_dtype, config.num_filters
        self.convolutions = [
            Convolution(config, k, name=f"convolution_{k}", dtype=dtype)
            for k in range(len(config.filters))
        ]
        self.highways = [
            Highway(width, name=f"highway_{k}", dtype=dtype)
            for k in range(config.num_highway)
        ]
        self.projection = None
        if width != config.projection_dim:
            self.projection = dense(config.projection_dim, width, "projection", dtype)

    def build(self, input_shape):
        config = self.config
        self.embedding = self.add_weight(
            shape=(elmo_config.NUM_CHARACTERS, config.char_dim),
            initializer=uniform(1.0),
            name="embedding",
        )
        for part in self.convolutions:
            part.build((None, config.max_characters, config.char_dim))
        for part in filter(None, (*self.highways, self.projection)):
            part.build((None, config.num_filters))

    def call(self, input_ids):
        words = ops.reshape(
            kernels.as_integers(input_ids), (-1, self.config.max_characters)
        )
        widest = max(width for width, _ in self.config.filters)
        x = compute_once(self._convolve, self._finish, words, widest)
        return ops.reshape(x, (*ops.shape(input_ids)[:-1], self.config.projection_dim))

    def _convolve(self, words):
        table = ops.pad(self.embedding, ((1, 0), (0, 0)))
        characters = ops.take(table, words, axis=0)  # [N, C, d]
        return ops.concatenate(
            [part(characters) for part in self.convolutions], axis=-1
        )

    def _finish(self, x):
        for part in filter(None, (*self.highways, self.projection)):
            x = part(x)
        return x


def compute_once(convolve, finish, words, widest):
    """The same as finish(convolve(words)), each word once, and short ones in part.

    Words repeat, and most are short: of 2,560 words of Wikipedia 45 % are distinct, and
    where the longest filter spans 7 characters the first 20 of 50 do for 88 % of these.
    docs/results.md has the time that both save on processors; other
    devices, and functions that XLA compiles, take the batch as it is.

    Args:
        convolve: int [N, C] -> [N, F], the largest values over all places of a word.
        finish: [N, F] -> [N, P], each row by itself.
        words: int [N, 50], characters' ids; N is not 0.
        widest: characters that the longest filter spans.
    """

    def on_cpu():
        groups, index = _groups(words, widest)
        vectors = finish(tf.concat([convolve(group) for group in groups], 0))
        return tf.gather(vectors, index)

    return kernels_tf.select_by_device(on_cpu, lambda: finish(convolve(words)))


def _groups(words, widest):
    """The distinct words in groups of one length, and the row of each word in these.

    Cut words end in `widest` equal characters, so that what is the largest over all
    places of the word is so over those of this part.
    """
    distinct, index = tf.raw_ops.UniqueV2(x=words, axis=[0])
    length = _SHORT_WORD + widest
    if length >= words.shape[1]:
        return [distinct], index
    end = distinct[:, _SHORT_WORD:]
    is_short = tf.reduce_all(end[:, 1:] == end[:, :-1], axis=1)
    groups = [
        # No group is empty, which convolutions do not understand.
        tf.concat([distinct[:1], tf.boolean_mask(distinct, mask)], 0)
        for mask in (is_short, ~is_short)
    ]
    short, long = (tf.cumsum(tf.cast(x, tf.int32)) for x in (is_short, ~is_short))
    places = tf.where(is_short, short, tf.shape(groups[0])[0] + long)
    return [groups[0][:, :length], groups[1]], tf.gather(places, index)
