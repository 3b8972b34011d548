"""What other programs write into tables: marks of rows, and cells of their code."""

import collections
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from contract import errors, wording
from data_pipeline.tables import table_columns, text_rows

# Columns in which tools of annotation judge rows, the tools, and their words, in small
# letters: of rows that are kept, and of those that are discarded.
_MARKS: Mapping[str, tuple[str, Collection[str], Collection[str]]] = {
    "answer": ("Prodigy", ["accept"], ["reject", "ignore"]),
    "status": ("Argilla", ["default", "edited", "validated"], ["discarded"]),
    "was_cancelled": ("Label Studio", ["false"], ["true"]),
}
_ITEM = r"""(?:'[^']*'|"[^"]*"|[-+.\d]+)"""
SPREADSHEET = ("=", "#")  # begin the code of one
_SHAPES = {
    "a printed list": rf"[\[({{]\s*(?:{_ITEM}(?:[,\s]+{_ITEM})*,?)?\s*[\])}}]",
    "a printed object": r'\{\s*"[^"]*"\s*:.*\}',  # Label Studio's {"choices": [...]}
    "a spreadsheet's formula": r'=".*"',
    "a spreadsheet's error": r"#(?:NAME\?|REF!|VALUE!|DIV/0!|NUM!|NULL!|N/A)",
}
_PATTERNS = {what: re.compile(shape, re.DOTALL) for what, shape in _SHAPES.items()}


def _word(row: text_rows.Row, key: table_columns.Key) -> str:
    value = table_columns.cell(row, key)
    return "" if value is None else str(value).lower()


def _mark_keys(names, row, read=()) -> dict[str, table_columns.Key]:
    """Keys of columns that may hold marks: none that is read as something else."""
    if isinstance(row, dict):
        return {name: name for name in _MARKS if name not in read}
    places = {name: names.index(name) for name in _MARKS if names.count(name) == 1}
    taken = {key % len(row) for key in read}
    return {name: place for name, place in places.items() if place not in taken}


def without_marks(
    names: Sequence[str], rows: text_rows.NumberedRows
) -> tuple[list[str], text_rows.NumberedRows]:
    """The names of columns whose first cell is no mark of a tool, and all rows."""
    ahead = list(itertools.islice(rows, 1))
    marked = {
        name
        for _, row in ahead
        for name, key in _mark_keys(names, row).items()
        if any(_word(row, key) in words for words in _MARKS[name][1:])
    }
    names = [name for name in names if name not in marked]
    return names, itertools.chain(ahead, rows)


def accepted(
    path: str,
    rows: Iterable[tuple[int, Any]],
    names: Sequence[str] = (),
    read: Collection[table_columns.Key] = (),
) -> Iterator[tuple[int, Any]]:
    """Yields the rows that no tool of annotation discards, and counts the others.

    `names` are those of a header, `read` the keys of columns that hold no marks; so
    does one whose first word is none of a tool's.

    InputError is raised where all rows are discarded, or pandas wrote columns.
    """
    keys: dict[str, table_columns.Key] | None = None
    left_out: dict[str, dict[int, str]] = {}
    count, known = 0, set[str]()
    for line, row in rows:
        keys = _mark_keys(names, row, read) if keys is None else keys
        values = row.values() if isinstance(row, dict) else ()
        if values and all(isinstance(each, dict) and "0" in each for each in values):
            raise errors.InputError(
                f"{path}:{line}: has columns and not rows; write them by pandas' "
                'to_json(path, orient="records", lines=True)'
            )
        for name, key in [*keys.items()]:
            _, kept, discarded = _MARKS[name]
            if (word := _word(row, key)) in discarded:
                left_out.setdefault(name, {})[line] = word
                break
            if word in kept:
                known.add(name)
            elif word and name not in known | left_out.keys():
                del keys[name]
        else:
            count += 1
            yield line, row
    for name, lines in left_out.items():
        counts = collections.Counter(lines.values()).most_common()
        shown = ", ".join(f"{word!r} {number}" for word, number in counts)
        text = f"{wording.count(len(lines), 'row')} that {_MARKS[name][0]} "
        text += f"discards ({name}: {shown})"
        if not count:
            raise errors.InputError(f"{path}: has only {text}; give accepted ones")
        print(f"{path}: left out {text}, {wording.lines(lines, 20)}")


def shape(cell: str) -> str:
    """What a cell of another program's code is, or ""."""
    return next((what for what, each in _PATTERNS.items() if each.fullmatch(cell)), "")


def spreadsheet_cells(path: str, cells: Iterable[tuple[int, str]]) -> str:
    """A warning of texts, by their lines, that are formulas or errors; or ""."""
    odd = {n: cell for n, cell in cells if cell.startswith(SPREADSHEET) and shape(cell)}
    if not odd:
        return ""
    (line, cell), *_ = odd.items()
    return (
        f"{path}:{line}: text {cell!r:.60} is {shape(cell)} ({wording.lines(odd, 20)})"
        "; save the table with its values"
    )
