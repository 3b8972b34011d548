"""Reads labelled tables: TSV, CSV and JSONL files, and TensorFlow Datasets."""

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from contract import errors, wording
from data_pipeline import findings
from data_pipeline.tables import clue, memory_rows, table_columns, text_rows

# As a file writes it; a tuple is a JSON list (multi-label).
Label = str | tuple[str, ...]
Key = text_rows.Key

# The columns of rows in memory that have no names, by how many there are.
UNNAMED = {1: ("text",), 2: ("text", "label"), 3: ("text_a", "text_b", "label")}
# What columns are for, by the names of Layout.
TEXT_A = table_columns.Role(table_columns.TEXT, "text_a")
TEXT_B = table_columns.Role(table_columns.TEXT, "text_b")
LABEL = table_columns.Role(table_columns.LABEL, "label")
EXAMPLE_ID = table_columns.Role(table_columns.OTHER, "example_id")
KEEP_ROWS = table_columns.Role(table_columns.OTHER, "keep_rows")
_LABELS = (table_columns.LABEL, table_columns.MARK)
# Cells of a column that stands for one label, by whether the row has the label.
_HAS_LABEL = {"0": False, "0.0": False, "false": False}
_HAS_LABEL |= {"1": True, "1.0": True, "true": True}
NO_LABEL = "null"  # of a row that has null in the place of a label
# What null stands for.
_NULLS = {TEXT_A.kind: "", LABEL.kind: NO_LABEL, table_columns.MARK: ""}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout(text_rows.Form):
    """Where the texts, labels and ids stand in a file.

    A column is a name (of a header, JSONL key or TFDS feature) or a number from 0, also
    as a digit string; -1 is the last. `file_format` may be one of clue.READERS.
    """

    text_a: Key | None = None  # None takes all texts from `usual_texts`
    text_b: Key | None = None  # None for no second text
    # The answers to choose from, a column each, or one column of JSON lists; text_a is
    # then their context, and text_b what stands before each answer.
    choices: tuple[Key, ...] = ()
    # None takes it from USUAL_LABELS, if there; several have 0 or 1 each, and a row has
    # the labels that they are named after.
    label: Key | Sequence[Key] | None = None
    example_id: Key | None = None  # None takes it from USUAL_IDS
    # Columns of texts, where text_a is None; those after a second one are of choices.
    usual_texts: tuple[tuple[str, ...], ...] = table_columns.USUAL_TEXTS
    keep_rows: tuple[Key, str] | None = None  # (column, value); others are left out
    skip_short_rows: bool = False  # of published files, with one warning
    allow_empty_text: bool = False
    leaves_out: bool = False  # rows without text, with a line of their number
    # Leaves out rows that lack a cell or a text, too; these are faults then.
    goes_on: bool = False
    is_published: bool = False  # rows may have more cells than the header

    @property
    def label_columns(self) -> tuple[Key, ...]:
        """The columns that stand for one label each; () for one of all labels."""
        return () if isinstance(self.label, int | str | None) else tuple(self.label)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where rows come from, to read them again with all of their columns."""

    read: Callable[[], text_rows.Rows]
    keys: Mapping[table_columns.Role, Key]
    delimiter: str | None = None  # between the cells of a file


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Table:
    """The columns of one split; every list has one entry a row, in the file's order."""

    path: str
    text_a: list[str]
    text_b: list[str] | None  # None without such a column
    choices: list[tuple[str, ...]] | None = None  # as many in each row, or None
    labels: list[Label] | None  # as the file writes them; JSON lists as tuples
    example_ids: list[str]  # from the id column, else "0", "1", ...
    lines: list[int]  # where each row begins, from 1, for messages
    header: tuple[str, ...] = ()  # the cells of line 1 if it was read as one
    label_names: tuple[str, ...] = ()  # of columns that stand for one label each
    origin: Origin | None = None  # None for rows in memory
    noticed: tuple[findings.Finding, ...] = ()

    def __repr__(self) -> str:
        return f"<Table: {len(self.lines)} rows of {self.path}>"

    def texts(self) -> list[tuple[str, ...]]:
        """The one or two texts of each row, and its choices."""
        columns = [self.text_a] if self.text_b is None else [self.text_a, self.text_b]
        rows = list(zip(*columns, strict=True))
        if self.choices is None:
            return rows
        pairs = zip(rows, self.choices, strict=True)
        return [(*texts, *choices) for texts, choices in pairs]

    def input_rows(self) -> Iterator[text_rows.Row]:
        """Reads the rows again, in all of their columns; none without an `origin`.

        Raises InputError for a row whose text has changed since.
        """
        if self.origin is None:
            return
        rows, key = iter(self.origin.read()), self.origin.keys[TEXT_A]
        for line, text in zip(self.lines, self.text_a, strict=True):
            for number, row in rows:  # among those that were left out
                if number == line and text_rows.cell(row, key) == text:
                    yield row
                    break
            else:
                raise errors.InputError(
                    f"{self.path}:{line}: has changed since it was read; predict again"
                )


