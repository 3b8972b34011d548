"""Opens tables and yields their rows: TSV, CSV, JSONL, Parquet, TensorFlow Datasets."""

import codecs
import collections
import contextlib
import csv
import dataclasses
import gzip
import itertools
import json
import os
import re
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from contract import errors, json_files, remote_files, wording
from data_pipeline import findings
from data_pipeline.tables import label_studio

# A row is a list of cells (TSV, CSV) or a dict (all others).
Row = list[str] | dict[str, Any]
Key = int | str  # of a cell in a row
NumberedRows = Iterator[tuple[int, Row]]
_Lines = Iterator[tuple[int, str]]

_KINDS = {str: "a string", int: "an integer", bool: "true or false"}
_KINDS |= {list: "a list", dict: "an object"}
_CHUNK_BYTES = 1 << 20
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_SPELLED = {"tab": "\t", "\\t": "\t", "none": ""}  # delimiters and quotes of flags
_SAMPLE_LINES = 20  # that show what separates cells
_SAMPLE_BYTES = 1 << 12  # that show the encoding
_FIRST_BYTES = 1 << 16  # that have a line feed
_BYTES_A_ZERO = 5  # a text has fewer zeros; UTF-16 has more, for each ASCII character
_PARQUET_ROWS = 256  # in memory; a few megabytes of long documents
_WORKBOOKS = ("xlsx", "xls", "ods")
_COMPARED_ROWS = 10_000  # with which lines within a cell are compared
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)?")
_LIKE_ROWS = 4  # lines within a cell that may be rows by their form alone
# A delimiter between neither blanks, digits nor ideographs.
_NO_PROSE = r"[!-/:-\u2e7f]{0}\S|\S{0}[!-/:-\u2e7f]"


