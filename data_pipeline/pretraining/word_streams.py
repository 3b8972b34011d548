"""Sentences end to end in rows that go on from batch to batch, for ELMo's objective.

Files have a sentence a line. By the rule of allenai/bilm-tf, a row whose sentence has
ended takes the next one, whichever row that is. So where a sentence goes follows from
the lengths of those before it, and a run finds its place without reading them.
"""

import collections
import dataclasses
import functools
import hashlib
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from contract import errors, features, wording
from data_pipeline.tables import file_patterns, text_rows
from data_pipeline.text import elmo, normalization

# A file is read for both directions at once, and at its end they are not in step.
_FILES_IN_MEMORY = 2
_CHUNK_LINES = 1 << 13  # of a file, as text; a string takes twice what its bytes do


@dataclasses.dataclass(frozen=True)
class SentenceFiles:
    """Files of sentences; `lengths` are the words of their lines, int32 [lines] each.

    Words are found by `split_words`, one of normalization.SPLITS.

    Differs from bilm-tf: a line without a word is passed over; there it is begin and
    end of a sentence.
    """

    files: tuple[str, ...]
    lengths: tuple[np.ndarray, ...]
    split_words: str = normalization.WHITESPACE

    @property
    def count(self) -> int:
        return sum(int(np.count_nonzero(lengths)) for lengths in self.lengths)

    @property
    def num_words(self) -> int:
        return sum(int(lengths.sum()) for lengths in self.lengths)

    @property
    def num_empty(self) -> int:
        return sum(map(len, self.lengths)) - self.count

    def name(self, file: int, line: int) -> str:
        """The name of a line in messages; both are counted from 0."""
        return f"{self.files[file]}:{line + 1}"


class Reader:
    """The words of sentences; keeps the text of the two files that it read last."""

    def __init__(self, sentences: SentenceFiles) -> None:
        self._sentences = sentences
        self._text = functools.lru_cache(_FILES_IN_MEMORY)(self._read)

    def _read(self, file: int) -> tuple[bytes, np.ndarray]:
        """The lines in UTF-8, end to end, and where each ends: int64 [lines + 1]."""
        parts: list[bytes] = []
        lengths = [0]
        sentences = self._sentences
        for lines in _read_lines(sentences.files[file], sentences.split_words):
            encoded = [line.encode() for line in lines]
            parts.append(b"".join(encoded))
            lengths += map(len, encoded)
        return b"".join(parts), np.cumsum(lengths)

    def words(self, file: int, line: int) -> list[str]:
        """The words of a line; refuses a file that is not what it was."""
        text, ends = self._text(file)
        words = []
        if line < len(ends) - 1:
            words = text[ends[line] : ends[line + 1]].decode().split()
        expected = int(self._sentences.lengths[file][line])
        if len(words) != expected:
            raise errors.InputError(
                f"{self._sentences.name(file, line)}: {len(words)} words, not "
                f"{expected}; run the command again with the files from before"
            )
        return words


def open_files(spec: str, flag: str, split_words: str) -> SentenceFiles:
    """Finds the files of a flag and counts their words, for which each is read once."""
    wanted = "files of sentences, one a line, or globs such as text/*.txt"
    files = file_patterns.find(spec, flag=flag, wanted=wanted)
    lengths = [_count(_read_lines(file, split_words)) for file in files]
    sentences = SentenceFiles(tuple(files), tuple(lengths), split_words)
    if not sentences.count:
        raise errors.InputError(
            f"--{flag}: there is no word in {wording.first_of(files, 1)}; give {wanted}"
        )
    return sentences


def _read_lines(file: str, split_words: str) -> Iterator[list[str]]:
    """The lines, some at a time, with white space between their words."""
    lines = text_rows.lines(file)
    while texts := [text for _, text in itertools.islice(lines, _CHUNK_LINES)]:
        yield elmo.space_words(texts, split_words)


def _count(chunks: Iterable[list[str]]) -> np.ndarray:
    return np.fromiter(
        (len(text.split()) for lines in chunks for text in lines), np.int32
    )


class WordIds:
    """Ids of words as lookups in a table of the whole vocabulary.

    The network reads `tokenize_words` of a word, int [50] or an int, 0 being padding.
    """

    def __init__(self, tokenizer: elmo.ElmoTokenizer | None) -> None:
        if not (tokenizer and tokenizer.vocab):
            raise errors.InputError(
                "--vocab_file is missing; make one with build_vocab.py --kind=word"
            )
        self.split_words = tokenizer.split
        self._tokenizer = tokenizer
        self._rows = {word: row for row, word in enumerate(tokenizer.vocab)}
        self._table = self._read(list(tokenizer.vocab))  # [V, 50] or [V]

    def _read(self, words: Sequence[str]) -> np.ndarray:
        return self._tokenizer.tokenize_words(words).values.numpy()

    @property
    def count(self) -> int:
        return len(self._tokenizer.vocab)  # a word's repetitions included

    def digest(self) -> str:
        """16 hexadecimal digits of the words."""
        return hashlib.sha256("\n".join(self._rows).encode("utf-8")).hexdigest()[:16]

    def target_ids(self, words: Sequence[str]) -> np.ndarray:
        """Their rows of the vocabulary, that of <UNK> for others: int32 [N]."""
        other = self._rows[elmo.UNKNOWN]
        return np.array([self._rows.get(w, other) for w in words], features.INTEGER)

    def input_ids(self, words: Sequence[str]) -> np.ndarray:
        """The network's input for distinct words, [N, 50] or [N].

        Words out of the vocabulary have their characters, too.
        """
        ids = self._table[self.target_ids(words)]
        places = [i for i, word in enumerate(words) if word not in self._rows]
        if places:
            ids[places] = self._read([words[i] for i in places])
        return ids


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
    """A row of a batch: its words, and those that follow them; fewer at the end."""

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