@dataclasses.dataclass(frozen=True)
class Open:
    """A table of which the columns are known, and the first rows are read."""

    path: str
    layout: Layout
    opened: table_columns.Opened
    origin: Origin | None
    labels_required: bool

    def read(self, show: findings.Show = findings.hide) -> Table:
        """Reads the other rows, once; InputError for a wrong one.

        `show` gets what the table has as `noticed`, also where reading fails.
        """
        try:
            return _collect(self)
        finally:
            show(self.opened.noticed)


def open_table(path: str, layout: Layout, *, labels_required: bool) -> Open:
    """Opens one file; one that lacks a column, labels or texts is refused.

    TSV is read as by the original's `DataProcessor._read_tsv`: a quote is an ordinary
    character, only a line feed ends a line, and carriage returns are dropped.
    """
    rows = _open(path := str(path), layout)
    known = rows.form or layout
    read = functools.partial(_open, path, known, is_whole=True)
    return _begin(path, rows, known, labels_required, read)


def read_table(path: str, layout: Layout, *, labels_required: bool) -> Table:
    """Reads one file, as `open_table` opens it."""
    return open_table(path, layout, labels_required=labels_required).read()


def _open(path: str, layout: Layout, *, is_whole: bool = False) -> text_rows.Rows:
    """The rows of a file; as a whole with those that the layout leaves out."""
    if layout.file_format in clue.READERS:
        return clue.rows(path, layout.file_format)
    ragged = text_rows.LEFT_OUT if layout.goes_on else text_rows.REFUSED
    if is_whole or layout.is_published:
        ragged = text_rows.KEPT
    skips_empty = not (is_whole or layout.allow_empty_text)
    return text_rows.file_rows(path, layout, skips_empty=skips_empty, ragged=ragged)


def _begin(
    path: str,
    rows: text_rows.Rows,
    layout: Layout,
    labels_required: bool,
    read: Callable[[], text_rows.Rows] | None = None,
) -> Open:
    """Finds the columns of rows, and leaves out what a tool of annotation discards.

    All rows are kept where none of their labels is read.
    """
    wanted = _wanted(layout, labels_required)
    opened = table_columns.open_rows(path, rows, wanted, layout.has_header)
    keys: dict[table_columns.Role, Key] = {}
    for role, key in opened.keys.items():
        if role.kind == table_columns.MARK and isinstance(key, int):
            role = role._replace(name=text_rows.cell(opened.names, key) or str(key))
        keys[role] = key
    labels = {role: key for role, key in keys.items() if role.kind in _LABELS}
    is_empty = not labels_required and opened.filled.isdisjoint(labels.values())
    if is_empty and isinstance(opened.first, dict):
        keys = {role: key for role, key in keys.items() if role not in labels}
        labels = {}
    opened = opened._replace(keys=keys)
    if not labels:
        opened = opened.without_values(path, wanted)
    if not layout.is_published:
        opened.noticed.append(findings.Finding(path, opened.summary()))
        opened = opened.accepted(path) if layout.leaves_out or labels else opened
    origin = Origin(read, keys, layout.delimiter) if read else None
    return Open(path, layout, opened, origin, labels_required)


