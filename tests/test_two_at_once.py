"""A second command in the place where one writes: refused, and nothing is lost."""

import contextlib
import os
import pathlib
import signal
import types

import pytest

from contract import atomic_files, locks
from data_pipeline.batches import tf_records
from data_pipeline.extraction import vectors
from modeling.checkpoints import output_directory
from serving import export, search_index
from tasks import extraction, prediction
from tests import tiny, whole_runs
from tests.refusals import refused
from training import run_directory


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.0)


def training_in(path, **changes):
    settings = {"output_dir": path, "trains": True, "writes": True, **changes}
    return run_directory.held(types.SimpleNamespace(**settings))


def entered(context):
    with context:
        pass


def save_export(path):
    module, files = None, {"label_map.json": "{}"}
    return export.save(module, path, files, write=lambda *_: None)


FILES = {
    "JSON": lambda path: atomic_files.write_json(path, {}),
    "before long work": atomic_files.check_writable,
    "vectors": lambda path: entered(vectors.writer(path, "jsonl", None)),
    "answers": lambda path: entered(prediction._writing(path)),
    "records": lambda path: tf_records.write(
        path, types.SimpleNamespace(num_sequences=1), {}, 8
    ),
}
DIRECTORIES = {
    "training": lambda path: entered(training_in(path)),
    "export": save_export,
    "addition": lambda path: search_index.add(
        types.SimpleNamespace(index_dir=path), None, "more.txt"
    ),
}


@pytest.mark.parametrize("door", [*FILES, *DIRECTORIES, "conversion"])
def test_second_writer_is_refused_and_changes_nothing(tmp_path, at_once, door):
    path = str(tmp_path / "place")
    if door in FILES:
        write, first = FILES[door], locks.held(f"{path}.incomplete", path)
    elif door in DIRECTORIES:
        write, first = DIRECTORIES[door], locks.directory(path, path)
    else:
        rules = {"own_files": ["*"], "overwrite": True}

        def write(path):
            entered(output_directory.complete(path, **rules))

        first = locks.directory(f"{path}.incomplete", path)
    with first:
        for name in (path, f"{path}.incomplete"):
            if os.path.isdir(name):
                (pathlib.Path(name) / "half").touch()
        before = tiny.listing(tmp_path)
        with refused(path, f"process {os.getpid()} writes it; wait for it, or name "):
            write(path)
        assert tiny.listing(tmp_path) == before


@pytest.mark.parametrize("door", DIRECTORIES)
def test_file_in_the_place_of_a_directory_stays(tmp_path, door):
    place = tmp_path / "file"
    place.write_text("somebody's")
    with contextlib.suppress(ValueError, OSError):
        DIRECTORIES[door](str(place))
    assert tiny.listing(tmp_path) == {"file": b"somebody's"}


def test_extraction_holds_its_file_before_it_opens_the_network(
    tmp_path, at_once, monkeypatch
):
    tiny.write_model(tmp_path / "model", num_hidden_layers=1)
    (tmp_path / "texts.txt").write_text("the film\n")
    path, opens = f"{tmp_path}/v.jsonl", extraction.Extractor.__init__

    def with_second(self, *given):
        with refused(path, "writes it; wait for it, or name "):
            FILES["vectors"](path)
        opens(self, *given)

    monkeypatch.setattr(extraction.Extractor, "__init__", with_second)
    flags = f"--pretrained={tmp_path}/model --input_file={tmp_path}/texts.txt"
    tiny.succeed(
        "extract_features",
        flags,
        f"--output_file={path} --max_seq_length=16 --layers=-1",
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        *("model", "texts.txt", "v.jsonl")
    ]


def test_two_exports_have_two_versions(tmp_path):
    versions = [save_export(str(tmp_path / "new")) for _ in range(2)]
    assert versions == [str(tmp_path / "new" / number) for number in "12"]


def test_other_uses_of_the_directory_of_a_training_go_on(tmp_path, at_once):
    path = tmp_path / "run"
    with training_in(str(path)):
        entered(training_in(str(path), trains=False))
        entered(training_in(str(path), writes=False))  # of another host
        entered(training_in(str(path / "seed-1")))
        assert save_export(str(path / "export")) == str(path / "export" / "1")
    entered(training_in(str(path)))
    entered(training_in("gs://bucket/run"))


def test_conversion_that_ended_meanwhile_is_kept(tmp_path, monkeypatch):
    """The place was free when the second began."""
    place, before = tmp_path / "out", locks.directory

    def wait_for_the_first(path, name):
        place.mkdir()
        (place / "model.safetensors").write_text("first")
        return before(path, name)

    monkeypatch.setattr(locks, "directory", wait_for_the_first)
    rules = {"own_files": ["*"], "overwrite": False}
    with refused("--output_dir=", "is not empty (it holds model.safetensors)"):
        entered(output_directory.complete(place, **rules))
    assert tiny.listing(tmp_path) == {"out/model.safetensors": b"first"}


def test_training_is_refused_before_it_reads_weights(tmp_path, at_once):
    model = tiny.write_model(tmp_path / "model", num_hidden_layers=1)
    tiny.write_tables(tmp_path)
    before = tiny.listing(tmp_path)
    with locks.directory(str(tmp_path / "run"), "first"):
        line = tiny.refuse(
            "run_classifier",
            f"--pretrained={model} --train_file={tmp_path}/train.tsv --do_train",
            f"--output_dir={tmp_path}/run --max_seq_length=16",
        )
    assert f"--output_dir={tmp_path}/run: process {os.getpid()} writes" in line
    assert tiny.listing(tmp_path) == before


@pytest.mark.slow
def test_trainings_in_one_directory_lose_nothing(forked_server, tmp_path):
    """The first is killed; then the second goes on, to the weights of a run alone."""
    data = whole_runs.write(tmp_path / "data")
    flags = whole_runs.arguments("classification", data, steps=400, evaluates=False)

    def start(name, *more):
        output = f"--output_dir={tmp_path / name}"
        return forked_server.start("run_classifier", *flags, output, *more)

    start("alone").succeed()
    first = start("run", "--save_checkpoints_steps=7")
    first.until(lambda: [*(tmp_path / "run").glob("*.index")])
    first.send(signal.SIGSTOP)
    for more in ((), ("--seed=7",), ("--overwrite_output_dir",)):
        second = start("run", *more)
        assert second.code() == 2, second.text()
        assert f"process {first.pid} writes it" in second.text()
    first.kill()
    assert "(resumed)" in start("run").succeed()
    alone, run = (
        whole_runs.variables(tmp_path / name, 400) for name in ("alone", "run")
    )
    whole_runs.assert_equal(run, alone)
