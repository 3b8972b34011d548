"""Which cells of rows are meant: by name, or by number from 0."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from contract import errors, wording
from data_pipeline.tables import text_rows

Key = int | str  # of a cell in a row


def parse(column: Key | None, *, keyed: bool) -> Key | None:
    """The column of a flag or layout: a name where rows are `keyed`, or a number."""
    if column is None:
        return None
    if keyed:
        return str(column)
    if isinstance(column, str) and column.isdecimal():
        return int(column)
    if isinstance(column, str) and column.removeprefix("-").isdecimal():
        raise errors.InputError(
            f"column {column}: columns are counted from 0; give the column's name, or "
            "0 for the first, 1 for the second, ..."
        )
    return column


def is_number(text: Any) -> bool:
    """Whether a text, such as a label, is a finite number."""
    try:
        return math.isfinite(float(str(text)))
    except ValueError:
        return False


def summary(keys: Mapping[str, Key], names: Sequence[str], count: int) -> str:
    """The columns that are read and those that are not, by name or else by number.

    `keys` are of roles, `names` those of a header or an object, if there are any, and
    `count` is the number of columns.
    """
    shown = [repr(name) for name in names] or [*map(str, range(count))]
    parts = []
    unread = dict(enumerate(shown))
    for role, key in keys.items():
        place = list(names).index(key) if isinstance(key, str) else key
        text = unread.pop(place + count * (place < 0), str(key))
        parts.append(text if text == repr(role) else f"{text} ({role})")
    others = wording.first_of(list(unread.values()), 6)
    return f"reads {', '.join(parts)}" + (f"; not read: {others}" if others else "")


def key(path: str, role: str, column: Key, names: Sequence[str], *, keyed: bool) -> Key:
    """The key of the cell of a column, as `parse` returns it; ValueError without one.

    `names` are those of a header or of the keys of the first row, `role` is the name of
    the column in messages.
    """
    if isinstance(column, int):
        return column
    names = list(names)
    others = "by name: objects have no numbers" if keyed else "or a number from 0"
    if names.count(column) > 1:
        raise errors.InputError(
            f"{path}: {names.count(column)} columns are called {column!r} ({role}), "
            f"among {wording.listing(names)}; choose one that is there once, {others}"
        )
    if column not in names:
        alike = [name for name in names if name.lower() == column.lower()]
        raise errors.InputError(
            f"{path}: no column {column!r} ({role}); "
            + (f"there is {alike[0]!r} (capitals count); " if alike else "")
            + f"its columns are {wording.listing(names)}; choose one of them, {others}"
            + separator_hint(names)
        )
    return column if keyed else names.index(column)


def separator_hint(names: Sequence[str]) -> str:
    """For messages: that line 1 is one cell, if another delimiter stands in it."""
    for delimiter in (";", "|") if len(names) == 1 else ():
        if count := names[0].count(delimiter):
            return f"; line 1 is one cell with {count} {delimiter!r}: see --delimiter"
    return ""


def cell(row: Any, key: Key | None) -> Any:
    """The cell of a row; None where the row lacks it, or no key is given."""
    try:
        return None if key is None else row[key]
    except (IndexError, KeyError):
        return None


def missing_cell_message(row: text_rows.Row, role: str, key: Key) -> str:
    """A message on a row without that cell, with the remedy."""
    if isinstance(row, dict):
        return f"no value under {key!r} ({role}); give the row one"
    return (
        f"{len(row)} columns, column {key} ({role}) is needed, counted from 0; correct "
        "the row, or column and --file_format where all rows are alike"
    )
