"""Tests of reports/pictures.py, figures.py and svg.py."""

import html
import io
import re
import warnings
import xml.etree.ElementTree

import matplotlib.image
import numpy as np
import pytest

from contract import outcomes
from reports import figures, pictures, svg

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # a library within warns
    from tensorboard import plugin_util

NASTY = "a | b `c` *d* _e_ <b>f</b> &amp; [g](http://h) # i \\| ~~j~~ 1. k\n\n- l"


def seen(**outcome):
    rows = {
        "texts": [("text",)] * 4,
        "expected": ["a"] * 4,
        "predicted": ["b"] * 4,
        "is_correct": np.zeros(4, bool),
        "losses": np.arange(4.0),
    }
    return outcomes.Outcomes(
        split="dev", scores={}, rescore=lambda rows: {}, **{**rows, **outcome}
    )


def classes(count, **changes):
    labels = np.arange(4) % count
    probabilities = np.eye(count)[(labels + (labels == 1)) % count]
    values = {
        "class_names": [f"class {i}" for i in range(count)],
        "labels": labels,
        "predictions": probabilities.argmax(axis=1),
        "probabilities": probabilities,
        "confidences": probabilities.max(axis=1),
    }
    return seen(decisions=outcomes.Decisions(**{**values, **changes}))


def drawn_texts(figure):
    root = xml.etree.ElementTree.fromstring(svg.element(figure))
    return [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(
    ("actual", "names"),
    [
        (classes(2), ["confusion", "precision_recall", "reliability"]),
        (
            classes(2, labels=np.eye(2)[[0, 1, 0, 1]], predictions=np.eye(2)[[0] * 4]),
            ["label_counts", "precision_recall", "reliability"],
        ),
        (
            seen(
                numbers=outcomes.Numbers(labels=np.arange(4.0), predictions=np.ones(4))
            ),
            ["predicted_and_given", "residuals"],
        ),
        (seen(), []),
    ],
    ids=["classes", "labels", "numbers", "nothing"],
)
def test_pictures_suit_what_was_decided(actual, names):
    """Each is a PNG of more than one color, and its text stays text in SVG."""
    chosen = pictures.choose(actual)
    assert sorted(chosen) == sorted(names)
    for picture in chosen.values():
        figure = picture.draw()
        pixels = matplotlib.image.imread(io.BytesIO(svg.png(figure)), "png")
        height, width = pixels.shape[:2]
        assert 300 < width < 1400 and 200 < height < 1400
        assert len(np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)) > 20
        assert drawn_texts(figure)


def test_svg_takes_the_ink_of_the_page_and_repeats():
    matrix = np.array([[1, 2], [3, 4]])
    text, again = (svg.element(figures.confusion(matrix, ["a", "b"])) for _ in "12")
    assert text == again
    assert "currentColor" in text and not re.search(r"fill: #(1f2023|000000)\b", text)
    assert text.startswith("<svg") and "<metadata" not in text


def test_matrix_of_many_classes_has_those_with_errors():
    counts = np.diag(np.full(40, 9))
    counts[30, 2] = counts[39, 31] = 1
    shown = drawn_texts(figures.confusion(counts, [f"class {i}" for i in range(40)]))
    assert {"class 2", "class 30", "class 31", "class 39"} <= set(shown)
    assert "class 38" not in shown and shown.count("9") == 20 and shown.count("1") == 2
    assert "the 20 of 40 classes with most errors" in shown


def test_names_are_text_whatever_they_hold():
    """Dollars are no formula, line ends no lines; missing letters bring no warning."""
    names = ["$x^2$ & <b>", "a\nb", "体育", "n" * 40]
    shown = drawn_texts(figures.confusion(np.eye(4, dtype=int), names))
    assert {"$x^2$ & <b>", "a b", "体育", "n" * 17 + "…"} <= set(shown)
    assert svg.png(figures.confusion(np.eye(4, dtype=int), names))


def test_tensorboard_gets_pictures_a_table_and_histograms():
    actual = seen(
        decisions=classes(3).decisions, histograms={"null odds, all": np.arange(3.0)}
    )
    shown = pictures.summaries(actual)
    kinds = {name: type(value).__name__ for name, (value, _) in shown.items()}
    assert kinds == {
        "confusion": "bytes",
        "precision_recall": "bytes",
        "reliability": "bytes",
        "worst_errors": "str",
        "losses": "ndarray",
        "null_odds_all": "ndarray",
    }
    assert all(description for _, description in shown.values())
    assert pictures.summaries(None) == {}


def wrong(texts, losses, is_correct):
    return seen(
        texts=[(text,) for text in texts],
        expected=["yes"] * len(texts),
        predicted=[f"no|{i}" for i in range(len(texts))],
        is_correct=np.array(is_correct),
        losses=np.array(losses),
    )


def test_wrong_rows_come_worst_first_and_long_texts_are_cut():
    rows = wrong(["a", "b", "c " * 300, "d"], [1.0, 9.0, 3.0, 2.0], [0, 1, 0, 0])
    long, short = pictures.error_table(rows, 2).splitlines()[2:]
    assert long.startswith("| 3.000 | yes | no&#124;2 | c c ")
    assert html.unescape(long).replace("<br>", " ").endswith(" " + "c " * 99 + "c… |")
    assert short == "| 2.000 | yes | no&#124;3 | d |"
    assert pictures.cut("x" * 200, 200) == "x" * 200
    right = wrong(["a"], [1.0], [1])
    assert pictures.error_table(right) == "No row is wrong."


def test_text_of_an_error_is_shown_as_it_is():
    """TensorBoard's Markdown makes one cell of it, with this text."""
    table = pictures.error_table(wrong([NASTY], [1.0], [0]))
    page = plugin_util.markdown_to_safe_html(table)
    cells = [
        html.unescape(re.sub(r"<[^>]*>", "", re.sub("<br */?>", " ", cell)))
        for cell in re.findall(r"<td[^>]*>(.*?)</td>", page, re.S)
    ]
    assert cells == ["1.000", "yes", "no|0", " ".join(NASTY.split())]
    plain = plugin_util.markdown_to_safe_html(f"| text |\n|---|\n| {NASTY} |")
    assert " ".join(NASTY.split()) not in html.unescape(re.sub(r"<[^>]*>", "", plain))
