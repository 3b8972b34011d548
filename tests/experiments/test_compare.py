"""python -m experiments.compare, from a corpus to the page, killed three times."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import types

import pytest
from absl import flags

from experiments import compare, comparison, pages, stages
from tests import tiny

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 900  # seconds, of a busy machine
CONFIG = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 128,
    "vocab_size": 300,
}


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    path = tmp_path_factory.mktemp("input")
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "data" / "sst2").mkdir(parents=True)
    for name, count in (("train", 160), ("dev", 32)):
        rows = [(text, int(label == "good")) for text, label in tiny.rows(count)]
        tiny.write_tsv(path / "data" / "sst2" / f"{name}.tsv", None, rows)
    (path / "data" / "wnut17").mkdir()
    for name, to in (("train", "wnut17train"), ("dev", "emerging.dev")):
        source = ROOT / "sample_data" / "tags" / f"{name}.conll"
        shutil.copy(source, path / "data" / "wnut17" / f"{to}.conll")
    return (
        f"--corpus_files={ROOT}/sample_data/corpus/*.txt",
        f"--held_out_files={ROOT}/sample_data/corpus/trades.txt",
        f"--data_dir={path}/data",
        f"--bert_config_file={path}/config.json",
        "--systems=no_nsp,left_to_right",
        "--tasks=sst2,wnut17",
        "--seeds=1,2",
        "--steps=8",
        "--num_train_epochs=0.2",
        "--vocab_size=300",
        "--jobs=2",
    )


def start(arguments, output_dir):
    program = sys.executable, "-m", "experiments.compare"
    with output_dir.with_suffix(".log").open("a") as log:
        return subprocess.Popen(
            [*program, *arguments, f"--output_dir={output_dir}"],
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def record(output_dir):
    path = output_dir / "results" / pages.RECORD
    return json.loads(path.read_text())


def wait_for(process, log, line):
    end = time.monotonic() + PATIENCE
    while line not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
    time.sleep(3)  # into a run


@pytest.mark.slow
def test_a_comparison_that_is_killed_has_the_same_numbers(arguments, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(arguments, whole).wait(PATIENCE) == 0
    log = tmp_path / "killed.log"
    # Killed alone, so that programs are left; asked to end; killed with its programs.
    for line, kill, number in (
        ("short runs of tasks:", os.kill, signal.SIGKILL),
        ("\npretraining:", os.kill, signal.SIGTERM),
        ("\ntasks:", os.killpg, signal.SIGKILL),
    ):
        process = start(arguments, killed)
        wait_for(process, log, line)
        kill(process.pid, number)
        expected = 143 if number == signal.SIGTERM else -9
        assert process.wait(PATIENCE) == expected
    assert start(arguments, killed).wait(PATIENCE) == 0
    assert "is in use" in log.read_text()
    assert record(killed) == record(whole)
    scores = record(whole)["scores"]["left_to_right"]
    assert set(scores) == {"sst2", "wnut17"} and set(scores["sst2"]) == {"1", "2"}
    assert len(record(whole)["along_pretraining"]["no_nsp"]) == 4
    assert not list(whole.glob("tasks/**/model.ckpt-*"))
    assert list(whole.glob("pretrained/no_nsp/model.ckpt-8.*"))
    page = (whole / "results" / pages.PAGE).read_text()
    assert "| BERT without NSP  " in page and "![Held-out losses" in page


@pytest.fixture
def read_settings(arguments, tmp_path):
    with tiny.flags_of("experiments.compare"):

        def read(*more):
            flags.FLAGS(["compare", *arguments, f"--output_dir={tmp_path}/out", *more])
            return compare.settings()

        yield read


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--systems=bert,elmo2",
            "--systems=bert,elmo2: elmo2 is not one of random, be",
        ),
        ("--tasks=", "--tasks=: give some of sst2, cola, stsb"),
        ("--seeds=1,1", "--seeds=1,1 are not different whole numbers"),
        ("--seeds=one", "--seeds=one are not different whole numbers"),
        ("--tasks=sst2,cola", r"CoLA: there is no .*data/cola/train.tsv; put it there"),
        (
            "--max_seq_length=256",
            r"has 128 positions, but texts of 256 tokens are read",
        ),
    ],
)
def test_wrong_flags_are_named_before_anything_runs(read_settings, flag, message):
    with pytest.raises(ValueError, match=message):
        read_settings(flag)


def test_another_comparison_in_the_directory_is_refused(read_settings, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("One line.\n")
    corpus = types.SimpleNamespace(texts={"train": [str(text)], "held_out": []})
    first = read_settings()
    with stages.locked(first.directory):
        comparison.check_same(first, corpus)
        comparison.check_same(read_settings(), corpus)
        # With another number of jobs it is the same, as on another machine.
        comparison.check_same(read_settings("--jobs=7"), corpus)
        with pytest.raises(
            ValueError, match=r"with seeds=\[1, 2\], but .* seeds=\[3\]"
        ):
            comparison.check_same(read_settings("--seeds=3"), corpus)
        text.write_text("One time.\n")  # as long
        with pytest.raises(ValueError, match="has a comparison with contents="):
            comparison.check_same(read_settings(), corpus)
