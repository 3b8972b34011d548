"""Keys and values of tokens that were read before, for generation.

A cache is a tuple of a (keys, values) pair a layer, each [B, N, T, K]: plain tensors,
so that it can be a variable of tf.while_loop or an output of a signature.
"""

import tensorflow as tf

from modeling import kernels


def make_empty(network, batch_size, capacity):
    """A cache of zeros for a bert.Network, with room for `capacity` tokens."""
    width, heads = network.config.hidden_size, network.config.num_attention_heads
    shape = batch_size, heads, capacity, width // heads
    zeros = [tf.zeros(shape, network.compute_dtype) for _ in range(2)]
    return tuple(tuple(zeros) for _ in network.blocks)


def extend(network, input_ids, position_ids, start, is_visible, cache, others=None):
    """The network's sequence_output [B, S, D] of new tokens, and the cache with them.

    Args:
        input_ids, position_ids: int [B, S].
        start: the column of the first of them in the cache, int32 scalar.
        is_visible: bool [B, T], which columns hold real tokens. A token sees those up
            to its own.
        others: for each layer what else it takes, {name: value}.
    """
    segment_ids = tf.zeros_like(input_ids)
    hidden = network.embeddings(input_ids, segment_ids, position_ids)  # [B, S, D]
    columns = tf.range(tf.shape(is_visible)[1])
    own = start + tf.range(tf.shape(input_ids)[1])
    mask = (columns <= own[:, None]) & is_visible[:, None, None]  # [B, 1, S, T]
    bias = tf.where(mask, 0.0, kernels.MASK_BIAS)
    pairs, others = [], others or [{}] * len(cache)
    for block, pair, more in zip(network.blocks, cache, others, strict=True):
        layer_cache = LayerCache(pair, start)
        hidden.set_shape([None, input_ids.shape[1], None])  # as fewer operations know
        hidden = block(hidden, attention_bias=bias, cache=layer_cache, **more)
        pairs.append(layer_cache.pair)
    return network.finish(hidden, training=False), tuple(pairs)


def take_rows(cache, rows):
    """The cache with these rows of it, int32 [R]."""
    return tf.nest.map_structure(lambda values: tf.gather(values, rows), cache)


class LayerCache:
    """The pair of one layer, while the layer's new keys and values are written to it.

    Args:
        pair: keys and values [B, N, T, K].
        start: the column of the first new token, an int or int32 scalar.
    """

    def __init__(self, pair, start):
        self.pair = pair
        self._start = start

    def extend(self, key, value):
        """Writes key and value [B, N, S, K]; returns those of all T columns.

        A column is written once.
        """
        keys, values = self.pair
        self.pair = self._written(keys, key), self._written(values, value)
        return self.pair

    def _written(self, old, new):
        # Added to the zeros that are there, since TensorFlow does this in place, and
        # copies the whole cache to replace rows of it.
        shape, length = tf.shape(old), tf.shape(new)[2]
        first = tf.range(shape[0] * shape[1])[:, None] * shape[2] + self._start
        rows = tf.reshape(first + tf.range(length), [-1, 1])  # [B * N * S, 1]
        width = old.shape[-1]
        flat = tf.raw_ops.ScatterNdNonAliasingAdd(
            input=tf.reshape(old, [-1, width]),
            indices=rows,
            updates=tf.reshape(tf.cast(new, old.dtype), [-1, width]),
        )
        return tf.reshape(flat, shape)
