"""Sources and targets of tables, row by row: TSV, CSV and JSONL files of any size."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from contract import errors
from data_pipeline import findings
from data_pipeline.tables import other_programs, table_columns, text_rows

SOURCE = table_columns.Role(table_columns.TEXT, "source")
TARGET = table_columns.Role(table_columns.TEXT, "target")
_PAIRS = table_columns.USUAL_WRITTEN
_SOURCES, _TARGETS = zip(*_PAIRS, strict=True)


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
    noticed: list[findings.Finding]  # complete behind the last row


def open_rows(path: str, layout: Layout, *, targets_required: bool) -> PairRows:
    """Opens a file, as text_rows.file_rows reads it.

    Without `targets_required`, all rows may lack a target, or have an empty one.
    """
    path = str(path)
    table = text_rows.file_rows(path, layout, skips_empty=True)
    wanted = _wanted(layout, targets_required)
    opened = table_columns.open_rows(path, table, wanted, layout.has_header)
    keys = opened.keys
    if TARGET not in keys:
        opened = opened.without_values(path, wanted)
    rows = (opened.accepted(path) if TARGET in keys else opened).rows
    line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(f"{path}: no rows but a header; give one per pair")
    if keys[SOURCE] == keys.get(TARGET):
        raise errors.InputError(
            f"{path}: source and target are both column {keys[SOURCE]!r}; give two "
            f"with {wanted.flags}"
        )
    without_targets = None
    if not targets_required and not text_rows.cell(first, keys.get(TARGET)):
        without_targets = keys.pop(TARGET, None)
    rows, noticed = itertools.chain([(line, first)], rows), opened.noticed
    read = _pairs(path, rows, keys, without_targets, noticed)
    return PairRows(path, opened.summary(), TARGET in keys, read, noticed)


def _wanted(layout: Layout, targets_required: bool) -> table_columns.Wanted:
    column, title = table_columns.Column, "target" * targets_required
    return table_columns.Wanted(
        columns={
            SOURCE: column(layout.source, usual=_SOURCES, place=0, title="source"),
            TARGET: column(layout.target, usual=_TARGETS, place=1, title=title),
        },
        texts=_PAIRS,
        unread=(*zip(_SOURCES, strict=True), *table_columns.USUAL_TEXTS),
        flags="--source_column and --target_column",
        optional=() if targets_required else (TARGET,),
    )


def _pairs(
    path: str,
    rows: text_rows.NumberedRows,
    keys: dict[table_columns.Role, text_rows.Key],
    without_targets: text_rows.Key | None,
    noticed: list[findings.Finding],
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
    noticed += other_programs.spreadsheet_cells(path, odd)


def _text(place: str, row: Any, role: table_columns.Role, key: text_rows.Key) -> str:
    text = text_rows.field(row, key, str, place, "quote it", str(role))
    if not text.strip():
        raise errors.InputError(
            f"{place}: the {role} is empty; fill it, or remove the row"
        )
    return text
