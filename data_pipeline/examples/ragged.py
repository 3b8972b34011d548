"""Ragged rows that lie end to end in one array, without loops."""

import numpy as np

from contract import features


def splits(lengths):
    """Where rows of these lengths begin and the last one ends, int64 [N + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(starts, lengths):
    """The numbers starts[i] .. starts[i] + lengths[i] - 1 for each i, end to end."""
    ends = np.cumsum(lengths, dtype=np.int64)
    shift = np.asarray(starts, np.int64) - ends + lengths
    return np.repeat(shift, lengths) + np.arange(ends[-1] if len(ends) else 0)


def joined(*pieces):
    """Joins pieces (values, starts, lengths) to rows: int32 values, and their splits.

    Row i has values[starts[i]:starts[i] + lengths[i]] of each piece, in this order.
    """
    lengths = np.stack([piece[2] for piece in pieces], axis=1)  # [N, pieces]
    places = splits(lengths.ravel())[:-1].reshape(lengths.shape)
    values = np.empty(lengths.sum(), features.INTEGER)
    for column, (source, starts, counts) in enumerate(pieces):
        values[ranges(places[:, column], counts)] = source[ranges(starts, counts)]
    return values, splits(lengths.sum(axis=1))
