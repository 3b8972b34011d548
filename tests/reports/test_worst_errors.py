"""Tests of reports/worst_errors.py."""

import html
import re
import warnings

import numpy as np

from contract import outcomes
from reports import worst_errors

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # a library within warns
    from tensorboard import plugin_util

NASTY = "a | b `c` *d* _e_ <b>f</b> &amp; [g](http://h) # i \\| ~~j~~ 1. k\n\n- l"


def seen(texts, losses, is_correct):
    count = len(texts)
    return outcomes.Outcomes(
        split="dev",
        texts=[(text,) for text in texts],
        expected=["yes"] * count,
        predicted=[f"no|{i}" for i in range(count)],
        is_correct=np.array(is_correct),
        losses=np.array(losses),
        scores={},
        rescore=lambda rows: {},
    )


def test_wrong_rows_come_worst_first():
    found = worst_errors.find(
        seen(["a", "b", "c", "d"], [1.0, 9.0, 3.0, 2.0], [False, True, False, False]), 2
    )
    assert [(error.row, error.loss) for error in found] == [(2, 3.0), (3, 2.0)]
    assert found[0].texts == ("c",) and found[0].predicted == "no|2"


def test_text_is_shown_as_it_is():
    """What TensorBoard's Markdown makes of the table has one cell, with this text."""
    table = worst_errors.table(worst_errors.find(seen([NASTY], [1.0], [False])))
    page = plugin_util.markdown_to_safe_html(table)
    cells = [
        html.unescape(re.sub(r"<[^>]*>", "", re.sub("<br */?>", " ", cell)))
        for cell in re.findall(r"<td[^>]*>(.*?)</td>", page, re.S)
    ]
    assert cells == ["1.000", "yes", "no|0", " ".join(NASTY.split())]
    plain = plugin_util.markdown_to_safe_html(f"| text |\n|---|\n| {NASTY} |")
    assert " ".join(NASTY.split()) not in html.unescape(re.sub(r"<[^>]*>", "", plain))


def test_long_texts_are_cut():
    assert worst_errors.cut("x" * 200, 200) == "x" * 200
    assert worst_errors.cut("x" * 201, 200) == "x" * 199 + "…"
    found = worst_errors.find(seen(["y " * 300], [1.0], [False]))
    assert len(found[0].texts[0]) == 200


def test_without_errors_it_says_so():
    assert worst_errors.table([]) == "No row is wrong."
