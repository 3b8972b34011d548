"""A look at labelled rows before training, which shows what is odd in all of them.

What is surely a fault ends the run, and what may be meant is a warning.
"""

import collections
import contextlib
import dataclasses
import decimal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import characters, errors, wording
from data_pipeline import findings, label_maps
from data_pipeline.classification import labels, sources
from data_pipeline.tables import labelled, numbers, other_programs

# Cells of rows that nobody labelled: SNLI has "-", tables of pandas the others.
_PLACEHOLDERS = frozenset(["", "-", "?", "nan", "NaN", "null", "<NA>", "#N/A"])
# These are classes in some tables: a sentiment of -1, an intent that is called None.
_DOUBTFUL = frozenset(["-1", "None", "NULL", "NA", "N/A"])
_SIGNS = frozenset(["-", "?"])  # classes beside another sign, such as "+"
_LARGEST_SHARE = 0.05  # of -1 beside the classes 0, 1, 2, ...; SNLI has 0.02
_FEW_ROWS = 5  # of a class
_LEAST_ROWS, _DISTINCT = 10, 0.8  # of a table, and the share of classes in it
_MOST_GRADES = 5  # different numbers that may be classes
_SEPARATORS = "|;"  # of labels; what else may be one stands in names, too
_BITS = frozenset(["0", "1", "0.0", "1.0", "true", "false"])
_Findings = Iterator[findings.Finding]


def with_labels(
    table: labelled.Table,
    problem_type: str,
    names: Collection[str] = (),
    unit: str = "row",
) -> tuple[labelled.Table, list[findings.Finding]]:
    """The rows of a table that have a label, and a note of those with a placeholder.

    Where the `names` of the classes are known, every other placeholder is one. Else
    "-1" is beside the classes 0, 1, 2, ..., if rare, and "-" beside words; what may
    name a class is not.
    """
    table = one_label_each(table, problem_type)
    cells = table.labels or []
    counts = collections.Counter(cells)
    left_out = _placeholders(counts, problem_type, names)
    if not left_out:
        return table, []
    is_kept = np.array([cell not in left_out for cell in cells])
    shown = wording.first_of([f"{name!r} {counts[name]}" for name in left_out])
    if not is_kept.any():
        raise errors.InputError(
            f"{table.path}: no row has a label ({shown}); check --label_column"
        )
    lines = [table.lines[row] for row in np.flatnonzero(~is_kept)]
    text = f"left out {wording.count(len(lines), unit)} without a label ({shown}), "
    text += wording.lines(lines, 20)
    remedy = "for a class of that name, name all with --labels"
    note = findings.Finding(table.path, text, remedy)
    return labelled.take(table, is_kept), [note]


def one_label_each(table: labelled.Table, problem_type: str) -> labelled.Table:
    """The table with lists of one label as that label, or of none as `NO_LABEL`."""
    if problem_type == "multi_label" or not table.labels:
        return table
    cells = list(table.labels)
    for row, cell in enumerate(cells):
        if isinstance(cell, tuple) and len(cell) < 2:
            cells[row] = cell[0] if cell else labelled.NO_LABEL
    return dataclasses.replace(table, labels=cells)


def _placeholders(
    counts: Mapping[Any, int], problem_type: str, names: Collection[str]
) -> list[str]:
    there = _suspects(counts, problem_type)
    others = counts.keys() - there
    if names or problem_type == "choice":
        there -= set(names)
    elif problem_type == "regression":
        there -= {"-1"}
    elif there:
        is_rare = counts.get("-1", 0) <= max(1, _LARGEST_SHARE * sum(counts.values()))
        is_numbered = others == set(map(str, range(len(others))))
        is_class = not (is_rare and is_numbered and len(others) > 2)
        there -= _DOUBTFUL if is_class else _DOUBTFUL - {"-1"}
        there -= _SIGNS if len(others) < 2 or _has_sign(others) else set()
    return sorted(there, key=lambda name: (-counts[name], name))


def _suspects(names: Collection[Any], problem_type: str) -> set[str]:
    # An empty cell of multi_label is a text that has none of the labels.
    none = {""} if problem_type == "multi_label" else set()
    return {name for name in (_PLACEHOLDERS | _DOUBTFUL) - none if name in names}


