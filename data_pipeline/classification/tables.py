"""Reads labelled tables: TSV, CSV and JSONL files, and TensorFlow Datasets."""

import contextlib
import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from contract import errors, wording
from data_pipeline.tables import (
    clue,
    memory_rows,
    other_programs,
    table_columns,
    text_rows,
)

# As a file writes it; a tuple is a JSON list (multi-label).
Label = str | tuple[str, ...]
Key = text_rows.Key

# The columns of rows in memory that have no names, by how many there are.
UNNAMED = {1: ("text",), 2: ("text", "label"), 3: ("text_a", "text_b", "label")}
_ROLES = ("text_a", "text_b", "label", "example_id")
_FLAGS = "--text_a_column, --text_b_column and --label_column"
# Cells of a column that stands for one label, by whether the row has the label.
_HAS_LABEL = {"0": False, "0.0": False, "false": False}
_HAS_LABEL |= {"1": True, "1.0": True, "true": True}
NO_LABEL = "null"  # of a row that has null in the place of a label
_NULLS = {"text_a": "", "text_b": "", "label": NO_LABEL}  # what null stands for


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
    # With one warning, instead of raising; of own files also longer ones.
    skip_short_rows: bool = False
    allow_empty_text: bool = False
    leaves_out: bool = False  # rows without text, with a line of their number
    is_published: bool = False  # rows may have more cells than the header

    @property
    def label_columns(self) -> tuple[Key, ...]:
        """The columns that stand for one label each; () for one of all labels."""
        return () if isinstance(self.label, int | str | None) else tuple(self.label)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where rows come from, to read them again with all of their columns."""

    read: Callable[[], text_rows.NumberedRows]
    keys: Mapping[str, Key]  # of the cell of each role
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
        rows, key = self.origin.read(), self.origin.keys["text_a"]
        for line, text in zip(self.lines, self.text_a, strict=True):
            for number, row in rows:  # among those that were left out
                if number == line and text_rows.cell(row, key) == text:
                    yield row
                    break
            else:
                raise errors.InputError(
                    f"{self.path}:{line}: has changed since it was read; predict again"
                )


def read_table(path: str, layout: Layout, *, labels_required: bool) -> Table:
    """Reads one file; one that lacks a column, labels or texts is refused.

    TSV is read as by the original's `DataProcessor._read_tsv`: a quote is an ordinary
    character, only a line feed ends a line, and carriage returns are dropped.
    """
    path = str(path)
    if layout.file_format not in clue.READERS:
        layout = text_rows.resolve(path, layout)
    rows, keys, header = _begin(path, layout, labels_required)
    read = functools.partial(_open, path, layout, is_ragged=True, skips_empty=False)
    return _collect(path, rows, keys, layout, header, read)


def check_columns(files: Mapping[str, str], layout: Layout) -> None:
    """Checks the first rows of each split's file as `read_table` does."""
    for split, path in files.items():
        with contextlib.redirect_stdout(None):  # what is printed comes with all rows
            _begin(path, layout, split != "test")


def _begin(
    path: str, layout: Layout, labels_required: bool
) -> tuple[text_rows.NumberedRows, dict[str, Key], tuple[str, ...]]:
    """Opens a table: its rows, the keys of their cells, and the header, or ()."""
    is_published = layout.is_published or layout.file_format in clue.READERS
    rows = _open(
        path,
        layout,
        is_ragged=is_published or layout.skip_short_rows,
        skips_long=layout.skip_short_rows and not is_published,
        skips_empty=not layout.allow_empty_text,
    )
    is_header = functools.partial(_is_header, path, layout)
    names, first, rows = table_columns.take_header(path, rows, is_header)
    keys, rows = _with_columns(path, names, first, rows, layout, labels_required)
    return rows, keys, () if isinstance(first, dict) else tuple(names)


def _with_columns(path, names, first, rows, layout, labels_required):
    """The keys of cells, and the rows that no tool of annotation discards.

    All rows are kept where none of their labels is read.
    """
    marks, rows = other_programs.marks(names, rows)
    ahead = list(itertools.islice(rows, other_programs.LOOKED_AT))
    rows = itertools.chain(ahead, rows)
    objects = (row for _, row in ahead if isinstance(row, dict))
    later = dict.fromkeys(itertools.chain(*objects))
    keys = _choose_columns(path, layout, names, first, labels_required, marks, later)
    if layout.is_published or layout.file_format in clue.READERS:
        return keys, rows
    print(f"{path}: {table_columns.summary(keys, names, len(first))}")
    if marks and (layout.leaves_out or any(role.startswith("label") for role in keys)):
        rows = other_programs.accepted(path, rows, marks, keys.values())
    return keys, rows


