"""Local attention in blocks, whose memory grows with the window."""

import tensorflow as tf
from keras import ops

from modeling import kernels

_FEWEST_QUERIES = 32  # of a block of local attention, so that products are not tiny


class Windows:
    """Blocks of C queries, and of each the T = C + 2 R keys that these may see.

    A sequence that is hardly longer than three blocks is one block, with R = 0: the
    products of blocks would not be smaller. Sizes are tensors where lengths are.
    """

    def __init__(self, length, reach):
        size = max(reach, _FEWEST_QUERIES)
        is_long = length > 3 * size
        if isinstance(length, int):
            self.size, self.reach = (size, reach) if is_long else (max(length, 1), 0)
        else:
            self.size = tf.where(is_long, size, tf.maximum(length, 1))
            self.reach = tf.where(is_long, reach, 0)
        self.length, self.count = length, (length + self.size - 1) // self.size

    def cut(self, x):
        """Values [B, S, ...] as blocks [B, blocks, C, ...], padded by zeros."""
        missing = self.count * self.size - self.length
        if not isinstance(missing, int) or missing:
            x = tf.pad(x, [[0, 0], [0, missing], *[[0, 0]] * (len(x.shape) - 2)])
        return ops.reshape(x, (-1, self.count, self.size, *x.shape[2:]))

    def with_neighbours(self, x):
        """Keys or values [B * blocks, N, C, K] as [B * blocks, N, T, K]."""
        if isinstance(self.reach, int) and not self.reach:
            return x
        _, heads, _, width = x.shape
        x = ops.reshape(x, (-1, self.count, heads, self.size, width))
        none = [0, 0]
        left = tf.pad(
            x[:, :-1, :, self.size - self.reach :], [none, [1, 0], none, none, none]
        )
        right = tf.pad(x[:, 1:, :, : self.reach], [none, [0, 1], none, none, none])
        whole = ops.concatenate([left, x, right], axis=3)
        return ops.reshape(whole, (-1, heads, self.size + 2 * self.reach, width))

    def join(self, x):
        """Blocks of rows [B * blocks, C, D] as [B, S, D]."""
        x = ops.reshape(x, (-1, self.count * self.size, x.shape[-1]))
        return x[:, : self.length]

    def bias(self, mask, reach):
        """As kernels.attention_bias of the keys of each block: [B * blocks, 1, C, T].

        `mask` is int [B, S] or [B, S, S]; keys further away than `reach` are hidden.
        """
        blocks = self.size * ops.arange(self.count)[:, None]  # their first queries
        queries = blocks + ops.arange(self.size)
        keys = blocks + ops.arange(self.size + 2 * self.reach) - self.reach
        last = self.length - 1
        is_there = ops.logical_and(keys >= 0, keys <= last)
        distances = ops.expand_dims(queries, 2) - ops.expand_dims(keys, 1)
        is_near = ops.logical_and(
            ops.abs(distances) <= reach, ops.expand_dims(is_there, 1)
        )  # [blocks, C, T]
        keys = ops.clip(keys, 0, last)
        if len(mask.shape) == 2:
            seen = ops.expand_dims(ops.take(mask, keys, axis=1), 2)
        else:
            rows = ops.take(mask, ops.minimum(queries, last), axis=1)
            rows = ops.transpose(rows, (1, 0, 2, 3))  # [blocks, B, C, S]
            seen = tf.gather(rows, keys, axis=3, batch_dims=1)
            seen = ops.transpose(seen, (1, 0, 2, 3))
        seen = ops.where(is_near, seen, 0)  # [B, blocks, C, T]
        return kernels.attention_bias(ops.reshape(seen, (-1, *ops.shape(seen)[2:])))