def tfds_rows(path: str, name: str, split: str, data_dir: str | None) -> NumberedRows:
    """Opens a split of a data set such as "glue/sst2", and prepares it on first use.

    Returns pairs of (number from 1, example) with labels by name, None for -1. Messages
    call the split `path`.
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
    return (
        (line, {key: _python(example[key], features[key]) for key in features})
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


def is_packed(path: str) -> bool:
    """Whether a file is gzip, by its name."""
    return path.lower().endswith(".gz")


def blocks(path: str, part: Part = WHOLE) -> Iterator[bytes]:
    """Yields the bytes of a file, local or remote, plain or gzip, in pieces."""
    left = part.stop - part.start
    with _opened(path, OSError, EOFError, zlib.error) as raw:
        stream = gzip.GzipFile(fileobj=raw) if is_packed(path) else raw
        if part.start:
            stream.seek(part.start)
        while block := stream.read(min(_CHUNK_BYTES, left)):
            yield block
            left -= len(block)


@contextlib.contextmanager
def _opened(path, *damages):
    """Opens a file; names it in errors, among them the `damages` that reading finds."""
    try:
        with remote_files.open_file(path) as raw:
            yield raw
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: no such file; check the path") from error
    except errors.InputError:
        raise
    except damages as error:
        raise errors.InputError(
            f"{path}: cannot be read ({_one_line(error)}); restore the file"
        ) from error


def _no_utf_8(path: str, source: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Passes pieces on; the first one that is not ASCII must not be UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for block in source:
        try:
            is_ascii = decoder.decode(block).isascii()
        except UnicodeError:
            yield block
            break
        if not is_ascii:
            raise errors.InputError(
                f"{path}: is UTF-8 and not {encoding}; leave --encoding out"
            )
        yield block
    yield from source


def _in_utf_8(path: str, encoding: str) -> Iterator[bytes]:
    """The bytes of a file of another encoding, or of one with the mark of UTF-8."""
    source = blocks(path)
    first = next(source, b"")
    source = itertools.chain([first], source)
    if first.startswith(codecs.BOM_UTF8):
        yield from source
        return
    line = 1
    try:
        for text in codecs.iterdecode(_no_utf_8(path, source, encoding), encoding):
            line += text.count("\n")
            yield text.encode("utf-8", "surrogatepass")
    except UnicodeError as error:
        if isinstance(error, UnicodeDecodeError):
            line += error.object.count(b"\n", 0, error.start)
        raise errors.InputError(
            f"{path}:{line}: is not {encoding} ({error}); correct --encoding"
        ) from None


def lines(
    path: str, part: Part = WHOLE, encoding: str | None = None
) -> Iterator[tuple[int, str]]:
    """Yields number, from 1, and text of each line; only LF ends a line.

    A leading byte-order mark is dropped, and what is not UTF-8 is refused, or what is
    not in the `encoding` of a flag, which is for whole files. So are carriage returns
    without a line feed.
    """
    is_other = codecs.lookup(encoding or "utf-8").name != "utf-8"
    source = _in_utf_8(path, str(encoding)) if is_other else blocks(path, part)
    return split_lines(path, source, part.first_line, encoding)


def read_text(path: str) -> str:
    """The text of a file as it is, but for a byte-order mark; refused as by `lines`."""
    path = str(path)
    data = b"".join(blocks(path))
    for _ in split_lines(path, [data]):
        pass
    return data.removeprefix(codecs.BOM_UTF8).decode()


def split_lines(
    path: str, source: Iterable[bytes], number: int = 0, encoding: str | None = None
) -> Iterator[tuple[int, str]]:
    """As `lines`, of pieces of what messages call `path`, behind line `number`."""
    begun: list[bytes] = []  # pieces of a line whose end is not read yet
    for block in source:
        if not (number or begun):
            _check_beginning(path, block, encoding)
        *whole, last = block.split(b"\n")
        for line in whole:
            number += 1
            yield number, _decode(path, number, b"".join([*begun, line]), encoding)
            begun = []
        begun.append(last)
    if last := b"".join(begun):
        yield number + 1, _decode(path, number + 1, last, encoding)


def check_beginning(path: str) -> None:
    """Refuses a file that begins as a workbook, UTF-16 or one of an old Mac does."""
    for data in blocks(path, Part(stop=_FIRST_BYTES)):
        _check_beginning(path, data)


def _check_beginning(path, data, encoding=None):
    remedy, sample = "", data[:_SAMPLE_BYTES]
    if sample.startswith(b"PK\x03\x04"):
        remedy = 'it looks like a workbook (.xlsx): save the table as "CSV UTF-8"'
    elif sample.startswith((b"\xff\xfe", b"\xfe\xff")) or (
        sample.count(0) * _BYTES_A_ZERO > len(sample)
    ):
        remedy = _convert("UTF-16", encoding)
    if remedy:
        raise errors.InputError(f"{path}:1: is not UTF-8; {remedy}")
    if data.count(b"\r") > 1 and b"\n" not in data:
        raise errors.InputError(
            f"{path}:1: carriage returns alone end its lines, as on old Macs; convert "
            "them to line feeds, by tr '\\r' '\\n'"
        )


def _decode(path: str, number: int, line: bytes, encoding: str | None) -> str:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        remedy = "convert the file to UTF-8"
        remedy += ", or pass --encoding, such as cp1252 or gb18030" * bool(encoding)
        if sum(byte > 127 for byte in line) * 4 < len(line):  # a few accents or quotes
            remedy = _convert("WINDOWS-1252", encoding)
        raise errors.InputError(
            f"{path}:{number}: byte {line[error.start]:#04x}, number {error.start + 1} "
            f"of the line, is not UTF-8; {remedy}"
        ) from None


def _convert(likely: str, encoding: str | None) -> str:
    remedy = f", or pass --encoding={likely.lower()}" if encoding else ""
    return (
        f'it looks like {likely}: save it as "CSV UTF-8", or convert the file to '
        f"UTF-8 by iconv -f {likely} -t UTF-8{remedy}"
    )


def _tsv_rows(numbered: _Lines, form: "Form") -> Iterator[tuple[int, Row | None]]:
    for number, line in numbered:
        line = line.replace("\r", "")
        yield number, line.split(form.delimiter) if line else None


def _csv_rows(
    path: str, numbered: _Lines, form: "Form"
) -> Iterator[tuple[int, Row | None]]:
    delimiter = form.delimiter or ","
    texts = (line + "\n" for _, line in numbered)
    known: dict[int, set[str]] = collections.defaultdict(set)  # cells, by column
    long: list[tuple[int, int, list[str]]] = []  # first and last lines, and rows

    def check(number: int, last: int, row: list[str]) -> None:
        if _has_rows(row, delimiter, known):
            raise errors.InputError(
                f"{path}:{number}: a quote opens a cell that ends in line {last} and "
                "holds what look like rows; remove or double a stray quote, pass "
                "--quote=none, or write such texts to JSONL"
            )

    number = 1
    try:
        reader = csv.reader(
            texts, delimiter=delimiter, strict=True, **_quotes(form.quote)
        )
        for row in reader:
            is_long = len(row) > 1 and reader.line_num > number
            if is_long:
                check(number, reader.line_num, row)
            if is_long and number < _COMPARED_ROWS:
                long.append((number, reader.line_num, row))
            elif number < _COMPARED_ROWS:
                for column, cell in enumerate(row):
                    known[column].add(_kind(cell))
            yield number, row or None
            number = reader.line_num + 1
        for each in long:
            check(*each)
    except csv.Error as error:
        raise errors.InputError(
            f"{path}:{number}: not a row of CSV ({error}); double quotes or see --quote"
        ) from None


def _has_rows(
    row: list[str], delimiter: str, known: Mapping[int, Collection[str]]
) -> bool:
    """Whether most lines of a row are rows, which a stray quote has made one.

    They have as many cells, and in some column one that is `known` of other rows; or
    all lines have as many, and the delimiter stands as it does not stand in prose.
    """
    begun = delimiter.join(row).replace("\r", "").split("\n")
    rows = [cells for line in begun if len(cells := line.split(delimiter)) == len(row)]
    counts = [
        sum(bool(cell) and _kind(cell) in known[column] for cell in cells)
        for column, cells in enumerate(zip(*rows, strict=True))
    ]
    if len(rows) == len(begun) >= _LIKE_ROWS:
        form = re.compile(_NO_PROSE.format(re.escape(delimiter)))
        counts.append(sum(bool(form.search(line)) for line in begun))
    return 2 * max(counts, default=0) > len(begun)


def _kind(cell: str) -> str:
    """What a cell has in common with others: itself, or to be a number."""
    return "0" if _NUMBER.fullmatch(cell) else cell


def _find_delimiter(
    path: str, sample: Sequence[str], quote: str | None, noticed: list[findings.Finding]
) -> str:
    """The delimiter that cuts the first rows into as many cells, at least two.

    It is a comma where none does; of several, those count that no space follows in some
    row, as one follows a comma within a text.
    """
    fitting: dict[str, list[list[str]]] = {}
    for delimiter in _DELIMITERS:
        try:
            reader = csv.reader(sample, delimiter=delimiter, **_quotes(quote))
            rows = [row for row in reader if any(row)]
        except csv.Error:  # a carriage return where this one sees no quote
            continue
        if len(sample) == _SAMPLE_LINES:
            rows = rows[:-1]  # the last may go on
        if len(rows) > 1 and len(rows[0]) > 1 and len({*map(len, rows)}) == 1:
            fitting[delimiter] = rows
    chosen = [
        delimiter
        for delimiter, rows in fitting.items()
        if not all(cell[:1] in ("", " ") for row in rows for cell in row[1:])
    ] or list(fitting or ",")
    if len(chosen) > 1:
        names = " or ".join(_DELIMITERS[delimiter] for delimiter in chosen)
        raise errors.InputError(
            f"{path}: its cells may be separated by {names}; pass --delimiter"
        )
    if chosen != [","] or len(fitting) > 1:
        text = f"its cells are separated by {_DELIMITERS[chosen[0]]}"
        noticed.append(findings.Finding(path, text))
    return chosen[0]


def _jsonl_rows(path: str, numbered: _Lines) -> Iterator[tuple[int, Row | None]]:
    """Rows by line, or by number, from 1, where the file is one array of them."""
    first = list(itertools.islice(numbered, 1))
    numbered = itertools.chain(first, numbered)
    if first and first[0][1].lstrip().startswith("["):
        items = _array(path, "\n".join(line for _, line in numbered))
        numbered = enumerate(map(json.dumps, items), start=1)
    for number, line in numbered:
        try:
            row = json_files.parse(line, json_files.distinct) if line.strip() else None
        except json.JSONDecodeError as error:
            row = error.msg
        except ValueError as error:
            raise errors.InputError(f"{path}:{number}: {error}") from None
        if not isinstance(row, dict | None):
            raise errors.InputError(
                f"{path}:{number}: {line:.40} is not a JSON object on one line; write "
                'one such as {"text": "...", "label": "..."}'
            )
        yield number, row


def _array(path: str, text: str) -> list[Any]:
    try:
        return json_files.parse(text, json_files.distinct)
    except ValueError as error:
        line, problem = getattr(error, "lineno", 1), getattr(error, "msg", error)
        raise errors.InputError(
            f"{path}:{line}: is no JSON array ({problem}); restore it, or write an "
            "object a line"
        ) from None


def _parquet_rows(path: str) -> Iterator[tuple[int, Row]]:
    """Rows by their number, from 1; a part of the file is in memory.

    Equal texts of a part, which the file has once, are in memory once, too.
    """
    errors.check_installed(path, "pyarrow")
    from pyarrow import parquet

    number = 0
    with _opened(path, OSError, ValueError) as file:
        opened = parquet.ParquetFile(file)
        check_distinct(path, opened.schema_arrow.names)
        names = class_names(opened.schema_arrow)
        for part in opened.iter_batches(_PARQUET_ROWS):
            known: dict[str, str] = {}
            for row in part.to_pylist():
                number += 1
                for column, value in row.items():
                    if isinstance(value, str):
                        row[column] = known.setdefault(value, value)
                if names:
                    row |= spelled(f"{path}:{number}", row, names)
                yield number, row


def check_distinct(path: str, columns: Iterable[Any]) -> None:
    """Refuses columns of one name, of which a row by name has one."""
    for name, count in collections.Counter([*columns]).most_common(1):
        if count > 1:
            raise errors.InputError(
                f"{path}: {count} columns are called {name!r}; rename or remove all "
                "but one"
            )


def class_names(schema: Any) -> dict[str, list[str]]:
    """Names by column of classes, or lists of such, in a schema of `datasets`."""
    metadata = getattr(schema, "metadata", None) or {}
    with contextlib.suppress(ValueError, KeyError, AttributeError, TypeError):
        features = json_files.parse(metadata[b"huggingface"])["info"]["features"]
        each = {c: f[0] if isinstance(f, list) else f for c, f in features.items()}
        each = {c: kind.get("feature", kind) for c, kind in each.items()}
        is_class = {c: kind.get("_type") == "ClassLabel" for c, kind in each.items()}
        return {c: kind["names"] for c, kind in each.items() if is_class[c]}
    return {}


def spelled(
    place: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """The cells of a row whose columns have `names`, by these; None for -1."""

    def spell(value, of_column):
        if isinstance(value, list):
            return [spell(item, of_column) for item in value]
        if not isinstance(value, int):
            return value
        if value >= len(of_column):
            raise errors.InputError(
                f"{place}: class {value}, and the file names {len(of_column)}; correct "
                "either"
            )
        return None if value < 0 else of_column[value]  # -1 stands for none

    return {c: spell(row[c], names[c]) for c in names.keys() & row.keys()}


FORMATS = ("tsv", "csv", "jsonl", "parquet")
# What is done with rows that have another number of cells than the first one.
REFUSED, KEPT, LEFT_OUT = "refused", "kept", "left out"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Form:
    """How a file is cut into rows and cells.

    `delimiter` and `quote` are characters, "tab" or "none". By default TSV has tabs and
    no quotes; CSV has double quotes, and commas or what the first rows show.
    """

    file_format: str = "auto"  # one of FORMATS, or by the file's name
    has_header: bool | None = None  # None where line 1 decides; for TSV and CSV
    delimiter: str | None = None
    quote: str | None = None
    encoding: str | None = None  # of text; None for UTF-8 without a flag of that name

    def __post_init__(self) -> None:
        try:
            "a".encode(self.encoding or "utf-8")
        except (LookupError, ValueError):
            raise errors.InputError(
                f"--encoding={self.encoding!s:.40} is no encoding of text; give one "
                "such as cp1252, gb18030 or utf-16"
            ) from None


AnyForm = TypeVar("AnyForm", bound=Form)


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of a file, which are read once: (line that each begins in, row)."""

    rows: NumberedRows
    # Of the rows that have been read, so complete behind the last one.
    noticed: list[findings.Finding] = dataclasses.field(default_factory=list)
    form: Any = None  # with all that the file decides; None of rows without a file

    def __iter__(self) -> NumberedRows:
        return self.rows


