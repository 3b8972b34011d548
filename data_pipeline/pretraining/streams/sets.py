"""The sentences of a run: to train on and held out, as batches of two streams."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from contract import errors, features, wording
from data_pipeline.pretraining.streams import batches as stream_batches
from data_pipeline.pretraining.streams import dealing, files, word_ids
from data_pipeline.text import elmo_tokenizer

ONE_HOST = tf.distribute.InputContext()


@dataclasses.dataclass(frozen=True)
class StreamSets:
    """What a run trains and evaluates on.

    Attributes:
        held_out: the same as `train`, where there are no others.
        unroll: steps of a batch, after which a row goes on in the next one.
        micro_batches: of a training batch on a replica.
        faults: why reading failed.
    """

    train: files.SentenceFiles
    held_out: files.SentenceFiles
    words: word_ids.WordIds
    unroll: int
    micro_batches: int = 1
    faults: list[str] = dataclasses.field(default_factory=list)

    def training_batches(
        self,
        batch_size: int,
        seed: int,
        start_step: int,
        num_steps: int,
        context: tf.distribute.InputContext = ONE_HOST,
    ) -> tf.data.Dataset:
        """The batches of a run from a step on, of this host's consecutive rows.

        Equal seeds, not negative, give equal batches. Steps count from 0; `num_steps`
        is the one after the last. Features are those that stream_batches gives.
        """
        shape = self._shape(batch_size, self.micro_batches, context)
        steps = range(start_step, num_steps)
        return self._dataset(
            lambda: stream_batches.training(self.train, self.words, shape, seed, steps),
            [features.SAMPLING_SEED],
            shape,
        )

    def batch_names(self, batch_size: int, seed: int, step: int) -> list[str]:
        """Names the sentences of one batch, such as "text/part-3:17"; reads nothing."""
        streams = stream_batches.training_streams(
            self.train, batch_size, self.unroll, seed, step
        )
        found = [
            self.train.name(segment.sentence.file, segment.sentence.line)
            for stream in streams
            for row in stream.seek(step)
            for segment in row
        ]
        return list(dict.fromkeys(found))

    def num_evaluation_batches(self, batch_size: int, most: int | None) -> int:
        """How many batches an evaluation has, at most `most`; None for all words."""
        every = dealing.count_batches(self.held_out.lengths, batch_size, self.unroll)
        return every if most is None else min(most, every)

    def evaluation_batches(
        self,
        batch_size: int,
        num_batches: int | None,
        context: tf.distribute.InputContext = ONE_HOST,
    ) -> tf.data.Dataset:
        """The held-out sentences in their order, each once; no seed is in them."""
        shape = self._shape(batch_size, 1, context)
        count = num_batches or self.num_evaluation_batches(batch_size, None)
        return self._dataset(
            lambda: stream_batches.evaluation(self.held_out, self.words, shape, count),
            [],
            shape,
        )

    def _shape(self, batch_size, micro_batches, context):
        """A host computes its rows in parts, each with distinct words of its own."""
        hosts = context.num_input_pipelines
        if batch_size % hosts:
            raise errors.InputError(
                f"a batch of {batch_size} rows is no multiple of {hosts} hosts, which "
                "have equal shares of it; choose another batch size"
            )
        count = batch_size // hosts
        first = context.input_pipeline_id * count
        return stream_batches.Shape(
            *(batch_size, self.unroll),
            parts=context.num_replicas_in_sync // hosts * micro_batches,
            wanted=slice(first, first + count),
        )

    def _dataset(
        self,
        batches: Callable[[], Iterator[dict[str, np.ndarray]]],
        more: list[str],
        shape: stream_batches.Shape,
    ) -> tf.data.Dataset:
        def generated():
            try:
                yield from batches()
            except (ValueError, OSError) as error:  # TensorFlow says that it failed
                self.faults.append(str(error))
                raise

        rows = shape.wanted.stop - shape.wanted.start
        read = self.words.input_ids([elmo_tokenizer.BEGIN]).shape[1:]
        shapes = {features.DISTINCT_WORDS: [None, *read]}
        for name in (features.INPUT_MASK, *features.BILM_FEATURES):
            shapes[name] = [rows, shape.unroll]
        shapes |= {name: [rows, 2] for name in more}
        return tf.data.Dataset.from_generator(
            generated,
            output_signature={
                name: tf.TensorSpec(found, tf.int32) for name, found in shapes.items()
            },
        ).prefetch(2)

    def describe(self) -> str:
        """One line on the sentences to train on, for the log."""
        source = self.train
        line = (
            f"sentences: {source.num_sentences:,} of {source.num_words:,} words in "
            f"{len(source.files):,} file(s)"
        )
        if source.num_empty:
            line += f"; {source.num_empty:,} lines without a word are passed over"
        return line

    def digest(self) -> str:
        """Tells training sentences of one run from those of another."""
        return f"{self.train.digest()}, words {self.words.digest()}"

    def summary(self) -> dict[str, dict[str, Any]]:
        """What a report says of the sentences: where they are, and how many."""
        sources = {"train": self.train}
        if self.held_out is not self.train:
            sources["eval"] = self.held_out
        return {
            name: {
                "path": wording.first_of(source.files),
                "count": source.num_sentences,
                "unit": "sentences",
                "cut": None,
            }
            for name, source in sources.items()
        }

    def explain(self, error: Exception) -> str | None:
        """Why reading failed, if it is that."""
        is_of_reading = isinstance(error, tf.errors.OpError) and self.faults
        return self.faults[0] if is_of_reading else None


def load(
    specs: Mapping[str, str],
    words: word_ids.WordIds,
    *,
    unroll: int,
    micro_batches: int = 1,
) -> StreamSets:
    """Opens the sentences to train on, and those to evaluate on.

    `specs` are {flag: its value}, the sentences to train on first and those to evaluate
    on second, if they are others.

    Raises:
        ValueError, OSError: as in sentence_files.open_files.
    """
    opened = [
        files.open_files(spec, flag, words.split_words) for flag, spec in specs.items()
    ]
    return StreamSets(opened[0], opened[-1], words, unroll, micro_batches)