def _open(path: str, layout: Layout, **options: bool) -> text_rows.NumberedRows:
    if layout.file_format in clue.READERS:
        return clue.READERS[layout.file_format](path)
    return text_rows.file_rows(path, layout, **options)


def read_tfds(
    name: str,
    split: str,
    layout: Layout,
    *,
    data_dir: str | None = None,
    labels_required: bool,
) -> Table:
    """Reads a split such as "validation[:10%]" of a data set such as "glue/sst2"."""
    path = f"tfds:{name}:{split}"
    load = functools.partial(text_rows.tfds_rows, path, name, split, data_dir)
    names, rows = load()
    return _from_objects(path, names, rows, layout, labels_required, lambda: load()[1])


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
    name: str, records: Any, layout: Layout, *, labels_required: bool
) -> Table:
    """A table of rows in memory, called `name` in messages, with `lines` from 1.

    Rows are as of memory_rows.named, with the names of `UNNAMED`.
    """
    columns = {role: getattr(layout, role) for role in _ROLES}
    rows = memory_rows.named(name, records, memory_rows.called(UNNAMED, columns))
    return _from_objects(name, None, rows, layout, labels_required)


def _from_objects(path, names, rows, layout, labels_required, read=None):
    """The table of numbered dicts, with the keys of the first one for no `names`."""
    line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(f"{path}: is empty; give it one row per example")
    names = names or list(first)
    rows = itertools.chain([(line, first)], rows)
    keys, rows = _with_columns(path, names, first, rows, layout, labels_required)
    return _collect(path, rows, keys, layout, read=read)


def _stated_columns(layout: Layout, *, keyed: bool) -> dict[str, Key | None]:
    """The layout's column of each role; where rows are keyed, every one is a name."""
    columns: dict[str, Key | None] = {role: getattr(layout, role) for role in _ROLES}
    if layout.label_columns:
        columns |= {"label": None} | {f"label {c}": c for c in layout.label_columns}
    columns |= {f"choice {i}": key for i, key in enumerate(layout.choices)}
    columns["keep_rows"] = layout.keep_rows[0] if layout.keep_rows else None
    return {
        role: table_columns.parse(column, keyed=keyed)
        for role, column in columns.items()
    }


def _is_header(path: str, layout: Layout, first: list[str]) -> bool:
    columns = _stated_columns(layout, keyed=False)
    if columns["label"] == "":  # no column, for --label_column=
        columns["label"] = None
    texts = {*itertools.chain(*layout.usual_texts)}
    is_given = columns["text_a"] is not None
    is_chosen = bool(table_columns.choose_usual(first, layout.usual_texts))
    return table_columns.is_header(
        path,
        first,
        has_header=layout.has_header,
        columns=columns,
        usual={
            "text_a": texts,
            "text_b": texts,
            "label": table_columns.USUAL_LABELS,
        },
        is_chosen=is_chosen and not is_given,
        is_given=is_given,
        flags=_FLAGS,
    )


def _choose_columns(
    path: str,
    layout: Layout,
    names: list[str],
    first: text_rows.Row,
    labels_required: bool,
    marks: Collection[str],
    later: Collection[str] = (),
) -> dict[str, Key]:
    """The key of each role that is there; `first` is the header or else a row.

    No text that the layout does not name is in one of the columns `marks`, or of those
    that `later` rows alone have.
    """
    keyed = isinstance(first, dict)
    columns = _stated_columns(layout, keyed=keyed)
    unmarked = [name for name in names if name not in marks]
    if columns["text_a"] is None:
        others = [
            text_rows.cell(names, column) if isinstance(column, int) else column
            for column in (columns["label"], columns["example_id"])
        ]
        texts = table_columns.choose_usual(
            [name for name in unmarked if name not in others], layout.usual_texts
        )
        if not texts or columns["text_b"] is not None:
            raise errors.InputError(
                f"{path}: the first text's column is not given and is none of "
                f"{wording.listing(names)}; pass --text_a_column"
            )
        if not layout.choices:
            read = [*texts, *filter(None, others)]
            there = unmarked + [name for name in later if name not in marks]
            table_columns.check_unread(path, there, read, layout.usual_texts, _FLAGS)
        roles = ["text_a", "text_b"]
        if len(texts) > 2:
            roles = ["text_a", *(f"choice {i}" for i in range(len(texts) - 1))]
        for role, name in zip(roles, texts, strict=False):
            if columns.get(role) is None:
                columns[role] = name
    for role, usual in (
        ("label", () if layout.label_columns else table_columns.USUAL_LABELS),
        ("example_id", table_columns.USUAL_IDS),
    ):
        if columns[role] is None:
            chosen = table_columns.choose_usual(names, zip(usual))
            columns[role] = chosen[0] if chosen else None
    label_columns = {r: c for r, c in columns.items() if r.startswith("label")}
    if labels_required and set(label_columns.values()) == {None}:
        raise errors.InputError(
            f"{path}: the label's column is not given and is none of "
            f"{wording.listing(names)}; pass --label_column"
        )

    def is_absent(column: Key | None) -> bool:
        if isinstance(column, str) and not keyed:
            return column not in names or not column
        return text_rows.cell(first, column) is None

    if not labels_required and all(map(is_absent, label_columns.values())):
        columns |= dict.fromkeys(label_columns)
    keys = {
        role: table_columns.key(path, role, column, names, keyed=keyed)
        for role, column in columns.items()
        if column is not None
    }
    return {
        f"label {key if keyed else text_rows.cell(names, key) or key}"
        if role.startswith("label ")
        else role: key
        for role, key in keys.items()
    }


