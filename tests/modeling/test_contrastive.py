"""Tests of contrastive.py, against plain loops over the rows of a batch."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import contrastive

SCALE = 5.0
RNG = np.random.default_rng(2)
VECTORS = RNG.normal(size=(4, 3, 6)).astype(np.float32)
# Row 1 has the positive of row 0, and a negative of row 3 is its own anchor.
TEXT_IDS = np.array([[0, 1, 2], [3, 1, 4], [5, 6, 7], [8, 9, 8]], np.int32)


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def plain_in_batch(vectors, ids, rows=range(4), start=0, others=1):
    """Sum of -log softmax over `rows`; the right one of each is in column `others`."""
    total = 0.0
    columns = range(1, vectors.shape[1]) if others == 1 else [0]
    for i in rows:
        terms, right = [], 0.0
        for g in columns:
            for j in range(len(vectors)):
                is_right = j == i and g == columns[0]
                if ids[j, g] in ids[i, :2] and not is_right:
                    continue
                score = SCALE * cosine(vectors[i, start], vectors[j, g])
                terms.append(math.exp(score))
                right = terms[-1] if is_right else right
        total -= math.log(right / sum(terms))
    return total


def loss_of(objective, vectors, **features):
    features = {name: tf.constant(value) for name, value in features.items()}
    outputs = {"vectors": tf.constant(vectors)}
    (total,) = objective.totals(features, outputs).values()
    (count,) = objective.counts(features).values()
    return float(total), float(count)


def test_other_rows_are_negatives_and_copies_are_not():
    objective = contrastive.in_batch_negatives(SCALE)
    total, count = loss_of(objective, VECTORS, text_ids=TEXT_IDS)
    assert count == 4
    assert total == pytest.approx(plain_in_batch(VECTORS, TEXT_IDS), rel=1e-5)
    distinct = np.arange(12, dtype=np.int32).reshape(4, 3)
    all_count, _ = loss_of(objective, VECTORS, text_ids=distinct)
    assert all_count == pytest.approx(plain_in_batch(VECTORS, distinct), rel=1e-5)
    assert all_count > total + 0.01  # two more negatives


def test_symmetric_loss_is_the_mean_of_both_directions():
    objective = contrastive.in_batch_negatives(SCALE, is_symmetric=True)
    total, _ = loss_of(objective, VECTORS[:, :2], text_ids=TEXT_IDS[:, :2])
    forward = plain_in_batch(VECTORS[:, :2], TEXT_IDS[:, :2])
    backward = plain_in_batch(VECTORS[:, :2], TEXT_IDS[:, :2], start=1, others=0)
    assert total == pytest.approx((forward + backward) / 2, rel=1e-5)


def test_accuracy_counts_anchors_whose_positive_is_nearest():
    vectors = np.eye(4, dtype=np.float32)[np.array([[0, 0], [1, 1], [2, 3]])]
    ids = np.arange(6, dtype=np.int32).reshape(3, 2)
    objective = contrastive.in_batch_negatives(SCALE)
    metrics = objective.metrics(
        {"text_ids": tf.constant(ids)}, {"vectors": tf.constant(vectors)}
    )
    right, count = metrics["in_batch_accuracy"]
    # The third row has cosine 0 with all, so that none is nearer.
    assert (float(right), float(count)) == (3, 3)
    vectors[2, 0] = vectors[0, 0]
    metrics = objective.metrics(
        {"text_ids": tf.constant(ids)}, {"vectors": tf.constant(vectors)}
    )
    assert float(metrics["in_batch_accuracy"][0]) == 2


def test_matryoshka_is_the_sum_over_leading_values():
    parts = [
        loss_of(contrastive.in_batch_negatives(SCALE), cut, text_ids=TEXT_IDS)[0]
        for cut in (VECTORS, VECTORS[..., :2])
    ]
    objective = contrastive.in_batch_negatives(SCALE, scope=contrastive.Scope((6, 2)))
    total, _ = loss_of(objective, VECTORS, text_ids=TEXT_IDS)
    assert total == pytest.approx(sum(parts), rel=1e-5)


def test_halves_of_a_batch_add_up_to_the_whole():
    """As on two replicas, each of which sees the rows of both."""
    whole, _ = loss_of(
        contrastive.in_batch_negatives(SCALE), VECTORS, text_ids=TEXT_IDS
    )
    total = 0.0
    for first in (0, 2):

        def gather(rows):
            return tf.constant(VECTORS if rows.dtype == tf.float32 else TEXT_IDS)

        scope = contrastive.Scope((), gather, lambda size, first=first: first)
        half = slice(first, first + 2)
        total += loss_of(
            contrastive.in_batch_negatives(SCALE, scope=scope),
            VECTORS[half],
            text_ids=TEXT_IDS[half],
        )[0]
    assert total == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("dimensions", [(), (6, 2)])
def test_vectors_are_gathered_once_for_losses_and_metrics(dimensions):
    gathered = []

    def gather(rows):
        gathered.append(rows.dtype)
        return rows

    scope = contrastive.Scope(dimensions, gather)
    objective = contrastive.in_batch_negatives(SCALE, scope=scope)
    features = {"text_ids": tf.constant(TEXT_IDS)}
    for number, vectors in enumerate((VECTORS, VECTORS[:, ::-1]), start=1):
        outputs = {"vectors": tf.constant(vectors)}
        objective.totals(features, outputs)
        right, _ = objective.metrics(features, outputs)["in_batch_accuracy"]
        assert gathered.count(tf.float32) == number
        alone = contrastive.in_batch_negatives(SCALE).metrics(
            features, {"vectors": tf.constant(vectors)}
        )
        assert float(right) == float(alone["in_batch_accuracy"][0])


def test_texts_of_one_label_are_positives():
    vectors, labels = VECTORS[:, 0], np.array([7, 3, 7, 1], np.int32)
    expected = 0.0
    for i, j in ((0, 2), (2, 0)):
        others = [k for k in range(4) if k != i]
        terms = {k: math.exp(SCALE * cosine(vectors[i], vectors[k])) for k in others}
        expected -= math.log(terms[j] / sum(terms.values()))
    objective = contrastive.labelled_texts(SCALE)
    total, count = loss_of(objective, vectors, label_ids=labels)
    assert count == 2 and total == pytest.approx(expected, rel=1e-5)
    alone = np.arange(4, dtype=np.int32)
    assert loss_of(objective, vectors, label_ids=alone)[0] == 0


def test_cosent_reads_the_order_of_scores_alone():
    vectors, scores = VECTORS[:, :2], np.array([0.1, 4.0, 2.0, 2.0], np.float32)
    cosines = [cosine(*pair) for pair in vectors]
    terms = [
        math.exp(SCALE * (cosines[j] - cosines[i]))
        for i in range(4)
        for j in range(4)
        if scores[i] > scores[j]
    ]
    assert len(terms) == 5
    expected = math.log(1 + sum(terms))
    for labels in (scores, 10 * scores - 3):
        total, count = loss_of(contrastive.cosent(SCALE), vectors, label_ids=labels)
        assert count == 1 and total == pytest.approx(expected, rel=1e-5)
    reverse, _ = loss_of(contrastive.cosent(SCALE), vectors, label_ids=-scores)
    assert reverse != pytest.approx(expected, rel=1e-2)


def test_cosine_and_triplets_are_means_over_rows():
    ids = np.zeros((4, 2), np.int32)
    scores = np.array([5.0, 0.0, 2.5, 1.0], np.float32)
    expected = sum(
        (cosine(*pair) - score / 5) ** 2
        for pair, score in zip(VECTORS[:, :2], scores, strict=True)
    )
    objective = contrastive.cosine_regression(5.0)
    total, count = loss_of(objective, VECTORS[:, :2], label_ids=scores, text_ids=ids)
    assert count == 4 and total == pytest.approx(expected, rel=1e-5)

    def distance(a, b):
        return np.linalg.norm(a / np.linalg.norm(a) - b / np.linalg.norm(b))

    expected = sum(max(0, distance(a, p) - distance(a, n) + 0.5) for a, p, n in VECTORS)
    total, count = loss_of(contrastive.triplet_margin(0.5), VECTORS, text_ids=ids)
    assert count == 4 and total == pytest.approx(expected, rel=1e-4)
    both = np.concatenate([VECTORS, VECTORS[:, :1]], axis=1)  # the anchor itself
    own = sum(max(0, distance(a, p) + 0.5) for a, p, _ in VECTORS)
    total, _ = loss_of(contrastive.triplet_margin(0.5), both, text_ids=ids)
    assert total == pytest.approx((expected + own) / 2, rel=1e-2)


def test_students_have_the_vectors_or_the_cosines_of_the_teacher():
    ids = np.zeros((4, 3), np.int32)
    teacher = RNG.normal(size=(4, 3, 6)).astype(np.float32)

    def scaled(values):
        flat = values.reshape(-1, values.shape[-1])
        return flat / np.linalg.norm(flat, axis=1, keepdims=True)

    objective = contrastive.distillation()
    total, count = loss_of(objective, VECTORS, teacher_vectors=teacher, text_ids=ids)
    expected = np.square(scaled(VECTORS) - scaled(teacher)).sum()
    assert count == 12 and total == pytest.approx(expected, rel=1e-5)
    same, _ = loss_of(objective, VECTORS, teacher_vectors=3 * VECTORS, text_ids=ids)
    assert same == pytest.approx(0, abs=1e-9)
    wide = RNG.normal(size=(4, 3, 9)).astype(np.float32)
    total, _ = loss_of(objective, VECTORS, teacher_vectors=wide, text_ids=ids)
    cosines = [scaled(each) @ scaled(each).T for each in (VECTORS, wide)]
    assert total == pytest.approx(
        np.square(cosines[0] - cosines[1]).mean(axis=1).sum(), rel=1e-5
    )


def test_equal_vectors_have_gradients_that_are_numbers():
    same = tf.Variable(np.repeat(VECTORS[:, :1], 3, axis=1))
    with tf.GradientTape() as tape:
        ids = tf.zeros((4, 3), tf.int32)
        objective = contrastive.triplet_margin(0.5)
        totals = objective.totals({"text_ids": ids}, {"vectors": same})
    gradient = tape.gradient(totals["triplet_loss"], same)
    assert np.isfinite(keras.ops.convert_to_numpy(gradient)).all()
