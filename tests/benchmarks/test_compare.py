"""The comparison with a peer: turns, figures, flags and the report."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest
from absl import flags

from benchmarks import compare, report, rows, sides, sweep, turns
from modeling.configs import config as config_lib
from tests import tiny


def test_sides_take_turns():
    calls = []

    def take(side):
        calls.append(side)
        return {"figure": float(len(calls)), "x": 1.0}

    runs = turns.alternate({s: lambda s=s: take(s) for s in ("ours", "peer")}, 3)
    assert calls == ["ours", "peer"] * 3
    assert [run["figure"] for run in runs["peer"]] == [2.0, 4.0, 6.0]


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


def test_fastest_variant_takes_part(flag_values, monkeypatch):
    seconds = {"sdpa": 2.0, "eager": 1.0, "sdpa_compiled": None}
    tried = []

    def turn(python, side, job):
        tried.append((side, job.variant, job.steps))

        def take():
            if seconds[job.variant] is None:
                raise turns.SideFailed("peer: exit code 1\nNo C++ compiler")
            return {"seconds": seconds[job.variant]}

        return take

    monkeypatch.setattr(compare, "turn", turn)
    fields = sides.Job("train", "classifier", 2, "", "", 1, 20)
    job = dataclasses.asdict(fields)
    variant, trials = compare.fastest_variant(rows.ROWS["classifier"], job)
    assert variant == "eager" and trials["sdpa_compiled"] == "No C++ compiler"
    assert tried == [("peer", v, 8) for v in seconds]
    tried.clear()
    assert compare.fastest_variant(rows.ROWS["sst2"], job)[0] == "eager"
    assert [variant for _, variant, _ in tried] == ["sdpa", "eager"]  # lengths vary
    seconds["sdpa_frozen"] = 0.5  # packs its weights, which training would change
    assert compare.fastest_variant(rows.ROWS["inference"], job)[0] == "sdpa_frozen"
    beside = [n for n, row in rows.ROWS.items() if compare.takes_part("sdpa_int8", row)]
    assert beside == ["latency_int8"]
    flag_values.peer_variants = ["sdpa"]
    tried.clear()
    assert compare.fastest_variant(rows.ROWS["sst2"], job) == ("sdpa", {})
    assert tried == []  # nothing to choose from


def test_row_is_measured_in_turns(flag_values, monkeypatch):
    """The work is made once; then come trials, and turns of ours and the fastest."""
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
        ("pretrained", "none", r"--pretrained=none: there is no such file"),
        ("peer_variants", ["flash"], r"--peer_variants=flash: variants are sdpa, "),
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


def test_rows_are_chosen_by_name():
    assert list(rows.named(["latency", "sms"])) == ["latency", "sms"]
    assert rows.named([]) == rows.ROWS
    with pytest.raises(ValueError, match="--rows=lat: rows are classifier, "):
        rows.named(["lat"])


def test_rows_say_how_large_a_batch_is():
    assert rows.ROWS["classifier"].full_title == "classifier step, 32 x 128"
    assert rows.ROWS["squad"].full_title == "SQuAD, batches of 16"
    assert rows.ROWS["latency"].full_title == "one sentence, p50"


def test_rows_that_cannot_run_say_why():
    half = rows.ROWS["inference_bfloat16"]
    why = "the processor has no units for bfloat16"
    assert rows.missing(half, None, ["avx2", "avx512f"]) == why
    assert rows.missing(half, None, ["avx512f", "amx_bf16"]) == ""
    assert rows.missing(rows.ROWS["sms"], None, []) == "--sms_file is not set"
    assert rows.missing(rows.ROWS["sms"], "sms.tsv", []) == ""
    assert rows.missing(rows.ROWS["classifier"], None, []) == ""


def test_processor_is_read(tmp_path):
    text = (
        "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n"
        "flags\t\t: fpu avx2 avx512f_other amx_bf16\n\nprocessor\t: 1\nflags\t\t: x\n"
    )
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    measured = report.describe_machine(str(path))
    assert measured["processor"] == "AMD EPYC (family 25, model 1)"
    assert measured["instruction_sets"] == ["avx2", "amx_bf16"]
    assert measured["cores"] >= 1 and measured["memory_gb"] > 0.5
    assert report.describe_machine(str(tmp_path / "absent"))["instruction_sets"] == []


def turn_of(figure, share, memory, peak, versions):
    return {
        "figure": figure,
        "share_of_peak": share,
        "peak_memory_mb": memory,
        "peak_gflops": peak,
        "versions": versions,
        "environment": {"TF_X": "1"} if "TensorFlow" in versions else {},
    }


def test_peak_is_that_of_the_fastest_turn():
    runs = [
        {"seconds": 2.0, "peak_gflops": 100.0},
        {"seconds": 4.0, "peak_gflops": 50.0},  # something else ran
    ]
    prepared = {"examples": 8, "gflop": 100.0}
    measured = report.add_figures(rows.ROWS["classifier"], prepared, runs)
    assert [run["figure"] for run in measured] == [4.0, 2.0]
    assert [run["share_of_peak"] for run in measured] == [0.5, 0.25]


def test_report_holds_medians_and_ratios():
    ours_runs = [
        turn_of(f, 0.5, 1500.0, p, {"TensorFlow": "2.21"})
        for f, p in ((10.0, 150.0), (30.0, 156.0), (20.0, 152.0))
    ]
    peer_runs = [
        turn_of(f, 0.8, 700.0, 180.0, {"PyTorch": "2.13"}) for f in (10.0, 20.0, 5.0)
    ]
    results = {
        "machine": {
            "processor": "AMD EPYC",
            "cores": 2,
            "instruction_sets": ["avx2"],
            "memory_gb": 25.0,
        },
        "peak_size": 1536,
        "rows": {
            "classifier": {
                "title": "classifier step",
                "unit": "sequences/s",
                "precision": "float32",
                "variant": "sdpa",
                "runs": {"ours": ours_runs, "peer": peer_runs},
            },
            "alone": {
                "title": "one sentence",
                "unit": "ms",
                "precision": "float32",
                "runs": {"ours": [{**ours_runs[0]}]},
            },
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
        "* Hugging Face: PyTorch 2.13; environment as it is; matrix product 180 "
        "GFLOP/s (float32)"
    ) in lines
    assert (
        "| classifier step | sequences/s | 20.0 | 10.0 (sdpa) | **1.50** (1.00, 1.50, "
        "4.00) | 0.50 | 0.80 | 1,500 | 700 |"
    ) in lines
    assert "| one sentence | ms | 10.0 | - | - | 0.50 | - | 1,500 | - |" in lines
    assert "sms: skipped, --sms_file is not set." in lines
    assert "1536 x 1536" in text


@pytest.mark.slow
def test_command_times_ours_alone(tmp_path):
    model_dir = tiny.write_model(tmp_path / "uncased_tiny", num_hidden_layers=1)
    output = tmp_path / "new" / "out.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.compare", "--rows=classifier,sms"),
            *(f"--pretrained={model_dir}", f"--output_file={output}", "--rounds=1"),
            *("--steps=1", "--max_seq_length=16"),
        ],
        capture_output=True,
        text=True,
        cwd=tiny.ROOT,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(output.read_text())
    (run,) = figures["rows"]["classifier"]["runs"]["ours"]
    assert figures["rows"]["sms"] == {"skipped": "--sms_file is not set"}
    assert run["figure"] == pytest.approx(32 / run["seconds"])
    assert 100 < run["peak_memory_mb"] < 8000
    cell = re.escape(f"{run['figure']:.1f}")
    pattern = rf"\| classifier step, 32 x 16 +\| sequences/s +\| {cell} +\| - +\|"
    assert re.search(pattern, done.stdout)


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


def test_network_of_a_point_keeps_the_size_of_a_head(sweep_flags):
    config = config_lib.BertConfig.from_dict(SMALL)
    point = {**sweep.points()[0], "hidden_sizes": 12}
    wider = sweep.network(config, point)
    assert (wider.num_attention_heads, wider.intermediate_size) == (3, 24)
    for wrong in ({"hidden_sizes": 10}, {"max_seq_lengths": 17}):
        with pytest.raises(ValueError, match=r"multiples of 4.*at most 16"):
            sweep.network(config, {**point, **wrong})
    sweep_flags.hidden_sizes = ["8", "x"]
    with pytest.raises(ValueError, match="--hidden_sizes=8,x: give whole numbers"):
        sweep.points()


@pytest.mark.slow
def test_point_is_measured(sweep_flags):
    point = sweep.points()[0]
    config = config_lib.BertConfig.from_dict(SMALL)
    figures = sweep.measure(sweep.network(config, point), point)
    assert figures["loss"] == pytest.approx(0.69, abs=0.1)  # log 2 of two classes
    assert figures["tokens_per_second"] > 0 and figures["share_of_peak"] > 0
