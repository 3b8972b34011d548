"""Numbers of a column, as programs and spreadsheets of all countries spell them."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from contract import errors
from data_pipeline.tables import table_columns

LARGEST = float(np.finfo(np.float32).max)
_COMMA = re.compile(r"\s*[-+]?\d*,(\d+)(?:[eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(?:,\d{3})+\s*")


def read(
    path: str, lines: Iterable[int], cells: Sequence[Any], remedy: str
) -> np.ndarray:
    """The numbers of cells, float32 [N]; InputError for what is none.

    A comma is a decimal one where some cell cannot have it between thousands; 1,000
    beside 2,5 stays in doubt.
    """
    commas = [match for cell in cells if (match := _COMMA.fullmatch(str(cell)))]
    is_decimal = not all(_THOUSANDS.fullmatch(match[0]) for match in commas)
    has_three = all(len(match[1]) == 3 for match in commas)
    numbers = []
    for line, cell in zip(lines, cells, strict=True):
        text, reason = str(cell), ""
        if text.strip().endswith("%"):
            reason = " (remove the percent signs)"
        elif _THOUSANDS.fullmatch(text) and not (
            is_decimal and (has_three or text.strip()[-1] != "0")
        ):
            reason = " (its comma may be between thousands: write 1000 or 1.0)"
        elif _COMMA.fullmatch(text):
            text = text.replace(",", ".")
        # Beyond float32 it would become infinite on the way to the model.
        if not table_columns.is_number(text) or abs(float(text)) > LARGEST:
            shown = list(cell) if isinstance(cell, tuple) else cell
            raise errors.InputError(
                f"{path}:{line}: {shown!r:.80} is not a finite number{reason}; {remedy}"
            )
        numbers.append(float(text))
    return np.array(numbers, np.float32)
