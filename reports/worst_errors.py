"""The rows that a model gets most wrong, as a table in Markdown."""

import string
import textwrap
from typing import NamedTuple

from contract import outcomes
from reports.measures import diagnostics

MAX_ROWS = 20
_TEXT_LENGTH = 200  # of each text of a row
_TEXT_WIDTH, _CELL_WIDTH = 80, 24  # characters on a line of a Markdown table
_CELL_LENGTH = 100  # of what was expected or predicted
_ESCAPES = {ord(mark): f"&#{ord(mark)};" for mark in string.punctuation}


class Error(NamedTuple):
    """A row: its number, and what a reader sees of it, cut to a sensible length."""

    row: int
    loss: float
    expected: str
    predicted: str
    texts: tuple[str, ...]


def find(seen: outcomes.Outcomes, limit: int = MAX_ROWS) -> list[Error]:
    """The wrong rows with the largest losses, worst first."""
    order = diagnostics.worst(seen.losses, seen.is_correct, limit)
    return [
        Error(
            row,
            float(seen.losses[row]),
            cut(seen.expected[row], _CELL_LENGTH),
            cut(seen.predicted[row], _CELL_LENGTH),
            tuple(cut(text, _TEXT_LENGTH) for text in seen.texts[row]),
        )
        for row in order.tolist()
    ]


def table(errors: list[Error]) -> str:
    """The errors as a Markdown table, which shows every character as it is."""
    if not errors:
        return "No row is wrong."
    lines = ["| loss | expected | predicted | text |", "|---:|---|---|---|"]
    for error in errors:
        texts = "<br>".join(_lines(text, _TEXT_WIDTH) for text in error.texts)
        named = (_lines(t, _CELL_WIDTH) for t in (error.expected, error.predicted))
        cells = (*named, texts)
        lines.append(f"| {error.loss:.3f} | " + " | ".join(cells) + " |")
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
