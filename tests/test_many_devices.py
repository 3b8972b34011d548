"""Whole runs on two devices, in two processes, and killed; as a user starts them."""

import random
import re
import signal
import time

import numpy as np
import pytest

from tests import tiny, whole_runs

TWO_DEVICES = ("--virtual_cpus=2", "--distribution_strategy=mirrored")
# Sums over replicas are made in another order than those over a batch, and Adam divides
# by the roots of small squares.
TOLERANCE = 1e-5
# What a run leaves beside its checkpoints that holds a row for each example.
RESULTS = {
    "classification": ("test_results.tsv", "test_predictions.jsonl"),
    "choice": ("test_results.tsv", "test_predictions.jsonl"),
    "tagging": ("test_tags.conll", "test_predictions.jsonl"),
    "vectors": (),
    "frozen": ("test_tags.conll", "test_predictions.jsonl"),
    "layers": ("test_tags.conll", "test_predictions.jsonl"),
    "pairs": ("test_predictions.jsonl",),
    "questions": ("predictions.json", "nbest_predictions.json"),
    "pretraining": (),
    "masking": (),
    "left_to_right": (),
    "replaced_tokens": (),
    "denoising": (),
    "streams": (),
}
# Of words, where it is not that of BERT.
TABLES = {
    "replaced_tokens": "electra/embeddings/word_embeddings",
    "pairs": "encoder/bert/embeddings/word_embeddings",
    "denoising": "encoder/bert/embeddings/word_embeddings",
    "streams": "lm/softmax/W",
}
STARTS = {
    "classification": "deep",
    "replaced_tokens": "still_electra",
    "streams": "still_streams",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return whole_runs.write(tmp_path_factory.mktemp("data"))


# Every day test_two_replicas.py trains a tagger on two devices; its masks do not depend
# on them.
PARAMETERS = [pytest.param(name, marks=pytest.mark.slow) for name in whole_runs.SCRIPTS]


@pytest.fixture(scope="module", params=PARAMETERS)
def runs(request, data, forked_server, tmp_path_factory):
    """(name, {kind: directory}, {kind: logs}) of the same run on different devices."""
    name = request.param
    script = whole_runs.SCRIPTS[name]
    flags = whole_runs.arguments(name, data, model=model_of(name))
    directories = {
        kind: tmp_path_factory.mktemp(kind) for kind in ("one", "two", "processes")
    }
    still = {"constants": whole_runs.NO_HEAD_DROPOUT}

    def start(kind, *more):
        output = f"--output_dir={directories[kind]}"
        return [forked_server.start(script, *flags, output, *more, **still)]

    jobs = {"one": start("one"), "two": start("two", *TWO_DEVICES)}
    output = f"--output_dir={directories['processes']}"
    jobs["processes"] = forked_server.start_workers(2, script, *flags, output, **still)
    for kind, started in jobs.items():
        for job in started:
            assert job.code() == 0, f"{kind}: {job.text()}"
    logs = {kind: [job.text() for job in started] for kind, started in jobs.items()}
    return name, directories, logs


def model_of(name):
    return "deep" if name == "classification" else "still"


def test_two_replicas_train_to_the_weights_of_one(runs, data):
    kind, directories, _ = runs
    one, two, processes = (whole_runs.variables(path) for path in directories.values())
    if kind == "choice":  # moves the scores of all choices alike: no gradient
        for weights in (one, two, processes):
            del weights["output_bias"]
    assert whole_runs.largest_difference(two, one) < TOLERANCE
    assert whole_runs.largest_difference(processes, one) < TOLERANCE
    # There was something to train.
    start = whole_runs.initial_variables(data / STARTS.get(kind, "still"))
    table = TABLES.get(kind, "bert/embeddings/word_embeddings")
    names = {table, "layer_mix/ELMo_W"} & one.keys()
    moved = [
        np.abs(one[name] - start.get(name.removeprefix("encoder/"), 0.0)).max()
        for name in names
    ]
    assert max(moved) > 1e-2
    # A network that is drawn has no start to compare with; its slots had one value.
    slots = [one[name] for name in one if name.rpartition("/")[0] in names]
    assert max(map(np.ptp, slots)) > 1e-6


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


def go_on(forked_server, name, data, path, *more):
    """The run of `runs` in two processes, in a directory where it may have begun."""
    flags = whole_runs.arguments(name, data, model=model_of(name), evaluates=False)
    flags += [f"--output_dir={path}", "--log_steps=1", *more]
    script, still = whole_runs.SCRIPTS[name], whole_runs.NO_HEAD_DROPOUT
    return forked_server.start_workers(2, script, *flags, constants=still)


@pytest.mark.slow
def test_two_processes_lose_nothing(runs, data, forked_server, tmp_path):
    """One is asked to stop: both save and end; the same command goes on."""
    name, directories, _ = runs
    jobs = go_on(forked_server, name, data, tmp_path)
    jobs[1].wait_for("first step done")
    jobs[1].send(signal.SIGTERM)
    codes = [job.code() for job in jobs]
    assert codes == [143, 143], jobs[0].text() + jobs[1].text()
    assert "asked to stop (SIGTERM): saved" in jobs[0].text()
    jobs = go_on(forked_server, name, data, tmp_path)
    assert [job.code() for job in jobs] == [0, 0], jobs[0].text()
    assert "with its moments (resumed)" in jobs[0].text()
    assert "dropout: other masks" not in jobs[0].text()
    whole = whole_runs.variables(directories["processes"])
    whole_runs.assert_equal(whole_runs.variables(tmp_path), whole)


@pytest.mark.slow
def test_process_that_is_killed_ends_the_other(data, forked_server, tmp_path):
    jobs = go_on(forked_server, "classification", data, tmp_path)
    jobs[1].wait_for("first step done")
    jobs[1].kill()
    assert jobs[0].code() == 4, jobs[0].text()
    assert "another process of this run has ended, or cannot be reached" in (
        jobs[0].text()
    )


@pytest.mark.slow  # every day test_run.py and some scripts go on, to the same bits
@pytest.mark.parametrize(
    ("name", "moments", "steps"),
    # So many steps that it does not end before it is killed for the last time, and 6
    # more than a multiple of 7. Masks and dropout are random, states go from batch to
    # batch.
    [("masking", 10, 1000), ("left_to_right", 4, 1000), ("streams", 6, 1000)],
)
def test_run_that_is_killed_often_ends_as_the_uninterrupted_one(
    data, forked_server, tmp_path, name, moments, steps
):
    flags = whole_runs.arguments(name, data, steps=steps, evaluates=False)

    def start(directory, *more):
        output = f"--output_dir={tmp_path / directory}"
        return forked_server.start(whole_runs.SCRIPTS[name], *flags, output, *more)

    whole = start("whole")
    draw = random.Random(5)
    often = ("--save_checkpoints_steps=7", "--log_steps=3")
    ends = []
    for number in range(moments):
        job = start("killed", *often)
        # Most moments lie in training, some before it.
        job.wait_for("training: step" if number % 4 == 3 else "first ")
        time.sleep(draw.uniform(0.0, 0.3))
        job.send(signal.SIGTERM if number % 2 else signal.SIGKILL)
        ends.append(job.code())
        assert ends[-1] in (-signal.SIGKILL, -signal.SIGTERM, 143), job.text()
    assert ends.count(-signal.SIGKILL) == moments // 2 and 143 in ends
    last = start("killed", *often)
    assert last.code() == 0, last.text()
    assert whole.code() == 0, whole.text()
    killed = whole_runs.variables(tmp_path / "killed", steps)
    expected = whole_runs.variables(tmp_path / "whole", steps)
    whole_runs.assert_equal(killed, expected)
    before = whole_runs.variables(tmp_path / "killed", steps - 6)  # a multiple of 7
    assert whole_runs.largest_difference(before, expected) > 1e-4
    assert not list((tmp_path / "killed").glob("*.incomplete*"))
