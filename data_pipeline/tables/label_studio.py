"""Tasks of Label Studio's JSON export as rows of texts, labels and spans."""

import collections
import itertools
from collections.abc import Iterator
from typing import Any

from contract import errors

_SKIPPED = "was_cancelled"  # a key of an annotation, and of a row of such alone
_SPANS = "spans"  # [start, end, label] each
_Marks = dict[str, list[Any]]  # what was chosen, by control, and the spans of a text


def rows(path: str, numbered: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yields numbered rows as they are, and tasks, of which all are read, as rows.

    A row has the data of its task, lists of the choices of each control, also as
    "label" where there is one control, and the "spans" of its text; None where nobody
    has annotated.
    """
    first = list(itertools.islice(numbered, 1))
    numbered = itertools.chain(first, numbered)
    if not any(_is_task(row) for _, row in first):
        yield from numbered
        return
    tasks = [(number, *_read(f"{path}:{number}", row)) for number, row in numbered]
    columns = sorted({name for _, _, marks in tasks for name in marks or ()})
    controls = [name for name in columns if name != _SPANS]
    has_skipped = any(row[_SKIPPED] for _, row, _ in tasks)
    for number, row, marks in tasks:
        row |= {c: None if marks is None else marks.get(c, []) for c in columns}
        if len(controls) == 1:
            row["label"] = row[controls[0]]
        if not has_skipped:
            del row[_SKIPPED]
        yield number, row


def _is_task(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("data"), dict)
        and isinstance(row.get("annotations"), list)
    )


def _read(place: str, task: Any) -> tuple[dict[str, Any], _Marks | None]:
    """The data and the marks of a task; refuses annotations that differ."""
    try:
        data = {"id": task["id"], **task["data"]}
        given = [a for a in task["annotations"] if not a.get(_SKIPPED)]
        marks = [_marks(place, data.get("text"), each["result"]) for each in given]
    except (KeyError, TypeError, AttributeError) as error:
        raise errors.InputError(
            f"{place}: is no task of Label Studio ({type(error).__name__}: {error}), "
            "as the first row is; export the project again"
        ) from None
    if any(each != marks[0] for each in marks):
        raise errors.InputError(
            f"{place}: has {len(marks)} annotations that differ; keep one"
        )
    data[_SKIPPED] = bool(task["annotations"]) and not given
    return data, marks[0] if marks else None


def _marks(place: str, text: Any, items: list[dict[str, Any]]) -> _Marks:
    marks: _Marks = collections.defaultdict(list)
    for item in items:
        kind, value = item["type"], item.get("value", {})
        if kind == "choices":
            marks[item["from_name"]] += value[kind]
        elif kind == "labels" and isinstance(text, str):
            start, end = value["start"], value["end"]
            if text[start:end] != value["text"]:
                raise errors.InputError(
                    f"{place}: a span is {value['text']!r:.40}, and the text has "
                    f"{text[start:end]!r:.40} at {start}; correct it"
                )
            marks[_SPANS] += [[start, end, label] for label in value[kind]]
        elif kind != "relation":
            raise errors.InputError(
                f"{place}: {kind!r:.40} of Label Studio is no choice and no span of a "
                "text under 'text'; leave it out, or give its CSV or CoNLL file"
            )
    return marks