def _has_sign(names: Iterable[Any]) -> bool:
    """Whether a name has no letter and no digit, such as "+"."""
    return not all(any(map(str.isalnum, "".join(name))) for name in names)


def inspect(
    rows: Mapping[str, labelled.Table],
    problem_type: str,
    separator: str = ",",
    *,
    has_names: bool = False,
    joined: str = "",
) -> list[findings.Finding]:
    """The oddities of the splits of a run; `has_names` where it states the classes.

    `joined` is the kind of finding for classes such as a|b beside a and b; "" for none.
    """
    train = rows.get("train")
    if train is None or train.labels is None:
        return of_texts(rows)
    cells = collections.Counter(train.labels)
    if problem_type == "regression":
        return [*equal_numbers(rows), *_of_grades(train, cells), *of_texts(rows)]

    def names_of(cell: labelled.Label) -> Sequence[Any]:
        is_set = problem_type == "multi_label"
        return labels.split_labels(cell, separator) if is_set else [cell]

    counts: collections.Counter[Any] = collections.Counter()
    for cell, count in cells.items():
        counts.update(dict.fromkeys(names_of(cell), count))
    shown = wording.first_of([f"{name} {n}" for name, n in counts.most_common()], 8)
    text = f"{wording.count(len(counts), 'label')}: {shown}"
    noticed = [findings.Finding(train.path, text)]
    if not has_names:
        noticed += _of_cells(train, cells, separator)
        noticed += _of_names(train, counts)
        if problem_type == "multi_label":
            noticed += _of_separators(train, counts, separator)
        elif problem_type == "classification" and joined:
            noticed += _of_joined(train, counts, joined)
    return noticed + of_texts(rows, lambda cell: frozenset(names_of(cell)))


def _of_grades(table: labelled.Table, cells: Mapping[Any, int]) -> _Findings:
    if 1 < len(cells) <= _MOST_GRADES and 4 * len(cells) <= len(table.lines):
        text = f"the only labels are {', '.join(map(str, sorted(cells)))}"
        yield findings.warning(table.path, text, "for classes leave --problem_type out")


def equal_numbers(rows: Mapping[str, labelled.Table]) -> _Findings:
    """Warnings of splits whose numbers are all equal."""
    for table in rows.values():
        cells = table.labels or []
        if len(cells) > 1 and len({*map(_canonical, cells)}) == 1:
            text = f"all labels are {cells[0]!r}"
            yield findings.warning(table.path, text, "nothing can be learned or scored")


def _of_cells(
    table: labelled.Table, cells: Mapping[Any, int], separator: str
) -> _Findings:
    """Faults of cells that hold a printed list, or a 0 or 1 for each label."""
    odd = [c for c in cells if isinstance(c, str) and other_programs.shape(c)]
    if odd:
        count = wording.count(sum(cells[cell] for cell in odd), "row")
        line = table.lines[(table.labels or []).index(odd[0])]
        what = other_programs.shape(odd[0])
        yield findings.fault(
            f"{table.path}:{line}",
            f"label {odd[0]!r:.60} is {what} ({count})",
            f"save a spreadsheet with its values, write lists as a{separator}b with "
            "--problem_type=multi_label, or as lists in JSONL",
        )
    lists = [labels.split_labels(cell, separator) for cell in cells]
    width = len(lists[0])
    if all(len(row) == width and _BITS.issuperset(row) for row in lists) and any(
        len(set(row)) < width for row in lists
    ):
        text = f"{wording.listing(lists[0])} has 0 or 1 for each label and no names"
        remedy = "give a column each: --label_column=NAME,NAME"
        yield findings.fault(f"{table.path}:{table.lines[0]}", text, remedy)


def _of_separators(
    table: labelled.Table, counts: Mapping[str, int], separator: str
) -> _Findings:
    """Faults of names such as a|b beside a, in a column of several labels."""
    for mark in _SEPARATORS.replace(separator, ""):
        parts = {name: {*map(str.strip, name.split(mark))} for name in counts}
        if joined := [n for n in counts if mark in n and parts[n] & counts.keys()]:
            text = f"{joined[0]!r:.60} joins labels that stand alone, too"
            yield findings.fault(table.path, text, f"pass --label_separator={mark!r}")


