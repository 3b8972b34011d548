"""Tests of modeling/losses.py, against numbers worked out by hand in float64.

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


def test_cross_entropy_is_the_formula():
    expected = [xent(LOGITS[0].tolist(), 1), xent(LOGITS[1].tolist(), 0)]
    actual = losses.cross_entropy(LOGITS, np.array([1, 0]))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_cross_entropy_does_not_overflow():
    actual = losses.cross_entropy(np.array([[1e4, -1e4]], np.float32), np.array([1]))
    np.testing.assert_allclose(actual, [2e4])


def test_regression_is_the_squared_error():
    labels = np.array([0.5, 2.0], np.float32)
    actual = losses.classifier_losses("regression", LOGITS[:, :1], labels)
    np.testing.assert_allclose(actual, [0.25, 4.0])


def test_multi_label_is_a_binary_cross_entropy_a_label():
    labels = np.array([[1, 0, 1], [0, 1, 0]], np.float32)
    actual = losses.classifier_losses("multi_label", LOGITS, labels)
    p = 1 / (1 + np.exp(-LOGITS.astype(np.float64)))
    expected = -(labels * np.log(p) + (1 - labels) * np.log(1 - p))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    large = losses.classifier_losses(
        "multi_label", np.array([[200.0, -200.0]], np.float32), np.array([[0.0, 0.0]])
    )
    np.testing.assert_allclose(large, [[200.0, 0.0]])


def test_classifier_loss_is_a_mean():
    features = {"label_ids": np.array([1, 0], np.int32)}
    parts = total_and_count(
        losses.classifier("classification"), features, {"logits": LOGITS}
    )
    total = xent(LOGITS[0].tolist(), 1) + xent(LOGITS[1].tolist(), 0)
    assert parts == {"classifier_loss": (pytest.approx(total), 2.0)}


def test_class_weights_count_examples_by_their_class():
    features = {"label_ids": np.array([1, 0], np.int32)}
    weighted = losses.classifier("classification", np.array([3.0, 0.5, 9.0]))
    parts = total_and_count(weighted, features, {"logits": LOGITS})
    total = 0.5 * xent(LOGITS[0].tolist(), 1) + 3 * xent(LOGITS[1].tolist(), 0)
    assert parts == {"classifier_loss": (pytest.approx(total), 2.0)}


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


def test_tokens_without_a_label_do_not_matter():
    features, outputs = tagged_batch()
    tagger = losses.tagger()
    expected = total_and_count(tagger, features, outputs)
    for place, is_equal in (((0, 0), True), ((1, 2), True), ((1, 1), False)):
        changed = {"logits": outputs["logits"].copy()}
        changed["logits"][place] = [1e4, -1e4, 5.0]
        assert (total_and_count(tagger, features, changed) == expected) is is_equal
    nothing = {"label_ids": np.full((2, 3), -1, np.int32)}
    assert total_and_count(tagger, nothing, outputs) == {"tagger_loss": (0.0, 0.0)}


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
        for found, wanted in (
            (objective.counts(less), objective.counts(one)),
            (objective.totals(less, outputs), objective.totals(one, logits)),
            (objective.metrics(less, outputs), objective.metrics(one, logits)),
        ):
            for name in both & found.keys():
                np.testing.assert_allclose(found[name], wanted[name], rtol=1e-6)


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
    found = losses.pretraining().metrics(features, outputs)
    numbers = {name: (float(a), float(b)) for name, (a, b) in found.items()}
    # Words: 1 for 1, 2 for 2, 1 for 2, and a fourth without weight. Order: 1, 0.
    assert numbers == {
        "masked_lm_accuracy": (2.0, 3.0),
        "next_sentence_accuracy": (1.0, 2.0),
    }
    assert losses.classifier("classification").metrics({}, {}) == {}


def test_without_a_sentence_task_only_words_count():
    features, outputs = pretraining_batch()
    with_both, words_alone = losses.pretraining(), losses.pretraining(False)
    both = total_and_count(with_both, features, outputs)
    metrics = with_both.metrics(features, outputs)
    for part in (features, outputs):
        part.pop("next_sentence_labels", None)
        part.pop("next_sentence_logits", None)
    alone = total_and_count(words_alone, features, outputs)
    assert alone == {"masked_lm_loss": both["masked_lm_loss"]}
    found = words_alone.metrics(features, outputs)
    assert list(found) == ["masked_lm_accuracy"]
    np.testing.assert_array_equal(*(m["masked_lm_accuracy"] for m in (found, metrics)))


def test_a_batch_without_predictions_has_a_finite_loss():
    features = {
        "masked_lm_ids": np.zeros((1, 2), np.int32),
        "masked_lm_weights": np.zeros((1, 2), np.float32),
        "next_sentence_labels": np.zeros(1, np.int32),
    }
    outputs = {
        "masked_lm_logits": LOGITS[None],
        "next_sentence_logits": LOGITS[:1, :2],
    }
    parts = total_and_count(losses.pretraining(), features, outputs)
    total, count = parts["masked_lm_loss"]
    assert total / count == 0.0
    assert count == pytest.approx(losses.MASKED_LM_EPSILON)


def test_totals_and_counts_of_halves_add_up():
    """So that replicas and micro-batches together are the whole batch."""
    objective = losses.classifier("classification", np.array([1.0, 2.0, 4.0]))
    labels = np.array([2, 1], np.int32)
    whole = total_and_count(objective, {"label_ids": labels}, {"logits": LOGITS})
    halves = [
        total_and_count(
            objective, {"label_ids": labels[i : i + 1]}, {"logits": LOGITS[i : i + 1]}
        )["classifier_loss"]
        for i in range(2)
    ]
    assert whole["classifier_loss"] == pytest.approx(tuple(np.sum(halves, axis=0)))


def test_next_tokens_count_where_they_are_real():
    """What stands at padding, such as these 100s, counts nothing."""
    features = {"input_mask": np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0]])}
    outputs = {
        "next_token_losses": np.array([[0.5, 1.5], [2.5, 100.0], [100.0] * 2]),
        "next_token_hits": np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]),
    }
    outputs = {name: value.astype(np.float32) for name, value in outputs.items()}
    objective = losses.next_token()
    found = total_and_count(objective, features, outputs)
    assert found == {"next_token_loss": (4.5, 3.0)}
    right, count = objective.metrics(features, outputs)["next_token_accuracy"]
    assert (float(right), float(count)) == (2.0, 3.0)
