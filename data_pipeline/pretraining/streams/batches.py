"""Batches of two streams, in which each distinct word of both is once."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import features
from data_pipeline.pretraining.streams import dealing, files, word_ids, word_streams
from data_pipeline.text import elmo_tokenizer

# Numbers of distinct words are rounded up to these leading bits, at most 1 in 16 more,
# so that XLA compiles few graphs.
_SIZE_BITS = 5
_SEED_BOUND = 2**31  # of TensorFlow's int32 seeds


class Shape(NamedTuple):
    """Sizes of a batch: rows, steps, and equal parts that are computed on their own.

    `wanted` are the rows of this host, and `parts` theirs.
    """

    rows: int
    unroll: int
    parts: int
    wanted: slice


def training_streams(
    source: files.SentenceFiles,
    rows: int,
    unroll: int,
    seed: int,
    first_batch: int,
    read: Any = None,
) -> list[word_streams.WordStream]:
    """The forward and the reversed stream of a run, each in an order of its own."""
    return _streams(
        lambda number: dealing.shuffled(source.lengths, seed, number),
        *(rows, unroll, first_batch, read),
    )


def _streams(sentences_of, rows, unroll, first_batch, read):
    return [
        word_streams.WordStream(
            dealing.deal(sentences_of(number), rows, unroll, first_batch),
            *(rows, unroll),
            read=read,
            is_reversed=number == 2,
        )
        for number in (1, 2)
    ]


def training(
    source: files.SentenceFiles,
    words: word_ids.WordIds,
    shape: Shape,
    seed: int,
    steps: Sequence[int],
) -> Iterator[dict[str, np.ndarray]]:
    """Features of consecutive steps of a run; as `features` names and shapes them."""
    read = source.reader().words
    first = steps[0] if steps else 0
    streams = training_streams(source, shape.rows, shape.unroll, seed, first, read)
    for step in steps:
        found = _batch(streams, step, words, shape)
        drawn = np.array([seed % _SEED_BOUND, step], features.INTEGER)
        count = len(found[features.INPUT_MASK])
        yield found | {features.SAMPLING_SEED: np.tile(drawn, (count, 1))}


def evaluation(
    source: files.SentenceFiles,
    words: word_ids.WordIds,
    shape: Shape,
    num_batches: int,
) -> Iterator[dict[str, np.ndarray]]:
    """The same of all sentences in their order, without a seed.

    input_mask is 0 where the sentences of a row have ended.

    Differs from bilm-tf: every word is scored, once; there the last batches are left
    out, and reaching the end is an error from Python 3.7 on.
    """
    streams = _streams(
        lambda number: dealing.in_order(source.lengths),
        *(shape.rows, shape.unroll, 0, source.reader().words),
    )
    for number in range(num_batches):
        yield _batch(streams, number, words, shape)


def _batch(streams, number, words, shape):
    rows = [stream.rows(number, shape.wanted) for stream in streams]
    lengths = [len(row.words) for row in rows[0]]  # those of the other stream, too
    mask = np.arange(shape.unroll) < np.array(lengths)[:, np.newaxis]
    read, following = (
        [_filled([row[column] for row in found], shape.unroll) for found in rows]
        for column in (0, 1)
    )
    parts, places = _distinct(read, len(mask) // shape.parts * shape.unroll)
    grids = [np.array(own, features.INTEGER) for own in places]
    grids += [words.target_ids(each) for each in following]
    return {
        features.DISTINCT_WORDS: _table([words.input_ids(part) for part in parts]),
        features.INPUT_MASK: mask.astype(features.INTEGER),
        **{
            name: grid.reshape(mask.shape)
            for name, grid in zip(features.BILM_FEATURES, grids, strict=True)
        },
    }


def _filled(rows, length):
    """The words of all rows, each of them filled up to a length."""
    filling = [elmo_tokenizer.BEGIN] * length
    return [word for row in rows for word in (row + filling)[:length]]


def _distinct(directions, size):
    """The distinct words of each part, and where in them each word of both rows is."""
    parts: list[list[str]] = []
    places: list[list[int]] = [[] for _ in directions]
    for first in range(0, len(directions[0]), size):
        found: dict[str, int] = {}
        for words, own in zip(directions, places, strict=True):
            part = words[first : first + size]
            own += [found.setdefault(word, len(found)) for word in part]
        parts.append(list(found))
    return parts, places


def _table(parts):
    """Rows of all parts, each filled up with 0 to the same number of rows."""
    longest = max(map(len, parts))
    step = 2 ** max(longest.bit_length() - _SIZE_BITS, 0)
    found = np.zeros((len(parts), -(-longest // step) * step, *parts[0].shape[1:]))
    for rows, part in zip(found, parts, strict=True):
        rows[: len(part)] = part
    return found.reshape(-1, *found.shape[2:]).astype(features.INTEGER)
