"""Growth: which points are measured, what stays of a killed run, and the pictures."""

import json
import re
import sys
from xml.etree import ElementTree

import pytest
from absl import flags
from matplotlib import figure as figures

from benchmarks import cost_model, growth, growth_plots, growth_point, sides, turns
from modeling.configs import config as config_lib
from tests import tiny

MODEL = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "hidden_act": "relu",  # nothing to compile
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}


@pytest.fixture
def flag_values(tmp_path, monkeypatch):
    """Flags for two points of a tiny network; the test may set them."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(MODEL))
    monkeypatch.setattr(sides, "PEAK_SIZE", 64)
    with tiny.flags_of("benchmarks.growth"):
        flags.FLAGS(
            [
                *("growth", f"--bert_config_file={config}", "--steps=2"),
                *("--train_batch_size=4", "--max_seq_length=8", "--hidden_sizes="),
                *("--train_batch_sizes=4", "--max_seq_lengths=8,16"),
                *("--num_hidden_layers=", f"--output_dir={tmp_path / 'found'}"),
            ]
        )
        yield flags.FLAGS


@pytest.fixture
def calls(monkeypatch):
    """What would have been started; it answers with fixed figures."""
    made = []

    def run(command):
        made.append(command)
        if "benchmarks.creation" in command:
            return {
                "megabytes": 1.0,
                "instances_per_second": 100.0 * len(made),
                "most_memory_megabytes": 500 + len(made),
            }
        return {
            "seconds": 4.0,
            "loss": 0.7,
            "peak_gflops": 50.0 + len(made) % 2,
            "peak_memory_mb": 900.0,
            "libraries_memory_mb": 800.0,
        }

    monkeypatch.setattr(turns, "run", run)
    return made


def results_of(flag_values):
    path = f"{flag_values.output_dir}/{growth.FILE_NAME}"
    with open(path, encoding="utf-8") as file:
        return json.load(file)


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [[16], [8, 16]])
def test_command_measures(lengths, flag_values, monkeypatch, capsys):
    """From end to end, in this process."""
    flag_values.max_seq_lengths = [str(length) for length in lengths]
    flag_values.train_batch_sizes = []

    def run(command):
        assert command[:3] == [sys.executable, "-m", "benchmarks.growth_point"]
        return growth_point.run(**json.loads(command[3]))

    monkeypatch.setattr(turns, "run", run)
    growth.main([])
    points = results_of(flag_values)["training"]
    assert [point["max_seq_length"] for point in points] == lengths
    config = config_lib.BertConfig.from_dict(MODEL)
    for found in points:
        batch = cost_model.Batch(4, found["max_seq_length"])
        gflop = cost_model.training_operations(config, batch) / 1e9
        assert found["gflop_per_step"] == gflop
        share = gflop * found["steps_per_second"]
        share /= max(point["peak_gflops"] for point in points)
        assert found["share_of_peak"] == pytest.approx(share)
        tokens = found["steps_per_second"] * 4 * found["max_seq_length"]
        assert found["tokens_per_second"] == pytest.approx(tokens)
        assert found["loss"] == pytest.approx(0.69, abs=0.1)  # log 2 of two classes
        assert 100 < found["libraries_memory_mb"] <= found["peak_memory_mb"]
    printed = capsys.readouterr().out
    printed = re.findall(r"^\| 4 \| (\d+) \| 1 \| 8 \|", printed, re.M)
    assert printed == [str(length) for length in lengths]


def test_each_size_is_varied_around_the_middle(flag_values, calls):
    flag_values.train_batch_sizes = ["2", "4", "8"]
    flag_values.num_hidden_layers = ["1", "3"]
    flag_values.hidden_sizes = ["16", "8"]
    growth.main([])
    settings = [json.loads(command[3]) for command in calls]
    found = [
        (
            each["train_batch_size"],
            each["max_seq_length"],
            each["config"]["num_hidden_layers"],
            each["config"]["hidden_size"],
        )
        for each in settings
    ]
    assert found == [
        *((2, 8, 1, 8), (4, 8, 1, 8), (8, 8, 1, 8)),
        *((4, 16, 1, 8), (4, 8, 3, 8), (4, 8, 1, 16)),
    ]
    wide = settings[-1]["config"]
    assert (wide["num_attention_heads"], wide["intermediate_size"]) == (4, 32)
    first, second = results_of(flag_values)["training"][:2]
    # Of the highest peak, that of the first process.
    assert first["peak_gflops"] == 51 and second["peak_gflops"] == 50
    assert second["share_of_peak"] == second["gflop_per_step"] * 0.5 / 51
    assert first["steps_per_second"] == 2 / 4.0
    assert first["tokens_per_second"] == 2 / 4.0 * 2 * 8


def test_killed_run_goes_on(flag_values, calls, monkeypatch):
    answer, limit = turns.run, 1

    def run(command):
        if len(calls) == limit:
            raise turns.SideFailed("killed")
        return answer(command)

    monkeypatch.setattr(turns, "run", run)
    with pytest.raises(SystemExit, match="killed"):
        growth.main([])
    assert len(results_of(flag_values)["training"]) == 1
    limit = 10
    growth.main([])
    growth.main([])
    assert len(calls) == 2  # nothing was measured twice
    assert len(results_of(flag_values)["training"]) == 2


def test_results_of_other_settings_are_kept_apart(flag_values, calls, capsys):
    growth.main([])
    before = results_of(flag_values)
    flag_values.steps = 3
    with pytest.raises(SystemExit, match="2"):
        growth.main([])
    (line,) = capsys.readouterr().err.splitlines()[2:]
    assert re.search(r"was measured with steps=2, and now it is 3; choose", line)
    assert results_of(flag_values) == before and len(calls) == 2


def test_corpora_grow_by_copies_and_workers(flag_values, calls, tmp_path, monkeypatch):
    monkeypatch.setattr(sides, "cores", lambda: 6)
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n")
    flag_values.corpus_files, flag_values.vocab_file = "a*.txt", str(vocabulary)
    flag_values.corpus_copies = ["2", "3"]
    growth.main([])
    creations = [command for command in calls if "benchmarks.creation" in command]
    assert [command[-2:] for command in creations] == [
        ["--input_file=a*.txt,a*.txt", "--num_workers=6"],
        ["--input_file=a*.txt,a*.txt,a*.txt", "--num_workers=6"],
        *(["--input_file=a*.txt,a*.txt", f"--num_workers={n}"] for n in (1, 2, 4)),
    ]
    assert f"--vocab_file={vocabulary}" in creations[0]
    found = results_of(flag_values)
    assert found["creation"][0]["most_memory_megabytes"] == 503
    assert found["corpus"]["corpus_files"] == "a*.txt"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("hidden_sizes", ["10"], r"--hidden_sizes=10 is not a multiple of 4, the size"),
        ("max_seq_lengths", ["17"], r"--max_seq_lengths=17 exceeds max_.*s=16 in .*on"),
        ("num_hidden_layers", ["0"], r"--num_hidden_layers=0 is not a whole number"),
        ("bert_config_file", "none.json", r"none.json: no such file"),
        ("corpus_files", "a.txt", r"--vocab_file=none.txt: there is no such file"),
    ],
)
def test_wrong_flag_is_one_line(name, value, message, flag_values, calls, capsys):
    flag_values.vocab_file = "none.txt"
    setattr(flag_values, name, value)
    with pytest.raises(SystemExit, match="2"):
        growth.main([])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line) and not calls


def write_results(path):
    """A file with four training points and three of creation."""
    middle = {
        "train_batch_size": 4,
        "max_seq_length": 8,
        "num_hidden_layers": 2,
        "hidden_size": 16,
    }
    changes = [{}, {"train_batch_size": 8}, {"max_seq_length": 16}, {"hidden_size": 32}]
    training = [
        {
            **middle,
            **change,
            "tokens_per_second": 1000.0 + 500 * i,
            "share_of_peak": 0.5,
            "peak_memory_mb": 2000.0,
            "peak_gflops": 180.0 + i,
        }
        for i, change in enumerate(changes)
    ]
    creation = [
        {
            "corpus_copies": copies,
            "num_workers": workers,
            "megabytes": 2.5 * copies,
            "instances_per_second": 7000,
            "most_memory_megabytes": 700,
        }
        for copies, workers in ((1, 2), (4, 2), (1, 1))
    ]
    results = {
        "machine": {
            "processor": "AMD EPYC",
            "cores": 2,
            "instruction_sets": ["avx2"],
            "memory_gb": 25.0,
        },
        "versions": {"tensorflow": "2.21.0", "keras": "3.15.1"},
        "middle": middle,
        "training": training,
        "creation": creation,
    }
    path.write_text(json.dumps(results))
    return results


def test_series_are_points_that_differ_in_one_size(tmp_path):
    results = write_results(tmp_path / "growth.json")
    points, middle = results["training"], results["middle"]
    series = growth_plots.series(points, middle, "train_batch_size")
    assert [point["train_batch_size"] for point in series] == [4, 8]
    series = growth_plots.series(points, middle, "num_hidden_layers")
    assert series == points[:1]
    middle = growth_plots.creation_middle(results["creation"])
    assert middle == {"corpus_copies": 1, "num_workers": 2}
    series = growth_plots.series(results["creation"], middle, "num_workers")
    assert [point["num_workers"] for point in series] == [1, 2]


def test_every_point_is_within_its_axes(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        figures.Figure, "savefig", lambda *args, **_: drawn.append(args)
    )
    growth_plots.draw(write_results(tmp_path / "growth.json"), tmp_path)
    axes = [axis for figure, _ in drawn for axis in figure.axes]
    assert len(axes) == 3 * 4 + 2 * 2
    for axis in axes:
        (line,) = axis.lines
        for values, limits in (
            (line.get_xdata(), axis.get_xlim()),
            (line.get_ydata(), axis.get_ylim()),
        ):
            assert limits[0] == 0 and 0 < min(values) <= max(values) < limits[1]
    lines = [axis.lines[0] for axis in drawn[0][0].axes]
    assert list(lines[0].get_xdata()) == [4, 8]
    assert list(lines[0].get_ydata()) == [1.0, 1.5]


@pytest.mark.slow
def test_pictures_say_what_was_measured_where(tmp_path):
    results = write_results(tmp_path / "growth.json")
    growth_plots.draw(results, tmp_path / "images")
    pages = {path.name: path.read_text() for path in (tmp_path / "images").iterdir()}
    assert sorted(pages) == ["growth_creation.svg", "growth_training.svg"]
    for page in pages.values():
        text = " ".join(ElementTree.fromstring(page).itertext())
        assert "AMD EPYC, 2 cores, avx2" in text and "tensorflow 2.21.0" in text
        assert len(page) < 100_000
    text = " ".join(ElementTree.fromstring(pages["growth_training.svg"]).itertext())
    assert "4 x 8, 2 layers x 16" in text and "183 GFLOP/s" in text
    growth_plots.draw(results, tmp_path / "again")
    for name, page in pages.items():  # no date, no random names: changes are changes
        assert (tmp_path / "again" / name).read_text() == page
    growth_plots.draw({**results, "creation": []}, tmp_path / "half")
    assert [path.name for path in (tmp_path / "half").iterdir()] == [
        "growth_training.svg"
    ]
