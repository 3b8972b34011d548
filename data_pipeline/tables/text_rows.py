"""Opens tables and yields their rows: TSV, CSV, JSONL and TensorFlow Datasets."""

import csv
import gzip
import itertools
import json
import shlex
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from contract import errors, json_files, remote_files

# A row is a list of cells (TSV, CSV) or a dict (JSONL, TensorFlow Datasets).
Row = list[str] | dict[str, Any]
NumberedRows = Iterator[tuple[int, Row]]

_CHUNK_BYTES = 1 << 20
_SEPARATORS = {";": "semicolons", "\t": "tabs"}
_SAMPLE_LINES = 20  # that show what separates cells
_SAMPLE_BYTES = 1 << 12  # that show the encoding
_BYTES_A_ZERO = 5  # a text has fewer zeros; UTF-16 has more, for each ASCII character
_WORKBOOKS = ("xlsx", "xls", "ods")


def tfds_rows(
    path: str, name: str, split: str, data_dir: str | None
) -> tuple[list[str], NumberedRows]:
    """Opens a split of a data set such as "glue/sst2", and prepares it on first use.

    Returns the names of its features, and pairs of (number from 1, example) with labels
    by name, None for -1. Messages call the split `path`.
    """
    # Slow to import, and rarely needed.
    import tensorflow as tf
    import tensorflow_datasets as tfds

    order = tfds.ReadConfig(interleave_cycle_length=1)  # one shard after another
    try:
        data, info = tfds.load(
            name, split=split, data_dir=data_dir, with_info=True, read_config=order
        )
    except (ValueError, OSError, AssertionError, tf.errors.OpError) as error:
        raise errors.InputError(
            f"{path}: TensorFlow Datasets cannot load it ({_one_line(error)}); check "
            f"name, split and data directory {data_dir!r}"
        ) from error
    features = dict(info.features)
    return list(features), (
        (line, {key: _python(value, features[key]) for key, value in example.items()})
        for line, example in enumerate(tfds.as_numpy(data), start=1)
    )


def _python(value: Any, feature: Any) -> Any:
    """The text, label name, number or list that a NumPy value stands for."""
    if isinstance(value, bytes):
        # Text features are UTF-8; other bytes (images) are never used.
        return value.decode("utf-8", errors="replace")
    if getattr(value, "ndim", 0) == 1:
        return [_python(item, getattr(feature, "feature", None)) for item in value]
    if hasattr(feature, "int2str"):
        return feature.int2str(int(value)) if value >= 0 else None
    if getattr(value, "ndim", 0) > 1:
        return None  # an image or the like: no text, label or id
    # By way of text, a float32 3.8 stays 3.8 and does not become 3.799999952316284.
    is_float = getattr(getattr(value, "dtype", None), "kind", "") == "f"
    return float(str(value)) if is_float else getattr(value, "item", lambda: value)()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


class Part(NamedTuple):
    """Whole lines of a file, by places in bytes of its text, unpacked if it is gzip."""

    first_line: int = 0
    start: int = 0
    stop: int = sys.maxsize


WHOLE = Part()


def blocks(path: str, part: Part = WHOLE) -> Iterator[bytes]:
    """Yields the bytes of a file that `tf.io.gfile` opens, plain or gzip, in pieces.

    gzip has no places, so it is unpacked from its beginning.
    """
    left = part.stop - part.start
    try:
        with remote_files.open_file(path) as raw:
            stream = gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw
            if part.start:
                stream.seek(part.start)
            while block := stream.read(min(_CHUNK_BYTES, left)):
                yield block
                left -= len(block)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: no such file; check the path") from error
    except (OSError, EOFError, zlib.error) as error:
        raise errors.InputError(
            f"{path}: cannot be read ({_one_line(error)}); check that it is a "
            "complete, readable file"
        ) from error


def lines(path: str, part: Part = WHOLE) -> Iterator[tuple[int, str]]:
    """Yields number and text of each line; a line ends at LF and nothing else.

    Reads `blocks`, and drops a leading byte-order mark; the first line of the file has
    number 1. What is not UTF-8 raises ValueError.
    """
    number = part.first_line
    begun: list[bytes] = []  # pieces of a line whose end is not read yet
    for block in blocks(path, part):
        if not (number or begun):
            _check_beginning(path, block)
        *whole, last = block.split(b"\n")
        for line in whole:
            number += 1
            yield number, _decode(path, number, b"".join([*begun, line]))
            begun = []
        begun.append(last)
    if last := b"".join(begun):
        yield number + 1, _decode(path, number + 1, last)


def check_beginning(path: str) -> None:
    """Refuses a file that begins as a workbook or as UTF-16 does."""
    for data in blocks(path, Part(stop=_SAMPLE_BYTES)):
        _check_beginning(path, data)


def _check_beginning(path, data):
    remedy, sample = "", data[:_SAMPLE_BYTES]
    if sample.startswith(b"PK\x03\x04"):
        remedy = 'it looks like a workbook (.xlsx): save the table as "CSV UTF-8"'
    elif sample.startswith((b"\xff\xfe", b"\xfe\xff")) or (
        sample.count(0) * _BYTES_A_ZERO > len(sample)
    ):
        remedy = _convert(path, "UTF-16")
    if remedy:
        raise errors.InputError(f"{path}:1: is not UTF-8; {remedy}")


