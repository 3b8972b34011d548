"""Which cell of a row is meant: columns by name, or by number from 0."""

from collections.abc import Sequence
from typing import Any

from contract import wording
from data_pipeline.files import text_rows

Key = int | str  # what finds a cell in a row


def asked(column: Key | None, *, keyed: bool) -> Key | None:
    """A column as asked for: a name where rows are `keyed`, else maybe a number."""
    if column is None:
        return None
    if keyed:
        return str(column)
    if isinstance(column, str) and column.removeprefix("-").isdecimal():
        return int(column)
    return column


def key(path: str, role: str, column: Key, names: Sequence[str], *, keyed: bool) -> Key:
    """What finds the cell of a column, asked for as above, in a row.

    `names` are those of a header or of the keys of the first row, `role` is what
    messages call the column.

    Raises:
        ValueError: the name is not there, or more than once.
    """
    if isinstance(column, int):
        return column
    names = list(names)
    if names.count(column) != 1:
        others = "by name: objects have no numbers" if keyed else "or a number from 0"
        raise ValueError(
            f"{path}: column {column!r} ({role}) is there {names.count(column)} times "
            f"among {wording.listing(names)}; choose one that is there once, {others}"
        )
    return column if keyed else names.index(column)


def cell(row: Any, key: Key | None) -> Any:
    """The cell of a row; None where the row lacks it, or no key is given."""
    try:
        return None if key is None else row[key]
    except (IndexError, KeyError):
        return None


def lack(row: text_rows.Row, role: str, key: Key) -> str:
    """What is wrong with a row without that cell, and what to do."""
    if isinstance(row, dict):
        return f"no value under {key!r} ({role}); give the row one"
    return (
        f"{len(row)} columns, column {key} ({role}) is needed, counted from 0; correct "
        "the row, or column and --file_format where all rows are alike"
    )
