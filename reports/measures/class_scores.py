"""Precision, recall and F1 of each class, and their averages, as rows of a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from reports.measures import diagnostics

SHOWN = 20  # classes on a terminal; of more than these the FEWER worst
FEWER = 10
_NAME_LENGTH = 30


def collect(
    class_names: Sequence[str], labels: np.ndarray, predictions: np.ndarray
) -> tuple[list[dict[str, Any]], dict[str, dict[str, float]]]:
    """Rows of name, rows, predicted, precision, recall, f1; and averages of these.

    `rows` have the class, `predicted` get it. Division by zero gives 0, as in
    scikit-learn. The averages are "macro", which leaves out classes that neither occur
    nor are predicted, as f1_macro of training/results/metrics.py, unless a row may
    have several; and "weighted" by given rows. Arguments: see outcomes.Decisions.
    """
    if labels.ndim > 1:
        counts = diagnostics.label_counts(labels, predictions)
        given, predicted, right = counts.given, counts.predicted, counts.right
    else:
        classes, hits = len(class_names), labels[labels == predictions]
        given, predicted, right = (
            np.bincount(ids[(ids >= 0) & (ids < classes)], minlength=classes)
            for ids in (labels, predictions, hits)
        )
    scores = np.stack(
        [
            right / np.maximum(predicted, 1),
            right / np.maximum(given, 1),
            2 * right / np.maximum(given + predicted, 1),
        ],
        axis=1,
    )  # [C, 3]
    columns = class_names, given.tolist(), predicted.tolist(), scores.tolist()
    rows = [
        {"name": name, "rows": n, "predicted": m, **_named(row)}
        for name, n, m, row in zip(*columns, strict=True)
    ]
    occurs = (given + predicted > 0) | (labels.ndim > 1)
    averages = {
        name: _named((weights @ scores / max(weights.sum(), 1)).tolist())
        for name, weights in (("macro", occurs), ("weighted", given))
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
        shown = sorted(rows, key=lambda row: row["f1"])[:FEWER]
        yield f"  the {FEWER} of {len(rows)} classes with the lowest F1:"
    names = [" ".join(str(row["name"]).split())[:_NAME_LENGTH] for row in shown]
    width = max(map(len, (*names, "weighted average")))
    yield f"  {'class':{width}}   rows  predicted  precision  recall      F1"
    for name, row in zip(names, shown, strict=True):
        counts = f"{row['rows']:6}  {row['predicted']:9}"
        yield f"  {name:{width}} {counts}  {_numbers(row)}"
    for name, mean in means.items():
        yield f"  {name + ' average':{width}} {'':6}  {'':9}  {_numbers(mean)}"


def _numbers(row):
    return f"{row['precision']:9.4f}  {row['recall']:.4f}  {row['f1']:.4f}"
