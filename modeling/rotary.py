"""Positions as rotations of queries and keys (Su et al., 2021, arXiv:2104.09864).

Number i of the first half of a head's vector and number i of its second half are a
pair, as in GPT-NeoX, which turns by an angle of position / base ** (2 i / K). So the
product of a query and a key depends on how far the two are apart.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from contract import errors


class Rotation(NamedTuple):
    """The angles of positions, float32 [S, K] or [R, ..., 1, S, K], to turn by.

    Attributes:
        cos: of the angle of each number.
        sin: of the same, negative in the first half of K.
    """

    cos: Any
    sin: Any

    @classmethod
    def of(cls, positions, width, base):
        """The rotation at positions [S] or [R, ..., S] of vectors [..., K = width]."""
        angles = ops.expand_dims(ops.cast(positions, "float32"), -1)
        angles = angles * speeds(width, base)
        cos, sin = ops.cos(angles), ops.sin(angles)
        both = ops.concatenate([cos, cos], -1), ops.concatenate([-sin, sin], -1)
        has_heads = len(angles.shape) > 2  # an axis for them
        return cls(*(ops.expand_dims(x, -3) if has_heads else x for x in both))

    def take(self, positions):
        """The rotation [R, 1, P, K] at int [R, P], of one at positions [S]."""
        return Rotation(*(ops.take(x, positions, axis=0)[:, None] for x in self))


def check_width(config):
    """Refuses a config whose heads have an odd number K, for pairs are rotated.

    Raises:
        InputError: they have.
    """
    width, heads = config.hidden_size, config.num_attention_heads
    if width // heads % 2:
        raise errors.InputError(
            f"hidden_size={width} is an odd number for each of num_attention_heads="
            f"{heads}, and pairs of numbers are rotated; correct the config"
        )


def speeds(width, base):
    """Angles of a step by one position, float32 [K / 2].

    Rounded where transformers rounds: at position 8,000 one more rounding would move an
    angle by 5e-4.
    """
    places = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    powers = np.float64(np.float32(base)) ** places.astype(np.float64)
    return np.float32(1) / powers.astype(np.float32)


def rotate(parts, rotation, count):
    """The parts of [C, ..., S, K], K even, of which the first `count` are turned.

    By a Rotation, in float32. They come apart, and their gradients are joined at once:
    those of slices would each be as large as all parts.
    """
    cos, sin = map(tf.convert_to_tensor, rotation)

    def turn(x, sin):
        y = tf.cast(x, tf.float32)
        # To split and join the halves would copy them once more.
        halves = tf.reshape(y, [-1, 2, y.shape[-1] // 2])
        others = tf.reshape(tf.reverse(halves, [1]), tf.shape(y))
        return tf.cast(y * cos + others * sin, x.dtype)

    @tf.custom_gradient
    def run(parts):
        def gradient(*upstream):
            turned = turn(tf.stack(upstream[:count]), -sin)
            rest = [x[None] for x in upstream[count:]]
            return tf.concat([turned, *rest], axis=0)

        turned = tf.unstack(turn(parts[:count], sin))
        return (*turned, *tf.unstack(parts[count:])), gradient

    return run(tf.convert_to_tensor(parts))