def _of_joined(
    table: labelled.Table, counts: Mapping[Any, int], kind: str
) -> _Findings:
    """Findings of classes whose parts are classes, too, and may be several labels."""
    for mark in _SEPARATORS:
        names = [n for n in counts if isinstance(n, str) and mark in n]
        is_joined = {
            n: {*map(str.strip, n.split(mark))} <= counts.keys() for n in names
        }
        if joined := [name for name in names if is_joined[name]]:
            rows = wording.count(sum(counts[name] for name in joined), "row")
            text = f"{joined[0]!r:.60} is a class beside those that it joins ({rows})"
            remedy = "for several labels of a row pass --problem_type=multi_label "
            remedy += f"--label_separator={mark!r}"
            yield findings.Finding(table.path, text, remedy, kind)


def _of_names(table: labelled.Table, counts: collections.Counter[Any]) -> _Findings:
    path, size = table.path, len(table.lines)
    groups = collections.defaultdict(list)
    for name, count in counts.most_common():
        shown = str(name).replace("\xa0", "<no-break space>")
        groups[_canonical(name)].append(f"{shown!r} ({count})")
    for spelling, group in groups.items():
        if spelling == "":
            text = f"{' and '.join(group)}: a label without a visible character"
            yield findings.fault(path, text, "empty the cells, or fill them")
        elif len(group) > 1:
            text = f"{' and '.join(group)} are spellings of one label"
            yield findings.fault(path, text, "write them alike")
    if size >= _LEAST_ROWS and len(counts) >= _DISTINCT * sum(counts.values()):
        remedy = "choose another --label_column, or --problem_type=regression"
        yield findings.fault(path, f"{len(counts)} labels in {size} rows", remedy)
    few = [f"{n} {c}" for n, c in reversed(counts.most_common()) if c < _FEW_ROWS]
    if 0 < len(few) < len(counts):
        text = f"{len(few)} of {len(counts)} labels have fewer than {_FEW_ROWS} rows"
        yield findings.warning(path, f"{text}: {wording.first_of(few)}")
    doubts = _suspects(counts, "")
    doubts -= _SIGNS if _has_sign(counts.keys() - _SIGNS) else set()
    # Grades are -1 and 1, or -1, 0 and 1.
    doubts -= {"-1"} if "0" not in counts or len(counts) < 4 else set()
    for name in sorted(doubts):
        text = f"{name!r} is the label of {wording.count(counts[name], 'row')}"
        yield findings.warning(path, text, "remove them if it stands for none")


def _canonical(name: Any) -> Any:
    """As characters.spelling, and equal for spellings of a number."""
    text = characters.spelling(str(name))
    # As a Decimal it is exact, also where a float is not.
    return decimal.Decimal(text) if numbers.is_number(text) else text


def of_texts(
    rows: Mapping[str, labelled.Table],
    key: Callable[[labelled.Label], Any] = lambda label: None,
) -> list[findings.Finding]:
    """Warnings of training texts in another split, or with labels of two keys.

    Also, in any split, of texts that are code of a spreadsheet.
    """
    noticed: list[findings.Finding] = []
    for table in rows.values():
        each = zip(table.lines, table.texts(), strict=True)
        read = ((line, cell) for line, row in each for cell in row)
        noticed += other_programs.spreadsheet_cells(table.path, read)
    if not (train := rows.get("train")):
        return noticed
    texts, places = train.texts(), train.lines
    cells, known = train.labels or [""] * len(texts), set(texts)
    dev = rows.get("dev")
    if dev and dev.labels and dev.path == train.path:  # a file that is cut in two
        unlabelled = _suspects(dev.labels, "") - set(cells)
        whole = [*zip(places, texts, cells, strict=True)]
        whole += zip(dev.lines, dev.texts(), dev.labels, strict=True)
        whole = [row for row in whole if row[2] not in unlabelled]
        whole.sort(key=lambda row: row[0])
        places, texts, cells = map(list, zip(*whole, strict=True))
    if len(set(texts)) < len(texts):
        first: dict[Any, tuple[int, labelled.Label]] = {}
        others: dict[Any, str] = {}
        for row, line, cell in zip(texts, places, cells, strict=True):
            before, label = first.setdefault(row, (line, cell))
            if cell != label and key(cell) != key(label):
                shown = f"lines {before} ({label!r:.40}) and {line} ({cell!r:.40})"
                others.setdefault(row, shown)
        if others:
            text = f"{wording.count(len(others), 'text')} with two labels: "
            text += wording.first_of([*others.values()])
            noticed.append(findings.warning(train.path, text))
    for split, table in rows.items():
        is_scored = table.labels and not _PLACEHOLDERS.issuperset(table.labels)
        if train.labels and not is_scored:
            continue
        pairs = zip(table.texts(), table.lines, strict=True)
        same = [line for row, line in pairs if row in known]
        if same and split != "train":
            text = f"{len(same)} of {len(table.lines)} {split} rows are training rows, "
            text += f"too ({wording.lines(same)}), which raises the scores"
            noticed.append(findings.warning(table.path, text))
    return noticed


