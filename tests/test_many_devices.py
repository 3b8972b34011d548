"""Whole runs on two devices and in two processes; each script, as a user starts it."""

import re
import signal

import numpy as np
import pytest

from tests import forked, tiny, whole_runs

TWO_DEVICES = ("--virtual_cpus=2", "--distribution_strategy=mirrored")
# Sums over replicas are made in another order than those over a batch, and Adam divides
# by the roots of small squares.
TOLERANCE = 1e-5
# What a run leaves beside its checkpoints that holds a row for each example.
RESULTS = {
    "classification": ("test_results.tsv", "test_predictions.jsonl"),
    "tagging": ("test_tags.conll", "test_predictions.jsonl"),
    "frozen": ("test_tags.conll", "test_predictions.jsonl"),
    "layers": ("test_tags.conll", "test_predictions.jsonl"),
    "questions": ("predictions.json", "nbest_predictions.json"),
    "pretraining": (),
    "masking": (),
    "left_to_right": (),
    "streams": (),
}
TABLES = {"streams": "lm/softmax/W"}  # of words, where it is not that of BERT


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return whole_runs.write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = forked.Server(tmp_path_factory.mktemp("logs"))
    yield server
    server.close()


# Every day test_two_replicas.py has the objectives of all tasks on two devices, whose
# masks do not depend on them.
PARAMETERS = [pytest.param(name, marks=pytest.mark.slow) for name in whole_runs.SCRIPTS]


@pytest.fixture(scope="module", params=PARAMETERS)
def runs(request, data, server, tmp_path_factory):
    """(name, {kind: directory}, {kind: logs}) of the same run on different devices."""
    name = request.param
    script = whole_runs.SCRIPTS[name]
    flags = whole_runs.arguments(name, data, model="still")
    directories = {
        kind: tmp_path_factory.mktemp(kind) for kind in ("one", "two", "processes")
    }
    still = {"constants": whole_runs.NO_HEAD_DROPOUT}

    def start(kind, *more):
        output = f"--output_dir={directories[kind]}"
        return [server.start(script, *flags, output, *more, **still)]

    jobs = {"one": start("one"), "two": start("two", *TWO_DEVICES)}
    output = f"--output_dir={directories['processes']}"
    jobs["processes"] = server.start_workers(2, script, *flags, output, **still)
    for kind, started in jobs.items():
        for job in started:
            assert job.code() == 0, f"{kind}: {job.text()}"
    logs = {kind: [job.text() for job in started] for kind, started in jobs.items()}
    return name, directories, logs


def test_two_replicas_train_to_the_weights_of_one(runs, data):
    kind, directories, _ = runs
    one, two, processes = (whole_runs.variables(path) for path in directories.values())
    assert whole_runs.largest_difference(two, one) < TOLERANCE
    assert whole_runs.largest_difference(processes, one) < TOLERANCE
    # There was something to train.
    model = "still_streams" if kind == "streams" else "still"
    start = whole_runs.initial_variables(data / model)
    table = TABLES.get(kind, "bert/embeddings/word_embeddings")
    names = {table, "layer_mix/ELMo_W"} & one.keys()
    moved = [np.abs(one[name] - start.get(name, 0.0)).max() for name in names]
    assert max(moved) > 1e-2


def test_every_example_is_scored_once(runs):
    name, directories, _ = runs
    one, *others = directories.values()
    scores = tiny.eval_results(one)
    assert len(scores) > 2
    for other in others:
        assert tiny.eval_results(other) == pytest.approx(scores, abs=1e-4)
        for file in RESULTS[name]:
            text, numbers = parts_of(other / file)
            expected_text, expected_numbers = parts_of(one / file)
            assert text == expected_text
            np.testing.assert_allclose(numbers, expected_numbers, atol=1e-3)


def parts_of(path):
    """The text without its decimal numbers, and these."""
    text, pattern = path.read_text(), r"-?\d+\.\d+(?:e-\d+)?"
    assert len(text.splitlines()) > 9
    return re.sub(pattern, "", text), [float(n) for n in re.findall(pattern, text)]


def test_only_the_chief_writes(runs):
    _, directories, logs = runs
    chief, other = logs["processes"]
    names = [
        {path for path in tiny.listing(directory) if "tfevents" not in path}
        for directory in directories.values()
    ]
    assert names[0] == names[1] == names[2]
    for kind in ("train", "eval"):
        events = list((directories["processes"] / kind).glob("*tfevents*"))
        assert len(events) == len(list((directories["one"] / kind).glob("*tfevents*")))
    strategy = "strategy: MultiWorkerMirroredStrategy, 2 replicas"
    assert f"{strategy}; worker 0 of 2 (the chief)" in chief
    assert "worker 1 of 2 (chief: 127.0.0.1:" in other
    assert "waits for the chief to ready the output directory" in other
    assert "predictions:" not in other and "evaluation: " not in other
    assert "strategy: MirroredStrategy, 2 replicas" in logs["two"][0]
    assert "batch: 8, 4 per replica" in logs["two"][0] and "batch: 8, 4" in chief


def go_on(server, name, data, path, *more):
    """The run of `runs` in two processes, in a directory where it may have begun."""
    flags = whole_runs.arguments(name, data, model="still", evaluates=False)
    flags += [f"--output_dir={path}", "--log_steps=1", *more]
    script, still = whole_runs.SCRIPTS[name], whole_runs.NO_HEAD_DROPOUT
    return server.start_workers(2, script, *flags, constants=still)


@pytest.mark.slow
def test_two_processes_lose_nothing(runs, data, server, tmp_path):
    """One is asked to stop: both save and end; the same command goes on."""
    name, directories, _ = runs
    jobs = go_on(server, name, data, tmp_path)
    jobs[1].wait_for("first step done")
    jobs[1].kill(signal.SIGTERM)
    codes = [job.code() for job in jobs]
    assert codes == [143, 143], jobs[0].text() + jobs[1].text()
    assert "asked to stop (SIGTERM): saved" in jobs[0].text()
    jobs = go_on(server, name, data, tmp_path)
    assert [job.code() for job in jobs] == [0, 0], jobs[0].text()
    assert "with its moments (resumed)" in jobs[0].text()
    assert "dropout: other masks" not in jobs[0].text()
    whole = whole_runs.variables(directories["processes"])
    whole_runs.assert_equal(whole_runs.variables(tmp_path), whole)


@pytest.mark.slow
def test_process_that_is_killed_ends_the_other(data, server, tmp_path):
    jobs = go_on(server, "classification", data, tmp_path)
    jobs[1].wait_for("first step done")
    jobs[1].kill(signal.SIGKILL)
    assert jobs[1].code() == -signal.SIGKILL
    assert jobs[0].code() == 4, jobs[0].text()
    assert "another process of this run has ended, or cannot be reached" in (
        jobs[0].text()
    )
