"""Sources and targets of tables, row by row: TSV, CSV and JSONL files of any size."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from contract import errors, wording
from data_pipeline.tables import other_programs, table_columns, text_rows

SOURCE, TARGET = "source", "target"  # the roles of columns, in messages and flags
_FLAGS = "--source_column and --target_column"
_PAIRS = table_columns.USUAL_WRITTEN
_USUAL = dict(zip((SOURCE, TARGET), zip(*_PAIRS, strict=True), strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout(text_rows.Form):
    """Where sources and targets stand in a file.

    A column is a header's name (JSONL: a key) or a number from 0. Columns that are not
    given have the names of a usual pair or, where there is none, are the first two.
    """

    source: text_rows.Key | None = None
    target: text_rows.Key | None = None


class Pair(NamedTuple):
    """A row: the line it begins in, and its texts; None where there is no target."""

    line: int
    source: str
    target: str | None


@dataclasses.dataclass(frozen=True)
class PairRows:
    """The rows of a file, to be iterated once, which may raise ValueError."""

    path: str
    columns: str  # for people: "reads 'source', 'target'; not read: 'id'"
    has_targets: bool  # all rows have them, or none
    rows: Iterator[Pair]


def open_rows(path: str, layout: Layout, *, targets_required: bool) -> PairRows:
    """Opens a file, as text_rows.file_rows reads it.

    Without `targets_required`, all rows may lack a target, or have an empty one.
    """
    path = str(path)
    rows = text_rows.file_rows(path, layout, skips_empty=True)
    names, head, rows = table_columns.take_header(
        path, rows, functools.partial(_is_header, path, layout)
    )
    keyed = isinstance(head, dict)
    marks, rows = other_programs.marks(names, rows)
    unmarked = [name for name in names if name not in marks]
    columns = _columns(path, layout, unmarked, len(head), keyed=keyed)
    keys = {
        role: table_columns.key(path, role, column, names, keyed=keyed)
        for role, column in columns.items()
        if _is_there(column, names, head, needed=targets_required or role == SOURCE)
    }
    if marks and TARGET in keys:
        rows = other_programs.accepted(path, rows, marks, keys.values())
    line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(f"{path}: no rows but a header; give one per pair")
    if targets_required and TARGET not in keys:
        problem = f"{wording.listing(names)} leave open which column is the target; "
        if len(first) == 1:
            problem = f"line {line} has 1 column, not two with a tab between; "
        raise errors.InputError(f"{path}: {problem}see --target_column, --file_format")
    if keys[SOURCE] == keys.get(TARGET):
        raise errors.InputError(
            f"{path}: source and target are both column {columns[SOURCE]!r}; give two "
            f"with {_FLAGS}"
        )
    without_targets = None
    if not targets_required and not text_rows.cell(first, keys.get(TARGET)):
        without_targets = keys.pop(TARGET, None)
    return PairRows(
        path,
        table_columns.summary(keys, names, len(head)),
        TARGET in keys,
        _pairs(path, itertools.chain([(line, first)], rows), keys, without_targets),
    )


def _stated_columns(layout: Layout, *, keyed: bool) -> dict[str, text_rows.Key | None]:
    return {
        role: table_columns.parse(getattr(layout, role), keyed=keyed)
        for role in (SOURCE, TARGET)
    }


def _is_header(path: str, layout: Layout, first: list[str]) -> bool:
    stated = _stated_columns(layout, keyed=False)
    columns = {SOURCE: 0, TARGET: 1} | {
        r: c for r, c in stated.items() if c is not None
    }
    is_given = any(column is not None for column in stated.values())
    return table_columns.is_header(
        path,
        first,
        has_header=layout.has_header,
        columns=columns,
        usual=_USUAL,
        is_chosen=bool(table_columns.choose_usual(first, _PAIRS)) and not is_given,
        is_given=is_given,
        flags=_FLAGS,
    )


def _columns(
    path: str, layout: Layout, names: list[str], count: int, *, keyed: bool
) -> dict[str, text_rows.Key]:
    """The columns of the layout, or the usual ones; the first row has `count`."""
    stated = _stated_columns(layout, keyed=keyed)
    chosen = {role: column for role, column in stated.items() if column is not None}
    pair = table_columns.choose_usual(names, _PAIRS)
    if pair and not chosen:
        table_columns.check_unread(
            path,
            names,
            pair,
            (*zip(_USUAL[SOURCE], strict=True), *table_columns.USUAL_TEXTS),
            _FLAGS,
        )
        return dict(zip(stated, pair, strict=True))
    usual = {
        role: first[0]
        for role in stated.keys() - chosen.keys()
        if (first := table_columns.choose_usual(names, zip(_USUAL[role])))
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
        return text_rows.cell(first, column) is not None
    return column in names


def _pairs(
    path: str,
    rows: text_rows.NumberedRows,
    keys: dict[str, text_rows.Key],
    without_targets: text_rows.Key | None,
) -> Iterator[Pair]:
    """Yields the rows; `without_targets` is a column that was empty in the first."""
    odd: list[tuple[int, str]] = []
    for line, row in rows:
        texts = {
            role: _text(f"{path}:{line}", row, role, key) for role, key in keys.items()
        }
        if without_targets is not None and text_rows.cell(row, without_targets):
            raise errors.InputError(
                f"{path}:{line}: has a target, and the first row none; give all or none"
            )
        odd += [(line, t) for t in texts.values() if other_programs.shape(t)]
        yield Pair(line, texts[SOURCE], texts.get(TARGET))
    if text := other_programs.spreadsheet_cells(path, odd):
        print(f"warning: {text}")


def _text(place: str, row: Any, role: str, key: text_rows.Key) -> str:
    text = text_rows.cell(row, key)
    if text is None:
        lack = text_rows.missing_cell_message(row, role, key)
        raise errors.InputError(f"{place}: {lack}")
    if not isinstance(text, str):
        raise errors.InputError(
            f"{place}: the {role} is {text!r:.40}, no string; quote it"
        )
    if not text.strip():
        raise errors.InputError(
            f"{place}: the {role} is empty; fill it, or remove the row"
        )
    return text