def is_jsonl(path: str) -> bool:
    """Whether a file has an object on each line, by its name."""
    return path.lower().removesuffix(".gz").endswith((".jsonl", ".json"))


def is_table(path: str) -> bool:
    """Whether a file of this name is there, and is a table by its ending.

    Raises:
        InputError: it is one word that ends like a table, and there is no such file.
    """
    if _format_of(path) not in FORMATS:
        return False
    if os.path.isfile(path):
        return True
    if path.split() == [path]:
        raise errors.InputError(
            f"{path}: there is no such file; give the path of one, or a list of texts"
        )
    return False


def _format_of(path: str) -> str:
    """The format of a file by its ending, or an ending of no table."""
    ending = path.lower().removesuffix(".gz").rpartition(".")[2]
    return {"txt": "tsv", "json": "jsonl"}.get(ending, ending)


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
                f"{path}:{number}: no text under {' or '.join(keys)}; give it one"
            )
        yield text, f"{path}:{number}"


def file_rows(
    path: str,
    form: Form | str,
    *,
    skips_empty: bool = False,
    ragged: str = REFUSED,
) -> Rows:
    """Opens a file, once, and returns its rows; the form may be a format.

    `skips_empty` leaves out rows of empty cells alone. Blank lines between rows are
    refused. Rows with another number of cells than the first one are REFUSED, KEPT, or
    LEFT_OUT, and a fault among what is noticed.
    """
    if isinstance(form, str):
        form = Form(file_format=form)
    noticed: list[findings.Finding] = []
    form, parsed = _parsed(path, resolve(path, form), noticed)
    has_cells = form.delimiter is not None
    rows = _checked(path, parsed, noticed, has_cells, skips_empty, ragged)
    return Rows(rows, noticed, form)


