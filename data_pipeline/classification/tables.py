"""Reads labelled tables: TSV, CSV and JSONL files, and TensorFlow Datasets."""

import collections
import contextlib
import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from contract import errors, wording
from data_pipeline.tables import published, table_columns, text_rows

# As a file writes it; a tuple is a JSON list (multi-label).
Label = str | tuple[str, ...]
Key = table_columns.Key

# Usual names of columns, in upper or lower case; the first entry that occurs counts.
# Pairs come before single texts, so that no second text is lost unnoticed.
USUAL_TEXTS: tuple[tuple[str, ...], ...] = (
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    *((name,) for name in ("text", "sentence", "text_a", "sentence1", "review")),
    *((name,) for name in ("content", "question", "context", "premise", "article")),
)
USUAL_IDS = ("id",)
USUAL_LABELS = ("label", "labels", "gold_label", "class", "category", "score")

# The columns of rows in memory that have no names, by how many there are.
_UNNAMED = {1: ("text",), 2: ("text", "label"), 3: ("text_a", "text_b", "label")}
_ROLES = ("text_a", "text_b", "label", "example_id")
# Cells of a column that stands for one label, by whether the row has the label.
_HAS_LABEL = {"0": False, "0.0": False, "false": False}
_HAS_LABEL |= {"1": True, "1.0": True, "true": True}
_NO_LABEL = "null"  # of a row that has null in the place of a label


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the texts, labels and ids stand in a file.

    A column is a header's name (JSONL: a key; TensorFlow Datasets: a feature) or a
    number counted from 0, also as a digit string; the number -1 is the last.

    Where `has_header` is None, line 1 is a header if a column here is a name, or if its
    cell for text_a or label is a usual name, or that for text_a is a name in the header
    of another split. Otherwise the reader refuses a line 1 that may be a header.
    """

    # "tsv", "csv", "jsonl", "auto" by the file's name, or one of published.LAYOUTS
    file_format: str = "auto"
    has_header: bool | None = None  # whether line 1 holds names; not for JSONL
    text_a: Key | None = None  # None takes all texts from `usual_texts`
    text_b: Key | None = None  # None for no second text
    # The answers to choose from, a column each, or one column of JSON lists; text_a is
    # then their context, and text_b what stands before each answer.
    choices: tuple[Key, ...] = ()
    # None takes it from `USUAL_LABELS`, if there; several have 0 or 1, each for the
    # label that it is named after, and a row then has several labels.
    label: Key | Sequence[Key] | None = None
    example_id: Key | None = None  # None takes it from `USUAL_IDS`, or counts from 0
    # Names of the columns of texts, where text_a is None; those after a second one are
    # of choices.
    usual_texts: tuple[tuple[str, ...], ...] = USUAL_TEXTS
    keep_rows: tuple[Key, str] | None = None  # (column, value); others are left out
    skip_short_rows: bool = False  # with one warning, instead of raising

    @property
    def label_columns(self) -> tuple[Key, ...]:
        """The columns that stand for one label each; () for one of all labels."""
        return () if isinstance(self.label, int | str | None) else tuple(self.label)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """The columns of one split, in the file's order; every list has one entry a row."""

    path: str
    text_a: list[str]
    text_b: list[str] | None  # None without such a column
    choices: list[tuple[str, ...]] | None = None  # as many in each row, or None
    labels: list[Label] | None  # as the file writes them; JSON lists as tuples
    example_ids: list[str]  # from the id column, else "0", "1", ...
    lines: list[int]  # where each row begins, from 1, for messages
    header: tuple[str, ...] = ()  # the cells of line 1 if it was read as one
    label_names: tuple[str, ...] = ()  # of columns that stand for one label each


