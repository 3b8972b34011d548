"""Marks of rows and cells of code that other programs write into tables."""

import collections
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from contract import errors, wording
from data_pipeline import findings
from data_pipeline.tables import text_rows

_KEPT_BY_ARGILLA = "default", "edited", "validated", "submitted", "completed", "draft"
# Columns in which Prodigy, Argilla and Label Studio judge rows, and their words, in
# small letters, by whether the row is kept.
_MARKS: Mapping[str, Mapping[str, bool]] = {
    "answer": {"accept": True, "reject": False, "ignore": False},
    "status": {"discarded": False} | dict.fromkeys(_KEPT_BY_ARGILLA, True),
    "was_cancelled": {"false": True, "true": False},
}
LOOKED_AT = 100  # rows, of which the first may have no mark, or no second text
_ITEM = r"""(?:'[^']*'|"[^"]*"|[-+.\d]+)"""
SPREADSHEET = ("=", "#")  # begin the code of one
_SHAPES = {
    "a printed list": rf"[\[({{]\s*(?:{_ITEM}(?:[,\s]+{_ITEM})*,?)?\s*[\])}}]",
    "a printed object": r'\{\s*"[^"]*"\s*:.*\}',  # Label Studio's {"choices": [...]}
    "a spreadsheet's formula": r'=(?:".*"|[-+]?[\d(].*|[-+]?[A-Z$]+[\d$(].*)',
    "a spreadsheet's error": r"#(?:[A-Z\d/]+[!?]|N/A|NV)",  # in all languages
}
_PATTERNS = {what: re.compile(shape, re.DOTALL) for what, shape in _SHAPES.items()}


def marks(
    names: Sequence[str], rows: Sequence[tuple[int, Any]]
) -> dict[str, text_rows.Key]:
    """Keys of columns whose first words are marks of a tool, by name."""
    keys: dict[str, text_rows.Key] = {}
    words = collections.defaultdict[str, set[str]](set)
    for _, row in rows[:LOOKED_AT]:
        for name in {*(row if isinstance(row, dict) else names)} & _MARKS.keys():
            keys[name] = name if isinstance(row, dict) else names.index(name)
            words[name].add(_word(row, keys[name]))
    given = {name: words[name] - {"", "none"} for name in keys}
    return {n: key for n, key in keys.items() if given[n] and given[n] <= {*_MARKS[n]}}


def _word(row: text_rows.Row, key: text_rows.Key) -> str:
    return str(text_rows.cell(row, key)).lower()


def accepted(
    path: str,
    rows: Iterable[tuple[int, Any]],
    keys: Mapping[str, text_rows.Key],
    noticed: list[findings.Finding],
    read: Collection[text_rows.Key] = (),
) -> Iterator[tuple[int, Any]]:
    """Yields the rows without a mark of a discarded one; the others are `noticed`.

    Marks are in columns with `keys`, save those that are `read` as something else.
    InputError is raised where all rows are discarded.
    """
    left_out: dict[int, str] = {}
    count = 0
    for line, row in rows:
        words = {n: _word(row, key) for n, key in keys.items() if key not in read}
        odd = [f"{n}={w}" for n, w in words.items() if not _MARKS[n].get(w, True)]
        if odd:
            left_out[line] = odd[0]
            continue
        count += 1
        yield line, row
    if left_out:
        counts = collections.Counter(left_out.values()).most_common()
        text = f"{wording.count(len(left_out), 'row')} that a tool of annotation "
        text += f"discards ({', '.join(f'{mark} {number}' for mark, number in counts)})"
        if not count:
            raise errors.InputError(f"{path}: has only {text}; give accepted ones")
        text = f"left out {text}, {wording.lines(left_out, 20)}"
        noticed.append(findings.Finding(path, text))


def shape(cell: str) -> str:
    """What a cell of another program's code is, or ""."""
    return next((what for what, each in _PATTERNS.items() if each.fullmatch(cell)), "")


def spreadsheet_cells(
    path: str, cells: Iterable[tuple[int, str]]
) -> list[findings.Finding]:
    """The warning of texts, by their lines, that are formulas or errors, if any are."""
    odd = {n: cell for n, cell in cells if cell.startswith(SPREADSHEET) and shape(cell)}
    if not odd:
        return []
    (line, cell), *_ = odd.items()
    text = f"text {cell!r:.60} is {shape(cell)} ({wording.lines(odd, 20)})"
    remedy = "save the table with its values"
    return [findings.warning(f"{path}:{line}", text, remedy)]