def _checked(
    path: str,
    parsed: Iterator[tuple[int, Any]],
    noticed: list[findings.Finding],
    has_cells: bool,
    skips_empty: bool,
    ragged: str,
) -> NumberedRows:
    width, first_line, blank = 0, 0, None
    empty: list[int] = []
    odd: list[tuple[int, int]] = []  # lines of rows of another width, and their cells
    for line, row in parsed:
        if row is None:
            blank = blank or line
            continue
        if has_cells and (len(row) != width or not row[0]):
            if skips_empty and len(row) > 1 and not any(row):
                empty.append(line)
                continue
            if width and len(row) != width and ragged != KEPT:
                odd.append((line, len(row)))
                if ragged == LEFT_OUT:
                    continue
                with contextlib.suppress(errors.InputError):
                    each = ((other, len(row)) for other, row in parsed if row)
                    odd.extend(pair for pair in each if pair[1] != width)
                break
            if not width:
                if line == 1 and re.fullmatch("sep=.?", "".join(row).strip()):
                    raise errors.InputError(
                        f"{path}:1: is Excel's mark of the delimiter; remove the line"
                    )
                width, first_line = len(row), line
        if blank:
            raise errors.InputError(f"{path}:{blank}: is blank; remove the line")
        yield line, row
    if odd:
        (line, cells), *others = odd
        places = wording.first_of([str(line) for line, _ in others], 20)
        text = f"{cells} cells, line {first_line} has {width}"
        text += f" (also lines {places})" if others else ""
        remedy = "quote cells that hold the delimiter (see --delimiter, --quote)"
        noticed.append(findings.fault(f"{path}:{line}", text, remedy))
        if ragged == REFUSED:
            findings.refuse(noticed)
    if empty:
        text = f"left out {wording.count(len(empty), 'row')} without any cell"
        text += f", the first in line {empty[0]}"
        noticed.append(findings.Finding(path, text))


