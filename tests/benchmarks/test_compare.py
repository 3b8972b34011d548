"""The comparison with a peer: turns, figures, flags and the report."""

import dataclasses
import json
import re
import sys

import pytest
from absl import flags

from benchmarks import compare, report, rows, sides, sweep, turns
from tests import tiny


def test_side_that_fails_says_why():
    command = [sys.executable, "-c", "raise SystemExit('no compiler')"]
    with pytest.raises(turns.SideFailed, match="exit code 1\nno compiler"):
        turns.run(command)
    printed = "print('log'); print('{\"a\": 1}')"
    assert turns.run([sys.executable, "-c", printed]) == {"a": 1}


@pytest.fixture
def flag_values():
    """compare.py's flags at their defaults; the test may set them."""
    with tiny.flags_of("benchmarks.compare"):
        flags.FLAGS(["compare"])
        yield flags.FLAGS


def test_row_is_measured_in_turns(flag_values, monkeypatch):
    flag_values.peer_python, flag_values.rounds = "their_python", 2
    job = dataclasses.asdict(sides.Job("train", "classifier", 3, "", "", 3, 7))
    calls = []

    def run(command):
        python, _, module, argument = command
        settings = json.loads(argument)
        calls.append((python, module, settings.get("variant")))
        if module == "benchmarks.preparation":
            assert settings["columns"] == ["0", "1"] and settings["path"] == "t.tsv"
            return {"job": job, "examples": 224, "gflop": 1000.0}
        is_slow = settings["variant"] == "sdpa"
        return {"seconds": 8.0 if is_slow else 4.0, "peak_gflops": 500.0}

    monkeypatch.setattr(turns, "run", run)
    flag_values.sst2_file = "t.tsv"
    measured = compare.measure("sst2", rows.ROWS["sst2"], "directory")
    ours_, theirs = sys.executable, "their_python"
    assert calls == [
        (ours_, "benchmarks.preparation", None),
        (theirs, "benchmarks.peer", "sdpa"),
        (theirs, "benchmarks.peer", "eager"),
        *[(ours_, "benchmarks.ours", ""), (theirs, "benchmarks.peer", "eager")] * 2,
    ]
    assert measured["variant"] == "eager" and measured["trials"] == {
        "sdpa": 8,
        "eager": 4,
    }
    assert [run["figure"] for run in measured["runs"]["peer"]] == [56.0, 56.0]
    assert measured["runs"]["ours"][0]["share_of_peak"] == 1000 / 4 / 500
    assert measured["title"] == "fine-tuning, SST-2, batches of 32"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sst2_file", "none.tsv", r"--sst2_file=none.tsv: there is no such file"),
        ("peer_variants", ["flash"], r"--peer_variants=flash: variants are sdpa, "),
        (
            "backends",
            ["jax"],
            r"--backends needs a Python with them: set --peer_python",
        ),
        ("rounds", 0, r"--rounds=0 is below 1"),
    ],
)
def test_wrong_flag_is_named_at_once(
    name, value, message, flag_values, capsys, tmp_path
):
    flag_values.pretrained = str(tmp_path)  # where models/minilm is not set up, too
    setattr(flag_values, name, value)
    with pytest.raises(ValueError, match=message):
        compare.check_input(rows.ROWS)
    with pytest.raises(SystemExit, match="2"):
        compare.main([])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)


def test_report_holds_medians_and_ratios():
    ours = {
        "share_of_peak": 0.5,
        "peak_memory_mb": 1500.0,
        "environment": {"TF_X": "1"},
    }
    peer = {"share_of_peak": 0.8, "peak_memory_mb": 700.0, "environment": {}}
    ours["versions"], peer["versions"] = {"TensorFlow": "2.21"}, {"PyTorch": "2.13"}
    ours_runs = [
        {**ours, "figure": figure, "peak_gflops": peak}
        for figure, peak in ((10.0, 150.0), (30.0, 156.0), (20.0, 152.0))
    ]
    peer_runs = [
        {**peer, "figure": figure, "peak_gflops": 180.0} for figure in (10.0, 20.0, 5.0)
    ]
    machine = {"processor": "AMD EPYC", "cores": 2, "instruction_sets": ["avx2"]}
    step = {"title": "classifier step", "unit": "sequences/s", "precision": "float32"}
    alone = {"title": "one sentence", "unit": "ms", "precision": "float32"}
    both = {"ours": ours_runs, "peer": peer_runs}
    results = {
        "machine": {**machine, "memory_gb": 25.0},
        "peak_size": 1536,
        "rows": {
            "classifier": {**step, "variant": "sdpa", "runs": both},
            "alone": {**alone, "runs": {"ours": ours_runs[:1]}},
            "sms": {"skipped": "--sms_file is not set"},
        },
    }
    text = report.markdown(results)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "AMD EPYC, 2 cores, avx2, 25.0 GB"
    assert (
        "* this project: TensorFlow 2.21; TF_X=1; matrix product 156 GFLOP/s (float32)"
    ) in lines
    assert (
        "* Hugging Face: PyTorch 2.13; default environment; matrix product 180 "
        "GFLOP/s (float32)"
    ) in lines
    assert (
        "| classifier step | sequences/s | 20.0 | 10.0 (sdpa) | **1.50** (1.00, 1.50, "
        "4.00) | 0.50 | 0.80 | 1,500 | 700 |"
    ) in lines
    assert "| one sentence | ms | 10.0 | - | - | 0.50 | - | 1,500 | - |" in lines
    assert "sms: skipped, --sms_file is not set." in lines
    assert "1536 x 1536" in text


SMALL = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "hidden_act": "relu",  # nothing to compile
    "max_position_embeddings": 16,
}


@pytest.fixture
def sweep_flags(tmp_path, monkeypatch):
    """Flags of a sweep over a tiny network."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(SMALL))
    monkeypatch.setattr(sides, "PEAK_SIZE", 64)
    with tiny.flags_of("benchmarks.sweep"):
        arguments = ["--train_batch_sizes=4,2", "--max_seq_lengths=8,16", "--steps=2"]
        arguments += ["--num_hidden_layers=1", "--hidden_sizes=8,12"]
        arguments += [f"--bert_config_file={config}"]
        arguments += [f"--output_file={tmp_path / 'new' / 'out.json'}"]
        flags.FLAGS(["sweep", *arguments])
        yield flags.FLAGS


def test_each_size_is_varied_around_the_first(sweep_flags, monkeypatch, capsys):
    def run(command):
        return {"tokens_per_second": 1234.1}

    monkeypatch.setattr(turns, "run", run)
    sweep.main([])
    with open(sweep_flags.output_file, encoding="utf-8") as file:
        measured = json.load(file)["points"]
    sizes = [tuple(point.values())[:4] for point in measured]
    assert sizes == [(4, 8, 1, 8), (2, 8, 1, 8), (4, 16, 1, 8), (4, 8, 1, 12)]
    assert capsys.readouterr().out.count(" 1234 |") == 4
