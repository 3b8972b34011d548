"""Writes what a network wrote: a line a text, and objects with all that is known."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from contract import atomic_files, file_names
from data_pipeline.seq2seq import split

# Whatever ends a line for somebody who reads the file, str.splitlines among them.
_LINE_ENDS = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_DIGITS = 6  # of shares


def write_all(directory: str, data: split.PairSet, written: split.Written) -> list[str]:
    """Writes the files of `text_lines` and `object_lines`, or neither; their paths."""
    texts = os.path.join(directory, file_names.TEST_TEXTS)
    objects = os.path.join(directory, file_names.TEST_PREDICTIONS)
    atomic_files.write(
        {texts: text_lines(written), objects: object_lines(data, written)}
    )
    return [texts, objects]


def text_lines(written: split.Written) -> Iterator[str]:
    """A line a text, in the order of the rows; an end of a line in it is a space.

    What was written for row n of the file is in line n, whatever the text.
    """
    for text in written.texts:
        yield _LINE_ENDS.sub(" ", text) + "\n"


def object_lines(data: split.PairSet, written: split.Written) -> Iterator[str]:
    """One JSON object a row: source, prediction, and where it is known the target.

    {"source": "...", "target": "...", "prediction": "...", "exact_match": true,
    "rouge1": 1.0, "rouge2": 1.0, "rougeL": 1.0, "loss": 0.01}. Source and target are
    as the file has them, the prediction is as text_graph.decode writes it, and scores
    compare it with the target in the same form. Numbers are rounded to 6 digits.
    """
    for index, text in enumerate(written.texts):
        row: dict[str, Any] = {"source": data.sources[index]}
        if data.has_targets:
            row["target"] = data.targets[index]
        row["prediction"] = text
        if written.rows is not None and written.losses is not None:
            shares = {
                name: round(float(values[index]), _DIGITS)
                for name, values in written.rows.shares.items()
            }
            shares["exact_match"] = bool(shares["exact_match"])
            row |= {**shares, "loss": round(float(written.losses[index]), _DIGITS)}
        yield json.dumps(row, ensure_ascii=False) + "\n"
