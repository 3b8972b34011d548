"""The words in the rows of a stream, batch by batch.

The rule is allenai/bilm-tf's: a batch is filled row by row, and a row whose sentence
has ended takes the next one, whichever row that is. So where a sentence goes follows
from the lengths of those before it, and a run finds its place without reading them.
"""

import collections
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from data_pipeline.text import elmo


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
    for file, counts in enumerate(lengths):
        yield from _sentences(file, counts, np.flatnonzero(counts))


def shuffle(
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
            yield from _sentences(int(file), lengths[file], lines)


def _sentences(file, lengths, lines):
    numbers = lines.tolist(), lengths[lines].tolist()
    return map(Sentence._make, zip(itertools.repeat(file), *numbers))


def assign_rows(
    sentences: Iterable[Sentence], rows: int, steps: int, first_batch: int = 0
) -> Iterator[Segment]:
    """Puts sentences into rows, one after another.

    Segments come in the order of the batch that they begin in, start // steps, and
    within it of the row. Those that end before `first_batch` are left out.
    """
    begin = first_batch * steps
    starts = [0] * rows  # of what comes next
    heap = list(range(rows))  # batch * rows + row, for each row
    for sentence in sentences:
        row = heap[0] % rows
        start = starts[row]
        end = starts[row] = start + sentence[2] + 1  # by name takes longer
        heapq.heapreplace(heap, end // steps * rows + row)
        if end > begin:
            yield Segment(row, start, end, sentence)


def count_batches(lengths: Sequence[np.ndarray], rows: int, steps: int) -> int:
    """How many batches hold all sentences in their order."""
    segments = assign_rows(in_order(lengths), rows, steps)
    return -(-max(segment.end for segment in segments) // steps)


class Row(NamedTuple):
    """A row of a batch: its words, and of each the one that follows it.

    There are as many as the batch has steps, fewer where the data end.
    """

    words: list[str]
    targets: list[str]


class WordStream:
    """Rows of words from segments, from any batch on.

    Args:
        segments: of `assign_rows`, for as many `rows` and steps a batch.
        read: returns the words of (file, line); without it there is only `seek`.
        is_reversed: whether sentences are read from their end to their beginning.
    """

    def __init__(
        self,
        segments: Iterator[Segment],
        rows: int,
        steps: int,
        *,
        read: Callable[[int, int], list[str]] | None = None,
        is_reversed: bool = False,
    ) -> None:
        self._segments = segments
        self._next = next(segments, None)
        self._steps = steps
        self._read = read
        self._is_reversed = is_reversed
        self._held: list[collections.deque[Segment]] = [
            collections.deque() for _ in range(rows)
        ]
        self._with_ends: dict[Segment, list[str]] = {}

    def seek(self, batch: int) -> list[list[Segment]]:
        """The segments in each row of a batch, not before that of the call before."""
        begin = batch * self._steps
        end = begin + self._steps
        while self._next and self._next.start < end:
            self._drop(self._next.row, begin)
            self._held[self._next.row].append(self._next)
            self._next = next(self._segments, None)
        for row in range(len(self._held)):
            self._drop(row, begin)
        return [list(row) for row in self._held]

    def _drop(self, row, begin):
        held = self._held[row]
        while held and held[0].end <= begin:
            self._with_ends.pop(held.popleft(), None)

    def rows(self, batch: int, wanted: slice = slice(None)) -> list[Row]:
        """The words of some rows of a batch, not before that of the call before."""
        held = self.seek(batch)[wanted]
        return [self._row(segments, batch * self._steps) for segments in held]

    def _row(self, held, begin):
        words: list[str] = []
        targets: list[str] = []
        for segment in held:
            with_ends = self._words(segment)
            first = max(begin - segment.start, 0)
            last = min(begin + self._steps, segment.end) - segment.start
            words += with_ends[first:last]
            targets += with_ends[first + 1 : last + 1]
        return Row(words, targets)

    def _words(self, segment):
        """The words of a sentence with its begin and end, in their order of reading."""
        if segment not in self._with_ends:
            assert self._read is not None
            words = self._read(segment.sentence.file, segment.sentence.line)
            with_ends = [elmo.BEGIN, *words, elmo.END]
            self._with_ends[segment] = (
                with_ends[::-1] if self._is_reversed else with_ends
            )
        return self._with_ends[segment]
