"""Which pictures suit what was examined, and what TensorBoard shows of it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from contract import outcomes
from reports import worst_errors
from reports.measures import diagnostics


class Picture(NamedTuple):
    """A picture and what it shows, in a sentence or two of Markdown."""

    description: str
    draw: Callable[[], Any]  # -> a figure for figures.png or figures.svg


def of(seen: outcomes.Outcomes) -> dict[str, Picture]:
    """{name: picture} that suit what was decided or measured; nothing is drawn yet."""
    from reports import figures  # matplotlib takes most of a second

    found: dict[str, Picture] = {}
    if seen.decisions is not None:
        found |= _of_decisions(seen.decisions, figures)
    if seen.confidences is not None:
        found["reliability"] = _reliability(
            figures, seen.confidences, np.asarray(seen.is_correct, bool)
        )
    if seen.numbers is not None:
        pair = seen.numbers.labels, seen.numbers.predictions
        found["predicted_and_given"] = Picture(
            "Predicted against given numbers; on the dashed line they are equal.",
            lambda: figures.scatter(*pair),
        )
        found["residuals"] = Picture(
            "How far predictions are off: around 0 and narrow is good.",
            lambda: figures.residuals(*pair),
        )
    return found


def _of_decisions(decisions, figures):
    names, labels = decisions.class_names, decisions.labels
    found = {}
    if decisions.is_multi_label:
        counts = diagnostics.label_counts(labels, decisions.predictions)
        found["label_counts"] = Picture(
            "Rows that have a label, rows that get it, and rows where both are so.",
            lambda: figures.label_counts(counts, names),
        )
    else:
        matrix = diagnostics.confusion(labels, decisions.predictions, len(names))
        found["confusion"] = Picture(
            "What was given, down, and predicted, across. Numbers are counts, colours "
            f"shares of a row. Of more than {figures.MATRIX_CLASSES} classes the most "
            "frequent errors are shown instead.",
            lambda: figures.confusion(matrix, names),
        )
    if decisions.probabilities is not None:
        curves = diagnostics.class_curves(labels, decisions.probabilities)
        found["precision_recall"] = Picture(
            "Of each class against the others: the precision that a threshold on its "
            "probability gives, for each recall. The area is the average precision.",
            lambda: figures.precision_recall(curves, names),
        )
    if decisions.is_multi_label and decisions.probabilities is not None:
        found["reliability"] = _reliability(
            figures, decisions.probabilities.ravel(), labels.ravel() > 0
        )
    elif decisions.confidences is not None:
        is_right = labels == decisions.predictions
        found["reliability"] = _reliability(figures, decisions.confidences, is_right)
    return found


def _reliability(figures, confidences, is_right):
    bins = diagnostics.reliability(confidences, is_right)
    return Picture(
        "Whether the model is as sure as it is right: below the dashed line it is too "
        "sure. The expected calibration error is the mean distance from the line.",
        lambda: figures.reliability(bins),
    )


def summaries(seen: outcomes.Outcomes | None) -> Mapping[str, tuple[Any, str]]:
    """{name: (PNG, Markdown or float [K] for a histogram, description)}.

    Empty where nothing is known of the rows.
    """
    if seen is None:
        return {}
    from reports import figures

    shown: dict[str, tuple[Any, str]] = {
        name: (figures.png(picture.draw()), picture.description)
        for name, picture in of(seen).items()
    }
    shown["worst_errors"] = (
        worst_errors.table(worst_errors.find(seen)),
        f"The {worst_errors.MAX_ROWS} wrong {seen.split} rows with the largest losses.",
    )
    shown["losses"] = np.asarray(seen.losses), "The loss of each row."
    for title, values in seen.histograms.items():
        tag = title.replace(",", "").replace(" ", "_")
        shown[tag] = np.asarray(values), f"{title}; a row each."
    return shown
