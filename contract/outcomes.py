"""The rows of a split, the prediction of each and their scores, for all tasks."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The number of rows of a split, their lengths and labels."""

    path: str
    count: int
    unit: str  # of `count`, such as "rows"
    lengths: Sequence[int] | np.ndarray = dataclasses.field(repr=False)  # [count]
    length_unit: str  # such as "tokens of a row"
    cut: int  # rows that lost text, or were divided
    cut_means: str = "cut to --max_seq_length"
    # {name: how often it occurs}
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict, repr=False)
    labels_title: str = "Labels"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Scored:
    """The predictions of a split, and their scores where the right ones are known."""

    predictions: Any  # in the form of the task, in the order of the rows
    probabilities: Any = None  # of classes, or of each word's tag; None of other tasks
    scores: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    losses: np.ndarray | None = None  # float, of each row or word
    details: Any = None  # more that a task keeps of each row, in a form of its own
    # {name: value} of results by which no checkpoint is chosen.
    others: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def results(self, prefix: str) -> dict[str, Any]:
        """Scores and others under names such as eval_f1."""
        values = {**self.scores, **self.others}
        return {f"{prefix}_{name}": value for name, value in values.items()}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Decisions:
    """Choices of one of C classes, or of several, for each of M rows or words."""

    class_names: Sequence[str]  # in the order of the ids
    labels: np.ndarray  # int [M] ids; or of several classes zeros and ones [M, C]
    predictions: np.ndarray  # likewise
    probabilities: np.ndarray | None = None  # float [M, C], if known
    confidences: np.ndarray | None = None  # float [M], of one class; of the prediction

    @property
    def is_multi_label(self) -> bool:
        """Whether several classes may be right."""
        return self.labels.ndim > 1


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Numbers:
    """Gold values and predictions of a regression, float [N] each."""

    labels: np.ndarray
    predictions: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Outcomes:
    """N rows of a split: texts, gold answers and predictions."""

    split: str  # such as "dev"
    texts: Sequence[tuple[str, ...]]  # shown of each row, such as (question, context)
    expected: Sequence[str]  # shown of each row: a label, an answer, tags
    predicted: Sequence[str]  # likewise
    is_correct: np.ndarray  # bool [N]; in a regression, of a number that is equal
    losses: np.ndarray  # float [N], larger for worse errors
    scores: Mapping[str, float]  # over all rows
    # Row numbers int [K], which may repeat -> the scores of these rows.
    rescore: Callable[[np.ndarray], Mapping[str, float]]
    # Probability of each prediction, float [N], where a row is not one decision.
    confidences: np.ndarray | None = None
    decisions: Decisions | None = None  # where the task chooses between classes
    numbers: Numbers | None = None  # where the task predicts numbers
    # {title: float [K]}, such as lengths of answers.
    histograms: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # {name: scale} of the scores that are scale * mean of is_correct.
    shares: Mapping[str, float] = dataclasses.field(default_factory=dict)
    warning: str | None = None  # a sentence where the run has failed


def lone_prediction(
    unit: str, predicted: Sequence[str], *, is_right: bool = False
) -> str | None:
    """A warning where all of several predictions are the same, unless they are right.

    `unit` is what is predicted, such as "word".
    """
    if is_right or len(predicted) < 2 or len(set(predicted)) > 1:
        return None
    return (
        f"every {unit} is predicted as {predicted[0]!r}; train longer, or with another "
        "--learning_rate or --seed"
    )
