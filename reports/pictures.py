"""The pictures of an evaluation, its worst rows, and both as TensorBoard shows them."""

import string
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from contract import outcomes
from reports import figures, svg
from reports.measures import diagnostics

MAX_ROWS = 20
_TEXT_LENGTH = 200  # of each text of a row
_TEXT_WIDTH, _CELL_WIDTH = 80, 24  # characters on a line of a Markdown table
_CELL_LENGTH = 100  # of what was expected or predicted
_ESCAPES = {ord(mark): f"&#{ord(mark)};" for mark in string.punctuation}


class Picture(NamedTuple):
    """A picture and its description, a sentence or two of Markdown."""

    description: str
    draw: Callable[[], Any]  # -> a matplotlib figure


def choose(seen: outcomes.Outcomes) -> dict[str, Picture]:
    """{name: picture} that suit what was decided or measured; nothing is drawn yet."""
    chosen: dict[str, Picture] = {}
    if seen.decisions is not None:
        chosen |= _decision_pictures(seen.decisions)
    if seen.confidences is not None:
        chosen["reliability"] = _reliability(
            seen.confidences, np.asarray(seen.is_correct, bool)
        )
    if seen.numbers is not None:
        pair = seen.numbers.labels, seen.numbers.predictions
        chosen["predicted_and_given"] = Picture(
            "Predicted against given numbers; on the dashed line they are equal.",
            lambda: figures.scatter(*pair),
        )
        chosen["residuals"] = Picture(
            "How far predictions are off: around 0 and narrow is good.",
            lambda: figures.residuals(*pair),
        )
    return chosen


def _decision_pictures(decisions):
    names, labels = decisions.class_names, decisions.labels
    chosen = {}
    if decisions.is_multi_label:
        counts = diagnostics.label_counts(labels, decisions.predictions)
        chosen["label_counts"] = Picture(
            "Rows that have a label, rows that get it, and rows where both are so.",
            lambda: figures.label_counts(counts, names),
        )
    else:
        matrix = diagnostics.confusion(labels, decisions.predictions, len(names))
        chosen["confusion"] = Picture(
            "Given classes, down, and predicted ones, across. Numbers are counts, "
            "colours shares of a row. Where there are more than "
            f"{figures.MATRIX_CLASSES} classes, those with most errors are shown.",
            lambda: figures.confusion(matrix, names),
        )
    if decisions.probabilities is not None:
        curves = diagnostics.class_curves(labels, decisions.probabilities)
        chosen["precision_recall"] = Picture(
            "Each class against the others: the precision that a threshold on its "
            "probability gives, for each recall. The area is the average precision.",
            lambda: figures.precision_recall(curves, names),
        )
    if decisions.is_multi_label and decisions.probabilities is not None:
        chosen["reliability"] = _reliability(
            decisions.probabilities.ravel(), labels.ravel() > 0
        )
    elif decisions.confidences is not None:
        is_right = labels == decisions.predictions
        chosen["reliability"] = _reliability(decisions.confidences, is_right)
    return chosen


def _reliability(confidences, is_right):
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
    shown: dict[str, tuple[Any, str]] = {
        name: (svg.png(picture.draw()), picture.description)
        for name, picture in choose(seen).items()
    }
    shown["worst_errors"] = (
        error_table(seen),
        f"The {MAX_ROWS} wrong {seen.split} rows with the largest losses.",
    )
    shown["losses"] = np.asarray(seen.losses), "The loss of each row."
    for title, values in seen.histograms.items():
        tag = title.replace(",", "").replace(" ", "_")
        shown[tag] = np.asarray(values), f"{title}; a row each."
    return shown


def error_table(seen: outcomes.Outcomes, limit: int = MAX_ROWS) -> str:
    """The wrong rows with the largest losses, worst first, as a Markdown table.

    It shows every character of their texts, which are cut to a sensible length.
    """
    worst = diagnostics.worst(seen.losses, seen.is_correct, limit).tolist()
    if not worst:
        return "No row is wrong."
    lines = ["| loss | expected | predicted | text |", "|---:|---|---|---|"]
    for row in worst:
        named = (seen.expected[row], seen.predicted[row])
        cells = [_lines(cut(name, _CELL_LENGTH), _CELL_WIDTH) for name in named]
        texts = (cut(text, _TEXT_LENGTH) for text in seen.texts[row])
        cells.append("<br>".join(_lines(text, _TEXT_WIDTH) for text in texts))
        lines.append(f"| {seen.losses[row]:.3f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _lines(text: str, width: int) -> str:
    """TensorBoard breaks words where a line is longer than its share of the table."""
    return "<br>".join(map(escape, textwrap.wrap(text, width, break_on_hyphens=False)))


def cut(text: str, length: int) -> str:
    """A text on one line of at most so many characters, with … where it was longer."""
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"


def escape(text: str) -> str:
    """A text of one line that neither Markdown nor HTML takes for its own."""
    return text.translate(_ESCAPES)
