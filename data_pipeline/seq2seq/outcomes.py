"""What became of each source, as reports.examined.of takes it."""

from typing import Any

import numpy as np

from data_pipeline.seq2seq import scores, split


def collect(data: split.PairSet, written: split.Written) -> dict[str, Any] | None:
    """Rows are pairs; None where the targets are unknown.

    The loss of a row, by which a report finds the worst, is the mean of -log p over
    the tokens of its target. A row is correct if it matches exactly.
    """
    if written.rows is None or written.losses is None:
        return None
    return {
        "texts": [(source,) for source in data.sources],
        "expected": list(data.spelled),
        "predicted": list(written.texts),
        "is_correct": written.rows.shares[scores.EXACT_MATCH] > 0,
        "losses": written.losses,
        "scores": dict(written.scores),
        "rescore": written.rows.of,
        "shares": {scores.EXACT_MATCH: 1.0},
        "histograms": {
            "words, written": _words(written.texts),
            "words, wanted": _words(data.spelled),
        },
    }


def _words(texts) -> np.ndarray:
    return np.array([len(text.split()) for text in texts])