class Chosen(NamedTuple):
    """The rows of a run that have a label, and their labels."""

    rows: dict[str, labelled.Table]
    label_set: labels.Labels
    asked: tuple[str, ...]  # as of Source.label_set
    noticed: list[findings.Finding]  # in the rows


def choose(
    rows: Mapping[str, labelled.Table],
    source: sources.Source,
    head: label_maps.Head | None,
    show: findings.Show = findings.hide,
) -> Chosen:
    """Leaves out rows without a label, save published ones, and finds the labels.

    `show` gets the findings as they come; a fault is refused, if reading does not go
    on.
    """
    rows, train, task = dict(rows), rows.get("train"), source.task
    names, noticed = source.stated_names, list[findings.Finding]()
    if train and not task:
        unit = "training row" if source.dev_share else "row"
        stated = names or train.label_names
        rows["train"], noticed = with_labels(train, source.kind, stated, unit)
        rows |= {n: one_label_each(table, source.kind) for n, table in rows.items()}
    has_names = bool(names or task)
    goes_on = source.layout.goes_on  # as --check_data does, to show all faults
    joined = findings.FAULT if goes_on else findings.WARNING
    odd = inspect(
        rows, source.kind, source.separator, has_names=has_names, joined=joined
    )
    noticed += [each for each in odd if not task or each.kind == findings.NOTE]
    for each in [each for each in noticed if each.kind == findings.FAULT][-1:]:
        more = f"{each.remedy}; or name every label that is meant with --labels"
        noticed[noticed.index(each)] = dataclasses.replace(each, remedy=more)
    show(noticed)
    if not goes_on:
        findings.refuse(noticed)
    label_set, asked = source.label_set(rows.get("train"), head, show)
    kind, unit = label_set.problem_type, "dev row" if source.dev_share else "row"
    if "dev" in rows and not task:
        rows["dev"], left_out = with_labels(rows["dev"], kind, label_set.names, unit)
        show(left_out)
    if "test" in rows and not task:
        rows["test"] = one_label_each(rows["test"], kind)
    return Chosen(rows, label_set, asked, noticed)


def look(source: sources.Source, splits: Iterable[str]) -> list[findings.Finding]:
    """All that a run would notice or refuse of the splits; the faults come last.

    Rows beside refused ones are still looked at.
    """
    rows: dict[str, labelled.Table] = {}
    others: list[findings.Finding] = []
    faults: list[findings.Finding] = []

    def add(noticed: Iterable[findings.Finding]) -> None:
        for each in noticed:
            is_fault = each.kind == findings.FAULT
            if not is_fault or each.text not in [fault.text for fault in faults]:
                (faults if is_fault else others).append(each)

    @contextlib.contextmanager
    def collected() -> Iterator[None]:  # the other splits are still looked at
        try:
            yield
        except (errors.InputError, OSError) as error:
            add(findings.fault("", text) for text in str(error).split(";\n"))

    layout = dataclasses.replace(source.layout, goes_on=True)
    source = dataclasses.replace(source, layout=layout)
    for split in splits:
        if split == "dev" and source.dev_share and not rows:
            continue  # of the file that has just been refused
        with collected():
            table = rows[split] = source.read(split, add)
            count = wording.count(len(table.lines), "row")
            add([findings.Finding(split, f"{count} from {table.path}")])
    with collected():
        if rows:
            rows, label_set, *_ = choose(rows, source, None, add)
        for split in [name for name in rows if name != "test"]:
            with collected():
                label_set.encode(rows[split])
        if (test := rows.get("test")) and any(test.labels or ()):
            try:
                label_set.encode(test)
            except ValueError as error:
                add([findings.warning("the test rows are not scored", str(error))])
    return others + faults
