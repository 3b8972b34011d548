"""Tests of tasks/serving.py: exports over HTTP, and versions that come."""

import concurrent.futures
import json
import pathlib
import shutil
import signal
import time
import weakref

import numpy as np
import pytest
import tensorflow as tf

from contract import features, file_names
from serving import export, reranking
from serving.protocol import servables, version_polling
from serving.server import doors, process
from tasks import serving as serving_task
from tests import search_runs, tiny
from tests.serving import test_predictor
from tests.serving.server import running

WAIT_SECONDS = 60
PATH = "/v1/models/sizes"


def while_serving(monkeypatch, export_dir, ask, command=None):
    """Stops the server of the command after `ask`, and returns the result of that."""
    pool, before, futures = concurrent.futures.ThreadPoolExecutor(1), process.run, []

    def run(application, listener, load):
        def work():
            address = doors.address(listener)
            server = running.Running(address, application.service, None)
            try:
                running.until(lambda: application.service.state != "loading")
                return ask(server)
            finally:
                signal.raise_signal(signal.SIGTERM)

        futures.append(pool.submit(work))
        return before(application, listener, load)

    def serve():
        serving_task.serve_export(test_predictor.SERVER, export_dir, "sizes")

    with monkeypatch.context() as patch, pool:
        patch.setattr(process, "run", run)
        (command or serve)()
        return futures[0].result(WAIT_SECONDS)


def labels(server, path=":predict"):
    body = {"instances": ["a", "longer"]}
    rows = server.request(PATH + path, body)[2]["predictions"]
    return [row["label"] for row in rows]


@pytest.fixture(scope="module")
def export_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes") / "export"
    test_predictor.save(folder)
    return str(folder)


def test_http_serves_until_it_is_told_to_stop(export_dir, monkeypatch, capsys):
    handler = signal.getsignal(signal.SIGTERM)

    def ask(server):
        return labels(server, "/versions/1:predict")

    assert while_serving(monkeypatch, export_dir, ask) == ["short", "long"]
    assert signal.getsignal(signal.SIGTERM) == handler
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(f"serving {export_dir}/1 at http://127.0.0.1:")
    assert printed[0].endswith("/v1/models/sizes:predict; Ctrl-C ends")
    url = printed[0].split(" at ")[1].split(";")[0]
    body = '{"instances": [{"text": "a text"}]}'
    assert printed[1:] == [f"for example: curl -d '{body}' {url}", "stopped"]


def test_server_takes_over_the_address_that_is_open(export_dir, monkeypatch, capsys):
    door = doors.Door("127.0.0.1", 0)
    address = doors.address(door.listener)
    early = running.Running(address, None, None).request("/health/ready")[::2]

    def command():
        serving_task.serve_export(test_predictor.SERVER, export_dir, "sizes", door)

    def ask(server):
        return server.address, server.request("/health/ready")[::2]

    later = while_serving(monkeypatch, "", ask, command)
    assert early == (503, {"status": "loading"})
    assert later == (address, (200, {"status": "ready"}))
    assert f" at {address}/v1" in capsys.readouterr().out


def until(look, is_so):
    actual, end = [look()], time.monotonic() + WAIT_SECONDS
    while not is_so(actual[-1]):
        assert time.monotonic() < end, actual[-1]
        time.sleep(0.005)
        actual.append(look())
    return actual