def resolve(path: str, form: AnyForm) -> AnyForm:
    """The form with what the name of the file decides: the format, and its signs."""
    file_format = form.file_format
    if file_format == "auto":
        file_format = _format_of(path)
    if file_format in _WORKBOOKS:
        raise errors.InputError(
            f'{path}: is a workbook; save its table as "CSV UTF-8" and give that file'
        )
    if file_format not in FORMATS:
        raise errors.InputError(
            f"{path}: format {file_format!r} is none of {[*FORMATS]}; see --file_format"
        )
    csv.field_size_limit(2**31 - 1)  # a text may be a whole book
    delimiter = _character(path, file_format, "delimiter", form.delimiter)
    quote = _character(path, file_format, "quote", form.quote)
    if file_format == "tsv":
        delimiter, quote = delimiter or "\t", quote or ""
    elif file_format == "csv":
        quote = '"' if quote is None else quote
    return dataclasses.replace(
        form, file_format=file_format, delimiter=delimiter, quote=quote
    )


def _parsed(
    path: str, form: AnyForm, noticed: list[findings.Finding]
) -> tuple[AnyForm, Iterator[tuple[int, Any]]]:
    """The form, now with the delimiter of a CSV file, and the rows of the file."""
    if form.file_format == "parquet":
        return form, _parquet_rows(path)
    numbered = lines(path, encoding=form.encoding)
    if form.file_format == "jsonl":
        return form, label_studio.rows(path, _jsonl_rows(path, numbered))
    if form.file_format == "csv" and not form.delimiter:
        ahead = list(itertools.islice(numbered, _SAMPLE_LINES))
        numbered = itertools.chain(ahead, numbered)
        sample = [f"{line}\n" for _, line in ahead]
        delimiter = _find_delimiter(path, sample, form.quote, noticed)
        form = dataclasses.replace(form, delimiter=delimiter)
    if form.file_format == "tsv" and not form.quote:
        return form, _tsv_rows(numbered, form)
    return form, _csv_rows(path, numbered, form)


