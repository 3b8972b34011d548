"""The comparison with a peer: both sides get the same work, and figures add up."""

import dataclasses
import importlib
import json
import math
import re
import subprocess
import sys
from unittest import mock

import keras
import numpy as np
import pytest
from absl import flags

from benchmarks import compare, machine, ours, preparation, report, rows, sides, turns
from tests import tiny, tiny_questions, tiny_tags

STEPS = 3
THEIR_NAMES = {
    "input_ids": "input_ids",
    "input_mask": "attention_mask",
    "segment_ids": "token_type_ids",
}
BATCH = 4


@pytest.fixture(autouse=True)
def small_peak(monkeypatch):
    """A product that takes no time."""
    monkeypatch.setattr(sides, "PEAK_SIZE", 64)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "uncased_tiny"
    return tiny.write_model(path, num_hidden_layers=1)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """A file for each row that needs one."""
    directory = tmp_path_factory.mktemp("data")
    table = tiny.write_tsv(directory / "table.tsv", None, tiny.rows(30))
    flipped = [(label, text) for text, label in tiny.rows(30)]
    tags = directory / "tags.conll"
    tiny_tags.write_conll(tags, tiny_tags.sentences(20))
    return {
        "sms": str(tiny.write_tsv(directory / "sms.tsv", None, flipped)),
        "sst2": str(table),
        "tagging": str(tags),
        "squad": str(tiny_questions.version_1(directory / "squad.json", 12)),
    }


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def prepared(name, model_dir, directory, path=None, **changes):
    row = rows.ROWS[name]._replace(
        **{"batch_size": BATCH, "max_seq_length": 24, "warm_up": 1, **changes}
    )
    columns = {"sms": (1, 0), "sst2": (0, 1)}.get(name, ())
    found = preparation.prepare(
        row=row._asdict(),
        directory=directory,
        pretrained_dir=str(model_dir),
        path=path,
        columns=columns,
        steps=STEPS,
    )
    return row, found, sides.Job(**found["job"])


@pytest.mark.parametrize(
    ("name", "chance"),
    [
        slow("pretraining", math.log(43) + math.log(2)),  # words of tiny's vocabulary
        slow("classifier", math.log(2)),
        slow("sms", math.log(3)),
        slow("sst2", math.log(3)),
        ("tagging", math.log(7)),  # O, and B and I of three types
        slow("squad", math.log(16)),
    ],
)
def test_row_trains_on_its_work(name, chance, model_dir, paths, tmp_path, monkeypatch):
    """The loss of the first steps is about that of guessing, on real labels."""
    monkeypatch.setattr(preparation, "MASKED_TOKENS", 3)
    row, found, job = prepared(name, model_dir, tmp_path / "row", paths.get(name))
    assert found["examples"] == STEPS * BATCH
    (turn,) = report.measured(row, found, [ours.run(job)])
    assert 0.6 * chance < turn["loss"] < 1.8 * chance
    assert turn["figure"] == pytest.approx(STEPS * BATCH / turn["seconds"])
    share = found["gflop"] / turn["seconds"] / turn["peak_gflops"]
    assert turn["share_of_peak"] == pytest.approx(share)


def test_inference_is_timed(model_dir, tmp_path):
    row, found, job = prepared("inference", model_dir, tmp_path / "row")
    (turn,) = report.measured(row, found, [ours.run(job)])
    assert turn["figure"] == pytest.approx(STEPS * BATCH / turn["seconds"])
    assert sides.Work.load(job.work).targets == {}


@pytest.mark.slow
def test_latency_is_that_of_an_export(model_dir, tmp_path):
    row, found, job = prepared("latency", model_dir, tmp_path / "row")
    assert job.num_classes == 6  # those of the sample messages
    turn = ours.run(job)
    (timed,) = report.measured(row, found, [turn])
    assert timed["figure"] == turn["p50_ms"] > 0


def test_bfloat16_is_of_one_turn_alone(monkeypatch):
    monkeypatch.setattr(ours, "peak_gflops", lambda dtype: 1.0)
    job = sides.Job("train", "classifier", 2, "", "", 1, 1, precision="bfloat16")
    monkeypatch.setattr(ours, "train", lambda job: {"policy": policy_name()})
    assert ours.run(job)["policy"] == "mixed_bfloat16"
    assert policy_name() == "float32"