def _wanted(layout: Layout, labels_required: bool) -> table_columns.Wanted:
    column, role = table_columns.Column, table_columns.Role
    label, marks = layout.label, layout.label_columns
    columns = {
        TEXT_A: column(layout.text_a, title="first text"),
        TEXT_B: column(layout.text_b),
        LABEL: column(
            # It is "" for --label_column=.
            label if isinstance(label, int | str) and label != "" else None,
            usual=table_columns.USUAL_LABELS if label is None else (),
            title="label" if labels_required and not marks else "",
        ),
        EXAMPLE_ID: column(layout.example_id, usual=table_columns.USUAL_IDS),
        **{role(table_columns.MARK, str(key)): column(key) for key in marks},
        **{
            role(table_columns.CHOICE, str(number)): column(key)
            for number, key in enumerate(layout.choices)
        },
        KEEP_ROWS: column(layout.keep_rows[0] if layout.keep_rows else None),
    }
    labels = [role for role in columns if role.kind in _LABELS]
    return table_columns.Wanted(
        columns=columns,
        texts=layout.usual_texts,
        unread=layout.usual_texts,
        flags="--text_a_column, --text_b_column and --label_column",
        optional=() if labels_required else labels,
    )


def open_tfds(
    name: str,
    split: str,
    layout: Layout,
    *,
    data_dir: str | None = None,
    labels_required: bool,
) -> Open:
    """Opens a split such as "validation[:10%]" of a data set such as "glue/sst2"."""
    path = f"tfds:{name}:{split}"

    def load() -> text_rows.Rows:
        return text_rows.Rows(text_rows.tfds_rows(path, name, split, data_dir))

    return _begin(path, load(), layout, labels_required, load)


def take(table: Table, is_kept: np.ndarray) -> Table:
    """Some rows of a table, by bool [N]."""
    rows = np.flatnonzero(is_kept)
    columns: dict[str, Any] = {
        field.name: [column[row] for row in rows]
        for field in dataclasses.fields(table)
        if isinstance(column := getattr(table, field.name), list)
    }
    return dataclasses.replace(table, **columns)


def open_memory(
    name: str, records: Any, layout: Layout, *, labels_required: bool
) -> Open:
    """A table of rows in memory, called `name` in messages, with `lines` from 1.

    Rows are as of memory_rows.named, with the names of `UNNAMED`.
    """
    roles = (TEXT_A, TEXT_B, LABEL, EXAMPLE_ID)
    columns = {role.name: getattr(layout, role.name) for role in roles}
    rows = memory_rows.named(name, records, memory_rows.called(UNNAMED, columns))
    return _begin(name, text_rows.Rows(rows), layout, labels_required)


