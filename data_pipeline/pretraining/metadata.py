"""What a file of pretraining records holds, in a small JSON file beside it.

So run_pretraining.py can check the flags. Records of the original have no such file,
and are read as they are.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence

import tensorflow as tf

from contract import atomic_files, errors, json_files
from data_pipeline.pretraining import masking

SUFFIX = ".metadata.json"
UNMASKED = "none"  # as masking: to be masked while training
# Objectives that records are made for. One of left to right fits both.
MASKED_LM, LEFT_TO_RIGHT = "masked_lm", "left_to_right"
BLANK_LINE, FILE = "blank_line", "file"  # what ends a document
_PROPORTIONS = masking.PROPORTIONS  # of files that do not say it yet
# What all files of a run must share; None in a Contents of record_files.py: unknown.
SHARED = (
    "max_seq_length",
    "max_predictions_per_seq",
    "masking",
    "sentence_task",
    "do_lower_case",
    "vocab_size",
    "vocab_digest",
)
# How much text records of left to right hold.
TEXT_COUNTS = ("num_predictions", "num_words", "num_text_bytes")


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
    # Of left to right: tokens that are predicted, and the text that they are.
    num_predictions: int = 0
    num_words: int = 0  # as white space separates them
    num_text_bytes: int = 0  # in UTF-8
    mask_proportions: tuple[float, float, float] = _PROPORTIONS  # as in masking.Rule

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
    atomic_files.write_text(f"{records_file}{SUFFIX}", text)


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
            f"{path}: cannot be read ({error}); it is written by "
            "create_pretraining_data.py: make the records again, or delete it to read "
            "the records without a check"
        ) from error
