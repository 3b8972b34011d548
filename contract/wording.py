"""Parts of messages: counts, scores and short lists."""

import itertools
import numbers
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def first_of(names: Sequence[str], limit: int = 4) -> str:
    """The first names and the number of the others: a, b, c, d and 24 more."""
    others = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {others} more" if others > 0 else "")


def count(number: int, noun: str) -> str:
    """The number of things, such as 1 file or 2 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def lines(numbers: Iterable[int], limit: int = 4) -> str:
    """The places in a file, such as line 3 or lines 3, 5 and 2 more."""
    names = [str(number) for number in numbers]
    return f"line{'s' * (len(names) > 1)} {first_of(names, limit)}"


def score(value: Any) -> str:
    """A number for the screen: four digits after the point, whole ones unchanged."""
    if not isinstance(value, numbers.Real) or isinstance(value, numbers.Integral):
        return str(value)
    number = float(value)
    return f"{number:.4f}" if abs(number) >= 1e-3 or not number else f"{number:.3g}"


def columns(rows: Sequence[Sequence[str]], *, align_right: bool = False) -> list[str]:
    """Rows of texts as lines of aligned columns; the first column is left-aligned.

    A row may be shorter than others. An ideograph is as wide as two letters.
    """
    by_column = itertools.zip_longest(*rows, fillvalue="")
    widths = [max(map(_width, texts)) for texts in by_column]
    lines = []
    for row in rows:
        cells = []
        for place, text in enumerate(row):
            pad = " " * (widths[place] - _width(text))
            cells.append(pad + text if align_right and place else text + pad)
        lines.append("  ".join(cells).rstrip())
    return lines


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def listing(values: Sequence[str], limit: int = 20) -> str:
    """Values in quotes, each cut to 40 characters: ['a', 'b' and 3 more]."""
    return f"[{first_of([repr(value[:40]) for value in values], limit)}]"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The values of `now` that `before` has not: seed was 1 and is 2; ..."""
    pairs = [(key, before.get(key), now[key]) for key in now]
    return "; ".join(f"{key} was {a!r} and is {b!r}" for key, a, b in pairs if a != b)
