"""Batches of a forward and a reversed stream of sentences, for ELMo's objective."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from contract import features
from data_pipeline.pretraining import source, word_streams
from data_pipeline.text import elmo

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
    """Sentences as batches of two streams.

    Attributes:
        steps_per_batch: after them a row goes on in the next batch.
        micro_batches: of a training batch on a replica.
        faults: why reading failed.
    """

    train: word_streams.SentenceFiles
    held_out: word_streams.SentenceFiles
    words: word_streams.WordIds
    steps_per_batch: int
    micro_batches: int = 1
    faults: list[str] = dataclasses.field(default_factory=list)
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
        streams = _training_streams(
            self.train, batch_size, self.steps_per_batch, seed, step
        )
        names = [
            self.train.name(segment.sentence.file, segment.sentence.line)
            for stream in streams
            for row in stream.seek(step)
            for segment in row
        ]
        return list(dict.fromkeys(names))

    def num_evaluation_batches(self, batch_size: int, most: int | None) -> int:
        every = word_streams.count_batches(
            self.held_out.lengths, batch_size, self.steps_per_batch
        )
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
        """One line on the sentences to train on, for the log."""
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
    words: word_streams.WordIds,
    *,
    steps_per_batch: int,
    micro_batches: int = 1,
) -> StreamSets:
    """Opens the sentences to train on, and those to evaluate on, as batches.load."""
    opened = [
        word_streams.open_files(spec, flag, words.split_words)
        for flag, spec in specs.items()
    ]
    return StreamSets(opened[0], opened[-1], words, steps_per_batch, micro_batches)


def _training_streams(sentences, num_rows, steps, seed, first_batch, read=None):
    """The forward and the reversed stream of a run, each in an order of its own."""
    orders = [
        word_streams.shuffle(sentences.lengths, seed, number) for number in (1, 2)
    ]
    return _streams(orders, num_rows, steps, first_batch, read)


def _streams(orders, num_rows, steps, first_batch, read):
    """A forward stream of the first order, and a reversed one of the second."""
    return [
        word_streams.WordStream(
            word_streams.assign_rows(order, num_rows, steps, first_batch),
            num_rows,
            steps,
            read=read,
            is_reversed=is_reversed,
        )
        for order, is_reversed in zip(orders, (False, True), strict=True)
    ]


def _training(sentences, words, shape, seed, steps):
    """Features of consecutive steps of a run."""
    first = steps[0] if steps else 0
    read = word_streams.Reader(sentences).words
    streams = _training_streams(sentences, shape.rows, shape.steps, seed, first, read)
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
    orders = [word_streams.in_order(sentences.lengths) for _ in range(2)]
    read = word_streams.Reader(sentences).words
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