def read_table(
    path: str,
    layout: Layout,
    *,
    labels_required: bool,
    allow_empty_text: bool,
    other_header: Sequence[str] = (),
) -> Table:
    """Reads one file: local or remote, plain or gzip (`.gz`), UTF-8.

    TSV is read as the original's `DataProcessor._read_tsv` read it: a quote is an
    ordinary character, only a line feed ends a line, and carriage returns are dropped.
    CSV has RFC 4180 quoting, JSONL one object a line. A file that lacks a column,
    labels or texts raises ValueError.
    """
    path = str(path)
    rows, keys, first, has_header = _begin(path, layout, other_header, labels_required)
    table = _collect(path, rows, keys, layout, allow_empty_text)
    if isinstance(first, list) and not has_header and layout.has_header is None:
        _refuse_likely_header(table, other_header)
        if not labels_required:  # labels would show what line 1 is
            print(
                f"{path}: line 1 is an example ({table.text_a[0]!r}); if it holds "
                "names of columns, pass --has_header=true"
            )
    return dataclasses.replace(table, header=tuple(first) if has_header else ())


def check_columns(files: Mapping[str, str], layout: Layout) -> None:
    """Raises the errors of `read_table` for the first rows of each split's file."""
    header: tuple[str, ...] = ()
    for split, path in files.items():
        with contextlib.redirect_stdout(None):  # what is printed comes with all rows
            _, _, first, has_header = _begin(path, layout, header, split != "test")
        header = tuple(first) if has_header else header


def _begin(
    path: str, layout: Layout, other_header: Sequence[str], labels_required: bool
) -> tuple[text_rows.NumberedRows, dict[str, Key], text_rows.Row, bool]:
    """Opens a table: its rows, the keys of its cells, row 1, whether it has names."""
    reads = published if layout.file_format in published.LAYOUTS else text_rows
    rows = reads.file_rows(path, layout.file_format)
    line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(
            f"{path}: the file is empty; give it one row per example"
        )
    has_header = isinstance(first, list) and _is_header(
        path, layout, first, other_header
    )
    names = list(first) if has_header or isinstance(first, dict) else []
    keys = _choose_columns(path, layout, names, first, labels_required)
    if not has_header:
        rows = itertools.chain([(line, first)], rows)
    return rows, keys, first, has_header


def read_tfds(
    name: str,
    split: str,
    layout: Layout,
    *,
    data_dir: str | None = None,
    labels_required: bool,
    allow_empty_text: bool,
) -> Table:
    """Reads a split such as "validation[:10%]" of a data set such as "glue/sst2".

    TensorFlow Datasets prepares it on first use. Columns are names of features; class
    labels become their names, -1 is no label. `lines` number the examples from 1.
    """
    path = f"tfds:{name}:{split}"
    names, rows = text_rows.tfds_rows(path, name, split, data_dir)
    line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(f"{path}: the split is empty; choose another")
    keys = _choose_columns(path, layout, names, first, labels_required)
    rows = itertools.chain([(line, first)], rows)
    return _collect(path, rows, keys, layout, allow_empty_text)


def take(table: Table, is_kept: np.ndarray) -> Table:
    """Some rows of a table, by bool [N]."""
    rows = np.flatnonzero(is_kept)
    columns: dict[str, Any] = {
        field.name: [column[row] for row in rows]
        for field in dataclasses.fields(table)
        if isinstance(column := getattr(table, field.name), list)
    }
    return dataclasses.replace(table, **columns)


def from_memory(
    name: str,
    records: Any,
    layout: Layout,
    *,
    labels_required: bool,
    allow_empty_text: bool,
) -> Table:
    """A table of rows in memory, whose `lines` count from 1; messages call it `name`.

    Rows are dicts {column: value}, a DataFrame of pandas, or as in `_UNNAMED`.
    """
    if hasattr(records, "to_dict"):  # a DataFrame
        records = records.to_dict("records")
    rows = [_named(f"{name}:{line}", row) for line, row in enumerate(records, start=1)]
    if not rows:
        raise errors.InputError(f"{name} has no rows; give it one per example")
    keys = _choose_columns(name, layout, list(rows[0]), rows[0], labels_required)
    return _collect(name, enumerate(rows, start=1), keys, layout, allow_empty_text)


