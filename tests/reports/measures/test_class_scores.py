"""Scores of classes against scikit-learn and training/metrics.py."""

import numpy as np
import pytest
import sklearn.metrics

from reports.measures import class_scores
from training import metrics


@pytest.mark.parametrize("several", [False, True])
def test_scores_and_averages_are_those_of_scikit_learn(several):
    rng = np.random.default_rng(4)
    shape = (50, 4) if several else 50
    labels, predictions = rng.integers(
        0, 2 if several else 3, (2, *np.atleast_1d(shape))
    )
    names = ["a", "b", "c", "never"]
    if several:
        labels[:, 3] = predictions[:, 3] = 0
    rows, means = class_scores.collect(names, labels, predictions)

    def expected(**kind):
        return sklearn.metrics.precision_recall_fscore_support(
            labels, predictions, zero_division=0, **kind
        )

    every = expected(**({} if several else {"labels": range(4)}))
    scores = ("precision", "recall", "f1")
    columns = [[row[name] or 0.0 for row in rows] for name in scores]
    np.testing.assert_allclose([*columns, [row["rows"] for row in rows]], every)
    for name in ("macro", "weighted"):
        actual = [means[name][score] for score in ("precision", "recall", "f1")]
        np.testing.assert_allclose(actual, expected(average=name)[:3])
    assert means["macro"]["f1"] == pytest.approx(metrics.f1_macro(labels, predictions))
    assert rows[3] == {
        **{"name": "never", "rows": 0, "predicted": 0},
        **{"precision": None, "recall": None, "f1": None},
    }


def test_class_without_rows_and_predictions_has_dashes():
    """It is no class that the model gets wrong: of many classes the last."""
    names = [f"class {i}" for i in range(24)]
    labels = np.arange(23)
    rows, means = class_scores.collect(names, labels, (labels + (labels == 7)) % 24)
    lines = list(class_scores.lines(rows[-4:], means))
    assert lines[4].split() == ["class", "23", "0", "0", "-", "-", "-"]
    worst = class_scores.worst(rows, 24)
    assert [row["name"] for row in worst[:2]] == ["class 7", "class 8"]
    assert (worst[0]["f1"], worst[-1]["name"]) == (0.0, "class 23")


def test_table_for_a_terminal_has_four_digits():
    labels, predictions = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    actual = class_scores.collect(["bad", "good"], labels, predictions)
    assert list(class_scores.lines(*actual)) == [
        "  class             rows  predicted  precision  recall      F1",
        "  bad                  3          2     1.0000  0.6667  0.8000",
        "  good                 1          2     0.5000  1.0000  0.6667",
        "  macro average                         0.7500  0.8333  0.7333",
        "  weighted average                      0.8750  0.7500  0.7667",
    ]
