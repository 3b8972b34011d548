"""Objectives against numbers worked out in float64.

1e-6 is float32's rounding of values of order 1.
"""

import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from modeling import losses

LOGITS = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]], np.float32)


def total_and_count(objective, features, outputs):
    totals, counts = objective.totals(features, outputs), objective.counts(features)
    assert totals.keys() == counts.keys()
    return {name: (float(totals[name]), float(counts[name])) for name in totals}


def xent(row, label):
    return math.log(sum(math.exp(value) for value in row)) - row[label]


def test_losses_are_the_formula_and_do_not_overflow():
    expected = [xent(LOGITS[0].tolist(), 1), xent(LOGITS[1].tolist(), 0)]
    plain = losses.classifier_losses("classification", LOGITS, np.array([1, 0]))
    for each in (losses.cross_entropy(LOGITS, np.array([1, 0])), plain):
        np.testing.assert_allclose(each, expected, rtol=1e-6)
    far = np.array([[1e4, -1e4]], np.float32)
    np.testing.assert_allclose(losses.cross_entropy(far, np.array([1])), [2e4])
    numbers = np.array([0.5, 2.0], np.float32)
    each = losses.classifier_losses("regression", LOGITS[:, :1], numbers)
    np.testing.assert_allclose(each, [0.25, 4.0])
    labels = np.array([[1, 0, 1], [0, 1, 0]], np.float32)
    p = 1 / (1 + np.exp(-LOGITS.astype(np.float64)))
    expected = -(labels * np.log(p) + (1 - labels) * np.log(1 - p))
    each = losses.classifier_losses("multi_label", LOGITS, labels)
    np.testing.assert_allclose(each, expected, rtol=1e-5)
    each = losses.classifier_losses("multi_label", far, np.zeros((1, 2)))
    np.testing.assert_allclose(each, [[1e4, 0.0]])
    for problem_type in ("classification", "multi_label"):
        soft = losses.soft_losses(problem_type, far, -far, 1.0)
        assert np.isfinite(soft).all()


@pytest.mark.parametrize("weights", [None, (3.0, 0.5, 9.0)])
def test_classifier_loss_is_a_mean_weighted_by_class(weights):
    features = {"label_ids": np.array([1, 0], np.int32)}
    objective = losses.classifier("classification", weights)
    parts = total_and_count(objective, features, {"logits": LOGITS})
    first, second = xent(LOGITS[0].tolist(), 1), xent(LOGITS[1].tolist(), 0)
    total = 0.5 * first + 3 * second if weights else first + second
    assert parts == {"classifier_loss": (pytest.approx(total), 2.0)}
    # Parts of a batch, of replicas or micro-batches, add up to the whole.
    halves = [
        total_and_count(
            objective,
            {"label_ids": features["label_ids"][i : i + 1]},
            {"logits": LOGITS[i : i + 1]},
        )["classifier_loss"]
        for i in range(2)
    ]
    assert parts["classifier_loss"] == pytest.approx(tuple(np.sum(halves, axis=0)))


def test_class_weights_of_multi_label_count_columns():
    labels = np.array([[1, 0, 1], [0, 1, 0]], np.float32)
    each = np.asarray(losses.classifier_losses("multi_label", LOGITS, labels))
    for weights in (None, np.array([1.0, 0.0, 2.0])):
        objective = losses.classifier("multi_label", weights)
        features, outputs = {"label_ids": labels}, {"logits": LOGITS}
        total = (each * (1 if weights is None else weights)).sum()
        parts = total_and_count(objective, features, outputs)
        assert parts == {"classifier_loss": (pytest.approx(total), 6.0)}


def test_smoothed_loss_has_a_share_of_all_classes():
    label_ids = np.array([1, 0], np.int32)
    every = [[xent(row, label) for label in range(3)] for row in LOGITS.tolist()]
    shares = 0.7 * np.eye(3)[label_ids] + 0.3 / 3
    expected = (shares * every).sum(axis=1)
    each = losses.classifier_losses("classification", LOGITS, label_ids, 0.3)
    np.testing.assert_allclose(each, expected, rtol=1e-6)
    plain = losses.classifier_losses("classification", LOGITS, label_ids)
    assert np.abs(np.asarray(each) - plain).min() > 0.01
    objective = losses.classifier("choice", None, 0.3)
    parts = total_and_count(objective, {"label_ids": label_ids}, {"logits": LOGITS})
    assert parts == {"classifier_loss": (pytest.approx(expected.sum()), 2.0)}
    # A token without a label has no loss, smoothed or not.
    features = {"label_ids": np.array([[-1, 1], [0, -1]], np.int32)}
    outputs = {"logits": np.stack([LOGITS[[1, 0]], LOGITS[[1, 0]]])}
    parts = total_and_count(losses.tagger(0.3), features, outputs)
    assert parts == {"tagger_loss": (pytest.approx(expected.sum()), 2.0)}