def _named(place: str, row: Any) -> dict[str, Any]:
    """A row as {column: value}, with Python's numbers in the place of numpy's."""
    if not isinstance(row, Mapping):
        values = (row,) if isinstance(row, str) else tuple(row)
        if len(values) not in _UNNAMED:
            raise errors.InputError(
                f"{place}: {row!r:.60} has {len(values)} values; give (text, label), "
                "(text_a, text_b, label) or {column: value}"
            )
        row = dict(zip(_UNNAMED[len(values)], values, strict=True))
    row = {
        str(key): value.item() if isinstance(value, np.generic) else value
        for key, value in row.items()
    }
    # A DataFrame has NaN in cells without a value.
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in row.items()
    }


def is_number(text: Label) -> bool:
    """Whether a label is a finite number."""
    try:
        return math.isfinite(float(str(text)))
    except ValueError:
        return False


def _choice_role(index: int) -> str:
    return f"choice {index}"


def _label_role(name: Key) -> str:
    return f"label {name}"


def _stated_columns(layout: Layout, *, keyed: bool) -> dict[str, Key | None]:
    """The layout's column of each role; where rows are keyed, every one is a name."""
    columns: dict[str, Key | None] = {role: getattr(layout, role) for role in _ROLES}
    if layout.label_columns:
        columns |= {"label": None} | {_label_role(c): c for c in layout.label_columns}
    columns |= {_choice_role(i): key for i, key in enumerate(layout.choices)}
    columns["keep_rows"] = layout.keep_rows[0] if layout.keep_rows else None
    return {
        role: table_columns.parse(column, keyed=keyed)
        for role, column in columns.items()
    }


def _is_header(
    path: str, layout: Layout, first: list[str], other_header: Sequence[str]
) -> bool:
    columns = _stated_columns(layout, keyed=False)
    texts = itertools.chain(*layout.usual_texts, map(str.lower, other_header))
    if table_columns.is_header(
        path,
        first,
        has_header=layout.has_header,
        columns=columns,
        usual={"text_a": set(texts), "label": USUAL_LABELS},
    ):
        return True
    if layout.has_header is not None or columns["text_a"] is not None:
        return False
    if table_columns.usual_names(first, layout.usual_texts):
        return True
    raise errors.InputError(
        f"{path}:1: {wording.listing(first)} has no usual name of a text column "
        "(text, sentence, text_a, sentence1, question, ...); pass --text_a_column "
        "and --label_column, by name or by number from 0"
        + table_columns.separator_hint(first)
    )


def _choose_columns(
    path: str,
    layout: Layout,
    names: list[str],
    first: text_rows.Row,
    labels_required: bool,
) -> dict[str, Key]:
    """The key of each role that is there; `first` is the header or else a row."""
    keyed = isinstance(first, dict)
    columns = _stated_columns(layout, keyed=keyed)
    if columns["text_a"] is None:
        texts = table_columns.usual_names(names, layout.usual_texts)
        if not texts or columns["text_b"] is not None:
            raise errors.InputError(
                f"{path}: the first text's column is not given and cannot be guessed "
                f"from {wording.listing(names)}; pass --text_a_column"
            )
        roles = ["text_a", "text_b"]
        if len(texts) > 2:
            roles = ["text_a", *map(_choice_role, range(len(texts) - 1))]
        for role, name in zip(roles, texts, strict=False):
            if columns.get(role) is None:
                columns[role] = name
    for role, usual in (("label", USUAL_LABELS), ("example_id", USUAL_IDS)):
        if columns[role] is None and not (layout.label_columns and role == "label"):
            chosen = table_columns.usual_names(names, zip(usual))
            columns[role] = chosen[0] if chosen else None
    label_columns = {r: c for r, c in columns.items() if r.startswith("label")}
    if labels_required and set(label_columns.values()) == {None}:
        raise errors.InputError(
            f"{path}: the label's column is not given and cannot be guessed from "
            f"{wording.listing(names)}; pass --label_column"
        )

    def is_absent(column: Key | None) -> bool:
        by_name = isinstance(column, str) and not keyed
        return (
            column not in names
            if by_name
            else table_columns.cell(first, column) is None
        )

    if not labels_required and all(map(is_absent, label_columns.values())):
        columns |= dict.fromkeys(label_columns)
    keys = {
        role: table_columns.key(path, role, column, names, keyed=keyed)
        for role, column in columns.items()
        if column is not None
    }
    return {
        _label_role(key if keyed else table_columns.cell(names, key) or key)
        if role.startswith("label ")
        else role: key
        for role, key in keys.items()
    }


