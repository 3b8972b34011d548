"""Precision, recall and F1 of each class, and their averages, as rows of a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from contract import wording
from reports.measures import diagnostics

SHOWN = 20  # classes on a terminal; of more than these the FEWER worst
FEWER = 10
_NAME_LENGTH = 30
_NONE = (None, None, None)
_COLUMNS = ("rows", "predicted", "precision", "recall", "F1")


def collect(
    class_names: Sequence[str], labels: np.ndarray, predictions: np.ndarray
) -> tuple[list[dict[str, Any]], dict[str, dict[str, float]]]:
    """Rows of name, rows, predicted, precision, recall, f1; and averages of these.

    `rows` have the class, `predicted` get it. Division by zero gives 0, as in
    scikit-learn, but a class that neither occurs nor is predicted has None. The
    averages are "macro", which leaves these out, as f1_macro of training/metrics.py,
    unless a row may have several; and "weighted" by given rows. Arguments: see
    outcomes.Decisions.
    """
    if labels.ndim > 1:
        counts = diagnostics.label_counts(labels, predictions)
        expected, predicted, right = counts.expected, counts.predicted, counts.right
    else:
        classes, hits = len(class_names), labels[labels == predictions]
        expected, predicted, right = (
            np.bincount(ids[(ids >= 0) & (ids < classes)], minlength=classes)
            for ids in (labels, predictions, hits)
        )
    scores = np.stack(
        [
            right / np.maximum(predicted, 1),
            right / np.maximum(expected, 1),
            2 * right / np.maximum(expected + predicted, 1),
        ],
        axis=1,
    )  # [C, 3]
    columns = class_names, expected.tolist(), predicted.tolist(), scores.tolist()
    rows = [
        {"name": name, "rows": n, "predicted": m, **_named(row if n + m else _NONE)}
        for name, n, m, row in zip(*columns, strict=True)
    ]
    occurs = (expected + predicted > 0) | (labels.ndim > 1)
    averages = {
        name: _named((weights @ scores / max(weights.sum(), 1)).tolist())
        for name, weights in (("macro", occurs), ("weighted", expected))
    }
    return rows, averages


def _named(scores):
    return dict(zip(("precision", "recall", "f1"), scores, strict=True))


def lines(
    rows: Sequence[Mapping[str, Any]], means: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    """The table for a terminal; of many classes those with the lowest F1."""
    shown = list(rows)
    if len(rows) > SHOWN:
        shown = worst(rows, FEWER)
        yield f"  the {FEWER} of {len(rows)} classes with the lowest F1:"
    table = [("class", *_COLUMNS)]
    table += [
        (" ".join(str(row["name"]).split())[:_NAME_LENGTH], *_cells(row))
        for row in shown
    ]
    table += [(f"{name} average", *_cells(mean)) for name, mean in means.items()]
    yield from (f"  {line}" for line in wording.columns(table, align_right=True))


def worst(rows: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """The classes with the lowest F1, lowest first; those without one are the last."""
    return sorted(rows, key=lambda row: (row["f1"] is None, row["f1"] or 0.0))[:limit]


def _cells(row):
    counts = [str(row.get(name, "")) for name in ("rows", "predicted")]
    scores = [row[name] for name in ("precision", "recall", "f1")]
    return *counts, *("-" if score is None else f"{score:.4f}" for score in scores)
