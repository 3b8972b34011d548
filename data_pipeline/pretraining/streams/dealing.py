"""Which sentence each row of a stream goes on with, from lengths alone.

The rule is allenai/bilm-tf's: a batch is filled row by row, and a row whose sentence
has ended takes the next one, whichever row that is. So where a sentence goes follows
from the lengths of those before it, and a run finds its place without reading them.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Sentence(NamedTuple):
    """A line of a file, both counted from 0, and its number of words."""

    file: int
    line: int
    length: int


class Segment(NamedTuple):
    """A sentence in its row: its predictions are those from `start` to before `end`.

    A sentence of n words has n + 1, of each word and of its end.
    """

    row: int
    start: int
    end: int
    sentence: Sentence


def in_order(lengths: Sequence[np.ndarray]) -> Iterator[Sentence]:
    """All sentences once, in the order of files and lines."""
    for file, found in enumerate(lengths):
        yield from _of_file(file, found, np.flatnonzero(found))


def shuffled(
    lengths: Sequence[np.ndarray], seed: int, direction: int
) -> Iterator[Sentence]:
    """All sentences for ever, in another order in each epoch.

    In each epoch the files are shuffled, alike in every direction, and the sentences
    of each file, unlike in each direction, an int from 1.

    Differs from bilm-tf: the order follows from the seed, and both directions read the
    same file at a time; there each draws files of its own, at random.
    """
    for epoch in itertools.count():
        for file in np.random.default_rng([seed, epoch]).permutation(len(lengths)):
            rng = np.random.default_rng([seed, epoch, file, direction])
            lines = rng.permutation(np.flatnonzero(lengths[file]))
            yield from _of_file(int(file), lengths[file], lines)


def _of_file(file, lengths, lines):
    numbers = lines.tolist(), lengths[lines].tolist()
    return map(Sentence._make, zip(itertools.repeat(file), *numbers))


def deal(
    sentences: Iterable[Sentence], rows: int, unroll: int, first_batch: int = 0
) -> Iterator[Segment]:
    """Puts sentences into rows, one after another.

    Segments come in the order of the batch that they begin in, start // unroll, and
    within it of the row. Those that end before `first_batch` are left out.
    """
    begin = first_batch * unroll
    starts = [0] * rows  # of what comes next
    heap = list(range(rows))  # batch * rows + row, for each row
    for sentence in sentences:
        row = heap[0] % rows
        start = starts[row]
        end = starts[row] = start + sentence[2] + 1  # by name takes longer
        heapq.heapreplace(heap, end // unroll * rows + row)
        if end > begin:
            yield Segment(row, start, end, sentence)


def count_batches(lengths: Sequence[np.ndarray], rows: int, unroll: int) -> int:
    """How many batches hold all sentences in their order."""
    return -(-max(s.end for s in deal(in_order(lengths), rows, unroll)) // unroll)
