"""Regressions as weights of a head, against scikit-learn's answers."""

import numpy as np
import pytest
import sklearn.linear_model

from training import linear_head

ROUNDING = 1e-6


@pytest.fixture
def vectors():
    rng = np.random.default_rng(3)
    values = rng.normal(size=[40, 5])
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("weights", [None, (0.5, 3.0, 1.0)])
def test_classes_have_the_probabilities_of_scikit_learn(vectors, count, weights):
    labels = np.arange(40) % count
    vectors[:, 0] += labels
    weights = None if weights is None else np.array(weights[:count])
    kernel, bias = linear_head.fit(vectors, labels, "classification", count, weights)
    assert kernel.dtype == bias.dtype == np.float32
    model = sklearn.linear_model.LogisticRegression(tol=1e-8, max_iter=1000)
    model.fit(vectors, labels, None if weights is None else weights[labels])
    wanted = model.predict_proba(vectors)
    actual = softmax(vectors @ kernel.T + bias)
    np.testing.assert_allclose(actual, wanted, atol=ROUNDING)
    if weights is not None:
        _, plain = linear_head.fit(vectors, labels, "classification", count)
        assert np.abs(plain - bias).max() > 0.1


def test_class_without_rows_is_never_best(vectors):
    labels = np.arange(40) % 2 * 2  # 0 and 2, of 4 classes
    kernel, bias = linear_head.fit(vectors, labels, "classification", 4)
    shares = softmax(vectors @ kernel.T + bias)
    assert shares[:, [1, 3]].max() < 1e-3
    assert not kernel[[1, 3]].any()
    alone = linear_head.fit(vectors, np.full(40, 3), "classification", 4)
    assert np.argmax(vectors @ alone[0].T + alone[1], axis=1).tolist() == [3] * 40


def test_several_labels_are_as_many_regressions(vectors):
    targets = np.float32(vectors[:, :3] > 0.1)
    targets[:, 2] = 1.0  # of which nothing can be learned
    kernel, bias = linear_head.fit(vectors, targets, "multi_label", 3)
    logits = vectors @ kernel.T + bias
    rules = {"tol": 1e-8, "max_iter": 1000, "class_weight": "balanced"}
    for column in range(2):
        model = sklearn.linear_model.LogisticRegression(**rules)
        model.fit(vectors, targets[:, column])
        wanted = model.decision_function(vectors)
        np.testing.assert_allclose(logits[:, column], wanted, atol=10 * ROUNDING)
    np.testing.assert_allclose(logits[:, 2], np.log(40.5 / 0.5), rtol=1e-6)


def test_numbers_are_found_again(vectors):
    targets = 2.0 + 3.0 * vectors[:, 1] - vectors[:, 4]
    kernel, bias = linear_head.fit(vectors, targets, "regression", 1)
    actual = (vectors @ kernel.T + bias)[:, 0]
    assert np.abs(actual - targets).max() < 0.05  # the least strength shrinks a little
    np.testing.assert_allclose(kernel, [[0, 3, 0, 0, -1]], atol=0.05)


@pytest.mark.parametrize("problem_type", ["classification", "multi_label"])
def test_temperature_has_the_least_loss(problem_type):
    rng = np.random.default_rng(5)
    logits = rng.normal(size=[60, 3])
    labels = (logits + rng.gumbel(size=[60, 3])).argmax(axis=1)  # of a softmax
    targets, shares = labels, softmax
    if problem_type == "multi_label":
        targets = np.float32(rng.random([60, 3]) < 1 / (1 + np.exp(-logits)))

    def loss(number):
        scaled = logits * 4 / number
        if problem_type == "classification":
            return -np.mean(np.log(shares(scaled)[np.arange(60), labels]))
        right = 1 / (1 + np.exp(-scaled * (2 * targets - 1)))
        return -np.mean(np.log(right))

    numbers = np.exp(np.linspace(-2, 4, 6001))
    wanted = numbers[np.argmin([loss(number) for number in numbers])]
    actual = linear_head.temperature(4 * logits, targets, problem_type)
    assert actual == pytest.approx(wanted, rel=2e-3)
    assert 2 < actual < 8  # the logits are four times too large
