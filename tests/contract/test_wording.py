"""Tests of contract/wording.py."""

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
