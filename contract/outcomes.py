"""The rows of a split and what became of each of them, whatever the task."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """How many rows a split has, how long they are, and which labels."""

    path: str
    count: int
    unit: str  # of `count`, such as "rows"
    lengths: Sequence[int] | np.ndarray  # [count]
    length_unit: str  # such as "tokens of a row"
    cut: int  # rows that lost text, or were divided
    cut_means: str  # such as "cut to --max_seq_length"
    labels: Mapping[str, int]  # {name: how often it occurs}
    labels_title: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decisions:
    """Choices among C classes: of one for each of M rows or words, or of several.

    Attributes:
        class_names: C names, in the order of the ids.
        labels: gold labels: int [M] ids, or zeros and ones [M, C] where several
            classes may be right.
        predictions: likewise.
        probabilities: float [M, C], or None where they are not known.
        confidences: float [M] probability of the prediction; None for several.
    """

    class_names: Sequence[str]
    labels: np.ndarray
    predictions: np.ndarray
    probabilities: np.ndarray | None = None
    confidences: np.ndarray | None = None

    @property
    def is_multi_label(self) -> bool:
        """Whether several classes may be right."""
        return self.labels.ndim > 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numbers:
    """Gold values and predictions of a regression, float [N] each."""

    labels: np.ndarray
    predictions: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcomes:
    """N rows of a split: texts, gold answers and predictions.

    Attributes:
        split: such as "dev".
        texts: of each row, as shown, such as (question, context).
        expected: of each row, as shown: a label, an answer, tags.
        predicted: likewise.
        is_correct: bool [N]; of a regression, whether the number is exactly right.
        losses: float [N], larger for worse errors.
        scores: {name: value} over all rows.
        rescore: int [K] of row numbers, which may repeat -> the scores of these rows.
        confidences: float [N] probability of the prediction, where a row is not one
            decision; else None.
        decisions: None where the task does not choose between classes.
        numbers: None where the task does not predict numbers.
        histograms: {title: float [K]}, such as lengths of answers.
        shares: {name: scale} of the scores that are scale * mean of is_correct.
        warning: a sentence where the predictions are those of a failed run, or None.
    """

    split: str
    texts: Sequence[tuple[str, ...]]
    expected: Sequence[str]
    predicted: Sequence[str]
    is_correct: np.ndarray
    losses: np.ndarray
    scores: Mapping[str, float]
    rescore: Callable[[np.ndarray], Mapping[str, float]]
    confidences: np.ndarray | None = None
    decisions: Decisions | None = None
    numbers: Numbers | None = None
    histograms: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    shares: Mapping[str, float] = dataclasses.field(default_factory=dict)
    warning: str | None = None