def test_span_loss_is_half_of_both_ends():
    features = {"start_positions": np.array([2, 0]), "end_positions": np.array([1, 1])}
    outputs = {"start_logits": LOGITS, "end_logits": -LOGITS}
    start = xent(LOGITS[0].tolist(), 2) + xent(LOGITS[1].tolist(), 0)
    end = xent((-LOGITS[0]).tolist(), 1) + xent((-LOGITS[1]).tolist(), 1)
    parts = total_and_count(losses.span(), features, outputs)
    assert parts == {"span_loss": (pytest.approx((start + end) / 2), 2.0)}


def test_tagger_loss_is_a_mean_over_labelled_tokens():
    features = {"label_ids": np.array([[-1, 1, 0], [-1, 2, -1]], np.int32)}
    rows = np.stack([np.roll(LOGITS[[0, 1, 0]], i, axis=1) for i in range(2)])
    total = sum(
        xent(rows[i][j].tolist(), k) for i, j, k in ((0, 1, 1), (0, 2, 0), (1, 1, 2))
    )
    logits = tf.Variable(rows)
    with tf.GradientTape() as tape:
        totals = losses.tagger().totals(features, {"logits": logits})
    parts = total_and_count(losses.tagger(), features, {"logits": rows})
    assert parts == {"tagger_loss": (pytest.approx(total), 3.0)}
    gradient = tape.gradient(totals["tagger_loss"], logits).numpy()
    moved = np.abs(gradient).sum(-1) > 0
    np.testing.assert_array_equal(moved, features["label_ids"] >= 0)
    assert np.isfinite(gradient).all()


def test_pretraining_counts_words_by_weight_and_pairs_with_a_label():
    features = {
        "masked_lm_ids": np.array([[1, 2], [2, 2]], np.int32),
        "masked_lm_weights": np.array([[1, 1], [1, 0]], np.float32),
    }
    outputs = {
        "masked_lm_logits": np.stack([LOGITS, LOGITS]),
        "next_sentence_logits": LOGITS[:, :2],
    }
    rows = LOGITS.tolist()
    words = xent(rows[0], 1) + xent(rows[1], 2) + xent(rows[0], 2)
    first, second = xent(rows[0][:2], 1), xent(rows[1][:2], 1)
    masked = {"masked_lm_loss": (pytest.approx(words), pytest.approx(3.00001))}
    # Words: 1 for 1, 2 for 2, 1 for 2, and a fourth without weight. Order: 1, 0.
    for labels, order, hits, count in (
        ([1, 1], first + second, 1, 2),
        ([[1], [1]], first + second, 1, 2),
        ([1, -1], first, 1, 1),
        ([-1, 1], second, 0, 1),
    ):
        features["next_sentence_labels"] = np.array(labels, np.int32)
        parts = total_and_count(losses.pretraining(), features, outputs)
        order = pytest.approx(order), pytest.approx(count)
        assert parts == {**masked, "next_sentence_loss": order}
        metrics = losses.pretraining().metrics(features, outputs)
        assert {name: tuple(map(float, pair)) for name, pair in metrics.items()} == {
            "masked_lm_accuracy": (2.0, 3.0),
            "next_sentence_accuracy": (hits, pytest.approx(count)),
        }
    del features["next_sentence_labels"], outputs["next_sentence_logits"]
    words_alone = losses.pretraining(False)
    assert total_and_count(words_alone, features, outputs) == masked
    assert [*words_alone.metrics(features, outputs)] == ["masked_lm_accuracy"]
    assert losses.classifier("classification").metrics({}, {}) == {}


