"""The data of a pretraining run: what is trained on and held out; files of records."""

import abc
import concurrent.futures
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, features, wording
from data_pipeline.pretraining import metadata
from data_pipeline.tables import file_patterns

ONE_HOST = tf.distribute.InputContext()
_SCANNED_RECORDS = 1024  # parsed at a time by `find_damage`
# How TensorFlow begins on a record that is no tf.train.Example; its bytes follow.
_NO_EXAMPLE = "Could not parse example input"
_OUT_OF_RANGE = "a feature of a record is out of range"


@dataclasses.dataclass(frozen=True)
class PretrainingData(abc.ABC):
    """Training and held-out data, as batches that follow from seed and step.

    Each host of a `context` gets equally many consecutive rows of every batch; all
    hosts together have the batches that one would have.
    """

    train: Any  # has `files` and `count`
    held_out: Any  # the same as `train`, where there is no other
    unit: ClassVar[str] = "records"  # what is counted

    @abc.abstractmethod
    def training_batches(
        self,
        batch_size: int,
        seed: int,
        start_step: int,
        num_steps: int,
        context: tf.distribute.InputContext = ONE_HOST,
    ) -> tf.data.Dataset:
        """The batches of a run from a step on; `num_steps` is that after the last."""

    @abc.abstractmethod
    def batch_names(self, batch_size: int, seed: int, step: int) -> list[str]:
        """Names what a batch holds, such as "records/part-3:17"; reads no file."""

    @abc.abstractmethod
    def num_evaluation_batches(self, batch_size: int, most: int | None) -> int:
        """How many batches an evaluation has, at most `most`; None for all data."""

    @abc.abstractmethod
    def evaluation_batches(
        self,
        batch_size: int,
        num_batches: int | None,
        context: tf.distribute.InputContext = ONE_HOST,
    ) -> tf.data.Dataset:
        """The held-out data in their order, without a seed; None: each counts once."""

    @abc.abstractmethod
    def explain(self, error: Exception) -> str | None:
        """Why reading failed, if that raised the error."""

    def summary(self) -> dict[str, dict[str, Any]]:
        """Where the data are and how many, for a report."""
        sources = {"train": self.train}
        if self.held_out is not self.train:
            sources["eval"] = self.held_out
        same = {"unit": self.unit, "cut": None}
        return {
            name: {"path": wording.first_of(each.files), "count": each.count} | same
            for name, each in sources.items()
        }


def rows_of_host(batch_size: int, context: tf.distribute.InputContext) -> slice:
    """Which rows of a batch a host gets."""
    hosts = context.num_input_pipelines
    if batch_size % hosts:
        raise errors.InputError(
            f"batch of {batch_size} rows: no equal shares for {hosts} hosts; change it"
        )
    count = batch_size // hosts
    first = context.input_pipeline_id * count
    return slice(first, first + count)


class Blocks(NamedTuple):
    """Consecutive records of files; int64 [K] each."""

    files: np.ndarray  # numbers of them
    begins: np.ndarray  # first bytes
    sizes: np.ndarray  # in bytes
    counts: np.ndarray  # of records