def _collect(
    path: str,
    rows: text_rows.NumberedRows,
    keys: dict[str, Key],
    layout: Layout,
    header: tuple[str, ...] = (),
    read: Callable[[], text_rows.NumberedRows] | None = None,
) -> Table:
    columns: dict[str, list[Any]] = {role: [] for role in _ROLES if role in keys}
    label_names = [role.removeprefix("label ") for role in keys if role[:6] == "label "]
    if label_names:
        columns["label"] = []
    text_roles = [role for role in keys if role.startswith("text")]
    choice_roles = [role for role in keys if role.startswith("choice ")]
    choices: list[tuple[str, ...]] = []
    kinds: dict[str, str] = {}
    lines: list[int] = []
    short: list[int] = []
    blank: dict[int, str] = {}
    unread: list[int] = []  # rows without text
    others: set[str] = set()
    for line, row in rows:
        place = f"{path}:{line}"
        cells = {role: text_rows.cell(row, key) for role, key in keys.items()}
        missing = [role for role, value in cells.items() if value is None]
        if missing and isinstance(row, dict):
            nulls = {role for role in missing if role in _NULLS and keys[role] in row}
            cells |= {role: _NULLS[role] for role in nulls}
            missing = [role for role in missing if role not in nulls]
        if missing:
            if not layout.skip_short_rows:
                role = missing[0]
                lack = text_rows.missing_cell_message(row, role, keys[role])
                raise errors.InputError(f"{place}: {lack}")
            short.append(line)
            continue
        if layout.keep_rows:
            kept = _value(place, "keep_rows", cells["keep_rows"])
            if kept != layout.keep_rows[1]:
                others.add(str(kept))
                continue
        texts = (str(cells[role]).strip() for role in text_roles)
        if layout.leaves_out and not all(texts):
            unread.append(line)
            continue
        if label_names:
            marks = [cells[f"label {name}"] for name in label_names]
            cells["label"] = _marked(place, label_names, marks)
        _check_kind(place, cells.get("label", NO_LABEL), kinds)
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
                blank.setdefault(line, f"choice {answers.index('')}")
        lines.append(line)
    if blank and not layout.allow_empty_text:
        (line, role), *more = blank.items()
        places = f", as in {wording.lines(dict(more), 20)}" * bool(more)
        raise errors.InputError(
            f"{path}:{line}: {role} is empty{places}; fill it, remove the row, or pass "
            "--allow_empty_text"
        )
    if unread:
        number = wording.count(len(unread), "row")
        if not lines:
            raise errors.InputError(f"{path}: has {number} and no text; give it some")
        print(f"{path}: left out {number} without text, {wording.lines(unread, 20)}")
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
        header=header,
        label_names=tuple(label_names),
        origin=Origin(read, keys, layout.delimiter) if read else None,
    )


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
    row = tuple(_value(place, f"text of choice {i}", v) for i, v in enumerate(values))
    expected = count or max(len(row), 2)
    if len(row) != expected:
        raise errors.InputError(
            f"{place}: {len(row)} choices, not {expected}; give all rows as many"
        )
    return row


def _value(place: str, role: str, value: Any) -> Any:
    """A JSON value as the text or label that it stands for."""
    if isinstance(value, str):
        return value
    wanted = "a string, number, true or false"
    if role.startswith("text"):
        wanted = "a string"
    elif isinstance(value, float) and not math.isfinite(value):
        wanted = "a finite number"
    elif isinstance(value, bool | int | float):
        return json.dumps(value)
    elif isinstance(value, list) and role == "label":
        return tuple(_value(place, "an item of label", item) for item in value)
    raise errors.InputError(f"{place}: {role} is {value!r:.40}; write {wanted}")