def policy_name():
    return keras.config.dtype_policy().name


@pytest.mark.parametrize("name", ["sst2", "tagging", "squad", "pretraining"])
def test_peer_gets_our_batches(name, model_dir, paths, tmp_path, monkeypatch):
    """What `Work.batches` pads with NumPy is what our pipeline pads, to the number."""
    monkeypatch.setattr(preparation, "MASKED_TOKENS", 3)
    _, _, job = prepared(name, model_dir, tmp_path / "row", paths.get(name))
    work = sides.Work.load(job.work)
    theirs = list(work.batches(job.warm_up + STEPS))
    own = [{k: v.numpy() for k, v in b.items()} for b in ours.batches_of(work)]
    assert len(theirs) == len(own) == job.warm_up + STEPS
    for mine, other in zip(own, theirs, strict=True):
        assert mine.keys() == other.keys()
        for feature, values in mine.items():
            np.testing.assert_array_equal(values, other[feature], feature)
            assert values.dtype == other[feature].dtype
    # The twin: batches of another order are others.
    moved = dataclasses.replace(work, order=np.roll(work.order, 1, axis=1))
    first = next(moved.batches(1))
    assert any(np.any(first[k] != theirs[0][k]) for k in first)


@pytest.fixture
def peer(monkeypatch):
    """benchmarks/peer.py without its libraries."""
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, mock.MagicMock())
    monkeypatch.delitem(sys.modules, "benchmarks.peer", raising=False)
    yield importlib.import_module("benchmarks.peer")
    sys.modules.pop("benchmarks.peer")


def test_peer_gets_our_features_under_its_names(peer):
    batch = {
        "input_ids": np.array([[5, 6, 7, 8], [9, 4, 0, 0]], np.int32),
        "input_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32),
        "segment_ids": np.array([[0, 0, 1, 1], [0, 1, 0, 0]], np.int32),
    }
    tags = {"label_ids": np.array([[-1, 0, 2, -1], [-1, 1, -1, -1]], np.int32)}
    found = peer.arguments({**batch, **tags})
    assert found.keys() == {*THEIR_NAMES.values(), "labels"}
    for mine, other in THEIR_NAMES.items():
        np.testing.assert_array_equal(found[other], batch[mine])
    assert found["labels"].tolist() == [[-100, 0, 2, -100], [-100, 1, -100, -100]]
    masked = {
        "masked_lm_positions": np.array([[0, 2], [1, 0]], np.int32),
        "masked_lm_ids": np.array([[11, 12], [13, 14]], np.int32),
        "masked_lm_weights": np.ones((2, 2), np.float32),
        "next_sentence_labels": np.array([1, 0], np.int32),
    }
    found = peer.arguments({**batch, **masked})
    assert found["labels"].tolist() == [[11, -100, 12, -100], [14, 13, -100, -100]]
    assert found["next_sentence_label"].tolist() == [1, 0]
    places = {"start_positions": np.array([1, 0]), "end_positions": np.array([2, 0])}
    found = peer.arguments({**batch, **places})
    assert found.keys() == {*THEIR_NAMES.values(), *places}
    assert {values.dtype for values in found.values()} == {np.dtype(np.int64)}


def test_flag_names_the_variants_of_the_peer(peer):
    assert list(peer.VARIANTS) == compare.PEER_VARIANTS
    assert peer.MODELS.keys() == ours.OBJECTIVES.keys()


def test_batches_are_by_length(model_dir, paths, tmp_path):
    """In rows of the table batches hold similar lengths; in random ones they do not."""
    _, _, job = prepared("sst2", model_dir, tmp_path / "row", paths["sst2"])
    work = sides.Work.load(job.work)
    lengths = np.diff(work.splits)

    def padding(order):
        return 1 - lengths[order].sum() / (lengths[order].max(axis=1).sum() * BATCH)

    random = np.random.default_rng(0).permutation(work.order.ravel())
    assert padding(work.order) < 0.15 < padding(random.reshape(work.order.shape))


def work_of(lengths, order, targets=None):
    splits = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.zeros(splits[-1], np.int32)
    return sides.Work(tokens, splits, np.array(lengths), order, targets or {}, {})