@dataclasses.dataclass(frozen=True)
class RecordSource:
    """Files of records that fit each other and the run."""

    files: tuple[str, ...]
    counts: tuple[int, ...]  # records in each
    splits: tuple[tuple[int, ...], ...]  # as of metadata.Contents
    sentence_task: str
    has_masks: bool  # if not, a batch is masked when it is read
    max_seq_length: int  # S, in tokens
    max_predictions_per_seq: int  # P, of the records or of the masks to come
    vocab_size: int  # rows of the network's table
    type_vocab_size: int = 0  # of its table of segments; 0: it has none
    layout: metadata.Layout = metadata.ORIGINAL
    is_masked: bool = True  # whether tokens are hidden at all, not left to right
    # Tokens predicted left to right, and their text; 0 where a file lacks the count.
    num_predictions: int = 0
    num_words: int = 0
    num_text_bytes: int = 0

    @property
    def count(self) -> int:
        return sum(self.counts)

    @functools.cached_property
    def blocks(self) -> "Blocks":
        """The parts that are shuffled: files with metadata, blocks of all others."""
        rows = []
        for file, splits in enumerate(self.splits):
            counts = np.full(len(splits) - 1, metadata.BLOCK_RECORDS)
            counts[-1] = self.counts[file] - counts[:-1].sum()
            files = np.full(len(counts), file)
            rows.append((files, splits[:-1], np.diff(splits), counts))
        columns = zip(*rows, strict=True)
        return Blocks._make(np.concatenate(each).astype(np.int64) for each in columns)

    @property
    def spec(self) -> dict[str, tf.io.FixedLenFeature]:
        """For tf.io.parse_example."""
        predictions = self.max_predictions_per_seq if self.has_masks else 0
        return metadata.spec(self.max_seq_length, predictions, self.layout)

    @property
    def limits(self) -> dict[str, int]:
        """{feature: the first integer that is too large}."""
        limits = {
            features.INPUT_IDS: self.vocab_size,
            features.INPUT_MASK: 2,
            features.SEGMENT_IDS: self.type_vocab_size or np.iinfo(np.int32).max,
            features.NEXT_SENTENCE_LABELS: 2,
        }
        if self.has_masks:
            limits[features.MASKED_LM_POSITIONS] = self.max_seq_length
            limits[features.MASKED_LM_IDS] = self.vocab_size
        return limits

    def parse(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        """Features of records, string [N]: int64, and float32 weights."""
        parsed = tf.io.parse_example(serialized, self.spec)
        if not self.layout.has_labels:
            labels = tf.zeros_like(parsed[features.INPUT_IDS][:, 0])
            parsed[features.NEXT_SENTENCE_LABELS] = labels
        if features.MASKED_LM_WEIGHTS in parsed:  # AutoGraph would warn of :=
            weights = tf.cast(parsed[features.MASKED_LM_WEIGHTS], tf.float32)
            parsed[features.MASKED_LM_WEIGHTS] = weights
        return parsed

    def parse_checked(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        """`parse` to int32, in a graph; InvalidArgumentError for a value beyond."""
        parsed = self.parse(serialized)
        # As unsigned integers, negative ones are the largest.
        is_wrong = [
            tf.reduce_any(tf.bitcast(parsed[name], tf.uint64) >= np.uint64(limit))
            for name, limit in self.limits.items()
        ]
        is_right = tf.logical_not(tf.reduce_any(tf.stack(is_wrong)))
        check = tf.debugging.Assert(is_right, [_OUT_OF_RANGE])
        with tf.control_dependencies([check]):
            return {
                name: tf.identity(value)
                if value.dtype == tf.float32
                else tf.cast(value, tf.int32)
                for name, value in parsed.items()
            }

    def explain(self, error: Exception) -> str | None:
        """The damage that reading raised an error for; reads the files again."""
        if isinstance(error, tf.errors.NotFoundError):
            gone = [file for file in self.files if not tf.io.gfile.exists(file)]
            return f"{gone[0]}: is gone; {metadata.AGAIN}" if gone else None
        # Python decodes messages, which quote damaged records.
        is_of_records = isinstance(error, tf.errors.DataLossError | UnicodeDecodeError)
        if isinstance(error, tf.errors.InvalidArgumentError):
            names = [f"{w}: {name}" for w in ("Key", "Feature") for name in self.spec]
            parts = [*names, _NO_EXAMPLE, _OUT_OF_RANGE]
            is_of_records = any(part in error.message for part in parts)
        if not is_of_records:
            return None  # of the network, say
        return next(filter(None, map(self.find_damage, self.files)), None)

    def find_damage(self, file: str, count: int = -1) -> str | None:
        """Parses records of a file, -1 for all; returns the damage or None."""
        # No parallel calls: the first error is then that of the first bad record.
        records = tf.data.TFRecordDataset(file).take(count).batch(_SCANNED_RECORDS)
        number = 0
        try:
            for parsed in records.map(self.parse).as_numpy_iterator():
                for name, limit in self.limits.items():
                    values = parsed[name].reshape(len(parsed[name]), -1)
                    for row, column in np.argwhere((values < 0) | (values >= limit)):
                        return (
                            f"{file}: record {number + row} has {name}="
                            f"{values[row, column]}, not 0 to {limit - 1}; give the "
                            "config and vocabulary of the records, or make them again"
                        )
                number += _SCANNED_RECORDS
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            reason = "one is no tf.train.Example"
            text = getattr(error, "message", _NO_EXAMPLE)
            if _NO_EXAMPLE not in text:
                reason = metadata.reason_of(text)
            text = f"records {number} and {number + _SCANNED_RECORDS - 1} ({reason})"
            return f"{file}: damaged between {text}; {metadata.AGAIN}"
        return None


def find(spec: str, flag: str = "input_file") -> list[str]:
    """Lists files of records, leaving out metadata and unfinished files."""

    def is_whole(path):
        name = path.rsplit("/", 1)[-1]
        is_metadata = name.endswith(metadata.SUFFIX)
        return not is_metadata and atomic_files.SUFFIX not in name

    wanted = "files of create_pretraining_data.py, or globs such as records/*.tfrecord"
    return file_patterns.find(spec, flag=flag, wanted=wanted, accepts=is_whole)


def check_records(
    files: Sequence[str],
    *,
    max_seq_length: int | None,
    max_predictions_per_seq: int,
    vocab_size: int,
    type_vocab_size: int = 0,
    spare_rows: int = 0,
    vocab: Sequence[str] | None = None,
    do_lower_case: bool | None = None,
    flag: str = "input_file",
    is_masked: bool = True,
) -> RecordSource:
    """Checks that files of records fit each other, the flags and the network.

    Records without metadata are counted, for which their file is read once. The
    network's table has `vocab_size` rows, at most `spare_rows` more than the
    vocabulary, and that of segments `type_vocab_size`, 0 for none. `vocab`
    (Tokenizer.definition), `do_lower_case` and `max_seq_length` may be None, unchecked.
    Records that are not `is_masked` are read as they are, left to right, say.
    """
    with concurrent.futures.ThreadPoolExecutor(file_patterns.READERS) as pool:
        contents = list(pool.map(metadata.describe, files))
    shared = _agreed(contents, flag)
    max_predictions, first = shared["max_predictions_per_seq"]
    has_masks = max_predictions > 0
    if has_masks and not is_masked:
        raise errors.InputError(
            f"this --objective reads texts as they are, but the records of {first} are "
            "masked; make them again with --objective=left_to_right or --masking=none"
        )
    wanted = {"max_seq_length": max_seq_length, "do_lower_case": do_lower_case}
    if has_masks:
        wanted["max_predictions_per_seq"] = max_predictions_per_seq
    for name, flag_value in wanted.items():
        value, file = shared.get(name, (flag_value, None))
        if flag_value is not None and value != flag_value:
            raise errors.InputError(
                f"--{name}={flag_value}, but the records of {file} have {name}={value};"
                f" give --{name}={value}, or make the records again"
            )
    _check_vocabulary(contents, shared, vocab_size, spare_rows, vocab)
    counts = tuple(content.count for content in contents)
    if not sum(counts):
        raise errors.InputError(
            f"--{flag}: no record in {wording.first_of(files, 1)}; make some"
        )
    text_counts = {}
    for name in metadata.TEXT_COUNTS:
        numbers = [each.known.get(name, 0) for each in contents if each.count]
        text_counts[name] = sum(numbers) if all(numbers) else 0
    records = RecordSource(
        files=tuple(files),
        counts=counts,
        splits=tuple(content.splits for content in contents),
        sentence_task=shared["sentence_task"][0],
        has_masks=has_masks,
        max_seq_length=shared["max_seq_length"][0],
        max_predictions_per_seq=max_predictions_per_seq,
        vocab_size=vocab_size,
        type_vocab_size=type_vocab_size,
        layout=contents[0].layout,
        is_masked=is_masked,
        **text_counts,
    )
    probed = [content.file for content in contents if content.is_probed]
    for file in probed:
        if damage := records.find_damage(file, metadata.PROBED_RECORDS):
            raise errors.InputError(damage)
    if probed:
        print(
            f"--{flag}: {wording.count(len(probed), 'file')} without {metadata.SUFFIX},"
            f" read as {records.layout}, sentence_task={records.sentence_task}, "
            f"{'masked' if has_masks else 'not masked'}"
        )
    return records


def _agreed(contents, flag):
    """{name: (value, first file that has it)} of what all files must share."""
    shared: dict[str, Any] = {}
    for name in metadata.SHARED:
        for content in contents:
            if (value := content.known.get(name)) is None:
                continue
            first, file = shared.setdefault(name, (value, content.file))
            if value != first:
                raise errors.InputError(
                    f"--{flag}: the records of {file} have {name}={first}, those of "
                    f"{content.file} {name}={value}; give files of one setting"
                )
    for content in contents:
        if content.layout != contents[0].layout:
            first = contents[0]
            raise errors.InputError(
                f"--{flag}: the records of {first.file} have {first.layout}, those of "
                f"{content.file} {content.layout}; give files of one program"
            )
    return shared


def _check_vocabulary(contents, shared, vocab_size, spare_rows, vocab):
    """Refuses records whose ids mean other tokens than those of the run."""
    if "vocab_size" not in shared:
        return
    entries, file = shared["vocab_size"]
    if not 0 <= vocab_size - entries <= spare_rows:
        raise errors.InputError(
            f"the records of {file} have a vocabulary of {entries}, and the network "
            f"vocab_size={vocab_size}; give the --bert_config_file of the vocabulary"
        )
    digest, _ = shared["vocab_digest"]
    if vocab is not None and (own := metadata.vocab_digest(vocab)) != digest:
        raise errors.InputError(
            f"the records of {file} were made with another vocabulary ({digest}) than "
            f"--vocab_file ({own}); give theirs, or make the records again"
        )


def check_sentence_task(sources: Mapping[str, RecordSource]) -> None:
    """Refuses records, by flag, whose next_sentence_labels mean different things."""
    first = next(iter(sources.values()))
    for flag, source in sources.items():
        if source.sentence_task != first.sentence_task:
            raise errors.InputError(
                f"--{flag} has records with sentence_task={source.sentence_task}, "
                f"--input_file with {first.sentence_task}; give files of one setting"
            )
