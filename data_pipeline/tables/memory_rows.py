"""Rows in memory: lists, DataFrames, data sets and Parquet files, as dicts or JSONL."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
from absl import logging

from contract import characters, errors, remote_files
from data_pipeline.tables import label_studio, text_rows

# The names of a row's values, by how many it has.
Names = Mapping[int, Sequence[str]]


def named(name: str, records: Any, names: Names) -> Iterator[tuple[int, dict]]:
    """Yields number, from 1, and {column: value} of each row; messages call it `name`.

    Rows are dicts, values in the order of `names`, a DataFrame of pandas or Polars, a
    table of pyarrow, or a data set of Hugging Face, whose class labels become names.
    Values of NumPy and TensorFlow become Python's, bytes text, and NaN None.
    """
    label_names: Mapping[str, Sequence[str]] = {}
    if has_columns(records):
        columns = "column_names" if hasattr(records, "column_names") else "columns"
        text_rows.check_distinct(name, getattr(records, columns))
    if hasattr(records, "to_pylist"):  # a table of pyarrow
        label_names = text_rows.class_names(getattr(records, "schema", None))
        records = records.to_pylist()
    elif hasattr(records, "column_names"):  # whose `to_dict` returns columns
        label_names = _label_names(getattr(records, "features", None) or {})
    elif hasattr(records, "to_dicts"):
        records = records.to_dicts()
    elif hasattr(records, "to_dict"):
        records = records.to_dict("records")
    is_ordered = hasattr(records, "__iter__") and not isinstance(records, Set)
    if isinstance(records, str | Mapping) or not is_ordered:
        raise errors.InputError(
            f"{name}: a {type(records).__name__} is no list of rows; give a list, a "
            "DataFrame or a path"
        )
    by_name = (
        (line, _by_name(f"{name}:{line}", row, names))
        for line, row in enumerate(records, start=1)
    )
    for line, values in label_studio.rows(name, by_name):
        yield line, values | text_rows.spelled(f"{name}:{line}", values, label_names)


def called(names: Names, columns: Mapping[str, Any]) -> Names:
    """`names` with the columns that a person has named, by role, in their places."""
    own = {role: c for role, c in columns.items() if isinstance(c, str | int)}
    own = {"text": own.get("text_a", "text"), **own}
    return {n: [str(own.get(name, name)) for name in each] for n, each in names.items()}


def _label_names(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Names by column of ClassLabel, or of lists of such."""
    each = {c: getattr(kind, "feature", kind) for c, kind in features.items()}
    return {c: kind.names for c, kind in each.items() if hasattr(kind, "names")}


def _by_name(place: str, row: Any, names: Names) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        values = (row,) if isinstance(row, str) else (*ordered(place, row),)
        if len(values) not in names:
            wanted = " or ".join([*map(str, names), "a dict"])
            raise errors.InputError(
                f"{place}: {row!r:.60} has {len(values)} values; give {wanted}"
            )
        row = dict(zip(names[len(values)], values, strict=True))
    row = {str(key): _value(f"{place}: {key}", value) for key, value in row.items()}
    for key, value in row.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                characters.check(text, f"{place}: {key}")
    return {key: None if _is_missing(value) else value for key, value in row.items()}


def _is_missing(value: Any) -> bool:
    """Whether a value is NaN, or NA or NaT of pandas, which need not be installed."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan or type(value).__name__ in ("NAType", "NaTType")


def _value(place: str, value: Any) -> Any:
    """NumPy's and TensorFlow's values as Python's, and bytes as the text they are."""
    value = value.numpy() if hasattr(value, "numpy") else value
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _value(place, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_value(place, each) for each in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise errors.InputError(
            f"{place}: {value!r:.60} is not UTF-8; decode it as what it is"
        ) from None


def has_columns(rows: Any) -> bool:
    """Whether they are a DataFrame, a table of pyarrow, a data set or the like."""
    kind = type(rows)
    return hasattr(kind, "columns") or hasattr(kind, "column_names")


def ordered(name: str, values: Any) -> list[Any]:
    """The items of one column, called `name` in messages.

    InputError is raised for a table, a dict, a set, a string, and for what is no list.
    """
    kind = type(values).__name__
    if isinstance(values, Mapping) or has_columns(values):
        raise errors.InputError(
            f"{name}: a {kind} has columns; give one of them, such as "
            f'{"rows" if isinstance(values, Mapping) else "df"}["text"]'
        )
    if isinstance(values, str | bytes | Set):
        raise errors.InputError(f"{name}: a {kind} has no order of rows; give a list")
    try:
        items = iter(values)
    except TypeError:
        raise errors.InputError(f"{name} is of type {kind}; give a list") from None
    return list(items)


def check_indexes(columns: Mapping[str, Any]) -> None:
    """Warns of Series with different indexes; rows are paired by their places."""
    series = [(name, each.index) for name, each in columns.items() if has_index(each)]
    for name, index in series[1:]:
        first, wanted = series[0]
        if not index.equals(wanted):
            logging.warning(
                "%s and %s have different indexes and are paired row by row; give "
                "columns of one DataFrame if that is wrong",
                first,
                name,
            )


def has_index(rows: Any) -> bool:
    """Whether they are a DataFrame or a Series of pandas."""
    return hasattr(getattr(rows, "index", None), "equals")


def paired(columns: Sequence[str], firsts: Any, seconds: Any) -> list[Any]:
    """Rows of texts, or of pairs of them, and their labels; as many of each.

    InputError is raised as in `ordered`, and for other numbers of one and other.
    """
    check_indexes(dict(zip(columns, (firsts, seconds), strict=True)))
    firsts, seconds = ordered(columns[0], firsts), ordered(columns[1], seconds)
    if len(firsts) != len(seconds):
        raise errors.InputError(
            f"{columns[0]}: {len(firsts)}, {columns[1]}: {len(seconds)}; give one for "
            "each"
        )
    is_pair = [columns[0] == "text" and isinstance(first, tuple) for first in firsts]
    rows = zip(firsts, seconds, is_pair, strict=True)
    return [(*a, b) if is_pair else (a, b) for a, b, is_pair in rows]


def opened(rows: Any) -> Any:
    """A path as a string, but the rows of a Parquet file."""
    if not isinstance(rows, str | os.PathLike):
        return rows
    if not (path := remote_files.resolve(rows, "rows")).endswith(".parquet"):
        return path
    return [row for _, row in text_rows.file_rows(path, "parquet")]


def lines(name: str, records: Any, names: Names) -> str:
    """Rows as lines of JSON; InputError where there is none.

    Dates and the like, which no task reads, become text.
    """
    text = "".join(
        json.dumps(row, ensure_ascii=False, default=str) + "\n"
        for _, row in named(name, records, names)
    )
    if not text:
        raise errors.InputError(f"{name}: is empty; give it one row per example")
    return text
