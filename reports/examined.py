"""What a model made of the labelled rows of a split, whatever the task."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decisions:
    """Choices among C classes: of one for each of M rows or words, or of several.

    Attributes:
        class_names: C names, in the order of the ids.
        labels: what was given: int [M] ids, or zeros and ones [M, C] where several
            classes may be right.
        predictions: what was chosen, likewise.
        probabilities: float [M, C], or None where they are not known.
        confidences: float [M] probability of what was chosen; None for several.
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
    """What a regression predicts: float [N] given, and float [N] predicted."""

    labels: np.ndarray
    predictions: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examined:
    """N rows of a split: texts, what was expected, and what the model said.

    Attributes:
        split: such as "dev".
        texts: what a reader sees of a row, such as (question, context).
        expected: of each row, as a reader writes it: a label, an answer, tags.
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


def of(split: str, found: Mapping[str, Any] | None) -> Examined | None:
    """An Examined of plain values, as a package without this one gives them.

    `found` are the attributes except `split`, with mappings of attributes for decisions
    and numbers; None where nothing is known of the rows.
    """
    if found is None:
        return None
    kinds = {"decisions": Decisions, "numbers": Numbers}
    made = {key: kinds[key](**found[key]) for key in kinds if found.get(key)}
    return Examined(split=split, **{**found, **made})
