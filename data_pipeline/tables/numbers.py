"""Numbers of a column, with decimal points or commas."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from contract import errors
from data_pipeline.tables import table_columns

LARGEST = float(np.finfo(np.float32).max)
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+\s*")


def read(
    path: str, lines: Iterable[int], cells: Sequence[Any], remedy: str
) -> np.ndarray:
    """The numbers of cells, float32 [N]; InputError for what is none.

    A comma is a decimal one where some cell cannot have it between thousands.
    """
    texts = list(map(str, cells))
    commas = [t for t in texts if "," in t and table_columns.is_like_number(t)]
    if not all(map(_THOUSANDS.fullmatch, commas)):
        texts = [text.replace(",", ".") for text in texts]
    for line, cell, text in zip(lines, cells, texts, strict=True):
        # Beyond float32 it would become infinite on the way to the model.
        if not table_columns.is_number(text) or abs(float(text)) > LARGEST:
            reason = " (its comma may be between thousands: write 1000 or 1.0)"
            reason *= bool(_THOUSANDS.fullmatch(text))
            raise errors.InputError(
                f"{path}:{line}: {cell!r:.80} is not a finite number{reason}; {remedy}"
            )
    return np.array([float(text) for text in texts], np.float32)
