"""Batches with several texts of each label."""

import numpy as np
import pytest

from data_pipeline.batches import batching, packing
from data_pipeline.embedding import split

CLINC = np.repeat(
    np.arange(150), 20
)  # as many labels and rows of each as a small CLINC


def order(labels, rows_per_label, size, steps, seed=1):
    count = len(labels)
    packed = packing.Packed(
        np.zeros(count, np.int32), np.arange(count + 1), np.ones(count, np.int32)
    )
    values = packed, list, str, {"label_ids": np.asarray(labels)}
    examples = batching.Examples(*values)
    if rows_per_label:
        examples = split.GroupedExamples(*values, rows_per_label)
    return examples.training_order(batch_size=size, num_steps=steps, seed=seed)


def others(labels, batches):
    """How many rows of its batch have the label of each row."""
    chosen = np.asarray(labels)[batches]
    return np.sum(chosen[:, :, None] == chosen[:, None], axis=2) - 1


@pytest.mark.parametrize("rows_per_label", [2, 4, 8])
def test_batches_are_of_labels_times_rows(rows_per_label):
    batches = order(CLINC, rows_per_label, 32, 80)
    assert batches.shape == (80, 32) and batches.dtype == np.int32
    counts = others(CLINC, batches)
    wanted = rows_per_label - 1
    # Of 20 rows, 8 and 12 are together; a batch may end within such a group.
    is_whole = counts >= wanted
    assert is_whole.mean() >= (1.0 if rows_per_label < 8 else 0.75)
    by_chance = others(CLINC, order(CLINC, 0, 32, 80))
    assert (by_chance == 0).mean() > 0.75


def test_every_row_comes_once_in_an_epoch_and_none_twice_in_a_batch():
    labels = [0] * 7 + [1] * 2 + [2] + [3] * 5 + [4]
    batches = order(labels, 2, 4, 400)
    assert all(len({*batch}) == 4 for batch in batches.tolist())
    assert (np.sort(batches.reshape(-1, 16), axis=1) == np.arange(16)).all()
    # Labels with another row have it in the batch, unless the batch ends between them.
    alone = others(labels, batches) == 0
    shares = np.bincount(np.take(labels, batches[alone]), minlength=5) / alone.sum()
    assert shares[2] + shares[4] > 0.5
    # The rows that fill no batch are others in each epoch.
    longer = order(labels, 2, 5, 300)
    assert (np.bincount(longer.ravel(), minlength=16) > 0).all()


def test_order_follows_from_the_seed_and_begins_that_of_more_steps():
    first = order(CLINC, 2, 32, 10)
    np.testing.assert_array_equal(first, order(CLINC, 2, 32, 200)[:10])
    assert (first != order(CLINC, 2, 32, 10, seed=2)).any()
    # Fewer rows than a batch come as without groups.
    few = [0, 0, 1, 1]
    np.testing.assert_array_equal(order(few, 2, 6, 3), order(few, 0, 6, 3))
