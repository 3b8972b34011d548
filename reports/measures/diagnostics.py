"""Confusions, curves, reliability and counts of decisions; plain arrays."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NUM_BINS = 10  # of reliability; with fewer rows a finer scale is noise
_CURVE_POINTS = 200  # more are not seen, and make files large


class Curve(NamedTuple):
    """Precision for each recall, both float [P], as the threshold falls."""

    precision: np.ndarray
    recall: np.ndarray
    average_precision: float


class Reliability(NamedTuple):
    """Predictions in B bins of equal width by their probability, 0..1."""

    edges: np.ndarray  # float [B + 1]
    counts: np.ndarray  # int [B]
    confidence: np.ndarray  # float [B], mean; nan in an empty bin
    accuracy: np.ndarray  # float [B], likewise
    calibration_error: float  # mean distance of both, weighted by the counts


class LabelCounts(NamedTuple):
    """Rows that have each of C labels, get it, and both; int [C] each."""

    expected: np.ndarray
    predicted: np.ndarray
    right: np.ndarray

    @property
    def wrong(self) -> np.ndarray:
        """Rows that have the label or get it, and not both."""
        return self.expected + self.predicted - 2 * self.right


def confusion(
    labels: np.ndarray, predictions: np.ndarray, num_classes: int
) -> np.ndarray:
    """Counts int [C, C] of what was given, down, and what was predicted, across."""
    pairs = labels.astype(np.int64) * num_classes + predictions
    counts = np.bincount(pairs, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


def precision_recall(is_positive: np.ndarray, probabilities: np.ndarray) -> Curve:
    """The curve of one class, from bool [M] and float [M]; at least one is positive."""
    # scikit-learn has the same numbers, and takes longer to import than all that a
    # report draws.
    order = np.argsort(-probabilities, kind="stable")
    hits = np.cumsum(is_positive[order])
    is_last = np.append(np.diff(probabilities[order]) != 0, True)  # of equal ones
    precision = (hits / np.arange(1, len(hits) + 1))[is_last]
    recall = (hits / hits[-1])[is_last]
    average = np.sum(np.diff(recall, prepend=0.0) * precision)
    precision, recall = np.append(precision[::-1], 1.0), np.append(recall[::-1], 0.0)
    places = np.linspace(0, len(recall) - 1, min(len(recall), _CURVE_POINTS))
    places = np.unique(places.astype(np.int64))
    return Curve(precision[places], recall[places], float(average))


def class_curves(labels: np.ndarray, probabilities: np.ndarray) -> dict[int, Curve]:
    """{class: its curve} against the others, of the classes that occur.

    `labels` are ids int [M], or zeros and ones [M, C]; `probabilities` float [M, C].
    """
    curves = {}
    for index in range(probabilities.shape[1]):
        is_own = labels[:, index] > 0 if labels.ndim > 1 else labels == index
        if is_own.any():
            curves[index] = precision_recall(is_own, probabilities[:, index])
    return curves


def reliability(
    confidences: np.ndarray, is_right: np.ndarray, num_bins: int = NUM_BINS
) -> Reliability:
    """Whether predictions made with probability p are right in a share p of cases.

    `confidences` are float [M], `is_right` bool [M]. The calibration error is that of
    Guo et al., "On Calibration of Modern Neural Networks" (2017).
    """
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    bins = np.clip(np.digitize(confidences, edges) - 1, 0, num_bins - 1)
    counts = np.bincount(bins, minlength=num_bins)
    with np.errstate(invalid="ignore"):  # 0 / 0 of an empty bin is nan, as promised
        confidence = np.bincount(bins, confidences, num_bins) / counts
        accuracy = np.bincount(bins, is_right, num_bins) / counts
    distance = np.nan_to_num(np.abs(accuracy - confidence))
    error = float(distance @ counts / max(counts.sum(), 1))
    return Reliability(edges, counts, confidence, accuracy, error)


def label_counts(labels: np.ndarray, predictions: np.ndarray) -> LabelCounts:
    """Counts of zeros and ones [N, C]."""
    expected, predicted = labels > 0, predictions > 0
    both = expected & predicted
    return LabelCounts(*(rows.sum(axis=0) for rows in (expected, predicted, both)))


def largest(values: Sequence[float] | np.ndarray, limit: int) -> np.ndarray:
    """Places of the largest values, largest first; ties in order."""
    return np.argsort(-np.asarray(values), kind="stable")[:limit]


def worst(losses: np.ndarray, is_right: np.ndarray, limit: int) -> np.ndarray:
    """Places of the largest losses float [N] of what is not right; ties in order."""
    wrong = np.flatnonzero(~np.asarray(is_right, bool))
    return wrong[largest(np.asarray(losses)[wrong], limit)]
