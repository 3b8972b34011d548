"""The sentence, numbers and table at the head of a report."""

import dataclasses
import html
import re

import numpy as np
import pytest

from contract import outcomes
from reports import run_report
from reports.pages import head, record
from tests.reports import example_runs

TEXTS = "text-classification"


def decided(labels, predictions, names):
    """Outcomes of choices, ids [N] or zeros and ones [N, C]."""
    labels, predictions = np.array(labels), np.array(predictions)
    right = labels == predictions
    several = labels.ndim > 1

    def shown(row):
        if several:
            return ",".join(name for name, on in zip(names, row, strict=True) if on)
        return names[row]

    return dataclasses.replace(
        example_runs.rows(len(labels)),
        expected=[shown(row) for row in labels],
        predicted=[shown(row) for row in predictions],
        is_correct=right.all(axis=1) if several else right,
        scores={"accuracy": 0.5},
        rescore=lambda rows: {"accuracy": 0.5},
        decisions=outcomes.Decisions(
            class_names=names, labels=labels, predictions=predictions
        ),
    )


def evaluated(rows):
    return record.evaluation(rows)


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


RIGHT = "predicted so are right"


def tiles(kind, seen):
    return [tuple(map(plain, tile)) for tile in head.tiles(kind, seen)]


NAMES = ("account", "billing", "rare")
LABELS = [0] * 20 + [1] * 18 + [2] * 2
# Six of billing are called account, one of account billing; rare is never right.
PREDICTIONS = [0] * 19 + [1] + [0] * 6 + [1] * 12 + [1] * 2


def test_head_of_classes():
    seen = evaluated(decided(LABELS, PREDICTIONS, NAMES))
    # Wilson's interval of 31 of 40 is 0.625 to 0.877.
    verdict = plain(head.verdict(TEXTS, seen))
    assert verdict == "31 of 40 rows are labelled right (62 to 88 %)."
    assert tiles(TEXTS, seen) == [
        ("Right", "78 %", "31 of 40; of other such rows 62 to 88 %"),
        ("Without a model", "50 %", "right if all rows got “account”"),
        # The rare class is not the weakest: two rows show nothing.
        ("Weakest", "billing", f"12 of its 18 rows are found, 12 of 15 {RIGHT}"),
        ("Most often confused", "billing", "predicted as “account” in 6 rows"),
    ]
    table = head.table(TEXTS, seen)
    assert [tuple(map(plain, row)) for row in table.rows] == [
        ("billing", "18", "12 (67 %)", "15", "12 (80 %)"),
        ("account", "20", "19 (95 %)", "25", "19 (76 %)"),
        ("rare", "2", "0 (0 %)", "0", "-"),
    ]
    # twin: of choices, which are places, neither
    assert head.table("multiple-choice", seen) is None
    assert [tile[0] for tile in tiles("multiple-choice", seen)] == [
        "Right",
        "Without a model",
    ]


def test_weakest_class_may_be_one_that_is_predicted_too_often():
    labels = [0] * 6 + [1] * 30
    seen = evaluated(decided(labels, [0] * 6 + [0] * 9 + [1] * 21, ("a", "b")))
    assert tiles(TEXTS, seen)[2] == (
        *("Weakest", "a"),
        f"6 of its 6 rows are found, 6 of 15 {RIGHT}",
    )


def test_weakest_class_shows_both_shares_where_another_has_fewer_rows_found():
    labels = [0] * 16 + [1] * 16 + [2] * 16
    # a: 15 of 16 found, 15 of 19 right; b: 14 of 16 found, all right.
    guesses = [2] + [0] * 15 + [0] * 2 + [1] * 14 + [0] * 2 + [2] * 14
    seen = evaluated(decided(labels, guesses, ("a", "b", "c")))
    assert [row[0] for row in head.table(TEXTS, seen).rows] == ["a", "c", "b"]
    weakest = tiles(TEXTS, seen)[2]
    assert weakest == ("Weakest", "a", f"15 of its 16 rows are found, 15 of 19 {RIGHT}")


def test_class_that_is_never_predicted_shows_what_is_found():
    seen = evaluated(decided([0] * 6 + [1] * 6, [1] * 12, ("a", "b")))
    assert tiles(TEXTS, seen)[2] == ("Weakest", "a", "0 of its 6 rows are found")


def test_perfect_rows_have_no_weakest_class():
    seen = evaluated(decided([0, 1] * 20, [0, 1] * 20, ("a", "b")))
    verdict = plain(head.verdict(TEXTS, seen))
    assert verdict == "40 of 40 rows are labelled right (91 to 100 %)."
    assert [tile[0] for tile in tiles(TEXTS, seen)] == ["Right", "Without a model"]


