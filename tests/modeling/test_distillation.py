"""Tests of modeling/distillation.py, against formulas in float64.

1e-5 is float32's rounding of values of order 10.
"""

import numpy as np
import pytest

from modeling import losses

LOGITS = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [2.0, 0.1, 0.2]], np.float32)
TEACHER = np.array([[3.0, 1.0, -2.0], [0.5, 0.0, 4.0], [-1.0, 6.0, 0.0]], np.float32)
LABELS = {
    "classification": np.array([1, 0, 2], np.int32),
    "multi_label": np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]], np.float32),
    "regression": np.array([0.5, 2.0, 1.0], np.float32),
}
T = 3.0


def softmax(values):
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def expected_soft_losses(problem_type):
    student, teacher = LOGITS.astype(np.float64), TEACHER.astype(np.float64)
    if problem_type == "regression":
        return (student[:, 0] - teacher[:, 0]) ** 2
    if problem_type == "classification":
        shares, said = softmax(teacher / T), softmax(student / T)
        return -(T**2) * (shares * np.log(said)).sum(axis=1)
    shares, said = (1 / (1 + np.exp(-x / T)) for x in (teacher, student))
    return -(T**2) * (shares * np.log(said) + (1 - shares) * np.log(1 - said))


def width(problem_type):
    return 1 if problem_type == "regression" else 3


def batch(problem_type, is_labelled=(1, 1, 1)):
    """Features and outputs of three rows."""
    columns = slice(width(problem_type))
    features = {
        "label_ids": LABELS[problem_type],
        "teacher_logits": TEACHER[:, columns],
        "is_labelled": np.array(is_labelled, np.float32),
    }
    return features, {"logits": LOGITS[:, columns]}


@pytest.mark.parametrize("problem_type", LABELS)
def test_soft_losses_are_the_formula(problem_type):
    features, outputs = batch(problem_type)
    logits = outputs["logits"], features["teacher_logits"]
    found = losses.soft_losses(problem_type, *logits, T)
    np.testing.assert_allclose(found, expected_soft_losses(problem_type), rtol=1e-5)
    colder = losses.soft_losses(problem_type, *logits, 1.0)
    assert np.allclose(found, colder) is (problem_type == "regression")


def test_soft_losses_do_not_overflow():
    far = np.array([[1e4, -1e4]], np.float32)
    assert np.isfinite(losses.soft_losses("classification", far, -far, 1.0)).all()
    assert np.isfinite(losses.soft_losses("multi_label", far, -far, 1.0)).all()


@pytest.mark.parametrize("problem_type", LABELS)
def test_student_learns_shares_of_both_losses(problem_type):
    """A row counts alike beside labelled and unlabelled ones."""
    weights = np.array([2.0, 1.0, 0.5]) if problem_type != "regression" else None
    objective = losses.distillation(problem_type, T, 0.7, weights)
    features, outputs = batch(problem_type, [1, 0, 1])
    soft = expected_soft_losses(problem_type)
    labelled = np.asarray(
        losses.weighted_losses(
            problem_type, outputs["logits"], features["label_ids"], weights
        )
    )
    total = objective.totals(features, outputs)["classifier_loss"]
    expected = 0.7 * soft.sum() + 0.3 * labelled[[0, 2]].sum()
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    assert float(objective.counts(features)["classifier_loss"]) == soft.size
    found = {
        name: float(total) / float(count)
        for name, (total, count) in objective.metrics(features, outputs).items()
    }
    assert found == {
        "soft_loss": pytest.approx(soft.mean(), rel=1e-5),
        "label_loss": pytest.approx(labelled[[0, 2]].mean(), rel=1e-5),
    }


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("problem_type", LABELS)
def test_share_of_nothing_does_not_count(problem_type, weight):
    """Of labels at 1 and of the teacher at 0, to the bit."""
    objective = losses.distillation(problem_type, T, weight)
    features, outputs = batch(problem_type)

    def total(**changes):
        found = objective.totals({**features, **changes}, outputs)
        return float(found["classifier_loss"])

    other_teacher = {"teacher_logits": features["teacher_logits"] * -2}
    other_labels = {"label_ids": np.zeros_like(features["label_ids"])}
    assert (total() == total(**other_teacher)) is (weight == 0.0)
    assert (total() == total(**other_labels)) is (weight == 1.0)
    plain = losses.classifier(problem_type).totals(features, outputs)
    assert (total() == float(plain["classifier_loss"])) is (weight == 0.0)