def test_useful_work_is_counted_by_hand():
    shape = {
        "hidden_size": 2,
        "intermediate_size": 3,
        "num_hidden_layers": 5,
        "vocab_size": 7,
    }
    job = sides.Job("predict", "classifier", 2, "", "", warm_up=1, steps=2)
    order = np.array([[0, 0], [0, 1], [1, 2]])  # the first is warm-up
    work = work_of([10, 20, 40], order)
    blocks = 5 * (4 * 2 * 2 + 2 * 2 * 3)  # weights
    tokens = 10 + 20 + 20 + 40
    expected = 2 * blocks * tokens / 1e9
    assert sides.useful_gflop(shape, work, job) == pytest.approx(expected)
    training = dataclasses.replace(job, action="train")
    masked = {"masked_lm_weights": np.array([[1, 1], [1, 0], [1, 1]])}
    found = sides.useful_gflop(shape, work_of([10, 20, 40], order, masked), training)
    head = 2 * 2 + 2 * 7
    masked_tokens = 2 + 1 + 1 + 2
    assert found == pytest.approx(6 * (blocks * tokens + head * masked_tokens) / 1e9)


def test_warm_up_is_not_timed(monkeypatch):
    clock = [0]
    monkeypatch.setattr(sides.time, "perf_counter", lambda: clock[0])

    def made():
        for seconds in (7, 2, 3):
            clock[0] += 100  # to make it
            yield seconds

    def run(seconds):
        clock[0] += seconds

    assert sides.seconds_of(run, made(), 1) == [2, 3]
    assert sides.seconds_of(run, made(), 0) == [7, 2, 3]


def test_sentences_have_sixteen_words():
    assert {len(sentence.split()) for sentence in sides.SENTENCES} == {16}


def test_sides_take_turns():
    calls = []

    def take(side):
        calls.append(side)
        return {"figure": float(len(calls)), "x": 1.0}

    runs = turns.alternate({s: lambda s=s: take(s) for s in ("ours", "peer")}, 3)
    assert calls == ["ours", "peer"] * 3
    assert turns.ratios(runs, "figure") == [1 / 2, 3 / 4, 5 / 6]
    assert turns.median(runs["peer"], "figure") == 4.0


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
    found = compare.measure("sst2", rows.ROWS["sst2"], "directory")
    ours_, theirs = sys.executable, "their_python"
    assert calls == [
        (ours_, "benchmarks.preparation", None),
        (theirs, "benchmarks.peer", "sdpa"),
        (theirs, "benchmarks.peer", "eager"),
        *[(ours_, "benchmarks.ours", ""), (theirs, "benchmarks.peer", "eager")] * 2,
    ]
    assert found["variant"] == "eager" and found["trials"] == {"sdpa": 8, "eager": 4}
    assert [run["figure"] for run in found["runs"]["peer"]] == [56.0, 56.0]
    assert found["runs"]["ours"][0]["share_of_peak"] == 1000 / 4 / 500
    assert found["title"] == "fine-tuning, SST-2, batches of 32"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sst2_file", "none.tsv", r"--sst2_file=none.tsv: there is no such file"),
        ("pretrained", "none", r"--pretrained=none: there is no such file"),
        ("peer_variants", ["flash"], r"--peer_variants=flash: variants are sdpa, "),
        ("rounds", 0, r"--rounds=0 is below 1"),
    ],
)
def test_wrong_flag_is_named_at_once(name, value, message, flag_values, capsys):
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


def test_processor_is_read():
    text = (
        "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n"
        "flags\t\t: fpu avx2 avx512f_other amx_bf16\n\nprocessor\t: 1\nflags\t\t: x\n"
    )
    found = machine.describe(text)
    assert found["processor"] == "AMD EPYC (family 25, model 1)"
    assert found["instruction_sets"] == ["avx2", "amx_bf16"]
    assert found["cores"] >= 1 and found["memory_gb"] > 0.5
    assert machine.describe("")["instruction_sets"] == []


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
    found = report.measured(rows.ROWS["classifier"], prepared, runs)
    assert [run["figure"] for run in found] == [4.0, 2.0]
    assert [run["share_of_peak"] for run in found] == [0.5, 0.25]


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
    lines = text.splitlines()
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
def test_command_times_ours_alone(model_dir, tmp_path):
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
    pattern = rf"\| classifier step, 32 x 16 \| sequences/s \| {cell} \| - \|"
    assert re.search(pattern, done.stdout)