def _collect(
    path: str,
    rows: text_rows.NumberedRows,
    keys: dict[str, Key],
    layout: Layout,
    allow_empty_text: bool,
) -> Table:
    columns: dict[str, list[Any]] = {role: [] for role in _ROLES if role in keys}
    label_names = [role.removeprefix("label ") for role in keys if role[:6] == "label "]
    if label_names:
        columns["label"] = []
    choice_roles = [role for role in keys if role.startswith("choice ")]
    choices: list[tuple[str, ...]] = []
    kinds: dict[str, str] = {}
    lines: list[int] = []
    short: list[int] = []
    blank: dict[int, str] = {}
    others: set[str] = set()
    for line, row in rows:
        place = f"{path}:{line}"
        cells = {role: table_columns.cell(row, key) for role, key in keys.items()}
        missing = next((role for role, value in cells.items() if value is None), None)
        if missing == "label" and isinstance(row, dict) and keys["label"] in row:
            cells["label"], missing = _NO_LABEL, None
        if missing:
            if not layout.skip_short_rows:
                lack = table_columns.missing_cell_message(row, missing, keys[missing])
                raise errors.InputError(f"{place}: {lack}")
            short.append(line)
            continue
        if layout.keep_rows:
            kept = _value(place, "keep_rows", cells["keep_rows"])
            if kept != layout.keep_rows[1]:
                others.add(str(kept))
                continue
        if label_names:
            marks = [cells[_label_role(name)] for name in label_names]
            cells["label"] = _marked(place, label_names, marks)
        _check_kind(place, cells.get("label", _NO_LABEL), kinds)
        for role, column in columns.items():
            value = _value(place, role, cells[role])
            if role.startswith("text") and not value.strip():
                blank.setdefault(line, role)
            column.append(value)
        if choice_roles:
            answers = [cells[role] for role in choice_roles]
            count = len(choices[0]) if choices else 0
            choices.append(_choices(place, answers, count))
            if "" in (answers := [text.strip() for text in choices[-1]]):
                blank.setdefault(line, _choice_role(answers.index("")))
        lines.append(line)
    if blank and not allow_empty_text:
        raise errors.InputError(f"{path}:{_blank_message(blank)}")
    if short:
        logging.warning(
            f"{path}: left out {len(short)} rows with too few columns, the first in "
            f"line {short[0]}"
        )
    if not lines and layout.keep_rows and others:
        raise errors.InputError(
            f"{path}: no row has {layout.keep_rows[1]!r} in column "
            f"{layout.keep_rows[0]}; choose one of {wording.listing(sorted(others))}"
        )
    if not lines:
        raise errors.InputError(f"{path}: no rows but a header; give one per example")
    return Table(
        path=path,
        text_a=columns["text_a"],
        text_b=columns.get("text_b"),
        choices=choices if choice_roles else None,
        labels=columns.get("label"),
        example_ids=columns.get("example_id") or [str(n) for n in range(len(lines))],
        lines=lines,
        label_names=tuple(label_names),
    )


