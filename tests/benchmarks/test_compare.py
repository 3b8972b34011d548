"""The comparison with a peer: turns, figures, flags and the report."""

import dataclasses
import sys

import pytest

from benchmarks import compare, report, rows, sides
from tests import refusals, tiny


def test_side_that_fails_says_why(tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "side.py").write_text(
        "import sys\n"
        "if sys.argv[1] == '{}': raise SystemExit('no compiler')\n"
        "print('log'); print(sys.argv[1])"
    )
    monkeypatch.setattr(compare, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)  # which python -m searches first
    with pytest.raises(compare.SideFailed, match="exit code 1\nno compiler"):
        compare.run_module(sys.executable, "side", {})
    assert compare.run_module(sys.executable, "side", {"a": 1}) == {"a": 1}


def test_row_is_measured_in_turns(monkeypatch):
    arguments = "--peer_python=their_python --rounds=2 --near_file=t.tsv"
    given = tiny.settings_of("benchmarks.compare", *arguments.split())
    job = dataclasses.asdict(sides.Job("train", "classifier", 3, "", "", 3, 7))
    calls = []

    def run(python, module, settings):
        calls.append((python, module, settings.get("variant")))
        if module == "preparation":
            assert settings["columns"] == ("0", "1") and settings["path"] == "t.tsv"
            return {"job": job, "examples": 224}
        assert settings["begun"] > 0
        is_slow = settings["variant"] == "sdpa"
        return {"seconds": 8.0 if is_slow else 4.0}

    monkeypatch.setattr(compare, "run_module", run)
    measured = compare.measure(given, "vectors", rows.ROWS["vectors"], "directory")
    ours_, theirs = sys.executable, "their_python"
    assert calls == [
        (ours_, "preparation", None),
        (theirs, "peer", "sdpa"),
        (theirs, "peer", "eager"),
        *[(ours_, "ours", ""), (theirs, "peer", "eager")] * 2,
    ]
    assert measured["variant"] == "eager" and measured["trials"] == {
        "sdpa": 8,
        "eager": 4,
    }
    assert [run["figure"] for run in measured["runs"]["peer"]] == [56.0, 56.0]
    assert measured["title"] == "vectors of pairs, batches of 32"


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("--rows=vectors", ""),
        ("--near_file=none.tsv", "--near_file=none.tsv: no such file; check the path"),
        ("--rows=classifier --near_file=none.tsv", ""),  # nothing reads it
        ("--peer_python=none", "--peer_python=none: no such file; check the path"),
        ("--peer_variants=flash", "--peer_variants=flash: variants are sdpa, eager, "),
        ("--rows=none", "--rows=none"),
        ("--rounds=0", "flag --rounds=0: 0 is not"),
    ],
)
def test_wrong_flag_is_named_at_once(argument, line, tmp_path):
    # models/minilm is not set up everywhere.
    words = f"--pretrained={tmp_path}", *argument.split()
    actual = refusals.line_of("benchmarks.compare", *words)
    assert actual.startswith(line) and bool(actual) == bool(line)


def test_side_that_fails_ends_the_comparison(monkeypatch, tmp_path):
    def run(python, module, settings):
        raise compare.SideFailed("exit code 1")

    monkeypatch.setattr(compare, "run_module", run)
    words = f"--pretrained={tmp_path}", "--rows=classifier"
    output = f"--output_file={tmp_path}/out/figures.json"
    done = tiny.run_program("benchmarks.compare", *words, output)
    assert done.code == "exit code 1" and done.out == ""


def test_report_holds_medians_and_ratios():
    ours = {"peak_memory_mb": 1500.0, "environment": {"TF_X": "1"}}
    peer = {"peak_memory_mb": 700.0, "environment": {}}
    ours["versions"], peer["versions"] = {"TensorFlow": "2.21"}, {"PyTorch": "2.13"}
    ours_runs = [
        {**ours, "figure": figure, "peak_gflops": peak}
        for figure, peak in ((10.0, 150.0), (30.0, 156.0), (20.0, 152.0))
    ]
    peer_runs = [
        {**peer, "figure": figure, "peak_gflops": 180.0} for figure in (10.0, 20.0, 5.0)
    ]
    machine = {"processor": "AMD EPYC", "cores": 2, "instruction_sets": ["avx2"]}
    step = {"title": "classifier step", "unit": "sequences/s"}
    alone = {"title": "one sentence", "unit": "ms"}
    both = {"ours": ours_runs, "peer": peer_runs}
    results = {
        "machine": {**machine, "memory_gb": 25.0},
        "peak_size": 1536,
        "rows": {
            "classifier": {**step, "variant": "sdpa", "runs": both},
            "alone": {**alone, "runs": {"ours": ours_runs[:1]}},
            "texts": {"skipped": "--texts_file is not set"},
        },
    }
    text = report.markdown(results)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "AMD EPYC, 2 cores, avx2, 25.0 GB"
    assert (
        "* this project: TensorFlow 2.21; TF_X=1; matrix product 156 GFLOP/s"
    ) in lines
    assert (
        "* Hugging Face: PyTorch 2.13; default environment; matrix product 180 GFLOP/s"
    ) in lines
    assert (
        "| classifier step | sequences/s | 20.0 | 10.0 (sdpa) | **1.50** (1.00, 1.50, "
        "4.00) | 1,500 | 700 |"
    ) in lines
    assert "| one sentence | ms | 10.0 | - | - | 1,500 | - |" in lines
    assert "texts: skipped, --texts_file is not set." in lines
    assert "1536 x 1536" in text
