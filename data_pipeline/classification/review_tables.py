"""Tables for an hour of work: labels that may be wrong, and texts to label next."""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from contract import errors, outcomes, remote_files, wording
from data_pipeline.classification import predictions, split
from data_pipeline.tables import spreadsheets, text_rows

_LISTED = 200  # texts to label, which take about an hour
_NEAR = 0.99  # cosine of two texts that teach the same
_BLOCK = 256  # vectors that are compared at once
_DIGITS = 6
_LABEL_PLACE = 2  # of the column in to_label.csv that a person fills


def self_confidence(label_ids: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The probability of the given label of each row, float [N].

    Of several labels it is that of the one that is believed least, also where it is not
    given (Kuan and Mueller, "Model-agnostic label quality scoring to detect real-world
    label errors", 2022).

    Args:
        label_ids: int [N], or zeros and ones [N, C].
        shares: probabilities, float [N, C].
    """
    if label_ids.ndim > 1:
        return np.where(label_ids > 0, shares, 1 - shares).min(axis=1)
    return np.take_along_axis(shares, label_ids[:, np.newaxis], axis=1)[:, 0]


def label_errors(
    data: split.LabelledSplit, scored: outcomes.Scored
) -> Iterator[list[str]]:
    """Rows of label_errors.csv: those with another label than is predicted.

    The label that is believed least is first. `scored` is of models that have not
    learned the rows.
    """
    shares, is_right = scored.probabilities, predictions.all_right(data, scored)
    sure = self_confidence(data.label_ids, shares)
    table, label_set, texts = data.table, data.label_set, data.table.texts()
    assert table.labels and is_right is not None
    places = [i for i in np.argsort(sure, kind="stable") if not is_right[i]]
    names = ["rank", "line", "given_label", "suggested_label", "self_confidence"]
    yield names + _text_names(data)
    for rank, i in enumerate(places, start=1):
        given = predictions.joined(table.labels[i])
        suggested = predictions.named(label_set, scored.predictions[i])
        place = str(rank), str(table.lines[i])
        yield [*place, given, suggested, _number(sure[i]), *texts[i]]


def margins(shares: np.ndarray, *, has_one_label: bool, threshold: float) -> np.ndarray:
    """How far a decision is from another one, float [N], 0 to 1.

    The difference of the two largest probabilities [N, C]; of several labels the least
    distance from the threshold.
    """
    if not has_one_label:
        return np.abs(shares - threshold).min(axis=1)
    ordered = np.sort(shares, axis=1)
    return ordered[:, -1] - ordered[:, -2:-1].sum(axis=1)


def choose(doubt: np.ndarray, vectors: np.ndarray, known: np.ndarray) -> list[int]:
    """Places of rows to label, the most useful first.

    Greedily the next one has most doubt, float [N], times its distance from what is
    there: one minus the largest cosine of its vector [N, W] and those of rows `known`
    [K, W], or chosen before. A near double of one is left out.
    """
    vectors, known = _unit(vectors), _unit(known)
    nearest = np.zeros(len(vectors))
    for start in range(0, len(known), _BLOCK):
        near = vectors @ known[start : start + _BLOCK].T
        nearest = np.maximum(nearest, near.max(axis=1))
    chosen: list[int] = []
    while len(chosen) < _LISTED:
        gains = np.where(nearest < _NEAR, doubt * (1 - nearest), -1.0)
        if gains.max(initial=-1.0) < 0:
            break
        chosen.append(int(gains.argmax()))
        nearest = np.maximum(nearest, vectors @ vectors[chosen[-1]])
        nearest[chosen[-1]] = 1.0
    return chosen


def to_label(
    data: split.LabelledSplit,
    scored: outcomes.Scored,
    places: Sequence[int],
    margin: np.ndarray,
) -> Iterator[list[str]]:
    """Rows of to_label.csv: those of `places`, with a column for the label."""
    names = ["rank", "line", "label", "suggested_label", "margin"]
    assert names[_LABEL_PLACE] == "label"
    yield names + _text_names(data)
    table, texts = data.table, data.table.texts()
    for rank, i in enumerate(places, start=1):
        suggested = predictions.named(data.label_set, scored.predictions[i])
        place = str(rank), str(table.lines[i])
        yield [*place, "", suggested, _number(margin[i]), *texts[i]]


def refuse_filled(path: str) -> None:
    """Refuses to replace a to_label.csv in which a person gave labels."""
    if not remote_files.exists(path):
        return
    opened = text_rows.file_rows(path, "csv", ragged=text_rows.KEPT)
    rows: list[Any] = [row for _, row in opened]
    place = _LABEL_PLACE
    filled = [row for row in rows[1:] if len(row) <= place or str(row[place]).strip()]
    if filled or not rows or rows[0][place : place + 1] != ["label"]:
        raise errors.InputError(
            f"{path}: has {wording.count(len(filled), 'row')} that a person filled or "
            "changed, which would be lost; rename it"
        )


def unfilled(path: str) -> str:
    """The path, or another beside it while a person has filled what lies there."""
    root, ending = os.path.splitext(path)
    for number in itertools.count(2):
        with contextlib.suppress(errors.InputError):
            refuse_filled(path)
            break
        path = f"{root}-{number}{ending}"
    return path


def text(data: split.LabelledSplit, rows: Iterable[list[str]]) -> str:
    """The CSV file of rows, the header among them, as the input is separated."""
    origin = data.table.origin
    writer = spreadsheets.Writer(origin.delimiter if origin else None)
    header, *others = rows
    is_number = [name in ("self_confidence", "margin") for name in header]
    lines = [writer.line(header)]
    for row in others:
        cells = zip(row, is_number, strict=True)
        shown = (
            writer.number(cell) if number else spreadsheets.guarded(cell)
            for cell, number in cells
        )
        lines.append(writer.line([*shown]))
    return spreadsheets.MARK + "".join(lines)


def _text_names(data: split.LabelledSplit) -> list[str]:
    return ["text"] if data.table.text_b is None else ["text_a", "text_b"]


def _number(value: float) -> str:
    return f"{value:.{_DIGITS}f}"


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)
