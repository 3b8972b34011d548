"""Pretraining records: checked against a run's flags, and read batch by batch."""

import concurrent.futures
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contract import atomic_files, features, wording
from data_pipeline.examples import ragged
from data_pipeline.files import file_patterns
from data_pipeline.pretraining import record_files, record_metadata, shuffling

# Files whose metadata are read at the same time; most of it is waiting for a disk.
_READERS = 16
_AGAIN = "copy the file again, or make it again"

Mask = Callable[[np.ndarray, np.ndarray, np.random.Generator], dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Source:
    """Files of records that fit each other and the run.

    Attributes:
        files: their paths.
        counts: number of records in each.
        sentence_task: next, order or none: what next_sentence_labels mean.
        has_masks: whether the records are masked; if not, a batch is when it is read.
        max_seq_length: S, in tokens.
        max_predictions_per_seq: P, of the records or of the masks to come.
    """

    files: tuple[str, ...]
    counts: tuple[int, ...]
    sentence_task: str
    has_masks: bool
    max_seq_length: int
    max_predictions_per_seq: int


def find(spec: str, flag: str = "input_file") -> list[str]:
    """The files of records that comma-separated names and globs stand for.

    Args:
        spec: value of the flag; local paths or any address `tf.io.gfile` reads.
        flag: its name, for messages.

    Returns:
        Paths, sorted within each glob; without metadata and unfinished files.

    Raises:
        ValueError: one of them stands for no file of records.
    """

    def is_whole(path):
        name = path.rsplit("/", 1)[-1]
        is_metadata = name.endswith(record_metadata.SUFFIX)
        return not is_metadata and atomic_files.SUFFIX not in name

    wanted = (
        "files of create_pretraining_data.py, separated by commas, or globs such as "
        "records/*.tfrecord"
    )
    return file_patterns.find(spec, flag=flag, wanted=wanted, accepts=is_whole)


def open_records(
    files: Sequence[str],
    *,
    max_seq_length: int,
    max_predictions_per_seq: int,
    vocab_size: int,
    spare_rows: int = 0,
    vocab: Sequence[str] | None = None,
    do_lower_case: bool | None = None,
    flag: str = "input_file",
) -> Source:
    """Checks that files of records fit each other, the flags and the network.

    Records without metadata are counted, for which their file is read once.

    Args:
        files: paths, as `find` returns them.
        max_seq_length: of the flags, in tokens.
        max_predictions_per_seq: of the flags; free where records are not masked.
        vocab_size: rows of the network's table.
        spare_rows: how many it may have beyond the entries of the vocabulary.
        vocab: all tokens in order, or None for no check.
        do_lower_case: of the flags, or None for no check.
        flag: the flag that names the files, for messages.

    Raises:
        ValueError: something does not fit; names file, flag and both values.
    """
    with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
        contents = list(pool.map(record_files.describe, files))
    known = _agreed(contents, flag)
    first = contents[0]
    has_masks = first.max_predictions_per_seq > 0
    wanted = {"max_seq_length": max_seq_length, "do_lower_case": do_lower_case}
    if has_masks:
        wanted["max_predictions_per_seq"] = max_predictions_per_seq
    _check_flags(known, wanted)
    _check_vocabulary(contents, known, vocab_size, spare_rows, vocab)
    if not sum(content.count for content in contents):
        raise ValueError(
            f"--{flag}: there is no record in {wording.first_of(files, 1)}; make "
            "them again with create_pretraining_data.py from more text"
        )
    return Source(
        files=tuple(files),
        counts=tuple(content.count for content in contents),
        sentence_task=first.sentence_task,
        has_masks=has_masks,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
    )


def _agreed(contents, flag):
    """{name: (value, first file that says it)} of what all files must share."""
    known: dict[str, Any] = {}
    for name in (
        "max_seq_length",
        "max_predictions_per_seq",
        "masking",
        "sentence_task",
        "do_lower_case",
        "vocab_size",
        "vocab_digest",
    ):
        for content in contents:
            if (value := getattr(content, name)) is None:
                continue
            first, file = known.setdefault(name, (value, content.file))
            if value != first:
                raise ValueError(
                    f"--{flag}: the records of {file} have {name}={first}, those of "
                    f"{content.file} {name}={value}; give only files that were made "
                    "with the same settings"
                )
    return known


def _check_flags(known, wanted):
    """Refuses records that were made with other values of flags.

    Args:
        known: as `_agreed` returns it.
        wanted: {flag: value, or None for any}.
    """
    for name, given in wanted.items():
        value, file = known.get(name, (given, None))
        if given is not None and value != given:
            raise ValueError(
                f"--{name}={given}, but the records of {file} have {name}={value}; "
                f"give --{name}={value}, or make the records again"
            )


def _check_vocabulary(contents, known, vocab_size, spare_rows, vocab):
    """Refuses records whose ids mean other tokens than those of the run."""
    if "vocab_size" in known:
        entries, file = known["vocab_size"]
        if not 0 <= vocab_size - entries <= spare_rows:
            raise ValueError(
                f"the records of {file} were made with a vocabulary of {entries} "
                f"entries, but --bert_config_file says vocab_size={vocab_size}; give "
                "the config that belongs to the vocabulary, or make the records again"
            )
        digest, _ = known["vocab_digest"]
        if (
            vocab is not None
            and (found := record_metadata.vocab_digest(vocab)) != digest
        ):
            raise ValueError(
                f"the records of {file} were made with another vocabulary (digest "
                f"{digest}, {entries} entries) than --vocab_file (digest {found}, "
                f"{len(vocab)} entries); give the one they were made with, or make the "
                "records again"
            )
    for content in contents:
        largest = content.largest_id
        if largest is not None and largest >= vocab_size:
            raise ValueError(
                f"the records of {content.file} hold the token id {largest}, but "
                f"--bert_config_file says vocab_size={vocab_size}; give the config "
                "that belongs to the vocabulary they were made with"
            )


def training_batches(
    source: Source,
    *,
    batch_size: int,
    seed: int,
    start_step: int,
    num_steps: int,
    mask: Mask | None = None,
) -> tf.data.Dataset:
    """The batches of a run, from a step on.

    The order is that of `shuffling.windows`. Epochs follow each other without a
    seam: a batch may hold the end of one and the start of the next.

    Args:
        source: where the records are.
        batch_size: B; every batch is full.
        seed: not negative; equal seeds give equal batches.
        start_step: the first batch; 0 for a new run.
        num_steps: the batch after the last; as counted from 0, not from start_step.
        mask: needed for records that are not masked: a function of input_ids int32
            [B, S], their lengths int32 [B] and an rng, returning input_ids and the
            masked_lm features. Each batch has an rng of its own, by seed and step.

    Returns:
        tf.data.Dataset of num_steps - start_step dicts: input_ids, input_mask,
        segment_ids int32 [B, S]; masked_lm_positions, masked_lm_ids int32 [B, P],
        masked_lm_weights float32 [B, P]; next_sentence_labels int32 [B].

    Raises:
        ValueError: the records are not masked, and there is no `mask`.
    """
    read = shuffling.records_of(source.files)
    records = _in_order(read, source, batch_size, seed, start_step)
    records = records.take(max(num_steps - start_step, 0))
    return _batches(source, records, seed, start_step, mask)


def batch_names(source: Source, *, batch_size: int, seed: int, step: int) -> list[str]:
    """Where the records of one training batch stand; no file is opened for it.

    Args:
        source: where the records are.
        batch_size: B, as for `training_batches`.
        seed: as for `training_batches`.
        step: which batch, counted from 0 as its start_step is.

    Returns:
        B texts such as "records/part-3:17", file and number of the record in it, from
        0, in the order of the batch.
    """
    read = shuffling.numbers_of(source.counts)
    (batch,) = _in_order(read, source, batch_size, seed, step).take(1)
    begins = ragged.splits(source.counts)
    files = np.searchsorted(begins, batch, side="right") - 1
    numbers = batch.numpy() - begins[files]
    return [
        f"{source.files[file]}:{number}"
        for file, number in zip(files, numbers, strict=True)
    ]


def _in_order(read, source, batch_size, seed, start_step):
    """Batches for ever, from a step on, of what `read` gives of each record."""
    start = start_step * batch_size
    windows = shuffling.windows(read, source.counts, seed, start)
    return windows.rebatch(batch_size, drop_remainder=True)


def evaluation_batches(
    source: Source,
    *,
    batch_size: int,
    num_batches: int,
    seed: int = 0,
    mask: Mask | None = None,
) -> tf.data.Dataset:
    """Records in the order of the files, again from the start where they end.

    Args:
        source: where the records are.
        batch_size: B; every batch is full, as in the original.
        num_batches: how many.
        seed: of masks, where the records have none.
        mask: as in `training_batches`.

    Returns:
        As `training_batches`.

    Raises:
        ValueError: the records are not masked, and there is no `mask`.
    """
    records = tf.data.TFRecordDataset(source.files).repeat()
    records = records.batch(batch_size, drop_remainder=True).take(num_batches)
    return _batches(source, records, seed, 0, mask)


def explain(error: Exception, source: Source) -> str | None:
    """One line on which file made reading fail, for TensorFlow's errors do not say.

    Reads the files again, one after another, up to the one that is to blame.

    Args:
        error: what iterating over batches raised.
        source: where they came from.

    Returns:
        None where the error is none of reading, or all files can be read after all.
    """
    if isinstance(error, tf.errors.NotFoundError):
        gone = [file for file in source.files if not tf.io.gfile.exists(file)]
        return f"{gone[0]}: is not there any more; {_AGAIN}" if gone else None
    if not record_files.is_of_a_record(error, _spec(source)):
        return None  # of the network, say
    for file in source.files:
        damage = record_files.find_damage(file, _parser(source))
        if damage:
            return f"{damage}; {_AGAIN}"
    return None


def _spec(source):
    predictions = source.max_predictions_per_seq if source.has_masks else 0
    return record_files.spec(source.max_seq_length, predictions)


def _parser(source):
    """A function string [N] -> dict of features."""
    spec = _spec(source)

    def parse(records):
        return {
            name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
            for name, value in tf.io.parse_example(records, spec).items()
        }

    return parse


def _batches(source, records, seed, start_step, mask):
    """Parses batches of records, and masks them where they are not."""
    if not source.has_masks and mask is None:
        raise ValueError(
            f"the records of {wording.first_of(source.files, 1)} hold unmasked text, "
            "which is masked while training; give the --vocab_file they were made with"
        )
    dataset = records.map(_parser(source), num_parallel_calls=1)
    if not source.has_masks:
        dataset = dataset.enumerate(start_step).map(
            lambda step, batch: _mask(source, mask, seed, step, batch),
            num_parallel_calls=1,
        )
    options = tf.data.Options()
    # Each worker reads everything and keeps its part of every batch, so that the
    # batches do not depend on the number of workers.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    return dataset.prefetch(2).with_options(options)


def _mask(source, mask, seed, step, batch):
    """A batch of unmasked text with its input_ids masked and the masked_lm features."""
    names = (features.INPUT_IDS, *record_files.PREDICTIONS)

    def masked(step, input_ids, lengths):
        rng = np.random.default_rng([seed, int(step)])
        found = mask(input_ids, lengths, rng)
        return [found[name] for name in names]

    input_ids = batch[features.INPUT_IDS]
    lengths = tf.reduce_sum(batch[features.INPUT_MASK], axis=1)
    dtypes = [tf.int32, tf.int32, tf.int32, tf.float32]
    values = tf.numpy_function(masked, [step, input_ids, lengths], dtypes)
    predictions = [len(input_ids), source.max_predictions_per_seq]
    shapes = [input_ids.shape, predictions, predictions, predictions]
    return batch | {
        name: tf.ensure_shape(value, shape)
        for name, value, shape in zip(names, values, shapes, strict=True)
    }
