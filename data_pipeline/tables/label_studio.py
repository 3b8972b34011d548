"""Tasks of Label Studio's JSON export as rows of texts, labels and spans."""

import collections
import itertools
from collections.abc import Iterator
from typing import Any

from contract import errors

_SPANS = "spans"  # [start, end, label] each
_Marks = dict[str, list[Any]]  # what was chosen, by control, and the spans of a text


def rows(path: str, numbered: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yields numbered rows as they are, and tasks, of which all are read, as rows.

    A row has the data of its task, the choices of each control, also as "label" where
    there is one control, and the "spans" of its text; None where nobody has annotated.
    """
    first = list(itertools.islice(numbered, 1))
    numbered = itertools.chain(first, numbered)
    if not (first and isinstance(first[0][1], dict) and _is_task(first[0][1])):
        yield from numbered
        return
    tasks = [(number, *_read(f"{path}:{number}", row)) for number, row in numbered]
    most: collections.Counter[str] = collections.Counter()  # marks of a row
    for _, _, marks in tasks:
        most |= collections.Counter({k: len(v) for k, v in (marks or {}).items()})
    controls = most.keys() - {_SPANS}
    for number, row, marks in tasks:
        for name, count in most.items():
            values = None if marks is None else marks.get(name, [])
            is_one = count == 1 and name in controls and values is not None
            row[name] = (values or [None])[0] if is_one else values
        if len(controls) == 1:
            row["label"] = row[min(controls)]
        if _SPANS in most:
            row.setdefault("text", _only_text(row))
        yield number, row


def _is_task(row: dict[str, Any]) -> bool:
    return isinstance(row.get("data"), dict) and isinstance(
        row.get("annotations"), list
    )


def _only_text(data: dict[str, Any]) -> Any:
    texts = [value for value in data.values() if isinstance(value, str)]
    return data.get("text", texts[0] if len(texts) == 1 else None)


def _read(place: str, task: Any) -> tuple[dict[str, Any], _Marks | None]:
    """The data and the marks of a task; refuses annotations that differ."""
    try:
        data = {"id": task["id"], **task["data"]}
        given = [a for a in task["annotations"] if not a.get("was_cancelled")]
        marks = [_marks(place, _only_text(data), each["result"]) for each in given]
    except (KeyError, TypeError, AttributeError) as error:
        raise errors.InputError(
            f"{place}: is no task of Label Studio ({type(error).__name__}: {error}), "
            "as the first row is; export the project again"
        ) from None
    if any(each != marks[0] for each in marks):
        raise errors.InputError(
            f"{place}: has {len(marks)} annotations that differ; keep one"
        )
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
                f"{place}: {kind!r:.40} of Label Studio is no choice and no span of "
                "one text; leave it out, or give its CSV or CoNLL file"
            )
    return dict(marks)
