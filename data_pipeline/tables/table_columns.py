"""Whether line 1 is a header, and which cells are meant: by name or number from 0."""

from collections.abc import Collection, Iterable, Mapping, Sequence
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


def usual_names(
    names: Sequence[str], usual: Iterable[tuple[str, ...]]
) -> tuple[str, ...]:
    """The first entry of `usual` whose names all occur, as `names` spells them."""
    spelled = {name.lower(): name for name in reversed(names)}
    entries = (entry for entry in usual if spelled.keys() >= set(entry))
    return tuple(spelled[name] for name in next(entries, ()))


def is_header(
    path: str,
    first: Sequence[str],
    *,
    has_header: bool | None,
    columns: Mapping[str, Key | None],
    usual: Mapping[str, Collection[str]],
) -> bool:
    """Whether line 1 of a file holds names of columns.

    `has_header` decides, if it is not None. Otherwise line 1 is a header where a column
    is given by name, or where the cell of a role is one of its `usual` names, which
    are in lower case. `columns` has that of each role, as `parse` returns it.
    """
    by_name = [column for column in columns.values() if isinstance(column, str)]
    if has_header is False and by_name:
        raise errors.InputError(
            f"{path}: column {by_name[0]!r} is a name, but --has_header=false says "
            "that there are none; give columns by number, from 0"
        )
    if has_header is not None or by_name:
        return has_header is not False
    return any(
        str(cell(first, columns[role])).lower() in names
        for role, names in usual.items()
        if columns[role] is not None
    )


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
    """For messages: that line 1 is one cell, if another separator stands in it."""
    count = names[0].count(";") if len(names) == 1 else 0
    if not count:
        return ""
    return f"; line 1 has no comma and {count} semicolons: separate cells by commas"


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
