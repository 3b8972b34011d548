"""Sources and targets of tables, row by row: TSV, CSV and JSONL files of any size."""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from contract import errors, wording
from data_pipeline.tables import table_columns, text_rows

SOURCE, TARGET = "source", "target"  # the roles of columns, in messages and flags
# Usual names of both columns, in upper or lower case; the first entry there counts.
USUAL_PAIRS: tuple[tuple[str, str], ...] = (
    (SOURCE, TARGET),
    ("source_text", "target_text"),
    ("input_text", "target_text"),
    ("src", "tgt"),
    ("src", "trg"),
    ("input", "target"),
    ("input", "output"),
    ("inputs", "targets"),
    ("prompt", "response"),
    ("prompt", "completion"),
    ("instruction", "response"),
    ("instruction", "output"),
    ("question", "answer"),
    ("query", "response"),
    ("text", "summary"),
    ("article", "summary"),
    ("article", "highlights"),
    ("document", "summary"),
    ("dialogue", "summary"),
    ("original", "translation"),
)
_USUAL = dict(zip((SOURCE, TARGET), zip(*USUAL_PAIRS, strict=True), strict=True))
# Names of languages, such as en, pt-BR or zh_CN; and what may be a name of a column.
_LANGUAGE = re.compile(r"[a-z]{2}([-_][A-Za-z]{2,4})?")
_NAME = re.compile(r"[^\W\d][\w-]*( [\w-]+)?")
_COMPARED_ROWS = 100  # which line 1 is compared with


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Where sources and targets stand in a file.

    A column is a header's name (JSONL: a key) or a number counted from 0, also as a
    digit string. Columns that are not given are those with the names of a usual pair
    or, where there is no usual name, the first two.

    Where `has_header` is None, line 1 is a header if a column here is a name, if it has
    usual names, or if it alone has names of languages. Where it alone has one or two
    words in each cell, the reader raises an error.
    """

    file_format: str = "auto"  # "tsv", "csv", "jsonl", or by the file's name
    has_header: bool | None = None  # whether line 1 holds names; not for JSONL
    source: table_columns.Key | None = None
    target: table_columns.Key | None = None


class Pair(NamedTuple):
    """A row: the line it begins in, and its texts; None where there is no target."""

    line: int
    source: str
    target: str | None


@dataclasses.dataclass(frozen=True)
class PairRows:
    """The rows of a file, to be iterated once, which may raise ValueError."""

    path: str
    columns: str  # for people: "columns 'source' and 'target'"
    has_targets: bool  # all rows have them, or none
    rows: Iterator[Pair]


def open_rows(path: str, layout: Layout, *, targets_required: bool) -> PairRows:
    """Opens a file: local or remote, plain or gzip, as text_rows.file_rows reads it.

    Without `targets_required`, all rows may lack a target, or have an empty one. A line
    1 that may be a header or a pair raises ValueError.
    """
    path = str(path)
    rows = text_rows.file_rows(path, layout.file_format)
    line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(
            f"{path}: the file is empty; give it one pair of texts a row"
        )
    keyed = isinstance(first, dict)
    has_header = False
    if isinstance(first, list):
        others = list(itertools.islice(rows, _COMPARED_ROWS))
        rows = itertools.chain(others, rows)
        has_header = _is_header(path, layout, first, [row for _, row in others])
    names = list(first) if keyed or has_header else []
    columns = _columns(layout, names, len(first), keyed=keyed)
    keys = {
        role: table_columns.key(path, role, column, names, keyed=keyed)
        for role, column in columns.items()
        if _is_there(column, names, first, needed=targets_required or role == SOURCE)
    }
    if has_header:
        line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(
            f"{path}: no rows but the header; give it one for each pair"
        )
    if targets_required and TARGET not in keys:
        raise errors.InputError(
            f"{path}: no column among {wording.listing(names)} has a usual name of "
            "targets (target, answer, output, summary, ...); pass --target_column"
            if len(first) > 1
            else f"{path}:{line}: 1 column; source and target need one each: put a tab "
            "between them (TSV), or say with --file_format how they are parted"
        )
    if keys[SOURCE] == keys.get(TARGET):
        raise errors.InputError(
            f"{path}: source and target are both column {columns[SOURCE]!r}; give two "
            "with --source_column and --target_column"
        )
    without_targets = None
    if not targets_required and not table_columns.cell(first, keys.get(TARGET)):
        without_targets = keys.pop(TARGET, None)
    chosen = " and ".join(repr(columns[role]) for role in keys)
    return PairRows(
        path,
        f"{'columns' if len(keys) > 1 else 'column'} {chosen}",
        TARGET in keys,
        _pairs(path, itertools.chain([(line, first)], rows), keys, without_targets),
    )


def _stated_columns(
    layout: Layout, *, keyed: bool
) -> dict[str, table_columns.Key | None]:
    return {
        role: table_columns.parse(getattr(layout, role), keyed=keyed)
        for role in (SOURCE, TARGET)
    }


def _is_header(
    path: str, layout: Layout, first: list[str], others: Sequence[text_rows.Row]
) -> bool:
    places = {SOURCE: 0, TARGET: 1}
    columns = {
        role: places[role] if column is None else column
        for role, column in _stated_columns(layout, keyed=False).items()
    }
    if table_columns.is_header(
        path, first, has_header=layout.has_header, columns=columns, usual=_USUAL
    ):
        return True
    if layout.has_header is not None:
        return False
    if table_columns.usual_names(first, USUAL_PAIRS):
        return True

    def matches(row: text_rows.Row, pattern: re.Pattern[str]) -> bool:
        cells = (table_columns.cell(row, column) for column in columns.values())
        return all(pattern.fullmatch(cell) for cell in cells if cell and cell.strip())

    def is_alone(pattern: re.Pattern[str]) -> bool:
        return matches(first, pattern) and not any(matches(r, pattern) for r in others)

    if others and len(first) > 1 and is_alone(_LANGUAGE):
        return True
    if others and is_alone(_NAME):
        raise errors.InputError(
            f"{path}:1: {wording.listing(first)} may be names of columns or a pair, "
            "for no other row is as short; pass --has_header=true if it is a header, "
            "else --has_header=false"
        )
    return False


def _columns(
    layout: Layout, names: list[str], count: int, *, keyed: bool
) -> dict[str, table_columns.Key]:
    """The columns of the layout, or the usual ones; the first row has `count`."""
    stated = _stated_columns(layout, keyed=keyed)
    chosen = {role: column for role, column in stated.items() if column is not None}
    pair = table_columns.usual_names(names, USUAL_PAIRS)
    if pair and not chosen:
        return dict(zip(stated, pair, strict=True))
    usual = {
        role: first[0]
        for role in stated.keys() - chosen.keys()
        if (first := table_columns.usual_names(names, zip(_USUAL[role])))
    }
    if usual:
        # A source is always needed: a name that is not there is reported as missing.
        return {SOURCE: SOURCE, **usual, **chosen}
    places = names or range(count)
    return {**dict(zip(stated, places, strict=False)), **chosen}


def _is_there(column, names, first, *, needed):
    """Whether to look a column up; a missing required one is an error later."""
    if needed:
        return True
    if isinstance(column, int):
        return table_columns.cell(first, column) is not None
    return column in names


def _pairs(
    path: str,
    rows: text_rows.NumberedRows,
    keys: dict[str, table_columns.Key],
    without_targets: table_columns.Key | None,
) -> Iterator[Pair]:
    """Yields the rows; `without_targets` is a column that was empty in the first."""
    for line, row in rows:
        texts = {
            role: _text(f"{path}:{line}", row, role, key) for role, key in keys.items()
        }
        if table_columns.cell(row, without_targets):
            raise errors.InputError(
                f"{path}:{line}: has a target, and the first row has none; give all "
                "rows one, or none"
            )
        yield Pair(line, texts[SOURCE], texts.get(TARGET))


def _text(place: str, row: Any, role: str, key: table_columns.Key) -> str:
    text = table_columns.cell(row, key)
    if text is None:
        raise errors.InputError(
            f"{place}: {table_columns.missing_cell_message(row, role, key)}"
        )
    if not isinstance(text, str):
        raise errors.InputError(
            f"{place}: the {role} is {wording.listing([repr(text)])}, no string; "
            "quote it"
        )
    if not text.strip():
        raise errors.InputError(
            f"{place}: the {role} is empty; fill it, or remove the row"
        )
    return text
