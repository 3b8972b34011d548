"""Objectives against numbers worked out in float64.

1e-6 is float32's rounding of values of order 1.
"""

import math

import numpy as np
import pytest
import tensorflow as tf

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
    each = losses.cross_entropy(LOGITS, np.array([1, 0]))
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
    plain, weighted = (
        total_and_count(
            losses.classifier("multi_label", weights),
            {"label_ids": labels},
            {"logits": LOGITS},
        )["classifier_loss"]
        for weights in (None, np.array([1.0, 0.0, 2.0]))
    )
    assert plain == (pytest.approx(each.sum()), 6.0)
    assert weighted == (pytest.approx((each * [1, 0, 2]).sum()), 6.0)


def test_span_loss_is_half_of_both_ends():
    features = {"start_positions": np.array([2, 0]), "end_positions": np.array([1, 1])}
    outputs = {"start_logits": LOGITS, "end_logits": -LOGITS}
    start = xent(LOGITS[0].tolist(), 2) + xent(LOGITS[1].tolist(), 0)
    end = xent((-LOGITS[0]).tolist(), 1) + xent((-LOGITS[1]).tolist(), 1)
    parts = total_and_count(losses.span(), features, outputs)
    assert parts == {"span_loss": (pytest.approx((start + end) / 2), 2.0)}


def tagged_batch():
    features = {"label_ids": np.array([[-1, 1, 0], [-1, 2, -1]], np.int32)}
    logits = np.stack([np.roll(LOGITS[[0, 1, 0]], i, axis=1) for i in range(2)])
    return features, {"logits": logits}


def test_tagger_loss_is_a_mean_over_labelled_tokens():
    features, outputs = tagged_batch()
    rows = outputs["logits"].tolist()
    total = xent(rows[0][1], 1) + xent(rows[0][2], 0) + xent(rows[1][1], 2)
    parts = total_and_count(losses.tagger(), features, outputs)
    assert parts == {"tagger_loss": (pytest.approx(total), 3.0)}


def test_tokens_without_a_label_have_no_gradient():
    features, outputs = tagged_batch()
    logits = tf.Variable(outputs["logits"])
    with tf.GradientTape() as tape:
        totals = losses.tagger().totals(features, {"logits": logits})
    gradient = tape.gradient(totals["tagger_loss"], logits).numpy()
    assert np.isfinite(gradient).all()
    assert (np.abs(gradient).sum(-1) > 0).tolist() == [
        [False, True, True],
        [False, True, False],
    ]


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_pretraining_weighs_words_and_not_sentences(shape):
    features = {
        "masked_lm_ids": np.array([[1, 2], [0, 0]], np.int32),
        "masked_lm_weights": np.array([[1, 1], [1, 0]], np.float32),
        "next_sentence_labels": np.array([1, 0], np.int32).reshape(shape),
    }
    outputs = {
        "masked_lm_logits": np.stack([LOGITS, LOGITS]),
        "next_sentence_logits": LOGITS[:, :2],
    }
    parts = total_and_count(losses.pretraining(), features, outputs)
    rows = LOGITS.tolist()
    words = xent(rows[0], 1) + xent(rows[1], 2) + xent(rows[0], 0)
    order = xent(rows[0][:2], 1) + xent(rows[1][:2], 0)
    assert parts == {
        "masked_lm_loss": (pytest.approx(words), pytest.approx(3.00001)),
        "next_sentence_loss": (pytest.approx(order), 2.0),
    }


def test_pairs_without_a_label_do_not_count():
    features, outputs = pretraining_batch()
    both = {"next_sentence_loss", "next_sentence_accuracy"}
    for labels, kept in (([1, -1], [0]), ([-1, 1], [1])):
        less = {**features, "next_sentence_labels": np.array(labels, np.int32)}
        one = {name: value[kept] for name, value in features.items()}
        logits = {name: value[kept] for name, value in outputs.items()}
        objective = losses.pretraining()
        for actual, wanted in (
            (objective.counts(less), objective.counts(one)),
            (objective.totals(less, outputs), objective.totals(one, logits)),
            (objective.metrics(less, outputs), objective.metrics(one, logits)),
        ):
            for name in both & actual.keys():
                np.testing.assert_allclose(actual[name], wanted[name], rtol=1e-6)


def pretraining_batch():
    features = {
        "masked_lm_ids": np.array([[1, 2], [2, 2]], np.int32),
        "masked_lm_weights": np.array([[1, 1], [1, 0]], np.float32),
        "next_sentence_labels": np.array([1, 1], np.int32),
    }
    outputs = {
        "masked_lm_logits": np.stack([LOGITS, LOGITS]),
        "next_sentence_logits": LOGITS[:, :2],
    }
    return features, outputs


def test_accuracies_count_what_is_weighed():
    features, outputs = pretraining_batch()
    actual = losses.pretraining().metrics(features, outputs)
    numbers = {name: (float(a), float(b)) for name, (a, b) in actual.items()}
    # Words: 1 for 1, 2 for 2, 1 for 2, and a fourth without weight. Order: 1, 0.
    assert numbers == {
        "masked_lm_accuracy": (2.0, 3.0),
        "next_sentence_accuracy": (1.0, 2.0),
    }
    assert losses.classifier("classification").metrics({}, {}) == {}


def test_without_a_sentence_task_only_words_count():
    features, outputs = pretraining_batch()
    both = total_and_count(losses.pretraining(), features, outputs)
    metrics = losses.pretraining().metrics(features, outputs)
    del features["next_sentence_labels"], outputs["next_sentence_logits"]
    objective = losses.pretraining(False)
    assert total_and_count(objective, features, outputs) == {
        "masked_lm_loss": both["masked_lm_loss"]
    }
    ((name, values),) = objective.metrics(features, outputs).items()
    np.testing.assert_array_equal(values, metrics[name])


def test_next_tokens_count_where_they_are_real():
    """What stands at padding, such as these 100s, counts nothing."""
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


STUDENT = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [2.0, 0.1, 0.2]], np.float32)
TEACHER = np.array([[3.0, 1.0, -2.0], [0.5, 0.0, 4.0], [-1.0, 6.0, 0.0]], np.float32)
LABELS = {
    "classification": np.array([1, 0, 2], np.int32),
    "multi_label": np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]], np.float32),
    "regression": np.array([0.5, 2.0, 1.0], np.float32),
}
TEMPERATURE = 3.0


def softmax(values):
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def expected_soft_losses(problem_type):
    student, teacher = STUDENT.astype(np.float64), TEACHER.astype(np.float64)
    if problem_type == "regression":
        return (student[:, 0] - teacher[:, 0]) ** 2
    if problem_type == "classification":
        shares, own = softmax(teacher / TEMPERATURE), softmax(student / TEMPERATURE)
        return -(TEMPERATURE**2) * (shares * np.log(own)).sum(axis=1)
    shares, own = (1 / (1 + np.exp(-x / TEMPERATURE)) for x in (teacher, student))
    return -(TEMPERATURE**2) * (shares * np.log(own) + (1 - shares) * np.log(1 - own))


def width(problem_type):
    return 1 if problem_type == "regression" else 3


def batch(problem_type, is_labelled=(1, 1, 1)):
    columns = slice(width(problem_type))
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
