"""Metadata of a file of pretraining records: its settings, counts, and how to parse it.

create_pretraining_data.py writes them as JSON beside the file. Files without, such as
those of the original, are probed.
"""

import dataclasses
import hashlib
import json
import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf import message as protobuf

from contract import atomic_files, errors, features, json_files
from data_pipeline.pretraining import masking

SUFFIX = ".metadata.json"
UNMASKED = "none"  # as masking: to be masked while training
# Objectives that records are made for. Records made with left_to_right can also be
# masked while training.
MASKED_LM, LEFT_TO_RIGHT = "masked_lm", "left_to_right"
BLANK_LINE, FILE = "blank_line", "file"  # what ends a document
_PROPORTIONS = masking.PROPORTIONS  # of files that lack them
# What all files of a run must share.
SHARED = (
    "max_seq_length",
    "max_predictions_per_seq",
    "masking",
    "sentence_task",
    "do_lower_case",
    "vocab_size",
    "vocab_digest",
)
# How much text records of left_to_right hold.
TEXT_COUNTS = ("num_predictions", "num_words", "num_text_bytes")
NO_COUNTS = dict.fromkeys(("num_instances", "num_bytes", *TEXT_COUNTS), 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """How the records of one file were made, in the words of the script's flags."""

    max_seq_length: int  # tokens of input_ids, input_mask and segment_ids
    max_predictions_per_seq: int  # length of the masked_lm features; 0 if UNMASKED
    masking: str  # a kind of masking.Rule, or UNMASKED
    masked_lm_prob: float
    sentence_task: str  # next, order or none: what next_sentence_labels mean
    do_lower_case: bool
    vocab_size: int
    vocab_digest: str
    dupe_factor: int
    short_seq_prob: float
    random_seed: int
    num_instances: int = 0  # records in this file
    num_bytes: int = 0  # of this file
    objective: str = MASKED_LM
    document_end: str = BLANK_LINE
    # Of left_to_right: tokens that are predicted, and the text that they are.
    num_predictions: int = 0
    num_words: int = 0  # as white space separates them
    num_text_bytes: int = 0  # in UTF-8
    mask_proportions: tuple[float, float, float] = _PROPORTIONS  # as in masking.Rule
    segmented_words: bool = False  # whether spaces separate the words that are masked

    def __post_init__(self) -> None:
        # JSON has lists, which are neither equal to a tuple nor have a hash.
        object.__setattr__(self, "mask_proportions", tuple(self.mask_proportions))


def vocab_digest(vocab: Sequence[str]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of Tokenizer.definition."""
    text = "".join(f"{token}\n" for token in vocab)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def write(records_file: str, metadata: Metadata) -> None:
    """Writes `<records_file>.metadata.json`, whole under its name or absent."""
    text = json.dumps(dataclasses.asdict(metadata), indent=2) + "\n"
    # Two commands that make the same records may be here at once.
    atomic_files.write_bytes(f"{records_file}{SUFFIX}", text.encode(), shared=True)


def read(records_file: str) -> Metadata | None:
    """The metadata beside a file of records, or None; ValueError if damaged."""
    path = f"{records_file}{SUFFIX}"
    if not tf.io.gfile.exists(path):
        return None
    try:
        with tf.io.gfile.GFile(path) as file:
            return Metadata(**json_files.parse(file.read()))
    except (ValueError, TypeError) as error:
        raise errors.InputError(
            f"{path}: cannot be read ({error}); make the records again, or delete it"
        ) from error


_SEQUENCES = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)
_INTEGER_PREDICTIONS = (features.MASKED_LM_POSITIONS, features.MASKED_LM_IDS)
PREDICTIONS = (*_INTEGER_PREDICTIONS, features.MASKED_LM_WEIGHTS)
# Records that are looked into where no metadata describes all of them.
PROBED_RECORDS = 100
# Of these files so many records stay together, about 400 KB; others are as shuffled.
BLOCK_RECORDS = 256
# The framing of a TFRecord: uint64 length and its checksum; data; their checksum.
_LENGTH = struct.Struct("<Q")
_FRAME_BYTES = 8 + 4 + 4
_CHUNK_BYTES = 1 << 22
AGAIN = "copy the file again, or make it again"
# What TensorFlow writes before and after the message of a kernel.
_WRAPPING = re.compile(r"\{\{.*?\}\}|\[Op:.*", re.DOTALL)


class Layout(NamedTuple):
    """The fields that records of other programs lack, or have as another kind."""

    has_labels: bool = True  # next_sentence_labels
    weights: str = "float"  # the kind of masked_lm_weights, or int64

    def __str__(self) -> str:
        labels = "" if self.has_labels else "no "
        weights = ", integer weights" if self.weights == "int64" else ""
        return f"{labels}next_sentence_labels{weights}"


ORIGINAL = Layout()


@dataclasses.dataclass(frozen=True)
class Contents:
    """The content of one file."""

    file: str
    count: int  # of records
    known: dict[str, Any]  # by the names of Metadata
    # Bytes where blocks of records begin, and where the last one ends.
    splits: tuple[int, ...]
    layout: Layout = ORIGINAL
    is_probed: bool = False  # for want of metadata


def describe(file: str) -> Contents:
    """Reads the metadata of a file, or else counts and probes its records."""
    try:
        size = tf.io.gfile.stat(file).length
        if not (recorded := read(file)):
            return _from_records(file, size)
        if size == recorded.num_bytes:
            return Contents(file, recorded.num_instances, vars(recorded), (0, size))
    except tf.errors.OpError as error:
        reason = reason_of(error.message)
        raise errors.InputError(f"{file}: cannot be read ({reason})") from error
    raise errors.InputError(
        f"{file}: has {size} bytes, not {recorded.num_bytes} as in {file}{SUFFIX}; "
        "copy both files again, or make them again"
    )


def reason_of(message: str) -> str:
    """The message of a kernel, on one line."""
    return " ".join(_WRAPPING.sub("", message).split())


def _from_records(file, size):
    if not size:
        raise errors.InputError(f"{file}: is empty; leave it out, or make it again")
    records = tf.data.TFRecordDataset(file)
    try:
        next(iter(records), None)
    except tf.errors.DataLossError as error:
        raise errors.InputError(
            f"{file}: is no TFRecord file, or its first record is damaged; give "
            f"uncompressed files of create_pretraining_data.py, or {AGAIN}"
        ) from error
    count, splits = count_records(file, size)
    probed = [
        _measure(record.numpy(), f"{file}: record {number}")
        for number, record in enumerate(records.take(PROBED_RECORDS))
    ]
    for number, each in enumerate(probed):
        for name, first, value in zip(_MEASURED, probed[0], each, strict=True):
            if value != first:
                raise errors.InputError(
                    f"{file}: {name}: {first} in record 0, but {value} in record "
                    f"{number}; make the file again with one setting"
                )
    length, predictions, layout = probed[0]
    known = {
        "max_seq_length": length,
        "max_predictions_per_seq": predictions,
        # The original's records have labels, and no metadata.
        "sentence_task": "next" if layout.has_labels else "none",
    }
    if not predictions:
        known["masking"] = UNMASKED
    return Contents(file, count, known, splits, layout, is_probed=True)


_MEASURED = "values of input_ids", "values of masked_lm_positions", "features"


def _measure(serialized, where):
    """Checks one record; returns its numbers of tokens and predictions, and Layout."""
    try:
        held = tf.train.Example.FromString(serialized).features.feature
    except protobuf.DecodeError as error:
        raise errors.InputError(
            f"{where} is no tf.train.Example; give files of create_pretraining_data.py"
        ) from error
    is_masked = any(name in held for name in PREDICTIONS)
    has_labels = features.NEXT_SENTENCE_LABELS in held
    tokens = len(held[features.INPUT_IDS].int64_list.value)
    predictions = len(held[features.MASKED_LM_POSITIONS].int64_list.value)
    is_integer = held[features.MASKED_LM_WEIGHTS].int64_list.value
    layout = Layout(has_labels, "int64" if is_integer else "float")
    wanted = [(name, "int64", tokens) for name in _SEQUENCES]
    if has_labels:
        wanted.append((features.NEXT_SENTENCE_LABELS, "int64", 1))
    if is_masked:
        wanted += [(name, "int64", predictions) for name in _INTEGER_PREDICTIONS]
        wanted.append((features.MASKED_LM_WEIGHTS, layout.weights, predictions))
    for name, kind, length in wanted:
        values = getattr(held[name], f"{kind}_list").value
        if not values:
            raise errors.InputError(
                f"{where} has no {name} of kind {kind}; give pretraining records"
            )
        if len(values) != length:
            raise errors.InputError(
                f"{where} has {len(values)} values of {name}, not {length}; {AGAIN}"
            )
    return tokens, predictions, layout


def count_records(file: str, size: int) -> tuple[int, tuple[int, ...]]:
    """Counts records by their lengths; refuses a file that ends within one.

    Returns:
        The count, and the `splits` of Contents, of BLOCK_RECORDS each.
    """
    count = position = begin = 0
    block, splits = b"", []
    with tf.io.gfile.GFile(file, "rb") as source:
        while position < size:
            if count % BLOCK_RECORDS == 0:
                splits.append(position)
            if position + _LENGTH.size > begin + len(block):
                source.seek(position)
                block, begin = source.read(_CHUNK_BYTES), position
            following = size + 1
            if position + _LENGTH.size <= begin + len(block):
                (length,) = _LENGTH.unpack_from(block, position - begin)
                following = position + length + _FRAME_BYTES
            if following > size:
                raise errors.InputError(
                    f"{file}: record {count}, which begins at byte {position}, goes "
                    f"beyond the end of the file at byte {size}; {AGAIN}"
                )
            position = following
            count += 1
    return count, (*splits, size)


def spec(max_seq_length, max_predictions_per_seq, layout=ORIGINAL):
    """Features for tf.io.parse_example; unmasked text has 0 predictions, no masks."""
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    parsed = dict.fromkeys(_SEQUENCES, sequence)
    if layout.has_labels:
        parsed[features.NEXT_SENTENCE_LABELS] = tf.io.FixedLenFeature([], tf.int64)
    if max_predictions_per_seq:
        lengths = [max_predictions_per_seq]
        integers = tf.io.FixedLenFeature(lengths, tf.int64)
        kind = tf.int64 if layout.weights == "int64" else tf.float32
        weights = tf.io.FixedLenFeature(lengths, kind)
        parsed |= dict.fromkeys(_INTEGER_PREDICTIONS, integers)
        parsed[features.MASKED_LM_WEIGHTS] = weights
    return parsed