def _quotes(quote: str | None) -> dict[str, Any]:
    """Arguments of csv.reader; 3 is csv.QUOTE_NONE."""
    return {"quotechar": quote} if quote else {"quoting": 3}


def _character(
    path: str, file_format: str, flag: str, spelled: str | None
) -> str | None:
    """The character that a flag spells, "" for no quote, and None without the flag."""
    if spelled is None:
        return None
    character = _SPELLED.get(spelled, spelled)
    is_right = len(character) == 1 and character not in "\r\n"
    is_right = is_right or (flag == "quote" and not character)
    if file_format not in ("tsv", "csv") or not is_right:
        raise errors.InputError(
            f"{path}: --{flag}={spelled} is not one character of CSV, TSV; leave it out"
        )
    return character


def cell(row: Any, key: Key | None) -> Any:
    """The cell of a row, or None."""
    try:
        return None if key is None else row[key]
    except (IndexError, KeyError, TypeError):
        return None


def missing_cell_message(row: Row, role: str, key: Key) -> str:
    """A message on a row without that cell, with the remedy."""
    if isinstance(row, dict):
        return f"no value under {key!r} ({role}); give the row one"
    return f"{len(row)} columns, and the {role} is in column {key}; correct either"


def field(
    row: Any, key: Key, kind: type, place: str, remedy: str, role: str = ""
) -> Any:
    """The value of a row, which has to be of a kind: one of `_KINDS`.

    InputError names the place, and the `role` of a column, or the key of an object.
    """
    value = cell(row, key)
    if isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
        return value
    if value is None and role:
        raise errors.InputError(f"{place}: {missing_cell_message(row, role, key)}")
    problem = f"is {value!r:.40}"
    if value is None:
        there = f" among {wording.listing([*row])}" if isinstance(row, dict) else ""
        problem = f"is missing{there}"
    name = f"the {role}" if role else repr(key)
    raise errors.InputError(
        f"{place}: {name} {problem}, and must be {_KINDS[kind]}; {remedy}"
    )