def test_http_goes_over_to_a_new_version(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "export"
    test_predictor.save(folder)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(version_polling, "POLL_SECONDS", 0.02)
    lines, warmed = [], []
    monkeypatch.setattr(version_polling.progress, "print_line", lines.append)

    def ask(server):
        def warm(version, directory):
            warmed.append((directory, [*server.service.model.versions]))

        old = weakref.ref(server.service.model.versions[1])
        monkeypatch.setattr(servables, "warm", warm)
        assert test_predictor.save(folder, "kurz", "lang") == f"{folder}/2"
        lines.clear()
        actual = until(lambda: labels(server), lambda labels: labels[0] == "kurz")
        until(old, lambda version: version is None)
        (tmp_path / "3").mkdir()
        (tmp_path / "3" / "saved_model.pb").write_bytes(b"broken")
        (tmp_path / "3").rename(folder / "3")
        until(lambda: [*lines], lambda lines: lines)
        return actual, labels(server), server.request(PATH)[2]

    actual, last, status = while_serving(monkeypatch, str(folder), ask)
    assert actual[:-1] == [["short", "long"]] * (len(actual) - 1)
    assert actual[-1] == last == ["kurz", "lang"]
    assert warmed == [(f"{folder}/2", [1])]
    (state,) = status["model_version_status"]
    assert (state["version"], state["state"]) == ("2", "AVAILABLE")
    printed = (
        f"{folder}/2 stays in service; {folder}/3/saved_model.pb: cannot be loaded ("
    )
    assert len(lines) == 1 and lines[0].startswith(printed)
    assert f"serving {folder}/2 from now on" in capsys.readouterr().out.splitlines()


def test_damaged_newest_version_leaves_the_one_before_in_service(
    export_dir, tmp_path, monkeypatch, capsys
):
    """Also after a restart."""
    folder = pathlib.Path(shutil.copytree(export_dir, tmp_path / "export"))
    for number in (2, 3):
        (folder / str(number)).mkdir()
        (folder / str(number) / "saved_model.pb").write_bytes(b"broken")
    monkeypatch.setattr(version_polling, "POLL_SECONDS", 0.02)
    lines = []
    monkeypatch.setattr(serving_task.progress, "print_line", lines.append)

    def ask(server):
        actual = labels(server, "/versions/1:predict")
        time.sleep(0.1)
        return actual, labels(server)

    assert while_serving(monkeypatch, str(folder), ask) == (["short", "long"],) * 2
    assert len(lines) == 2
    for line, number in zip(lines, (3, 2), strict=True):
        assert line.startswith(f"{folder}/{number}/saved_model.pb: cannot be loaded (")
        assert line.endswith("; trying the version before")
    assert f"serving {folder}/1 at" in capsys.readouterr().out


def test_version_that_comes_while_one_is_loaded_is_served(
    export_dir, tmp_path, monkeypatch
):
    folder = pathlib.Path(shutil.copytree(export_dir, tmp_path / "export"))
    later = shutil.copytree(folder / "1", tmp_path / "2")
    monkeypatch.setattr(version_polling, "POLL_SECONDS", 0.02)
    load = serving_task._load

    def loading(path, model_name):
        model = load(path, model_name)
        if path == f"{folder}/1":
            pathlib.Path(later).rename(folder / "2")
        return model

    monkeypatch.setattr(serving_task, "_load", loading)

    def ask(server):
        (state,) = server.request(PATH)[2]["model_version_status"]
        return state["version"]

    def wait(server):
        return until(lambda: ask(server), lambda version: version != "1")[-1]

    assert while_serving(monkeypatch, str(folder), wait) == "2"


@pytest.mark.slow
def test_index_is_served(tmp_path, monkeypatch, capsys):
    texts, index = tmp_path / "texts.txt", tmp_path / "index"
    texts.write_text("the film was good\nthe film was bad\nnot a film\n")
    model = tiny.write_model(tmp_path / "uncased_tiny")
    flags = [f"--pretrained={model}", f"--input_file={texts}", f"--index_dir={index}"]
    assert search_runs.run(*flags).code == 0
    done = search_runs.run(f"--index_dir={index}", "--json", "--top_k=2", "a bad film")
    expected = json.loads(done.out)

    def ask(server):
        body = {"query": "a bad film", "top_k": 2}
        return server.request("/v1/search", body)[::2], server.predict("a")[0]

    def command():
        flags = [f"--index_dir={index}", "--serve", "--port=0", "--access_log=none"]
        printed.append(search_runs.run(*flags).out)

    printed: list[str] = []
    answer, other = while_serving(monkeypatch, "", ask, command)
    assert answer == (200, {"results": [expected]}) and other == 404
    assert f"serving {index} at http://127.0.0.1:" in printed[0]
    assert printed[0].endswith("stopped\n")


@pytest.mark.slow
def test_index_is_served_with_a_reranker(tmp_path, monkeypatch):
    model_dir = tiny.write_model(tmp_path / "uncased_tiny")
    (tmp_path / "texts.txt").write_text("a film\na very bad film\nthe sea\n")
    index = f"--index_dir={tmp_path / 'index'}"
    flags = index, f"--pretrained={model_dir}", f"--input_file={tmp_path}/texts.txt"
    assert search_runs.run(*flags).code == 0
    # The longer a text the better.
    reranker = reranking.Reranker(lambda _, ps: np.array([*map(len, ps)], float), "")
    opened = []

    def open_source(path, label):
        opened.append((path, label))
        return reranker

    monkeypatch.setattr(reranking, "open_source", open_source)

    def ask(server):
        body = {"query": "a", "top_k": 2}
        one = server.request("/v1/search", body)[::2]
        return one, server.request("/v1/search", {"query": ["a"] * 4})[::2]

    more = "--reranker=pairs", "--reranker_label=yes", "--num_candidates=3"
    limits = "--max_request_rows=12", "--port=0", "--access_log=none"

    def command():
        search_runs.run(index, "--serve", *more, *limits)

    (status, one), (refused, error) = while_serving(monkeypatch, "", ask, command)
    assert opened == [("pairs", "yes")] and status == 200
    (row,) = one["results"]
    texts = [(text["text"], text["score"]) for text in row["texts"]]
    assert texts == [("a very bad film", 15.0), ("the sea", 7.0)]
    # top_k is 5, so that a query has as many candidates.
    assert refused == 413 and "20 rows, the limit is 12" in error["error"]


def test_export_of_ids_alone_is_served_beside_its_label_map(tmp_path, monkeypatch):
    def classify(features):
        sums = tf.reduce_sum(features["input_ids"], axis=1)
        return {"probabilities": tf.one_hot(sums % 2, 2)}

    module = export.ServedModel([], ids=export.ids_function(classify))
    files = {file_names.LABEL_MAP: json.dumps({"0": "even", "1": "odd"})}
    folder = tmp_path / "export"
    export.save(module, str(folder), files)

    def ask(server):
        ones = {name: [[1, 1, 1]] for name in features.ENCODER_INPUTS}
        body = {"signature_name": "ids", "inputs": ones}
        return server.request(f"{PATH}:predict", body)[::2]

    expected = (200, {"outputs": [[0.0, 1.0]]})
    assert while_serving(monkeypatch, str(folder), ask) == expected