def _decode(path: str, number: int, line: bytes) -> str:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        remedy = "convert the file to UTF-8"
        if sum(byte > 127 for byte in line) * 4 < len(line):  # a few accents or quotes
            remedy = _convert(path, "WINDOWS-1252")
        raise errors.InputError(
            f"{path}:{number}: byte {line[error.start]:#04x}, number {error.start + 1} "
            f"of the line, is not UTF-8; {remedy}"
        ) from None


def _convert(path: str, encoding: str) -> str:
    """The remedy for a file of another encoding."""
    name = shlex.quote(path)
    source = f"gzip -dc {name} | " if path.endswith(".gz") else ""
    name = "" if source else f" {name}"
    return (
        f'it looks like {encoding}: save it as "CSV UTF-8", or convert the file to '
        f"UTF-8 by {source}iconv -f {encoding} -t UTF-8{name} > NEW_FILE"
    )


def _tsv_rows(path: str) -> Iterator[tuple[int, Row | None]]:
    for number, line in lines(path):
        line = line.replace("\r", "")
        yield number, line.split("\t") if line else None


def _csv_rows(path: str) -> Iterator[tuple[int, Row | None]]:
    texts: Iterator[str] = (line + "\n" for _, line in lines(path))
    csv.field_size_limit(2**31 - 1)  # a text may be a whole book
    number = 1
    try:
        sample = list(itertools.islice(texts, _SAMPLE_LINES))
        delimiter = _delimiter(sample)
        if delimiter != ",":
            print(f"{path}: its cells are separated by {_SEPARATORS[delimiter]}")
        texts = itertools.chain(sample, texts)
        reader = csv.reader(texts, delimiter=delimiter, strict=True)
        for row in reader:
            yield number, row or None
            number = reader.line_num + 1
    except csv.Error as error:
        raise errors.InputError(
            f"{path}:{number}: not a row of CSV ({error}); close each quote and double "
            "those inside, or use TSV or JSONL"
        ) from None


def _delimiter(sample: list[str]) -> str:
    """The separator of cells: a comma, or one that spreadsheets write in its place.

    Another one is chosen only where line 1 has no comma between cells, and it cuts all
    rows into as many cells, at least two.
    """
    if not sample or len(next(csv.reader(sample[:1]))) > 1:
        return ","
    for delimiter in _SEPARATORS:
        rows = [row for row in csv.reader(sample, delimiter=delimiter) if row]
        if len(sample) == _SAMPLE_LINES:
            rows = rows[:-1]  # the last may go on
        widths = {len(row) for row in rows}
        if len(rows) > 1 and len(widths) == 1 and min(widths) > 1:
            return delimiter
    return ","


def _jsonl_rows(path: str) -> Iterator[tuple[int, Row | None]]:
    for number, line in lines(path):
        try:
            row = json_files.parse(line) if line.strip() else None
        except json.JSONDecodeError as error:
            row = error.msg
        except ValueError as error:
            raise errors.InputError(f"{path}:{number}: {error}") from None
        if not isinstance(row, dict | None):
            raise errors.InputError(
                f"{path}:{number}: {line:.40} is not a JSON object on one line; write "
                'one per line, such as {"text": "...", "label": "..."}'
            )
        yield number, row


_PARSERS: dict[str, Callable[[str], Iterator[tuple[int, Row | None]]]] = {
    "tsv": _tsv_rows,
    "csv": _csv_rows,
    "jsonl": _jsonl_rows,
}
FORMATS = tuple(_PARSERS)


def is_jsonl(path: str) -> bool:
    """Whether a file has an object on each line, by its name."""
    return path.lower().removesuffix(".gz").endswith((".jsonl", ".json"))


def texts(path: str, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields (text, place) of each line, or of each JSON object by one of its keys."""
    if not is_jsonl(path):
        for number, line in lines(path):
            yield line.rstrip("\r"), f"{path}:{number}"
        return
    for number, row in file_rows(path, "jsonl"):
        assert isinstance(row, dict)
        text = next((row[key] for key in keys if isinstance(row.get(key), str)), None)
        if text is None:
            raise errors.InputError(
                f"{path}:{number}: no text under {' or '.join(map(repr, keys))} in "
                f"{json.dumps(row, ensure_ascii=False):.60}; give the row one"
            )
        yield text, f"{path}:{number}"


def file_rows(path: str, file_format: str) -> NumberedRows:
    """Yields (line that it begins in, row) of each row of a file, as `lines` reads it.

    The format is "tsv", "csv", "jsonl", or "auto" to go by the file's name. A blank
    line between rows raises ValueError.
    """
    if file_format == "auto":
        ending = path.lower().removesuffix(".gz").rpartition(".")[2]
        file_format = {"txt": "tsv", "json": "jsonl"}.get(ending, ending)
    if file_format in _WORKBOOKS:
        raise errors.InputError(
            f'{path}: is a workbook; save its table as "CSV UTF-8" and give that file'
        )
    if file_format not in _PARSERS:
        raise errors.InputError(
            f"{path}: format {file_format!r} is not one of {sorted(_PARSERS)}; rename "
            "the file or pass --file_format"
        )
    blank = None
    for line, row in _PARSERS[file_format](path):
        if row is None:
            blank = blank or line
        elif blank:
            raise errors.InputError(
                f"{path}:{blank}: blank line between rows; remove it"
            )
        else:
            yield line, row
