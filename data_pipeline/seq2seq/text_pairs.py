"""Sources and targets of tables, row by row: TSV, CSV and JSONL files of any size."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from contract import wording
from data_pipeline.files import table_columns, text_rows

# What columns are called, and what they are in a header where no flag says otherwise.
SOURCE, TARGET = "source", "target"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Where sources and targets stand in a file.

    A column is a header's name (JSONL: a key) or a number counted from 0, also as a
    digit string; negative numbers count from the end. Columns that are not given are
    those called "source" and "target" or, where there is no such name, the first two.

    Where `has_header` is None, line 1 is a header if a column is asked for by name, or
    if one of its cells is "source", in upper or lower case.
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
    """The rows of a file, which are read while they are asked for, and once.

    Attributes:
        path: the file.
        columns: which were chosen, for people: "columns 'source' and 'target'".
        has_targets: whether rows have targets; all do, or none does.
        rows: yields every Pair. Raises ValueError, naming file and line, where a row
            lacks a text, or one is empty or no text.
    """

    path: str
    columns: str
    has_targets: bool
    rows: Iterator[Pair]


def open_rows(path: str, layout: Layout, *, targets_required: bool) -> PairRows:
    """Opens a file: local or remote, plain or gzip, as text_rows.file_rows reads it.

    Without `targets_required`, rows may do without a column of targets, and what is in
    it is left out where the first row has none.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is unreadable or empty, or lacks a column; source and
            target are the same one.
    """
    path = str(path)
    rows = text_rows.file_rows(path, layout.file_format)
    line, first = next(rows, (0, None))
    if first is None:
        raise ValueError(f"{path}: the file is empty; give it one pair of texts a row")
    keyed = isinstance(first, dict)
    has_header = not keyed and _is_header(path, layout, first)
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
        raise ValueError(f"{path}: no rows but the header; give it one for each pair")
    if targets_required and TARGET not in keys:
        raise ValueError(
            f"{path}:{line}: {len(first)} column; source and target need one each: put "
            "a tab between them (TSV), or say with --file_format how they are parted"
        )
    if keys[SOURCE] == keys.get(TARGET):
        raise ValueError(
            f"{path}: source and target are both column {columns[SOURCE]!r}; give two "
            "with --source_column and --target_column"
        )
    if not targets_required and not table_columns.cell(first, keys.get(TARGET)):
        keys.pop(TARGET, None)
    chosen = " and ".join(repr(columns[role]) for role in keys)
    return PairRows(
        path,
        f"{'columns' if len(keys) > 1 else 'column'} {chosen}",
        TARGET in keys,
        _pairs(path, itertools.chain([(line, first)], rows), keys),
    )


def _asked(layout: Layout, *, keyed: bool) -> dict[str, table_columns.Key | None]:
    return {
        role: table_columns.asked(getattr(layout, role), keyed=keyed)
        for role in (SOURCE, TARGET)
    }


def _is_header(path: str, layout: Layout, first: Any) -> bool:
    asked = _asked(layout, keyed=False).values()
    by_name = [column for column in asked if isinstance(column, str)]
    if layout.has_header is False and by_name:
        raise ValueError(
            f"{path}: column {by_name[0]!r} is a name, but --has_header=false says "
            "that there are none; give columns by number, from 0"
        )
    if layout.has_header is not None:
        return layout.has_header
    return bool(by_name) or SOURCE in map(str.lower, first)


def _columns(
    layout: Layout, names: list[str], count: int, *, keyed: bool
) -> dict[str, table_columns.Key]:
    """The columns as asked for, or else the usual ones; of `count` in the first row."""
    spelled = {name.lower(): name for name in reversed(names)}
    has_names = SOURCE in spelled or TARGET in spelled
    found: dict[str, table_columns.Key] = {}
    for place, (role, asked) in enumerate(_asked(layout, keyed=keyed).items()):
        if asked is not None:
            found[role] = asked
        elif role in spelled:
            found[role] = spelled[role]
        elif not has_names and place < count:
            found[role] = names[place] if names else place
        elif role == SOURCE:
            found[role] = role  # which is not there, and will be said so
    return found


def _is_there(column, names, first, *, needed):
    """Whether to look for a column; one that is needed is missed where it is not."""
    if needed:
        return True
    if isinstance(column, int):
        return table_columns.cell(first, column) is not None
    return column in names


def _pairs(
    path: str,
    rows: text_rows.NumberedRows,
    keys: dict[str, table_columns.Key],
) -> Iterator[Pair]:
    for line, row in rows:
        texts = {
            role: _text(f"{path}:{line}", row, role, key) for role, key in keys.items()
        }
        yield Pair(line, texts[SOURCE], texts.get(TARGET))


def _text(place: str, row: Any, role: str, key: table_columns.Key) -> str:
    text = table_columns.cell(row, key)
    if text is None:
        raise ValueError(f"{place}: {table_columns.lack(row, role, key)}")
    if not isinstance(text, str):
        raise ValueError(
            f"{place}: the {role} is {wording.listing([repr(text)])}, no string; "
            "quote it"
        )
    if not text.strip():
        raise ValueError(f"{place}: the {role} is empty; fill it, or remove the row")
    return text_rows.encodable(text, place)
