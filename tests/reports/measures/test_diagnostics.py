"""Tests of reports/diagnostics.py."""

import numpy as np
import pytest

from reports.measures import diagnostics


def test_confusion_counts_what_was_given_down_and_predicted_across():
    labels, predictions = np.array([0, 0, 0, 1, 2, 2]), np.array([0, 1, 1, 1, 0, 2])
    counts = diagnostics.confusion(labels, predictions, 3)
    assert counts.tolist() == [[1, 2, 0], [0, 1, 0], [1, 0, 1]]
    swapped = diagnostics.confusion(predictions, labels, 3)
    assert swapped.tolist() == counts.T.tolist() != counts.tolist()


def test_precision_and_recall_by_hand():
    """Falling thresholds take in a hit, a miss, a hit and a miss."""
    is_positive = np.array([True, False, True, False])
    curve = diagnostics.precision_recall(is_positive, np.array([0.9, 0.8, 0.7, 0.1]))
    actual = dict(zip(curve.recall.tolist(), curve.precision.tolist(), strict=False))
    assert actual[0.5] in (1.0, 0.5) and actual[0.0] == 1.0
    points = set(zip(curve.recall.round(6), curve.precision.round(6), strict=True))
    assert {(1.0, 0.666667), (0.5, 1.0)} <= points
    assert curve.average_precision == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_long_curves_are_thinned_and_keep_their_ends():
    rng = np.random.default_rng(1)
    scores = rng.random(5000)
    curve = diagnostics.precision_recall(rng.random(5000) < scores, scores)
    assert len(curve.recall) == len(curve.precision) == 200
    assert curve.recall[0] == 1.0 and curve.recall[-1] == 0.0


def test_each_class_that_occurs_has_a_curve_against_the_others():
    labels = np.array([0, 0, 2])
    probabilities = np.array([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4], [0.5, 0.1, 0.4]])
    curves = diagnostics.class_curves(labels, probabilities)
    assert list(curves) == [0, 2]
    assert curves[0].average_precision == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    several = np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1]])
    assert list(diagnostics.class_curves(several, probabilities)) == [0, 2]


def test_calibration_error_by_hand():
    """Two bins: sure of 0.95 and right in 1 of 2; sure of 0.65 and right in 2 of 2."""
    actual = diagnostics.reliability(
        np.array([0.95, 0.95, 0.6, 0.7]), np.array([True, False, True, True]), 2
    )
    assert actual.counts.tolist() == [0, 4]
    assert actual.accuracy[1] == 0.75 and actual.confidence[1] == pytest.approx(0.8)
    assert np.isnan(actual.accuracy[0])
    assert actual.calibration_error == pytest.approx(0.05)
    finer = diagnostics.reliability(
        np.array([0.95, 0.95, 0.61, 0.69]), np.array([True, False, True, True]), 10
    )
    assert finer.counts.tolist() == [0] * 6 + [2, 0, 0, 2]
    assert finer.calibration_error == pytest.approx(0.5 * 0.35 + 0.5 * 0.45)


def test_certain_predictions_are_in_the_last_bin():
    actual = diagnostics.reliability(np.array([1.0, 0.0]), np.array([True, False]))
    assert actual.counts.tolist() == [1, *[0] * 8, 1]
    assert actual.calibration_error == 0.0


def test_labels_are_counted_one_by_one():
    labels = np.array([[1, 0], [1, 1], [0, 1]])
    predictions = np.array([[1, 0], [0, 1], [0, 0]])
    counts = diagnostics.label_counts(labels, predictions)
    assert counts.expected.tolist() == [2, 2] and counts.predicted.tolist() == [1, 1]
    assert counts.right.tolist() == [1, 1] and counts.wrong.tolist() == [1, 1]
