"""One file of pretraining records: what it holds, how many, and how it is parsed.

A file of create_pretraining_data.py says it in the metadata beside it. Others, such as
those of the original, are looked into.
"""

import dataclasses
import re
import struct

import tensorflow as tf
from google.protobuf import message as protobuf

from contract import errors, features
from data_pipeline.pretraining import metadata

_SEQUENCES = features.ENCODER_INPUTS
_INTEGER_PREDICTIONS = (features.MASKED_LM_POSITIONS, features.MASKED_LM_IDS)
PREDICTIONS = (*_INTEGER_PREDICTIONS, features.MASKED_LM_WEIGHTS)
# Records that are looked into where no metadata says what all of them hold.
_PROBED_RECORDS = 100
# The framing of a TFRecord: uint64 length and its checksum; data; their checksum.
_LENGTH = struct.Struct("<Q")
_FRAME_BYTES = 8 + 4 + 4
_BLOCK_BYTES = 1 << 22
# Records that `find_damage` parses at a time.
_SCANNED_RECORDS = 1024
# How TensorFlow begins on a record that is no tf.train.Example; its bytes follow.
_NO_EXAMPLE = "Could not parse example input"
# What TensorFlow writes before and after the message of a kernel.
_WRAPPING = re.compile(r"\{\{.*?\}\}|\[Op:.*", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contents:
    """What one file holds, in the words of record_metadata; None is unknown."""

    file: str
    count: int  # of records
    max_seq_length: int
    max_predictions_per_seq: int
    masking: str | None = None
    sentence_task: str = "next"  # of the original, whose records have no metadata
    do_lower_case: bool | None = None
    vocab_size: int | None = None
    vocab_digest: str | None = None
    largest_id: int | None = None  # of the first records
    num_predictions: int = 0  # these three are 0 where they are unknown
    num_words: int = 0
    num_text_bytes: int = 0


def describe(file: str) -> Contents:
    """Reads the metadata of a file, or else counts and probes its records.

    Raises:
        ValueError: it is unreadable, truncated, changed, or holds no such records.
    """
    try:
        size = tf.io.gfile.stat(file).length
        if known := metadata.read(file):
            return _from_metadata(file, size, known)
        return _from_records(file, size)
    except tf.errors.OpError as error:
        raise errors.InputError(f"{file}: cannot be read ({_reason(error)})") from error


def _reason(error):
    return " ".join(_WRAPPING.sub("", error.message).split())


def _from_metadata(file, size, known):
    if size != known.num_bytes:
        raise errors.InputError(
            f"{file}: has {size} bytes, but {file}{metadata.SUFFIX} says "
            f"{known.num_bytes}; it is truncated or was changed: copy both files "
            "again, or make them again with create_pretraining_data.py"
        )
    names = (*metadata.SHARED, *metadata.TEXT_COUNTS)
    found = {name: getattr(known, name) for name in names}
    return Contents(file=file, count=known.num_instances, **found)


def _from_records(file, size):
    if not size:
        raise errors.InputError(
            f"{file}: is empty, there is no record in it; leave it out, or make it "
            "again with create_pretraining_data.py"
        )
    records = tf.data.TFRecordDataset(file)
    try:
        next(iter(records), None)
    except tf.errors.DataLossError as error:
        raise errors.InputError(
            f"{file}: is no TFRecord file, or its first record is damaged; give "
            "uncompressed files of create_pretraining_data.py, or copy it again"
        ) from error
    count = count_records(file, size)
    probed = [
        _measure(record.numpy(), f"{file}: record {number}")
        for number, record in enumerate(records.take(_PROBED_RECORDS))
    ]
    lengths, predictions, largest = zip(*probed, strict=True)
    for name, values in (
        (features.INPUT_IDS, lengths),
        (features.MASKED_LM_POSITIONS, predictions),
    ):
        for number, value in enumerate(values):
            if value != values[0]:
                raise errors.InputError(
                    f"{file}: {name} has {values[0]} values in record 0, but {value} "
                    f"in record {number}; make the file again with one setting"
                )
    return Contents(
        file=file,
        count=count,
        max_seq_length=lengths[0],
        max_predictions_per_seq=predictions[0],
        masking=None if predictions[0] else metadata.UNMASKED,
        largest_id=max(largest),
    )


def _measure(serialized, where):
    """Checks one record; returns its numbers of tokens and predictions, and top id."""
    try:
        found = tf.train.Example.FromString(serialized).features.feature
    except protobuf.DecodeError as error:
        raise errors.InputError(
            f"{where} is no tf.train.Example; give files of create_pretraining_data.py"
        ) from error
    tokens = len(found[features.INPUT_IDS].int64_list.value)
    is_masked = any(name in found for name in PREDICTIONS)
    predictions = len(found[features.MASKED_LM_POSITIONS].int64_list.value)
    wanted = [(name, "int64", tokens) for name in _SEQUENCES]
    wanted.append((features.NEXT_SENTENCE_LABELS, "int64", 1))
    if is_masked:
        wanted += [(name, "int64", predictions) for name in _INTEGER_PREDICTIONS]
        wanted.append((features.MASKED_LM_WEIGHTS, "float", predictions))
    for name, kind, length in wanted:
        values = getattr(found[name], f"{kind}_list").value
        if not values:
            raise errors.InputError(
                f"{where} has no {name} of kind {kind}, so it is no pretraining "
                "record; give files of create_pretraining_data.py"
            )
        if len(values) != length:
            raise errors.InputError(
                f"{where} has {len(values)} values of {name} where there should be "
                f"{length}; make the file again with create_pretraining_data.py"
            )
    return tokens, predictions, max(found[features.INPUT_IDS].int64_list.value)


def count_records(file: str, size: int) -> int:
    """Counts records by their lengths; ValueError where the file ends within one."""
    count = position = begin = 0
    block = b""
    with tf.io.gfile.GFile(file, "rb") as source:
        while position < size:
            if position + _LENGTH.size > begin + len(block):
                source.seek(position)
                block, begin = source.read(_BLOCK_BYTES), position
            following = size + 1
            if position + _LENGTH.size <= begin + len(block):
                (length,) = _LENGTH.unpack_from(block, position - begin)
                following = position + length + _FRAME_BYTES
            if following > size:
                raise errors.InputError(
                    f"{file}: record {count}, which begins at byte {position}, goes "
                    f"beyond the end of the file at byte {size}; it is truncated or "
                    "damaged: copy it again, or make it again with "
                    "create_pretraining_data.py"
                )
            position = following
            count += 1
    return count


def spec(max_seq_length, max_predictions_per_seq):
    """What tf.io.parse_example needs; unmasked text has 0 predictions, and no masks."""
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    found = {features.NEXT_SENTENCE_LABELS: tf.io.FixedLenFeature([], tf.int64)}
    found |= dict.fromkeys(_SEQUENCES, sequence)
    if max_predictions_per_seq:
        lengths = [max_predictions_per_seq]
        integers = tf.io.FixedLenFeature(lengths, tf.int64)
        weights = tf.io.FixedLenFeature(lengths, tf.float32)
        found |= dict.fromkeys(_INTEGER_PREDICTIONS, integers)
        found[features.MASKED_LM_WEIGHTS] = weights
    return found


def is_of_a_record(error, names):
    """Whether reading or parsing (features of these names) may have raised an error.

    A UnicodeDecodeError, too: Python decodes messages, which quote damaged records.
    """
    if isinstance(error, tf.errors.InvalidArgumentError):
        said = [f"{word}: {name}" for word in ("Key", "Feature") for name in names]
        return any(text in error.message for text in (_NO_EXAMPLE, *said))
    return isinstance(error, tf.errors.DataLossError | UnicodeDecodeError)


def find_damage(file, parse):
    """Parses a whole file, string [N] at a time; says where it is damaged, or None."""
    # No parallel calls: the first error is then that of the first bad record.
    parsed = tf.data.TFRecordDataset(file).batch(_SCANNED_RECORDS).map(parse)
    number = 0
    try:
        for _ in parsed:
            number += _SCANNED_RECORDS
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        reason = "one is no tf.train.Example"
        if isinstance(error, tf.errors.OpError) and _NO_EXAMPLE not in error.message:
            reason = _reason(error)
        last = number + _SCANNED_RECORDS - 1
        return f"{file}: damaged between records {number} and {last} ({reason})"
    return None
