"""The words of a stream, batch by batch."""

import collections
from collections.abc import Callable, Iterator
from typing import NamedTuple

from data_pipeline.pretraining.streams import dealing
from data_pipeline.text import elmo_tokenizer


class Row(NamedTuple):
    """A row of a batch: its words, and of each the one that follows it.

    There are as many as the batch has steps, fewer where the data end.
    """

    words: list[str]
    targets: list[str]


class WordStream:
    """Rows of words from segments, from any batch on.

    Args:
        segments: of `dealing.deal`, for as many `rows` and steps.
        read: gives the words of (file, line); without it there is only `seek`.
        is_reversed: whether sentences are read from their end to their beginning.
    """

    def __init__(
        self,
        segments: Iterator[dealing.Segment],
        rows: int,
        unroll: int,
        *,
        read: Callable[[int, int], list[str]] | None = None,
        is_reversed: bool = False,
    ) -> None:
        self._segments = segments
        self._next = next(segments, None)
        self._unroll = unroll
        self._read = read
        self._is_reversed = is_reversed
        self._held: list[collections.deque[dealing.Segment]] = [
            collections.deque() for _ in range(rows)
        ]
        self._framed: dict[dealing.Segment, list[str]] = {}

    def seek(self, batch: int) -> list[list[dealing.Segment]]:
        """The segments in each row of a batch, not before the last one asked for."""
        begin = batch * self._unroll
        end = begin + self._unroll
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
            self._framed.pop(held.popleft(), None)

    def rows(self, batch: int, wanted: slice = slice(None)) -> list[Row]:
        """The words of some rows of a batch, not before the last one asked for."""
        held = self.seek(batch)[wanted]
        return [self._row(segments, batch * self._unroll) for segments in held]

    def _row(self, held, begin):
        words: list[str] = []
        targets: list[str] = []
        for segment in held:
            framed = self._words(segment)
            first = max(begin - segment.start, 0)
            last = min(begin + self._unroll, segment.end) - segment.start
            words += framed[first:last]
            targets += framed[first + 1 : last + 1]
        return Row(words, targets)

    def _words(self, segment):
        """Those of a sentence in its frame; read when its row comes to it."""
        if segment not in self._framed:
            assert self._read is not None
            words = self._read(segment.sentence.file, segment.sentence.line)
            framed = [elmo_tokenizer.BEGIN, *words, elmo_tokenizer.END]
            self._framed[segment] = framed[::-1] if self._is_reversed else framed
        return self._framed[segment]
