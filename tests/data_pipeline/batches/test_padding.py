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
