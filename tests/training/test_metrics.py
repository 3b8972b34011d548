"""Tests of training/metrics.py, against values worked out by hand."""

import math

import numpy as np
import pytest
import sklearn.metrics

from training import metrics

LABELS = np.array([1, 1, 1, 0, 0, 2])
PREDICTED = np.array([1, 1, 0, 0, 1, 2])


def test_accuracy_is_a_share_in_float32():
    score = metrics.accuracy(LABELS, PREDICTED)
    assert score == np.float32(4 / 6) and score.dtype == np.float32
    assert str(score) == "0.6666667"  # what eval_results.txt says


def test_accuracy_of_several_labels_wants_all_of_them():
    labels = np.array([[1, 0], [1, 1], [0, 0], [0, 1]])
    predicted = np.array([[1, 0], [1, 0], [0, 0], [1, 0]])
    assert metrics.accuracy(labels, predicted) == 0.5


def test_correlations():
    labels = np.array([1.0, 2.0, 3.0, 4.0])
    predicted = np.array([1.0, 2.0, 3.0, 40.0])
    assert metrics.spearman(labels, predicted) == pytest.approx(1.0)
    # Deviations -1.5 -0.5 0.5 1.5 and -10.5 -9.5 -8.5 28.5.
    expected = (15.75 + 4.75 - 4.25 + 42.75) / math.sqrt(5 * 1085)
    assert metrics.pearson(labels, predicted) == pytest.approx(expected)
    assert metrics.spearman(labels, -predicted) == pytest.approx(-1.0)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_correlation_with_equal_numbers_is_not_defined(name):
    """Without scipy's warning; 0 would be a score, better than a negative one."""
    score = metrics.METRICS[name]
    varied, equal = np.array([1.0, 2.0, 3.0]), np.ones(3)
    assert np.isnan(score(varied, equal)) and np.isnan(score(equal, varied))


def test_scores_are_computed_by_name_and_in_order():
    scores = metrics.compute(("f1_micro", "accuracy"), LABELS, PREDICTED)
    assert list(scores) == ["f1_micro", "accuracy"]
    with pytest.raises(ValueError, match="metric 'bleu' is unknown; choose from"):
        metrics.compute(("accuracy", "bleu"), LABELS, PREDICTED)


def test_summary_has_mean_and_sample_deviation():
    runs = [{"a": 1.0, "b": 5.0}, {"a": 3.0}, {"a": 5.0}]
    assert metrics.summarize(runs) == {"a": {"mean": 3.0, "deviation": 2.0}}
    assert metrics.summarize(runs[:1])["b"] == {"mean": 5.0, "deviation": 0.0}


@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")
@pytest.mark.parametrize("classes", [1, 2, 6])
def test_scores_of_classes_are_those_of_scikit_learn_to_the_last_digit(classes):
    rng = np.random.default_rng(classes)
    for count in (1, 7, 300):
        labels, guesses = rng.integers(0, classes, (2, count))
        predictions = np.where(rng.random(count) < 0.6, labels, guesses)
        for name, expected in (
            ("mcc", sklearn.metrics.matthews_corrcoef(labels, predictions)),
            (
                "f1_macro",
                sklearn.metrics.f1_score(labels, predictions, average="macro"),
            ),
            (
                "f1_micro",
                sklearn.metrics.f1_score(labels, predictions, average="micro"),
            ),
        ):
            assert metrics.METRICS[name](labels, predictions) == expected, (name, count)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_scores_of_several_labels_and_of_class_one_are_those_of_scikit_learn():
    rng = np.random.default_rng(3)
    for count in (1, 7, 300):
        labels, predictions = rng.integers(0, 2, (2, count, 4)).astype(np.float32)
        labels[:, 3] = predictions[:, 3] = 0
        for average in ("macro", "micro"):
            actual = metrics.METRICS[f"f1_{average}"](labels, predictions)
            expected = sklearn.metrics.f1_score(labels, predictions, average=average)
            assert actual == pytest.approx(expected, abs=1e-15)
        pair = labels[:, 0], predictions[:, 0]
        assert metrics.f1(*pair) == sklearn.metrics.f1_score(*pair)


def test_mean_loss_is_a_mean_of_batches():
    """The Estimator's `loss`: the last batch counts as much as a full one."""
    losses = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    assert metrics.mean_loss(losses, 2) == np.float32((1.5 + 3.5 + 10) / 3)
    assert metrics.mean_loss(losses, 5) == np.float32(4)
    assert metrics.mean_loss(losses, 8).dtype == np.float32


def test_perplexities_are_by_token_word_and_byte():
    """There are 30 tokens with 2 nats each, in 20 words of 120 bytes."""
    actual = metrics.perplexities(np.float32(2.0), 30, 20, 120)
    assert actual == {
        "perplexity": pytest.approx(np.exp(2.0)),
        "word_perplexity": pytest.approx(np.exp(60 / 20)),
        "bits_per_byte": pytest.approx(60 / np.log(2) / 120),
    }
    assert all(isinstance(value, np.float32) for value in actual.values())
    assert set(metrics.perplexities(2.0)) == {"perplexity"}
    assert set(metrics.perplexities(2.0, 30, 0, 0)) == {"perplexity"}
