"""Folds have all labels alike, and rows in them stay what they were."""

import numpy as np
import pytest

from data_pipeline.batches import packing
from data_pipeline.classification import folds


@pytest.mark.parametrize("sizes", [(8, 8, 8), (9, 2, 1), (4, 40, 3)])
def test_labels_are_in_all_folds_alike(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    places = folds.assign(labels, 4, seed=1)
    counts = np.array([np.bincount(labels[places == f], minlength=3) for f in range(4)])
    assert counts.sum() == sum(sizes)
    for label, size in enumerate(sizes):
        assert {*counts[:, label]} <= {size // 4, -(-size // 4)}
    assert np.ptp(counts.sum(axis=1)) <= 1


def test_seed_decides_on_rows_of_a_label():
    labels = np.arange(24) % 3
    first, again, other = (folds.assign(labels, 4, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_numbers_are_spread_and_several_labels_are_dealt():
    numbers = np.random.default_rng(1).normal(size=40)
    places = folds.assign(numbers, 4, seed=1)
    ranks = np.argsort(np.argsort(numbers))
    for fold in range(4):
        np.testing.assert_array_equal(np.sort(ranks[places == fold] // 4), range(10))
    several = folds.assign(np.zeros([10, 3]), 4, seed=1)
    assert sorted(np.bincount(several).tolist()) == [2, 2, 3, 3]


@pytest.mark.parametrize("count", [1, 2])
def test_taken_rows_have_their_tokens(count):
    lengths = np.array([2, 3, 1, 4])
    packed = packing.Packed(
        np.arange(10, dtype=np.int32),
        packing.row_splits(lengths),
        np.array([2, 1, 1, 3], np.int32),
        num_sequences=count,
    )
    rows = np.array([1, 0])
    part = packing.take(packed, rows)
    whole = packing.gather(packed, np.arange(4 // count))
    taken = packing.gather(part, np.arange(2))
    for name, grid in whole.items():
        wanted = grid[rows]
        width = taken[name].shape[-1]
        np.testing.assert_array_equal(taken[name], wanted[..., :width], err_msg=name)
        assert not wanted[..., width:].any()