def _blank_message(blank: dict[int, str]) -> str:
    """A message on lines that have an empty text, which is of a role."""
    (line, role), *others = blank.items()
    places = wording.first_of([str(line) for line, _ in others], 20)
    return (
        f"{line}: {role} is empty{places and ', as in lines '}{places}; fill it, "
        "remove the row, or pass --allow_empty_text"
    )


def _marked(place: str, names: list[str], marks: list[Any]) -> Any:
    """The names whose marks are 1 or true; `_NO_LABEL` where nobody set the marks."""
    texts = [str(mark).lower() for mark in marks]
    if set(texts) in ({""}, {"-1"}):
        return _NO_LABEL
    for name, text in zip(names, texts, strict=True):
        if text not in _HAS_LABEL:
            raise errors.InputError(
                f"{place}: {text!r:.40} in the column {name!r} is not 0 or 1, as for a "
                "label of its own; correct it, or give one --label_column; "
                "--has_header=true if line 1 holds names"
            )
    return [name for name, text in zip(names, texts, strict=True) if _HAS_LABEL[text]]


def _check_kind(place: str, label: Any, kinds: dict[str, str]) -> None:
    """Raises ValueError where a label is of another JSON type than those before.

    `kinds` has the place of the first of each type, and gets that of this label.
    """
    if label is _NO_LABEL:
        return
    for item in label if isinstance(label, list) else [label]:
        kind = "a string"
        if isinstance(item, bool):
            kind = "true or false"
        elif isinstance(item, int | float):
            kind = "a number"
        kinds.setdefault(kind, place)
        first = next(iter(kinds))
        if kind != first:
            raise errors.InputError(
                f"{place}: label {json.dumps(item)} is {kind}, and that of "
                f"{kinds[first]} is {first}; write all labels alike"
            )


def _choices(place: str, values: Any, count: int) -> tuple[str, ...]:
    """The answers of a row, from some columns or one of JSON lists.

    `count` is the number of answers in the rows before, 0 in the first row.
    """
    if len(values) == 1:
        (values,) = values
    if not isinstance(values, list):
        raise errors.InputError(
            f"{place}: {values!r:.40} is one choice; name a column for each with "
            "--choice_columns, or one that holds JSON lists"
        )
    row = tuple(_value(place, f"text of choice {i}", v) for i, v in enumerate(values))
    expected = count or max(len(row), 2)
    if len(row) != expected:
        raise errors.InputError(
            f"{place}: {len(row)} choices, {expected} are needed as in the rows "
            "before; give each row as many, and 2 at least"
        )
    return row


def _value(place: str, role: str, value: Any) -> Any:
    """A JSON value as the text or label that it stands for."""
    if isinstance(value, str):
        return value
    if role.startswith("text"):
        raise errors.InputError(
            f"{place}: {role} is {value!r:.40}, no string; quote it"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise errors.InputError(
            f"{place}: {role} is {value}, no finite number; correct it, or quote it as "
            "the name of a class"
        )
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list) and role == "label":
        return tuple(_value(place, "an item of label", item) for item in value)
    raise errors.InputError(
        f"{place}: {role} is {value!r:.40}; write a string, number, true or false"
    )


def _refuse_likely_header(table: Table, other_header: Sequence[str]) -> None:
    """Raises where line 1, read as an example, may be a header."""
    if table.labels is None and other_header:
        raise errors.InputError(
            f"{table.path}:{table.lines[0]}: {table.text_a[0]!r:.40} may be a header "
            "or a text, where the rows read before it have "
            f"{wording.listing(other_header)}; pass --has_header=true if it is a "
            "header, else put that line above it"
        )
    first, *others = table.labels or [""]
    if not others or is_number(first) or table.label_names:
        return
    counts = collections.Counter(table.labels)
    is_odd = all(is_number(label) for label in others)
    if is_odd or [name for name, count in counts.items() if count == 1] == [first]:
        raise errors.InputError(
            f"{table.path}:{table.lines[0]}: {first!r} is the label of no other row; "
            "pass --has_header=true if the line is a header, else --has_header=false"
        )
