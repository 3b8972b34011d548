"""Ragged rows that lie end to end in one array, and the grids they are padded to."""

from typing import Any

import numpy as np

from contract import features
from contract.tensorflow_later import tf


def row_splits(lengths):
    """Where rows of these lengths begin and the last one ends, int64 [N + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(starts, lengths):
    """The numbers starts[i] .. starts[i] + lengths[i] - 1 for each i, end to end."""
    ends = np.cumsum(lengths, dtype=np.int64)
    shift = np.asarray(starts, np.int64) - ends + lengths
    return np.repeat(shift, lengths) + np.arange(ends[-1] if len(ends) else 0)


def grids(packed: Any, length: int, rows: Any = slice(None)):
    """Like packing.pad, in arrays [N, length].

    Of examples with G sequences, `rows`, a slice or int [N * G], are those of
    sequences, in arrays [N * G, ...].
    """
    lengths = np.minimum(packed.sequence_lengths[rows], length)[:, np.newaxis]  # [N, 1]
    places = ranges(packed.splits[:-1][rows], lengths[:, 0])
    positions = np.arange(length)
    is_real = positions < lengths
    is_second = is_real & (positions >= packed.first_lengths[rows][:, np.newaxis])
    input_ids = np.zeros(is_real.shape + packed.tokens.shape[1:], features.INTEGER)
    input_ids[is_real] = packed.tokens[places]
    return {
        features.INPUT_IDS: input_ids,
        features.INPUT_MASK: is_real.astype(features.INTEGER),
        features.SEGMENT_IDS: is_second.astype(features.INTEGER),
    }


def at_least_one_column(grids):
    """Widens empty features to S = 1: no network takes inputs [0, 0]."""

    def widened(grid):
        more = [0, tf.cast(tf.shape(grid)[1] == 0, tf.int32)]
        return tf.pad(grid, [[0, 0], more, *[[0, 0]] * (grid.shape.rank - 2)])

    return {name: widened(grid) for name, grid in grids.items()}


def shift_right(
    labels: "tf.Tensor", is_real: "tf.Tensor", tokens: features.DecoderTokens
) -> "tf.Tensor":
    """The decoder_input_ids of targets: each token is read where the next is written.

    Args:
        labels: int32 [B, T], targets with their end tokens, padded.
        is_real: bool [B, T], where a target is.
        tokens: of the decoder.

    Returns:
        int32 [B, T]: the start token and the target but for its last token, padded.
    """
    start = tf.fill([tf.shape(labels)[0], 1], tf.cast(tokens.start, labels.dtype))
    read = tf.concat([start, labels[:, :-1]], axis=1)  # [B, T]
    # What stands behind the last real place is the end token or padding.
    return tf.where(is_real, read, tf.cast(tokens.padding, labels.dtype))