def test_next_tokens_count_where_they_are_real():
    """Values at padding, such as these 100s, count nothing."""
    features = {"input_mask": np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0]])}
    outputs = {
        "next_token_losses": np.array([[0.5, 1.5], [2.5, 100.0], [100.0] * 2]),
        "next_token_hits": np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]),
    }
    outputs = {name: value.astype(np.float32) for name, value in outputs.items()}
    objective = losses.next_token()
    actual = total_and_count(objective, features, outputs)
    assert actual == {"next_token_loss": (4.5, 3.0)}
    right, count = objective.metrics(features, outputs)["next_token_accuracy"]
    assert (float(right), float(count)) == (2.0, 3.0)


def test_next_tokens_beside_another_objective_are_a_mean_of_means():
    """Of tokens from the second on; values at padding, such as 100, count nothing."""
    label_ids = np.array([1, 0], np.int32)
    masks = np.array([[[1, 1, 1], [1, 1, 0]], [[1, 0, 0], [1, 1, 1]]])
    each = [[[0.5, 1.5], [2.5, 100.0]], [[100.0, 100.0], [3.0, 4.0]]]
    features = {"label_ids": label_ids, "input_mask": masks}
    outputs = {"logits": LOGITS, "next_token_losses": np.array(each, np.float32)}
    plain = losses.classifier("choice")
    own = total_and_count(plain, features, outputs)
    means = 1.0 + 2.5 + 0.0 + 3.5  # of the four sequences
    objective = losses.with_next_tokens(plain, 0.5)
    both = total_and_count(objective, features, outputs)
    assert both == {**own, "weighted_lm_loss": (0.5 * means, 4.0)}
    total, count = objective.metrics(features, outputs)["lm_loss"]
    assert (float(total), float(count)) == (means, 4.0)
    assert losses.with_next_tokens(plain, 0.0) is plain


STUDENT = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [2.0, 0.1, 0.2]], np.float32)
TEACHER = np.array([[3.0, 1.0, -2.0], [0.5, 0.0, 4.0], [-1.0, 6.0, 0.0]], np.float32)
LABELS = {
    "classification": np.array([1, 0, 2], np.int32),
    "multi_label": np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]], np.float32),
    "regression": np.array([0.5, 2.0, 1.0], np.float32),
}
TEMPERATURE = 3.0


def expected_soft_losses(problem_type):
    student, teacher = (x.astype(np.float64) / TEMPERATURE for x in (STUDENT, TEACHER))
    if problem_type == "regression":
        return (STUDENT[:, 0] - TEACHER[:, 0]) ** 2
    if problem_type == "classification":
        shares = special.softmax(teacher, axis=1)
        each = (shares * special.log_softmax(student, axis=1)).sum(axis=1)
    else:
        shares = special.expit(teacher)
        each = shares * special.log_expit(student)
        each += (1 - shares) * special.log_expit(-student)
    return -(TEMPERATURE**2) * each


def batch(problem_type, is_labelled=(1, 1, 1)):
    columns = slice(1 if problem_type == "regression" else 3)
    features = {
        "label_ids": LABELS[problem_type],
        "teacher_logits": TEACHER[:, columns],
        "is_labelled": np.array(is_labelled, np.float32),
    }
    return features, {"logits": STUDENT[:, columns]}


@pytest.mark.parametrize("problem_type", LABELS)
def test_student_learns_shares_of_both_losses(problem_type):
    weights = np.array([2.0, 1.0, 0.5]) if problem_type != "regression" else None
    objective = losses.distillation(problem_type, TEMPERATURE, 0.7, weights)
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
    actual = {
        name: float(total) / float(count)
        for name, (total, count) in objective.metrics(features, outputs).items()
    }
    assert actual == {
        "soft_loss": pytest.approx(soft.mean(), rel=1e-5),
        "label_loss": pytest.approx(labelled[[0, 2]].mean(), rel=1e-5),
    }


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("problem_type", LABELS)
def test_share_of_nothing_does_not_count(problem_type, weight):
    objective = losses.distillation(problem_type, TEMPERATURE, weight)
    features, outputs = batch(problem_type)

    def total(**changes):
        actual = objective.totals({**features, **changes}, outputs)
        return float(actual["classifier_loss"])

    other_teacher = {"teacher_logits": features["teacher_logits"] * -2}
    other_labels = {"label_ids": np.zeros_like(features["label_ids"])}
    assert (total() == total(**other_teacher)) is (weight == 0.0)
    assert (total() == total(**other_labels)) is (weight == 1.0)
    plain = losses.classifier(problem_type).totals(features, outputs)
    assert (total() == float(plain["classifier_loss"])) is (weight == 0.0)
