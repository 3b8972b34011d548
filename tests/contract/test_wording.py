"""Tests of contract/wording.py."""

import numpy as np
import pytest

from contract import wording


@pytest.mark.parametrize(
    ("names", "limit", "expected"),
    [
        ("", 3, ""),
        ("a", 3, "a"),
        ("abc", 3, "a, b, c"),
        ("abcd", 3, "a, b, c and 1 more"),
        ("abcdef", 1, "a and 5 more"),
    ],
)
def test_names_are_cut_to_the_first(names, limit, expected):
    assert wording.first_of(list(names), limit) == expected


def test_values_of_a_listing_are_quoted_and_cut():
    assert wording.listing(["a", "it's"]) == """['a', "it's"]"""
    assert wording.listing(["x" * 41, "b"], 1) == f"['{'x' * 40}' and 1 more]"


def test_columns_are_as_wide_as_their_widest_cell():
    rows = [("a", "score", ""), ("质量", "7", "é"), ("e\u0301e",)]
    assert wording.columns(rows) == ["a     score", "质量  7      é", "e\u0301e"]
    right = ["a     score", "质量      7  é", "e\u0301e"]
    assert wording.columns(rows, align_right=True) == right
    assert wording.columns([]) == []


def test_things_are_counted_in_their_number():
    assert [wording.count(n, "replica") for n in (0, 1, 2)] == [
        "0 replicas",
        "1 replica",
        "2 replicas",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float32(0.8888889), "0.8889"),
        (0.8866132670840209, "0.8866"),
        (np.float64(8123.45678), "8123.4568"),
        (0.0, "0.0000"),
        (3.14159e-5, "3.14e-05"),
        (float("nan"), "nan"),
        (np.int64(28), "28"),
        ("a text", "a text"),
    ],
)
def test_scores_have_four_digits(value, shown):
    assert wording.score(value) == shown
