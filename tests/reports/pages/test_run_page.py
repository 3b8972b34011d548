"""report.html and report.json: what they say, and what they never hold."""

import dataclasses
import html.parser
import itertools
import json
import math
import re
import time

import numpy as np
import pytest
import tensorflow as tf

from contract import outcomes
from reports import run_report
from reports.pages import record, run_page
from tests.reports import example_runs


class _Page(html.parser.HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self._hidden = [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._hidden += tag == "style"

    def handle_endtag(self, tag):
        self._hidden -= tag == "style"

    def handle_data(self, data):
        if not self._hidden:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def written(directory, rows=None, **changes):
    rows = example_runs.rows() if rows is None else rows
    run_report.write(rows, str(directory), **example_runs.facts(**changes))
    return (directory / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page_text(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run") / "mine"
    (directory / "train").mkdir(parents=True)
    for steps in ((1, 2, 3), (3, 4)):  # stopped at 3, and gone on from 2
        writer = tf.summary.create_file_writer(str(directory / "train"))
        with writer.as_default():
            for step in steps:
                tf.summary.scalar("train/loss", 8.0 / step + len(steps), step=step)
                tf.summary.text("train/words", "no curve", step=step)
        writer.close()
        if steps[0] == 1:  # the name of an event file begins with the second
            time.sleep(1.1)
    words = [["really", 0.5], ["<b>", -0.25]]
    explained = {"expected": "bad", "predicted": "good", "words": words}
    rows = example_runs.rows(first_text=example_runs.EVIL)
    return written(directory, rows, explanations=[explained])


@pytest.fixture(scope="module")
def page(page_text):
    return _Page(page_text)


def test_page_prints_whole_and_fits_a_phone(page_text):
    """The rules by which browsers do it; a look at the pictures set them."""
    style = re.search(r"<style>(.*?)</style>", page_text, re.S)[1]
    screen, phone, paper = re.split(r"@media \(max-width: 40rem\)|@media print", style)
    assert ".wide { overflow: visible; }" in paper and "@page { margin" in phone
    assert "h1, h2, h3, .note, summary, thead { break-after: avoid; }" in paper
    for rules in (screen, paper):  # more classes, smaller cells
        assert re.search(r"\.matrix \{[^}]*font-size: min\(.*var\(--n\)\)\)", rules)
    assert "white-space: pre-wrap" in screen and "table, .matrix { font-size" in phone
    assert ".bash { word-break: break-all; }" in screen  # not after "--"
    assert '<pre class="bash"><code>python run_classifier.py \\\n  --' in page_text


def test_matrix_of_thirty_classes_is_whole(tmp_path):
    names = [f"class {i}" for i in range(30)]
    labels = np.arange(60) % 30
    decisions = outcomes.Decisions(
        class_names=names, labels=labels, predictions=(labels + (labels == 7)) % 30
    )
    text = written(
        tmp_path, dataclasses.replace(example_runs.rows(), decisions=decisions)
    )
    (matrix,) = re.findall(
        r'<table [^>]*class="matrix" style="--n:30">.*?</table>', text, re.S
    )
    columns, *rows = re.findall(r"<tr>(.*?)</tr>", matrix, re.S)
    assert re.findall(r"<span>(.*?)</span>", columns) == names and len(rows) == 30
    cells = re.findall(r'<td( class="off")? style="--s:([\d.]+)">(\d*)</td>', rows[7])
    assert [cell for cell in cells if cell[2]] == [(' class="off"', "1.0", "2")]
    assert len(cells) == 30 and "left out" not in matrix


def test_page_says_what_was_run_and_how_good_it_is(page):
    for printed in (
        "accuracy share that is right 0.8000",
        "with 95 %",
        "1,000 resamples",
        "--learning_rate 2e-05",
        "python run_classifier.py \\ --train_file=/Users/me/t.tsv",
        "1 (25.0 %) cut to --max_seq_length",
        "Confusion matrix",
        "good 3 (75.0 %)",
        "python run_predictor.py",
        "precision float32",
    ):
        assert printed in page.text, printed
    # a flag that has its default is not worth a line
    assert "--max_seq_length 32" not in page.text


def test_page_asks_nothing_of_a_network(page, page_text):
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            if name in ("src", "srcset", "data", "action", "poster"):
                raise AssertionError(f"<{tag} {name}={value}>")
            if name.endswith("href"):
                assert value.startswith("#"), (tag, value)
    assert not page.of("link") and not page.of("iframe") and not page.of("script")
    assert "<script" not in page_text and example_runs.EVIL in page.text
    assert "@import" not in page_text
    assert not re.findall(r"url\((?!#)", page_text)
    assert len(page_text.encode()) < 2_000_000


def test_page_can_be_read_by_all(page):
    assert page.of("html")[0]["lang"] == "en"
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert headings[0] == 1 and headings.count(1) == 1
    steps = itertools.pairwise(headings)
    assert all(deeper <= level + 1 for level, deeper in steps)
    for svg in page.of("svg"):
        assert svg["role"] == "img" and len(svg["aria-label"]) > 20
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    # not a caption, which would scroll with a wide table
    assert len(page.of("table")) > 3 and not page.of("caption")
    assert {table["aria-labelledby"] for table in page.of("table")} <= set(ids)


def test_page_has_curves_and_coloured_words(page_text):
    label = re.search(r'aria-label="(Loss over steps[^"]*)"', page_text)[1]
    # Of each step the last value: 8 / 1 + 3 at first; 8 / 4 + 2 from the second file.
    assert label == "Loss over steps: train/loss from 11 to 4"
    for tag in (
        '<span class="plus" style="--s:1.0" title="+0.5000">really',
        '<span class="minus marked" style="--s:0.5" title="-0.2500">&lt;b&gt;',
    ):
        assert tag in page_text


def test_record_holds_verdict_and_loss_of_each_row(tmp_path):
    written(tmp_path)
    actual = record.read(str(tmp_path))
    rows = actual["evaluation"]
    assert rows["is_correct"] == [int(i % 5 != 0) for i in range(60)]
    assert rows["losses"][:2] == [3.0, 0.1] and len(set(rows["keys"])) == 60
    worst = rows["errors"][0]
    assert (worst["texts"], worst["expected"], worst["predicted"]) == (
        ["row 0"],
        "bad",
        "fine",
    )
    assert [row["loss"] for row in rows["errors"]] == sorted(
        (row["loss"] for row in rows["errors"]), reverse=True
    )
    assert rows["confusion"]["matrix"][0] == [16, 4, 0]  # 20 are bad, 4 wrong
    low, high = rows["scores"]["accuracy"]["interval"]
    assert 0.6 < low < 0.8 < high < 0.95
    assert rows["classes"][0] == {
        **{"name": "bad", "rows": 20, "predicted": 20},
        **{"precision": 0.8, "recall": 0.8, "f1": 0.8},
    }
    assert rows["class_averages"]["macro"]["f1"] == pytest.approx(0.8)
    assert actual["changed_flags"] == ["learning_rate", "train_file"]


def test_rows_that_are_all_right_have_no_interval_without_width(tmp_path):
    text = written(tmp_path, example_runs.rows(100, wrong_every=None))
    scores = record.read(str(tmp_path))["evaluation"]["scores"]
    assert scores["accuracy"]["interval"] == pytest.approx([0.9630, 1.0], abs=5e-5)
    note = "too few errors for an interval"
    assert (scores["loss"]["interval"], scores["loss"]["note"]) == (None, note)
    printed = _Page(text).text
    assert "share that is right 1.0000 0.9630 to 1.0000" in printed
    assert (
        f"0.1000 {note}" in printed
        and "100 of 100 rows are labelled right (96 to 100 %)." in printed
    )
    card = (tmp_path / "README.md").read_text()
    assert "| accuracy | 1.0000 | 0.9630 to 1.0000 |" in card
    assert f"| loss | 0.1000 | {note} |" in card


def test_page_and_card_have_scores_of_each_class(page, tmp_path):
    # of the 20 bad rows 4 are wrong, and 4 others are called bad
    assert "Class Given Predicted Precision Recall F1 bad 20 20 0.8000" in page.text
    assert "macro average 0.8000 0.8000 0.8000" in page.text
    assert "8 of 10 rows are labelled right (68 to 88 %)." in page.text
    written(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert "## Labels\n\n| label | rows |" in card
    assert "| bad | 20 | 0.8000 | 0.8000 | 0.8000 |\n| fine | 20 |" in card
    assert 'answers = loaded.predict(["A text."])' in card
    # twins: labels alone, and of choices, which are places, neither
    run_report.write(None, str(tmp_path), **example_runs.facts())
    assert "## Labels\n\n* bad\n* good\n" in (tmp_path / "README.md").read_text()
    choices = written(tmp_path, kind="multiple-choice")
    assert "Precision is the share" not in choices
    assert "## Labels" not in (tmp_path / "README.md").read_text()


def test_test_rows_beside_dev_rows_have_intervals_and_classes(tmp_path):
    tested = dataclasses.replace(example_runs.rows(30), split="test")
    page = _Page(written(tmp_path, tested=tested))
    assert "On 30 test rows, with 95 % intervals" in page.text
    assert "Test rows Precision is the share" in page.text
    assert "all bad 8 2 10" in page.text  # of its matrix
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    actual = record.read(str(tmp_path))["test_evaluation"]
    assert actual["rows"] == 30 and "keys" not in actual
    card = (tmp_path / "README.md").read_text()
    low, high = actual["scores"]["accuracy"]["interval"]
    assert f"| accuracy | 0.8000 | {low:.4f} to {high:.4f} |" in card
    assert "On 30 rows (test):" in card and "On 60 rows (dev):" in card


def test_what_is_answered_alone_is_on_the_page_and_the_card(tmp_path):
    rows = example_runs.rows(60, wrong_every=30)
    sure = dataclasses.replace(rows.decisions, confidences=np.linspace(0.3, 0.99, 60))
    rows = dataclasses.replace(rows, decisions=sure)
    page = _Page(written(tmp_path, rows)).text
    assert "By 60 dev rows. If predictions from a probability on are" in page
    assert "1 % none 0.0 % 100.0 % too few rows to promise 1 %: 230 are" in page
    use = "To use a row, answer alone where the largest of a text's probabilities "
    assert use + "is at least the number of the second column: they stand in" in page
    *_, promise = record.read(str(tmp_path))["evaluation"]["answered_alone"]
    # Below row 30, which is wrong; 29 are enough, and 30 with an error are not.
    assert promise["answered"] == 29 and promise["wrong"] == 0
    assert "10 % 0.650848 48.3 % 51.7 % 0.0 % (0 of 29)" in page
    card = (tmp_path / "README.md").read_text()
    assert "| 10 % | 0.650848 | 48.3 % |\n\n## Labels" in card
    assert "from a probability on (the largest of `probabilities`), wrong" in card
    assert "| 5 % |" not in card
    # Without probabilities there is none, nor of words.
    assert record.summary(example_runs.rows())["answered_alone"] == []
    more = {k: np.tile(getattr(sure, k), 2) for k in ("labels", "predictions")}
    words = dataclasses.replace(rows, decisions=dataclasses.replace(sure, **more))
    assert record.summary(words)["answered_alone"] == []


def test_rows_held_out_in_turn_have_scores_without_dev_rows(tmp_path):
    seen = example_runs.rows(30)
    sure = dataclasses.replace(seen.decisions, confidences=np.linspace(0.3, 0.99, 30))
    seen = dataclasses.replace(seen, split="held-out", decisions=sure)
    facts = example_runs.facts(cross_validation=record.summary(seen), results={})
    run_report.write(None, str(tmp_path), **facts)
    page = _Page((tmp_path / "report.html").read_text("utf-8")).text
    assert "On 30 held-out rows of the training data, each scored by a model" in page
    assert "Precision is the share" in page and "By 30 held-out rows." in page
    assert "All results of the command" not in page  # there are none
    card = (tmp_path / "README.md").read_text()
    assert "On 30 rows (held-out):" in card and "| accuracy | 0.8000 |" in card


def test_warnings_of_the_rows_stand_above_the_scores(tmp_path):
    finding = "/Users/me/t.tsv: 48 of 60 dev rows are training rows, too <b>"
    page = _Page(written(tmp_path, findings=(finding,))).text
    assert page.count(finding) == 1
    assert page.index(finding) < page.index("rows are labelled right")
    record = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert record["findings"] == [finding]
    card = (tmp_path / "README.md").read_text("utf-8")
    shown = "Warning: t.tsv: 48 of 60 dev rows are training rows, too &lt;b&gt;."
    assert card.index("## Scores") < card.index(shown) < card.index("| accuracy |")


def test_run_without_evaluation_has_a_page(tmp_path):
    facts = example_runs.facts(kind="fill-mask", results={"loss": math.nan})
    run_report.write(None, str(tmp_path), **facts)
    shown = _Page((tmp_path / "report.html").read_text()).text
    assert "weights of step 30" in shown and "Worst errors" not in shown
    assert "Each class" not in shown and "are labelled right" not in shown
    assert "not a number" in shown
    assert record.read(str(tmp_path))["results"] == {"loss": None}


def test_predictions_do_not_replace_an_evaluation(tmp_path):
    before = written(tmp_path)
    test_rows = dataclasses.replace(example_runs.rows(9), split="test")
    assert written(tmp_path, test_rows, trains=False) == before
    assert written(tmp_path, example_runs.rows(9), trains=False) != before


def test_regression_lists_the_largest_errors_and_no_verdicts(tmp_path):
    numbers = np.arange(5.0)
    rows = dataclasses.replace(
        example_runs.rows(5),
        decisions=None,
        numbers=outcomes.Numbers(labels=numbers, predictions=numbers * 2),
        losses=numbers,
    )
    written(tmp_path, rows)
    actual = record.read(str(tmp_path))["evaluation"]
    assert actual["is_correct"] is None and actual["confusion"] is None
    assert [row["loss"] for row in actual["errors"]] == [4.0, 3.0, 2.0, 1.0, 0.0]


def test_runs_below_a_directory_are_one_table(tmp_path):
    for rate, wrong_every in ((1e-5, 3), (3e-5, 6)):
        written(
            tmp_path / f"learning_rate={rate}",
            example_runs.rows(wrong_every=wrong_every),
            flags={"learning_rate": rate},
        )
    written(tmp_path / "predictions")  # no run of the grid
    run_report.write_all(str(tmp_path))
    text = (tmp_path / "report.html").read_text()
    printed = _Page(text).text
    assert "2 runs" in printed
    # One run each: a mean would be of unlike runs.
    assert "mean accuracy" not in printed and "Combinations" not in printed
    assert printed.index("learning_rate=3e-05") < printed.index("learning_rate=1e-05")
    assert 'href="learning_rate%3D1e-05/report.html"' in text


def test_learned_mix_of_layers_is_a_table(tmp_path):
    mix = {"gamma": 1.25, "s_0": 0.125, "s_1": 0.625, "s_2": 0.25}
    actual = _Page(written(tmp_path, layer_mix=mix))
    assert "times a learned factor: 1.2500" in actual.text
    shares = "Layer Share From 0 to 1 0 0.1250 1 0.6250 2 0.2500"
    assert f"Share of each layer, 0 being the embeddings. {shares}" in actual.text
    assert record.read(str(tmp_path))["layer_mix"] == mix


def records_of(scores):
    """{directory: a record with what the page of runs reads}, of a grid with seeds."""
    return {
        f"grid/learning_rate={rate}/seed-{seed}": {
            "flags": {"learning_rate": rate, "seed": seed},
            "evaluation": {"scores": {"accuracy": {"value": score, "interval": None}}},
            "kind": "text-classification",
            "command": "python run_classifier.py",
        }
        for (rate, seed), score in scores.items()
    }


def test_page_of_a_grid_compares_combinations_and_that_of_seeds_averages():
    scores = {(1e-4, 1): 0.9, (1e-4, 2): 0.7, (5e-5, 1): 0.84, (5e-5, 2): 0.82}
    page = run_page.page_of_runs(records_of(scores), "grid")
    rows = re.findall(r"<tr><td>(.*)</td><td class=.n.>2</td>(.*)</tr>", page)
    cells = [(rate, re.findall(r">([\d.]+)<", rest)) for rate, rest in rows]
    assert cells == [("5e-05", ["0.8300", "0.0141"]), ("0.0001", ["0.8000", "0.1414"])]
    assert "mean accuracy" not in page and "Scores over runs" not in page
    of_seeds = {key: score for key, score in scores.items() if key[0] == 5e-5}
    page = run_page.page_of_runs(records_of(of_seeds), "grid")
    assert "Combinations" not in page
    assert "<span>mean accuracy</span><b>0.8300</b>" in page
