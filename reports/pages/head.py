"""The head of a run's page, in the words of an office: how many rows are right."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from contract import wording
from reports.measures import confidence
from reports.pages import record

SHOWN_CLASSES = 12  # with the head they are one printed page
_OUTSIDE = "O"  # the tag of words without a name
# What is right, by kind of task.
_RIGHT = {
    "text-classification": "{} rows are labelled right",
    "multiple-choice": "{} rows get the right choice",
    "token-classification": "{} sentences have the right tag at every word",
    "question-answering": "{} questions are answered exactly right",
    "text2text-generation": "{} texts are written exactly as given",
}


class Tile(NamedTuple):
    """A number of the head."""

    title: str
    value: str
    note: str = ""


class Table(NamedTuple):
    """The table below the head; the first cell of a row is its name."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def verdict(kind: str, held_out: Mapping[str, Any]) -> str:
    """A sentence on the rows that are right, with the 95 % interval, or ""."""
    if numbers := held_out.get("numbers"):
        half, most, _ = (f"{numbers[name]:.3g}" for name in record.OFF)
        return f"Half of the numbers are off by at most {half}, 9 of 10 by {most}."
    if not held_out.get("is_correct") or kind not in _RIGHT:
        return ""
    right, rows = sum(held_out["is_correct"]), len(held_out["is_correct"])
    sentence = _RIGHT[kind].format(_of(right, rows))
    return f"{sentence} ({_range(right, rows)})."


def tiles(kind: str, held_out: Mapping[str, Any]) -> list[Tile]:
    """The numbers below that sentence; [] where the scores of the task are shown."""
    if numbers := held_out.get("numbers"):
        values = (f"{numbers[key]:.3g}" for key in record.OFF)
        titles = "Half are off by at most", "9 of 10 by at most", "Guessing the mean"
        notes = "", "", "half would be off by at most this"
        return list(map(Tile, titles, values, notes))
    if not verdict(kind, held_out):
        return []
    right, rows = sum(held_out["is_correct"]), len(held_out["is_correct"])
    note = f"{right:,} of {rows:,}; of other such rows {_range(right, rows)}"
    shown = [Tile("Right", percent(right / rows, rows), note)]
    if (commonest := held_out.get("commonest")) and kind != "token-classification":
        name, count = commonest
        note = f"right if all {_unit(kind)} got {_quoted(name)}"
        shown.append(Tile("Without a model", percent(count / rows, rows), note))
    scores = held_out["scores"]
    if kind == "token-classification" and {"recall", "precision"} <= scores.keys():
        for name, title, note in (
            ("recall", "Names found", "of those that are given"),
            ("precision", "Names right", "of those that are predicted"),
        ):
            shown.append(Tile(title, percent(scores[name]["value"], rows), note))
    classes = weakest_first(kind, held_out)
    if classes and classes[0]["f1"] < 1:
        name, given, predicted, hits = _counts(classes[0])
        note = f"{hits:,} of its {given:,} {_unit(kind)} are found"
        note += f", {hits:,} of {predicted:,} predicted so are right" * bool(predicted)
        shown.append(Tile("Weakest", name, note))
    if confusion := held_out["confusion"]:
        given, predicted, count = confusion["commonest"]
        if not count or kind == "multiple-choice":  # whose classes are places
            return shown
        counted = wording.count(count, _unit(kind).removesuffix("s"))
        note = f"predicted as {_quoted(predicted)} in {counted}"
        shown.append(Tile("Most often confused", given, note))
    elif classes and (missed := max(classes, key=_missed)) and _missed(missed):
        note = f"{_missed(missed):,} of its {missed['rows']:,} rows"
        shown.append(Tile("Most often missed", missed["name"], note))
    return shown


def table(kind: str, held_out: Mapping[str, Any]) -> Table | None:
    """The classes, the weakest first; None where there are none."""
    classes = weakest_first(kind, held_out)
    if not classes:
        return None
    rows: list[Sequence[str]] = []
    for each in classes[:SHOWN_CLASSES]:
        name, given, predicted, hits = _counts(each)
        shares = [
            f"{hits:,} ({percent(hits / count, count)})" if count else "-"
            for count in (given, predicted)
        ]
        rows.append((name, f"{given:,}", shares[0], f"{predicted:,}", shares[1]))
    some = f" {len(rows)} of {len(classes)}." if len(rows) < len(classes) else ""
    unit = _unit(kind)
    caption = f"""The weakest first, by found and right together.{some} Found:
    {unit} of a class that are predicted as it. Right of these: {unit} predicted as a
    class that are of it."""
    columns = "Class", unit.capitalize(), "Found", "Predicted", "Right of these"
    return Table(caption, columns, rows)


def weakest_first(kind: str, held_out: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The classes by F1; those with few rows, or none, are the last."""
    if kind not in ("text-classification", "token-classification"):
        return []
    outside = _OUTSIDE if kind == "token-classification" else None
    classes = [
        each
        for each in held_out.get("classes", ())
        if each["f1"] is not None and each["name"] != outside
    ]
    return sorted(
        classes, key=lambda each: (each["rows"] < record.FEWEST_ROWS, each["f1"])
    )


def percent(share: float, rows: int) -> str:
    """A share of rows in percent: more digits for more rows, and where all but few."""
    digits = max(0, int(math.log10(max(rows, 1)) / 2) - 1)
    while 0 < share < 1 and float(f"{100 * share:.{digits}f}") in (0, 100):
        digits += 1
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def _of(right: int, rows: int) -> str:
    """A share as about so many of ten, a hundred and so on; else the counts."""
    for base in (10, 100, 1000):
        near = round(right / rows * base)
        if base <= rows and 0 < near < base and abs(right / rows - near / base) <= 0.02:
            return f"{'' if near * rows == right * base else 'About '}{near} of {base}"
    return f"{right:,} of {rows:,}"


def _range(right: int, rows: int) -> str:
    low, high = (
        percent(end, rows)[:-2] for end in confidence.share_interval(right, rows)
    )
    return f"{low} to {high}\N{NO-BREAK SPACE}%"


def _counts(each):
    hits = round((each["recall"] or 0) * each["rows"])
    return each["name"], each["rows"], each["predicted"], hits


def _missed(each):
    return each["rows"] - _counts(each)[-1]


def _unit(kind):
    units = {"token-classification": "words", "question-answering": "questions"}
    return units.get(kind, "rows")


def _quoted(name):
    return f"“{name}”" if name else "no label"
