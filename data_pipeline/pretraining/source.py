"""Finds and opens pretraining records; checks them against each other and the run."""

import concurrent.futures
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from contract import atomic_files, errors, wording
from data_pipeline.pretraining import files as record_files
from data_pipeline.pretraining import metadata
from data_pipeline.tables import file_patterns

# Files whose metadata are read at the same time; most of it is waiting for a disk.
_READERS = 16


@dataclasses.dataclass(frozen=True)
class RecordSource:
    """Files of records that fit each other and the run."""

    files: tuple[str, ...]
    counts: tuple[int, ...]  # records in each
    sentence_task: str
    has_masks: bool  # if not, a batch is masked when it is read
    max_seq_length: int  # S, in tokens
    max_predictions_per_seq: int  # P, of the records or of the masks to come
    is_masked: bool = True  # whether tokens are hidden at all, not left to right
    # Of all files: what is predicted left to right, and the text that it is; or 0.
    num_predictions: int = 0
    num_words: int = 0
    num_text_bytes: int = 0


def find(spec: str, flag: str = "input_file") -> list[str]:
    """Lists files of records, leaving out metadata and unfinished files."""

    def is_whole(path):
        name = path.rsplit("/", 1)[-1]
        is_metadata = name.endswith(metadata.SUFFIX)
        return not is_metadata and atomic_files.SUFFIX not in name

    wanted = (
        "files of create_pretraining_data.py, separated by commas, or globs such as "
        "records/*.tfrecord"
    )
    return file_patterns.find(spec, flag=flag, wanted=wanted, accepts=is_whole)


def open_records(
    files: Sequence[str],
    *,
    max_seq_length: int | None,
    max_predictions_per_seq: int,
    vocab_size: int,
    spare_rows: int = 0,
    vocab: Sequence[str] | None = None,
    do_lower_case: bool | None = None,
    flag: str = "input_file",
    is_masked: bool = True,
) -> RecordSource:
    """Checks that files of records fit each other, the flags and the network.

    Records without metadata are counted, for which their file is read once. The
    network's table has `vocab_size` rows, at most `spare_rows` more than the
    vocabulary. `vocab` is Tokenizer.definition; where it or `do_lower_case` is None, it
    is not checked, and records of any length will do where `max_seq_length` is. Not
    `is_masked` are records that are read as they are, such as those left to right.

    Raises:
        ValueError: something does not fit; names file, flag and both values.
    """
    with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
        contents = list(pool.map(record_files.describe, files))
    known = _agreed(contents, flag)
    first = contents[0]
    has_masks = first.max_predictions_per_seq > 0
    if has_masks and not is_masked:
        raise errors.InputError(
            "this --objective reads texts as they are, but the records of "
            f"{first.file} are masked; make them with create_pretraining_data.py "
            "--objective=left_to_right, or --masking=none"
        )
    wanted = {"max_seq_length": max_seq_length, "do_lower_case": do_lower_case}
    if has_masks:
        wanted["max_predictions_per_seq"] = max_predictions_per_seq
    _check_flags(known, wanted)
    _check_vocabulary(contents, known, vocab_size, spare_rows, vocab)
    counts = tuple(content.count for content in contents)
    if not sum(counts):
        raise errors.InputError(
            f"--{flag}: there is no record in {wording.first_of(files, 1)}; make "
            "them again with create_pretraining_data.py from more text"
        )
    return RecordSource(
        files=tuple(files),
        counts=counts,
        sentence_task=first.sentence_task,
        has_masks=has_masks,
        max_seq_length=first.max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
        is_masked=is_masked,
        **_text_counts(contents),
    )


def _text_counts(contents):
    """Sums over files; 0 where one of them does not say."""
    found = {}
    for name in metadata.TEXT_COUNTS:
        counts = [getattr(content, name) for content in contents if content.count]
        found[name] = sum(counts) if all(counts) else 0
    return found


def _agreed(contents, flag):
    """{name: (value, first file that says it)} of what all files must share."""
    known: dict[str, Any] = {}
    for name in metadata.SHARED:
        for content in contents:
            if (value := getattr(content, name)) is None:
                continue
            first, file = known.setdefault(name, (value, content.file))
            if value != first:
                raise errors.InputError(
                    f"--{flag}: the records of {file} have {name}={first}, those of "
                    f"{content.file} {name}={value}; give only files that were made "
                    "with the same settings"
                )
    return known


def _check_flags(known, wanted):
    """Refuses records made with other flags than {name: value, or None for any}."""
    for name, given in wanted.items():
        value, file = known.get(name, (given, None))
        if given is not None and value != given:
            raise errors.InputError(
                f"--{name}={given}, but the records of {file} have {name}={value}; "
                f"give --{name}={value}, or make the records again"
            )


def _check_vocabulary(contents, known, vocab_size, spare_rows, vocab):
    """Refuses records whose ids mean other tokens than those of the run."""
    if "vocab_size" in known:
        entries, file = known["vocab_size"]
        if not 0 <= vocab_size - entries <= spare_rows:
            raise errors.InputError(
                f"the records of {file} were made with a vocabulary of {entries} "
                "entries, but the network (--pretrained or --bert_config_file) has "
                f"vocab_size={vocab_size}; give the config that belongs to the "
                "vocabulary, or make the records again"
            )
        digest, _ = known["vocab_digest"]
        found = digest if vocab is None else metadata.vocab_digest(vocab)
        if found != digest:
            raise errors.InputError(
                f"the records of {file} were made with another vocabulary (digest "
                f"{digest}, {entries} entries) than --vocab_file (digest {found}); "
                "give the one they were made with, or make the records again"
            )
    for content in contents:
        largest = content.largest_id
        if largest is not None and largest >= vocab_size:
            raise errors.InputError(
                f"the records of {content.file} hold the token id {largest}, but the "
                "network (--pretrained or --bert_config_file) has "
                f"vocab_size={vocab_size}; give the config "
                "that belongs to the vocabulary they were made with"
            )


def check_sentence_task(sources: Mapping[str, RecordSource]) -> None:
    """Refuses records, by flag, whose next_sentence_labels mean different things."""
    first = next(iter(sources.values()))
    for flag, source in sources.items():
        if source.sentence_task != first.sentence_task:
            raise errors.InputError(
                f"--{flag} has records with sentence_task={source.sentence_task}, "
                f"--input_file with {first.sentence_task}; give records that were made "
                "with the same settings"
            )
