"""json_numbers.py against Python's round and json, text for text."""

import json

import numpy as np
import pytest

from data_pipeline.extraction import vectors


def expected(values):
    rows = [[round(float(x), vectors.DIGITS) for x in row] for row in values]
    return [json.dumps(row)[1:-1].encode() for row in rows]


@pytest.mark.parametrize("scale", [1e-7, 1e-5, 1e-4, 1e-2, 1.0, 30.0, 500.0, 1e5, 1e20])
def test_text_is_that_of_json(scale):
    rng = np.random.default_rng(1)
    values = (rng.normal(size=(9, 200)) * scale).astype(np.float32)
    assert vectors.rows_of_text(values) == expected(values)


def test_halves_go_where_round_sends_them():
    values = (np.arange(-2999, 3001, 2) / 128).astype(np.float32).reshape(3, -1)
    millionths = values.astype(np.float64) * 1e6
    assert np.any(millionths % 1 == 0.5)
    assert vectors.rows_of_text(values) == expected(values)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (-1e-7, "-0.0"),
        (1e-6, "1e-06"),
        (-1.2e-5, "-1.2e-05"),
        (9.9e-5, "9.9e-05"),
        (1e-4, "0.0001"),
        (2.0, "2.0"),
        (-0.25, "-0.25"),
        (999.5, "999.5"),
        (-1000.0, "-1000.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_edges_are_written_as_python_does(number, text):
    values = np.array([[1.5, number]], np.float32)
    assert vectors.rows_of_text(values) == [f"1.5, {text}".encode()]


def test_rare_numbers_do_not_disturb_other_rows():
    values = np.array([[0.5, 2.5], [1e6, np.nan], [-0.5, 3.5]], np.float32)
    rows = vectors.rows_of_text(values)
    assert rows == [b"0.5, 2.5", b"1000000.0, NaN", b"-0.5, 3.5"]


def test_rows_without_numbers_are_empty():
    assert vectors.rows_of_text(np.zeros((2, 0), np.float32)) == [b"", b""]
    assert vectors.rows_of_text(np.zeros((0, 3), np.float32)) == []
