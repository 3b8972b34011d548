"""Numbers of a column, with decimal points or commas."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from contract import errors

LARGEST = float(np.finfo(np.float32).max)
_THOUSANDS = {
    mark: re.compile(rf"\s*[-+]?[1-9]\d{{0,2}}({re.escape(mark)}\d{{3}})+\s*")
    for mark in ",."
}
_DOUBTS = {  # what such a mark may be
    ",": " (its comma may be between thousands: write 1000 or 1.0)",
    ".": " (its point may be between thousands: write 1000 or 1,0)",
}


def is_number(text: Any) -> bool:
    """Whether a text, such as a label, is a finite number."""
    text = str(text)
    try:  # Python reads 1_000, and no other program does
        return "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False


def is_like_number(text: Any) -> bool:
    """As `is_number`, also with a decimal comma."""
    return is_number(str(text).replace(",", ".", 1))


def read(
    path: str, lines: Iterable[int], cells: Sequence[Any], remedy: str
) -> np.ndarray:
    """The numbers of cells, float32 [N]; InputError for what is none.

    A comma is a decimal one where some cell cannot have it between thousands; a point
    that can have its place there is refused beside such commas.
    """
    texts = list(map(str, cells))
    commas = [t for t in texts if "," in t and is_like_number(t)]
    has_commas = not all(map(_THOUSANDS[","].fullmatch, commas))
    mark = "." if has_commas else ","
    if has_commas:
        texts = [text.replace(",", ".") for text in texts]
    for line, cell, text in zip(lines, cells, texts, strict=True):
        reason = _DOUBTS[mark] * bool(_THOUSANDS[mark].fullmatch(str(cell)))
        is_right = is_number(text) and not (has_commas and reason)
        # Beyond float32 it would become infinite on the way to the model.
        if not is_right or abs(float(text)) > LARGEST:
            raise errors.InputError(
                f"{path}:{line}: {cell!r:.80} is not a finite number{reason}; {remedy}"
            )
    return np.array([float(text) for text in texts], np.float32)
