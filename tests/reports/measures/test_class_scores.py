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
    columns = [[row[name] for row in rows] for name in ("precision", "recall", "f1")]
    np.testing.assert_allclose([*columns, [row["rows"] for row in rows]], every)
    for name in ("macro", "weighted"):
        actual = [means[name][score] for score in ("precision", "recall", "f1")]
        np.testing.assert_allclose(actual, expected(average=name)[:3])
    assert means["macro"]["f1"] == pytest.approx(metrics.f1_macro(labels, predictions))
    assert rows[3] == {
        **{"name": "never", "rows": 0, "predicted": 0},
        **{"precision": 0.0, "recall": 0.0, "f1": 0.0},
    }


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
