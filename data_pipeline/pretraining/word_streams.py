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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from contract import errors, features, wording
from data_pipeline.pretraining import source
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

    The network reads `tokenize_words` of a word, int [50], 0 being padding.
    """

    def __init__(self, tokenizer: elmo.ElmoTokenizer | None) -> None:
        if not (tokenizer and tokenizer.vocab):
            raise errors.InputError(
                "--vocab_file is missing; make one with build_vocab.py --kind=word"
            )
        self.split_words = tokenizer.split
        self._tokenizer = tokenizer
        self._rows = {word: row for row, word in enumerate(tokenizer.vocab)}
        self._table = self._read(list(tokenizer.vocab))  # [V, 50]

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
        """The network's input for distinct words, [N, 50].

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


# Numbers of distinct words are rounded up to these leading bits, at most 1 in 16 more,
# so that XLA compiles few graphs.
_SIZE_BITS = 5
_SEED_BOUND = 2**31  # of TensorFlow's int32 seeds


class Shape(NamedTuple):
    """Sizes of a batch: rows, steps, and equal parts that are computed on their own."""

    rows: int
    steps: int
    parts: int  # of the rows of this host
    wanted: slice  # the rows of this host


@dataclasses.dataclass(frozen=True)
class StreamSets(source.PretrainingData):
    """Sentences as batches of two streams."""

    train: SentenceFiles
    held_out: SentenceFiles
    words: WordIds
    steps_per_batch: int  # after them a row goes on in the next batch
    micro_batches: int = 1  # of a training batch on a replica
    faults: list[str] = dataclasses.field(default_factory=list)  # why reading failed
    unit: ClassVar[str] = "sentences"

    def training_batches(
        self,
        batch_size: int,
        seed: int,
        start_step: int,
        num_steps: int,
        context: tf.distribute.InputContext = source.ONE_HOST,
    ) -> tf.data.Dataset:
        """The batches of a run; features.py names and shapes them."""
        shape = self._shape(batch_size, self.micro_batches, context)
        steps = range(start_step, num_steps)
        return self._dataset(
            lambda: _training(self.train, self.words, shape, seed, steps),
            [features.SAMPLING_SEED],
            shape,
        )

    def batch_names(self, batch_size: int, seed: int, step: int) -> list[str]:
        orders = _orders(self.train, seed)
        streams = _streams(orders, batch_size, self.steps_per_batch, step)
        names = [
            self.train.name(segment.sentence.file, segment.sentence.line)
            for stream in streams
            for row in stream.seek(step)
            for segment in row
        ]
        return list(dict.fromkeys(names))

    def num_evaluation_batches(self, batch_size: int, most: int | None) -> int:
        every = count_batches(self.held_out.lengths, batch_size, self.steps_per_batch)
        return every if most is None else min(most, every)

    def evaluation_batches(
        self,
        batch_size: int,
        num_batches: int | None,
        context: tf.distribute.InputContext = source.ONE_HOST,
    ) -> tf.data.Dataset:
        shape = self._shape(batch_size, 1, context)
        count = num_batches or self.num_evaluation_batches(batch_size, None)
        return self._dataset(
            lambda: _evaluation(self.held_out, self.words, shape, count), [], shape
        )

    def _shape(self, batch_size, micro_batches, context):
        """A host computes its rows in parts, each with distinct words of its own."""
        replicas = context.num_replicas_in_sync // context.num_input_pipelines
        rows = source.rows_of_host(batch_size, context)
        parts = replicas * micro_batches
        return Shape(batch_size, self.steps_per_batch, parts, rows)

    def _dataset(self, batches, more, shape):
        def generate():
            try:
                yield from batches()
            except (ValueError, OSError) as error:  # TensorFlow hides the reason
                self.faults.append(str(error))
                raise

        count = shape.wanted.stop - shape.wanted.start
        word_shape = self.words.input_ids([elmo.BEGIN]).shape[1:]
        shapes = {features.DISTINCT_WORDS: [None, *word_shape]}
        for name in (features.INPUT_MASK, *features.BILM_FEATURES):
            shapes[name] = [count, shape.steps]
        shapes |= {name: [count, 2] for name in more}
        return tf.data.Dataset.from_generator(
            generate,
            output_signature={
                name: tf.TensorSpec(sizes, tf.int32) for name, sizes in shapes.items()
            },
        ).prefetch(2)

    def describe(self) -> str:
        train = self.train
        line = f"sentences: {train.count:,} of {train.num_words:,} words in "
        line += f"{len(train.files):,} file(s)"
        if train.num_empty:
            line += f"; {train.num_empty:,} lines without a word are passed over"
        return line

    def explain(self, error: Exception) -> str | None:
        is_of_reading = isinstance(error, tf.errors.OpError) and self.faults
        return self.faults[0] if is_of_reading else None


