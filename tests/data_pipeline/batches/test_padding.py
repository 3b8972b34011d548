"""Tests of data_pipeline/batches/padding.py."""

import numpy as np

from data_pipeline.batches import padding

NONE = np.zeros(0, np.int64)


def test_splits_are_where_rows_begin_and_end():
    assert padding.row_splits([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert padding.row_splits(NONE).tolist() == [0]


def test_ranges_lie_end_to_end():
    assert padding.ranges([7, 3, 0], np.array([2, 0, 3])).tolist() == [7, 8, 0, 1, 2]
    assert padding.ranges(NONE, NONE).tolist() == []


def test_joined_rows_have_pieces_of_every_source():
    values, splits = padding.join_rows(
        (np.array([1]), np.array([0, 0]), np.array([1, 1])),
        (np.array([10, 11, 12]), np.array([1, 0]), np.array([2, 0])),
        (np.array([20, 21]), np.array([0, 1]), np.array([1, 1])),
    )
    assert values.tolist() == [1, 11, 12, 20, 1, 21] and values.dtype == np.int32
    assert splits.tolist() == [0, 4, 6]
    rows = np.arange(8, dtype=np.int16).reshape(4, 2)
    values, splits = padding.join_rows(
        (rows[:1], np.array([0, 0]), np.array([1, 1])),
        (rows[1:], np.array([1, 0]), np.array([2, 0])),
    )
    assert values.tolist() == [[0, 1], [4, 5], [6, 7], [0, 1]]
    assert values.dtype == np.int16 and splits.tolist() == [0, 3, 4]
