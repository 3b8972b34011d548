"""Batches without a text twice."""

import numpy as np
import pytest

from data_pipeline.batches import packing
from data_pipeline.embedding import distinct

# Rows 0, 3 and 5 share their second text; row 4 has the first text of row 1 second.
IDS = np.array([[0, 9], [1, 10], [2, 11], [3, 9], [4, 1], [5, 9], [6, 12], [7, 13]])


def examples():
    lengths = np.arange(1, 17)
    packed = packing.Packed(
        np.zeros(lengths.sum(), np.int32),
        np.concatenate([[0], np.cumsum(lengths)]),
        lengths.astype(np.int32),
        num_sequences=2,
    )
    return distinct.DistinctExamples(packed, list, str, {"text_ids": IDS})


def order(steps, seed=1):
    return examples().training_order(batch_size=3, num_steps=steps, seed=seed)


def test_no_batch_has_a_text_twice_and_all_rows_come():
    batches = order(60)
    for batch in batches:
        texts = IDS[batch].ravel()
        assert len(set(texts.tolist())) == len(texts)
    # Each row comes as often as any other, but for those that wait.
    counts = np.bincount(batches.ravel(), minlength=8)
    assert counts.min() >= 19 and counts.sum() == 180


def test_order_follows_from_the_seed_and_begins_that_of_more_steps():
    np.testing.assert_array_equal(order(10), order(10))
    np.testing.assert_array_equal(order(10), order(40)[:10])
    assert (order(10) != order(10, seed=2)).any()


def test_rows_that_wait_come_with_the_next_batch():
    stream = np.array([0, 3, 1, 2, 6, 7])
    batches = distinct.without_repeats(stream, IDS, 2, 3)
    assert batches.tolist() == [[0, 1], [3, 2], [6, 7]]


def test_too_few_different_texts_are_refused():
    ids = np.array([[0, 1]] * 5)
    with pytest.raises(
        ValueError, match=r"of 1 different first texts in 5 rows; lower"
    ):
        distinct.without_repeats(np.arange(5), ids, 2, 1)
