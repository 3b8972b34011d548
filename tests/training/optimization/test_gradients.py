"""Tests of gradients.py: tables, of which some rows have a gradient."""

import numpy as np
import pytest
import tensorflow as tf

from training.optimization import gradients

# Row 1 of a table [3, 2] twice, row 2 once, row 0 never.
SLICES = tf.IndexedSlices(
    tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    tf.constant([1, 2, 1]),
    tf.constant([3, 2]),
)
TOTAL = [[0.0, 0.0], [6.0, 8.0], [3.0, 4.0]]
OTHER = tf.constant([2.0, 3.0])


def test_slices_are_summed_by_row_and_squared_before():
    rows = gradients.summed(SLICES)
    np.testing.assert_array_equal(rows.total, TOTAL)
    assert float(rows.squares) == 1 + 4 + 9 + 16 + 25 + 36
    np.testing.assert_array_equal(gradients.dense(rows), TOTAL)


def test_everything_else_stays_what_it_is():
    for function in (gradients.summed, gradients.dense):
        assert function(OTHER) is OTHER and function(None) is None
    rows = gradients.summed(SLICES)
    assert gradients.summed(rows) is rows


def test_norm_is_that_of_the_slices():
    """What the original clips by; that of the summed rows is another."""
    rows = gradients.summed(SLICES)
    norm = gradients.global_norm([rows, None, OTHER])
    assert float(norm) == pytest.approx((91 + 13) ** 0.5, rel=1e-6)
    expected = tf.linalg.global_norm([SLICES, None, OTHER])
    assert float(norm) == pytest.approx(float(expected), rel=1e-6)
    summed = gradients.global_norm([rows.total, None, OTHER])
    assert float(summed) == pytest.approx((125 + 13) ** 0.5, rel=1e-6)


def test_divided_gradients_have_the_divided_norm():
    found = [gradients.divided(g, 4.0) for g in (gradients.summed(SLICES), None, OTHER)]
    np.testing.assert_array_equal(found[0].total, np.divide(TOTAL, 4))
    assert found[1] is None
    np.testing.assert_array_equal(found[2], [0.5, 0.75])
    norm = float(gradients.global_norm(found))
    assert norm == pytest.approx(104**0.5 / 4, rel=1e-6)


def test_sum_over_one_replica_changes_nothing():
    """Over two: test_two_replicas.py."""
    rows = gradients.summed(SLICES)
    found = gradients.sum_of_replicas([None, rows, OTHER, None])
    assert found[0] is None and found[3] is None and type(found[1]) is gradients.Rows
    np.testing.assert_array_equal(found[1].total, TOTAL)
    assert float(found[1].squares) == 91
    np.testing.assert_array_equal(found[2], OTHER)
