"""The comparison of ELMo with the original: its work, its turns and its flags."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from absl import flags

from benchmarks import elmo, elmo_work, turns
from data_pipeline.text import elmo as elmo_tokenizer
from modeling.elmo import config
from tests import tiny

LINES = ["The boat runs .", "", "A boat, a river !", "The café", "It rains ."] * 2
BEGIN, END = 0, 1


@pytest.fixture(scope="module")
def work():
    return elmo_work.make(LINES, num_sentences=6, num_steps=2, batch=3)


def test_words_have_the_ids_of_our_tokenizer():
    words = ["<S>", "</S>", "<UNK>", "boat", "café", "x" * 60]
    tokenizer = elmo_tokenizer.ElmoTokenizer(words[:3])
    expected = tokenizer.tokenize_words(words).values.numpy()
    found = [elmo_work.character_ids(word) for word in words]
    np.testing.assert_array_equal(found, expected)


def test_streams_go_on_from_step_to_step(work, monkeypatch):
    """What follows a step's words are its targets; rows go on where they ended."""
    forward, backward = work.streams
    assert forward.shape == (3, 2 * elmo_work.UNROLL + 1)
    steps = list(work.windows(2))
    for k, (read, following) in enumerate(steps):
        begin = k * elmo_work.UNROLL
        window = work.streams[:, :, begin : begin + elmo_work.UNROLL + 1]
        np.testing.assert_array_equal(read, window[..., :-1])
        np.testing.assert_array_equal(following, window[..., 1:])
    np.testing.assert_array_equal(steps[0][1][..., -1], steps[1][0][..., 0])
    # Sentences are framed, in both directions, which are shuffled apart.
    assert forward[0, 0] == BEGIN and backward[0, 0] == END
    ends = np.flatnonzero(forward[0, :-1] == END)
    assert (forward[0, ends + 1] == BEGIN).all() and len(ends) > 3
    begins = np.flatnonzero(backward[0, :-1] == BEGIN)
    assert (backward[0, begins + 1] == END).all()
    # A rare word is unknown to the softmax, and is read by its characters.
    monkeypatch.setattr(elmo_work, "VOCABULARY", 5)
    small = elmo_work.make(LINES, 6, 2, batch=3)
    read, following = next(small.windows(1))
    assert following.max() == 4 and read.max() == len(small.characters) - 1 > 4


def test_batches_hold_whole_sentences(work):
    assert work.lengths.sum() == len(work.words) and len(work.lengths) == 6
    alone = list(work.sentences(1))
    assert [ids.shape[1] for ids in alone] == [*(work.lengths + 2)]
    pairs = list(work.sentences(2))
    assert len(pairs) == 3
    # By length, so that little is padded.
    lengths = np.sort(work.lengths).reshape(3, 2)
    found = sorted((ids[..., 0] > 0).sum(axis=1).tolist() for ids in pairs)
    assert sorted(map(sorted, found)) == (lengths + 2).tolist()
    for ids in (*alone, *pairs):
        assert (ids[:, 0] == work.characters[BEGIN]).all()
        for row in ids:
            real = row[row[:, 0] > 0]
            np.testing.assert_array_equal(real[-1], work.characters[END])
    with pytest.raises(ValueError, match="has 8 sentences, and 9 are to be extracted"):
        elmo_work.make(LINES, 9, 2)


def test_work_is_kept(work, tmp_path):
    work.save(tmp_path)
    again = elmo_work.Work.load(tmp_path)
    for name, value in vars(work).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    job = elmo_work.Job("train", "somewhere", 1, 2, "there")
    assert elmo_work.Job.from_json(job.to_json()) == job


def test_networks_are_of_the_sizes_that_are_named():
    counts = [
        config.ElmoConfig.from_dict(elmo_work.options(shape, 30_000)).num_weights()
        for shape in elmo_work.SHAPES
    ]
    assert [round(count / 1e6, 1) for count in counts] == [3.0, 13.6]


def test_words_a_second_leave_frames_out(work, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(elmo_work.sides.time, "perf_counter", lambda: next(clock))
    calls = []

    def call(ids):
        calls.append(ids.shape)
        return np.ones((len(ids), 3, ids.shape[1] - 2, 4))

    job = elmo_work.Job("extract", "", warm_up=1, steps=2)
    found = elmo_work.time_batches(call, job, work, 2)
    timed = list(work.sentences(2))[1:3]
    words = sum(int((ids[..., 0] > 0).sum()) - 4 for ids in timed)
    assert found["tokens_per_second"] == words / 2  # a second each
    assert found["check"] == 2 * 3 * 4 and len(calls) == 4


@pytest.fixture
def flag_values(tmp_path):
    with tiny.flags_of("benchmarks.elmo"):
        flags.FLAGS(["elmo", f"--output_file={tmp_path}/new/out.json", "--rounds=2"])
        yield flags.FLAGS


def test_best_turn_of_the_original_counts(flag_values, monkeypatch):
    flag_values.original, flag_values.original_python = "there", "their_python"
    rates = iter([6.0, 2.0, 3.0, 8.0, 5.0, 4.0])
    asked = []

    def run(command):
        *command, job = command
        asked.append((command, json.loads(job)))
        return {"tokens_per_second": next(rates), "check": 0.0}

    monkeypatch.setattr(turns, "run", run)
    found = elmo.measure("mini", "extract", "directory")
    assert found["ratios"] == [6.0 / 3.0, 8.0 / 5.0]
    assert found["tokens_per_second"] == {
        "ours": 7.0,
        "original": 3.5,
        "original_tuned": 3.5,
    }
    commands = [command for command, _ in asked]
    assert commands[0] == [sys.executable, "-m", "benchmarks.elmo_ours"]
    assert commands[2] == ["their_python", "-m", "benchmarks.elmo_original"]
    assert commands[1][0] == "env" and commands[1][-3:] == commands[2]
    assert "--unset=TF_CPU_ALLOCATOR_USE_BFC" in commands[1]
    assert commands[3:] == commands[:3]
    assert {tuple(job.values()) for _, job in asked} == {
        ("extract", "directory", *elmo.ROWS["extract"], "there")
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "--text_files=None: there is no such file"),
        ({"text_files": ["none*.txt"]}, "there is no such file; name some text"),
        ({"original": "."}, "--original and --original_python belong together"),
        (
            {"original": "absent", "original_python": sys.executable},
            "--original=absent: there is no such file",
        ),
    ],
)
def test_wrong_flag_is_named_at_once(flag_values, values, message):
    for name, value in values.items():
        setattr(flag_values, name, value)
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        elmo.main([])


@pytest.mark.slow
def test_command_times_ours_alone(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES * 250), "utf-8")
    output = tmp_path / "out.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.elmo", "--shapes=mini", "--rounds=1"),
            *("--rows=extract_one", f"--text_files={tmp_path}/*.txt"),
            f"--output_file={output}",
        ],
        capture_output=True,
        text=True,
        cwd=tiny.ROOT,
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(output.read_text())["shapes"]["mini"]["extract_one"]
    (run,) = row["runs"]["ours"]
    assert row["ratios"] == [] and run["tokens_per_second"] > 1
    told = {"ours": run["tokens_per_second"]}
    assert json.loads(done.stdout.splitlines()[-1])["tokens_per_second"] == told