def _collect(table: Open) -> Table:
    path, layout, opened = table.path, table.layout, table.opened
    keys, noticed = opened.keys, opened.noticed
    roles = (TEXT_A, TEXT_B, LABEL, EXAMPLE_ID)
    columns: dict[table_columns.Role, list[Any]] = {r: [] for r in roles if r in keys}
    mark_roles = [role for role in keys if role.kind == table_columns.MARK]
    label_names = [role.name for role in mark_roles]
    if label_names:
        columns[LABEL] = []
    text_roles = [role for role in keys if role.kind == table_columns.TEXT]
    choice_roles = [role for role in keys if role.kind == table_columns.CHOICE]
    choices: list[tuple[str, ...]] = []
    kinds: dict[str, str] = {}
    lines: list[int] = []
    short: list[int] = []
    faults: list[findings.Finding] = []
    blank: dict[int, Any] = {}  # by line, what is empty
    unread: list[int] = []  # rows without text
    others: set[str] = set()
    for line, row in opened.rows:
        place = f"{path}:{line}"
        cells = {role: text_rows.cell(row, key) for role, key in keys.items()}
        missing = [role for role, value in cells.items() if value is None]
        if missing and isinstance(row, dict):
            optional = () if table.labels_required else _LABELS
            nulls = {
                role: _NULLS[role.kind]
                for role in missing
                if role.kind in optional or (role.kind in _NULLS and keys[role] in row)
            }
            cells |= nulls
            missing = [role for role in missing if role not in nulls]
        if missing:
            if not layout.skip_short_rows:
                role = missing[0]
                lack = text_rows.missing_cell_message(row, str(role), keys[role])
                faults = faults or [findings.fault(place, lack)]
                if not layout.goes_on:
                    findings.refuse(faults)
            short.append(line)
            continue
        if layout.keep_rows:
            kept = _value(place, KEEP_ROWS, cells[KEEP_ROWS])
            if kept != layout.keep_rows[1]:
                others.add(str(kept))
                continue
        texts = (str(cells[role]).strip() for role in text_roles)
        if layout.leaves_out and not all(texts):
            unread.append(line)
            continue
        if label_names:
            marks = [cells[role] for role in mark_roles]
            cells[LABEL] = _marked(place, label_names, marks)
        _check_kind(place, cells.get(LABEL, NO_LABEL), kinds)
        for role, column in columns.items():
            value = _value(place, role, cells[role])
            if role.kind == table_columns.TEXT and not value.strip():
                blank.setdefault(line, role)
            column.append(value)
        if choice_roles:
            answers = [cells[role] for role in choice_roles]
            count = len(choices[0]) if choices else 0
            choices.append(_choices(place, answers, count))
            if "" in (answers := [text.strip() for text in choices[-1]]):
                blank.setdefault(line, f"choice {answers.index('')}")
        lines.append(line)
    if blank and not layout.allow_empty_text:
        (line, role), *more = blank.items()
        places = f", as in {wording.lines(dict(more), 20)}" * bool(more)
        remedy = "fill it, remove the row, or pass --allow_empty_text"
        text = f"{role} is empty{places}"
        faults.append(findings.fault(f"{path}:{line}", text, remedy))
        if not layout.goes_on:
            findings.refuse(faults)
    if unread:
        number = wording.count(len(unread), "row")
        if not lines:
            raise errors.InputError(f"{path}: has {number} and no text; give it some")
        text = f"left out {number} without text, {wording.lines(unread, 20)}"
        noticed.append(findings.Finding(path, text))
    noticed += faults
    if short and not layout.goes_on:
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
    made = Table(
        path=path,
        text_a=columns[TEXT_A],
        text_b=columns.get(TEXT_B),
        choices=choices if choice_roles else None,
        labels=columns.get(LABEL),
        example_ids=columns.get(EXAMPLE_ID) or [str(n) for n in range(len(lines))],
        lines=lines,
        header=opened.header,
        label_names=tuple(label_names),
        origin=table.origin,
        noticed=tuple(noticed),
    )
    if not blank or layout.allow_empty_text:
        return made
    is_kept = np.array([line not in blank for line in lines])
    return take(made, is_kept) if is_kept.any() else made


def _marked(place: str, names: list[str], marks: list[Any]) -> Any:
    """The names whose marks are 1 or true; `NO_LABEL` where none has a mark."""
    texts = [str(mark).lower() for mark in marks]
    if set(texts) in ({""}, {"-1"}):
        return NO_LABEL
    for name, text in zip(names, texts, strict=True):
        if text not in _HAS_LABEL:
            raise errors.InputError(
                f"{place}: {text!r:.40} in the column {name!r} is not 0 or 1; correct "
                "it, give one --label_column, or --has_header=true if it is a name"
            )
    return [name for name, text in zip(names, texts, strict=True) if _HAS_LABEL[text]]


def _check_kind(place: str, label: Any, kinds: dict[str, str]) -> None:
    """Refuses a label of another JSON type than the first of `kinds`, by type."""
    if label is NO_LABEL:
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
    """The answers of a row, `count` as in the rows before, or 0 in the first row."""
    if len(values) == 1:
        (values,) = values
    if not isinstance(values, list):
        raise errors.InputError(
            f"{place}: {values!r:.40} is one choice; name a column of JSON lists, or "
            "one for each, with --choice_columns"
        )
    for i, text in enumerate(values):
        if not isinstance(text, str):
            raise errors.InputError(
                f"{place}: text of choice {i} is {text!r:.40}; write a string"
            )
    row = tuple(values)
    expected = count or max(len(row), 2)
    if len(row) != expected:
        raise errors.InputError(
            f"{place}: {len(row)} choices, not {expected}; give all rows as many"
        )
    return row


def _value(place: str, role: table_columns.Role | str, value: Any) -> Any:
    """A JSON value as the text or label that it stands for."""
    if isinstance(value, str):
        return value
    wanted = "a string, number, true or false"
    if role in (TEXT_A, TEXT_B):
        wanted = "a string"
    elif isinstance(value, float) and not math.isfinite(value):
        wanted = "a finite number"
    elif isinstance(value, bool | int | float):
        return json.dumps(value)
    elif isinstance(value, list) and role == LABEL:
        return tuple(_value(place, "an item of label", item) for item in value)
    raise errors.InputError(f"{place}: {role} is {value!r:.40}; write {wanted}")