def load(
    specs: Mapping[str, str],
    words: WordIds,
    *,
    steps_per_batch: int,
    micro_batches: int = 1,
) -> StreamSets:
    """Opens the sentences to train on, and those to evaluate on, as batches.load."""
    opened = [open_files(spec, flag, words.split_words) for flag, spec in specs.items()]
    return StreamSets(opened[0], opened[-1], words, steps_per_batch, micro_batches)


def _orders(sentences, seed):
    return [shuffle(sentences.lengths, seed, direction) for direction in (1, 2)]


def _streams(orders, num_rows, steps, first_batch, read=None):
    """A forward stream of the first order, and a reversed one of the second."""
    return [
        WordStream(
            assign_rows(order, num_rows, steps, first_batch),
            num_rows,
            steps,
            read=read,
            is_reversed=is_reversed,
        )
        for order, is_reversed in zip(orders, (False, True), strict=True)
    ]


def _training(sentences, words, shape, seed, steps):
    first = steps[0] if steps else 0
    orders, read = _orders(sentences, seed), Reader(sentences).words
    streams = _streams(orders, shape.rows, shape.steps, first, read)
    for step in steps:
        batch = _batch(streams, step, words, shape)
        drawn = np.array([seed % _SEED_BOUND, step], features.INTEGER)
        count = len(batch[features.INPUT_MASK])
        yield batch | {features.SAMPLING_SEED: np.tile(drawn, (count, 1))}


def _evaluation(sentences, words, shape, num_batches):
    """Features of all sentences in their order.

    input_mask is 0 where the sentences of a row have ended.

    Differs from bilm-tf: every word is scored, once; there the last batches are left
    out, and reaching the end is an error from Python 3.7 on.
    """
    orders = [in_order(sentences.lengths) for _ in range(2)]
    read = Reader(sentences).words
    streams = _streams(orders, shape.rows, shape.steps, 0, read)
    for number in range(num_batches):
        yield _batch(streams, number, words, shape)


def _batch(streams, number, words, shape):
    rows_of_streams = [stream.rows(number, shape.wanted) for stream in streams]
    # The other stream has rows of the same lengths.
    lengths = [len(row.words) for row in rows_of_streams[0]]
    mask = np.arange(shape.steps) < np.array(lengths)[:, np.newaxis]
    read, following = (
        [_fill([row[column] for row in each], shape.steps) for each in rows_of_streams]
        for column in (0, 1)
    )
    parts, places = _distinct(read, len(mask) // shape.parts * shape.steps)
    grids = [np.array(each, features.INTEGER) for each in places]
    grids += [words.target_ids(each) for each in following]
    return {
        features.DISTINCT_WORDS: _table([words.input_ids(part) for part in parts]),
        features.INPUT_MASK: mask.astype(features.INTEGER),
        **{
            name: grid.reshape(mask.shape)
            for name, grid in zip(features.BILM_FEATURES, grids, strict=True)
        },
    }


def _fill(word_rows, length):
    """The words of all rows, each of them filled up to a length."""
    filling = [elmo.BEGIN] * length
    return [word for row in word_rows for word in (row + filling)[:length]]


def _distinct(directions, size):
    """The distinct words of each part, and the place there of each word."""
    parts: list[list[str]] = []
    places: list[list[int]] = [[] for _ in directions]
    for first in range(0, len(directions[0]), size):
        place_of: dict[str, int] = {}
        for words, places_of_words in zip(directions, places, strict=True):
            part = words[first : first + size]
            places_of_words += [place_of.setdefault(w, len(place_of)) for w in part]
        parts.append(list(place_of))
    return parts, places


def _table(parts):
    """Rows of all parts, each filled up with 0 to the same number of rows."""
    longest = max(map(len, parts))
    step = 2 ** max(longest.bit_length() - _SIZE_BITS, 0)
    table = np.zeros((len(parts), -(-longest // step) * step, *parts[0].shape[1:]))
    for filled, part in zip(table, parts, strict=True):
        filled[: len(part)] = part
    return table.reshape(-1, *table.shape[2:]).astype(features.INTEGER)
