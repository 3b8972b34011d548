"""Two runs side by side."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from reports import compare, run_report
from reports.pages import record
from tests import tiny
from tests.reports import example_runs

NAMES = ("first", "second")


def run_of(**changes):
    flags = changes.pop("flags", {})
    kind = changes.pop("kind", "text-classification")
    rows = example_runs.rows(**changes)
    facts = example_runs.facts(kind=kind, flags=flags)
    return json.loads(record.make_text(record.build(rows, directory="x", **facts)))


@pytest.fixture(scope="module")
def actual():
    first = run_of(wrong_every=5)  # 0, 5, 10, ... are wrong
    second = run_of(wrong_every=10, flags={"learning_rate": 3e-5})  # 0, 10, ...
    return compare.compare(first, second, NAMES)


def test_rows_are_parted_by_which_run_is_right(actual):
    assert actual.flags == {"learning_rate": (2e-5, 3e-5)}
    assert actual.counts == (48, 0, 6, 6) and actual.shared == 60
    assert actual.p == pytest.approx(2 / 2**6)
    texts = [row["texts"][0] for row in actual.only_second]
    assert texts == [f"row {i}" for i in (5, 15, 25, 35, 45, 55)]  # the worst first
    assert actual.only_first == []


def test_difference_has_the_interval_of_pairs(actual):
    accuracy = next(each for each in actual.scores if each.name == "accuracy")
    assert accuracy.difference == pytest.approx(0.1)
    # 6 of 60 rows differ, all of them one way: a binomial share of 0.1
    deviation = math.sqrt(0.1 * 0.9 / 60)
    low, high = accuracy.interval
    assert low == pytest.approx(0.1 - 1.96 * deviation, abs=1 / 60)
    assert high == pytest.approx(0.1 + 1.96 * deviation, abs=1 / 60)
    assert accuracy.is_clear
    # twin: resamples that are no pairs would be as wide as both runs together
    apart = np.sqrt(0.2 * 0.8 / 60 + 0.1 * 0.9 / 60) * 1.96 * 2
    assert high - low < 0.8 * apart


def test_equal_verdicts_have_no_interval_without_width():
    run = run_of(wrong_every=None)
    actual = compare.compare(run, run, NAMES)
    assert [score.interval for score in actual.scores] == [None, None]
    text = "\n".join(compare.lines(actual))
    assert "+0.0000     no spread over the resamples" in text


def test_rows_that_only_one_has_are_left_out():
    actual = compare.compare(run_of(count=60), run_of(count=40, shift=1), NAMES)
    assert actual.shared == 40 and sum(actual.counts) == 40
    assert all(score.interval is None for score in actual.scores)
    assert "not known: different rows" in "\n".join(compare.lines(actual))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda run: run.update(evaluation=None), "second: has scored no rows"),
        (lambda run: run.update(kind="fill-mask"), "name two runs of one task"),
        (
            lambda run: run["evaluation"].update(keys=["z"] * 60),
            "share none of their 60 and 60 rows",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(change, message):
    other = run_of()
    change(other)
    with pytest.raises(ValueError, match=message):
        compare.compare(run_of(), other, NAMES)


def test_program_prints_and_writes_a_page(tmp_path):
    for name, wrong_every in (("a", 5), ("b", 10)):
        rows = example_runs.rows(wrong_every=wrong_every, first_text=example_runs.EVIL)
        run_report.write(rows, str(tmp_path / name), **example_runs.facts())
    places = [str(tmp_path / name) for name in ("a", "b")]
    page = tmp_path / "c.html"
    out = tiny.run_program("compare_runs", f"--output_file={page}", *places).out
    assert "accuracy  0.8000  0.9000  +0.1000" in out and "  clear" in out
    assert "only the second 6, neither 6; McNemar's exact test: p = 0.03125" in out
    assert "no flag differs" in out
    text = page.read_text()
    assert "p = 0.03125" in text and "<script" not in text


def test_program_needs_no_tensorflow(tmp_path):
    for name in ("a", "b"):
        rows, facts = example_runs.rows(), example_runs.facts()
        run_report.write(rows, str(tmp_path / name), **facts)
    for module in ("tensorflow", "keras"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit(9)")
    done = subprocess.run(
        [sys.executable, "compare_runs.py", tmp_path / "a", tmp_path / "b"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "no flag differs" in done.stdout and "McNemar" in done.stdout


def write_changed(path, **changes):
    path.write_text(record.make_text(run_of() | changes))


@pytest.mark.parametrize(
    "prepare, message",
    [
        (lambda path: None, "cannot be read"),
        (lambda path: path.write_text('{"schema": 99}'), "is of schema 99, and 1"),
        (
            lambda path: path.write_text("null"),
            "report.json: the file holds no JSON object; name the --output_dir",
        ),
        (
            lambda path: write_changed(path, flags=None),
            "report.json: flags is None; evaluate that run again to write",
        ),
        (
            lambda path: write_changed(path, evaluation=[1]),
            "report.json: evaluation is [1]; evaluate that run again",
        ),
        (
            lambda path: write_changed(path, evaluation={"scores": {}}),
            "report.json: resampled is missing; evaluate that run again",
        ),
    ],
)
def test_directory_without_a_record_is_one_line(tmp_path, prepare, message):
    prepare(tmp_path / "report.json")
    done = tiny.run_program("compare_runs", tmp_path, tmp_path)
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1
