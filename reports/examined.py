"""What a model made of the labelled rows of a split, whatever the task."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decisions:
    """Choices of one of C classes: M rows, or M words of N sentences.

    Attributes:
        class_names: C names, in the order of the ids.
        labels: int [M] what was given.
        predictions: int [M] what was chosen.
        probabilities: float [M, C], or None where the model has none.
    """

    class_names: Sequence[str]
    labels: np.ndarray
    predictions: np.ndarray
    probabilities: np.ndarray | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examined:
    """N rows of a split: texts, what was expected, and what the model said.

    Attributes:
        split: such as "dev".
        texts: what a reader sees of a row, such as (question, context).
        expected: of each row, as a reader writes it: a label, an answer, tags.
        predicted: likewise.
        is_correct: bool [N].
        losses: float [N], larger for worse errors.
        scores: {name: value} over all rows.
        rescore: int [K] of row numbers, which may repeat -> the scores of these rows.
        decisions: None where the task does not choose between classes.
        histograms: {title: float [K]}, such as lengths of answers.
    """

    split: str
    texts: Sequence[tuple[str, ...]]
    expected: Sequence[str]
    predicted: Sequence[str]
    is_correct: np.ndarray
    losses: np.ndarray
    scores: Mapping[str, float]
    rescore: Callable[[np.ndarray], Mapping[str, float]]
    decisions: Decisions | None = None
    histograms: Mapping[str, Any] = dataclasses.field(default_factory=dict)
