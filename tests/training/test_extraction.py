"""training/results/extraction.py with a model that only counts."""

import numpy as np
import pytest
import tensorflow as tf

from training import inference

LENGTHS = [3, 1, 2, 5, 4]
# Two stretches, each by length, with filling.
ORDER = [[-1, 1], [2, 0], [-1, -1], [4, 3]]


def dataset():
    def batches():
        for row in ORDER:
            lengths = [LENGTHS[max(i, 0)] for i in row]
            mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
            ids = np.where(mask, 10 * (1 + np.array(row)[:, None]), 0)
            yield {
                "unique_ids": np.array(row, np.int64),
                "input_ids": ids.astype(np.int32),
                "input_mask": mask.astype(np.int32),
            }

    matrix = tf.TensorSpec([None, None], tf.int32)
    return tf.data.Dataset.from_generator(
        batches,
        output_signature={
            "unique_ids": tf.TensorSpec([None], tf.int64),
            "input_ids": matrix,
            "input_mask": matrix,
        },
    )


def of_tokens(features):
    ids = tf.cast(features["input_ids"], tf.float32)
    return {**features, "values": tf.stack([ids, -ids], axis=-1)[..., tf.newaxis]}


def of_lines(features):
    ids = tf.cast(features["input_ids"], tf.float32)
    return {**features, "values": tf.reduce_max(ids, axis=1)[:, tf.newaxis]}


@pytest.fixture
def extract():
    reports = []

    def call(predict, is_of_tokens):
        results = inference.extract_in_order(
            predict,
            dataset(),
            tf.distribute.get_strategy(),
            report=lambda done, **counts: reports.append((done, counts["lines"])),
            cut=lambda v, length: v[:length] if is_of_tokens else v,
        )
        return list(results), reports

    return call


def test_results_leave_in_order_as_soon_as_they_can(extract):
    groups, _ = extract(of_tokens, True)
    assert [[r.unique_id for r in group] for group in groups] == [[0, 1, 2], [3, 4]]


def test_padding_is_cut_from_tokens(extract):
    groups, _ = extract(of_tokens, True)
    for result in (result for group in groups for result in group):
        ids = np.full(LENGTHS[result.unique_id], 10 * (1 + result.unique_id))
        np.testing.assert_array_equal(result.input_ids, ids)
        wanted = np.stack([ids, -ids], axis=-1)[..., np.newaxis]
        np.testing.assert_array_equal(result.values, wanted)


def test_vectors_of_lines_are_not_cut(extract):
    groups, _ = extract(of_lines, False)
    values = [result.values.tolist() for group in groups for result in group]
    assert values == [[10], [20], [30], [40], [50]]


def test_progress_counts_no_filling(extract):
    _, reports = extract(of_tokens, True)
    assert reports == [(1, 1), (6, 3), (6, 3), (15, 5)]