def test_head_of_several_labels():
    labels = [[1, 0], [1, 1], [0, 0], [0, 0], [0, 0], [1, 0]] * 2
    guesses = [[1, 0], [1, 0], [0, 0], [0, 1], [0, 0], [0, 0]] * 2
    seen = evaluated(decided(labels, guesses, ("toxic", "threat")))
    assert tiles(TEXTS, seen) == [
        ("Right", "50 %", "6 of 12; of other such rows 25 to 75 %"),
        ("Without a model", "50 %", "right if all rows got no label"),
        ("Weakest", "toxic", f"4 of its 6 rows are found, 4 of 4 {RIGHT}"),
        ("Most often missed", "toxic", "2 of its 6 rows"),
    ]


def test_head_of_numbers():
    labels = np.arange(9.0)
    errors = np.array([1, 1, 1, 0.5, 0, -0.5, -1, -2, -3])
    rows = dataclasses.replace(
        decided([0] * 9, [0] * 9, ("a",)),
        decisions=None,
        numbers=outcomes.Numbers(labels=labels, predictions=labels + errors),
    )
    seen = evaluated(rows)
    assert head.verdict(TEXTS, seen) == (
        "Half of the numbers are off by at most 1, 9 of 10 by 2.2."
    )
    assert [tile[:2] for tile in tiles(TEXTS, seen)] == [
        ("Half are off by at most", "1"),
        ("9 of 10 by at most", "2.2"),
        ("Guessing the mean", "2"),
    ]
    assert head.table(TEXTS, seen) is None
    unknown = dataclasses.replace(
        rows, numbers=outcomes.Numbers(labels=labels, predictions=labels * np.nan)
    )
    assert evaluated(unknown)["numbers"] is None


def test_head_of_tags_counts_words_and_names():
    rows = decided([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0], ("O", "B-PER"))
    rows = dataclasses.replace(
        rows,
        expected=["x", "y"],
        texts=[("x",), ("y",)],
        is_correct=np.array([True, False]),
        losses=np.ones(2),
        scores={"f1": 0.5, "precision": 0.25, "recall": 0.75},
        shares={},
    )
    kind = "token-classification"
    assert tiles(kind, evaluated(rows))[1:] == [
        ("Names found", "75 %", "of those that are given"),
        ("Names right", "25 %", "of those that are predicted"),
        ("Weakest", "B-PER", f"2 of its 3 words are found, 2 of 3 {RIGHT}"),
        ("Most often confused", "O", "predicted as “B-PER” in 1 word"),
    ]
    assert [row[0] for row in head.table(kind, evaluated(rows)).rows] == ["B-PER"]


@pytest.mark.parametrize(
    ("right", "rows", "sentence"),
    [
        (97, 108, "About 9 of 10"),
        (9, 10, "9 of 10"),
        (85, 100, "85 of 100"),
        (47, 48, "47 of 48"),
        (970, 1000, "97 of 100"),
        (9_985, 10_000, "About 998 of 1000"),
        (0, 50, "0 of 50"),
    ],
)
def test_share_is_so_many_of_ten_or_of_more(right, rows, sentence):
    seen = {"is_correct": [1] * right + [0] * (rows - right)}
    assert head.verdict(TEXTS, seen).startswith(f"{sentence} rows are labelled right (")


@pytest.mark.parametrize(
    ("share", "rows", "text"),
    [
        (0.8765, 12, "88 %"),
        (0.8765, 9_999, "88 %"),
        (0.8765, 10_000, "87.6 %"),
        (0.87654, 1_000_000, "87.65 %"),
        (0.9996, 2_500, "99.96 %"),  # not all are right
        (0.001, 1_000, "0.1 %"),
        (1.0, 10, "100 %"),
        (0.0, 10, "0 %"),
    ],
)
def test_percent_has_the_digits_that_the_rows_allow(share, rows, text):
    assert plain(head.percent(share, rows)) == text


def test_page_has_the_title_and_one_printed_page_before_the_details(tmp_path):
    labels = np.arange(90) % 30
    names = [f"class {i}" for i in range(30)]
    rows = decided(labels, (labels + (labels < 20)) % 30, names)
    title = "Tickets <Q1>"
    facts = example_runs.facts(flags={"report_title": title})
    run_report.write(rows, str(tmp_path), **facts)
    text = (tmp_path / "report.html").read_text("utf-8")
    assert (
        f"<h1>{html.escape(title)}</h1>" in text and "Text classification" not in text
    )
    (first,) = re.findall(r'<section class="first".*?</section>', text, re.S)
    assert first.count("<tr>") == 13
    assert "The weakest first, by found and right together. 12 of 30." in first
    assert ".first { break-after: page; }" in text.partition("@media print")[2]
    before, details = text.split(first)
    assert "f1" not in before.partition("<body>")[2].lower()  # no term of statistics
    assert "Wilson" in details and "0.3333" in details
    assert "report_title" in record.read(str(tmp_path))["changed_flags"]
