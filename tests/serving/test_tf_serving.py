"""tf_serving.py without docker; `serving.protocol` answers in place of the image."""

import contextlib
import json
import pathlib
import re
import threading
from wsgiref import simple_server

import numpy as np
import pytest

from serving.protocol import servables
from tests import tiny
from tests.serving import prediction_service, tf_serving
from tests.serving.protocol import test_rest

TABLE = {1: [[0.9, 0.1]] * 3, 2: [[0.2, 0.8]] * 3}
WANTED = {"--publish=127.0.0.1::8501", "--read-only", "tensorflow/serving:2.20.0"}


class Docker:
    def __init__(self, load):
        self.load, self.commands = load, []
        self._servers = contextlib.ExitStack()

    def __call__(self, command, *arguments):
        self.commands.append((command, *arguments))
        if command == "run":
            volumes = re.findall("--volume=(.*?):(.*?):ro", " ".join(arguments))
            self.config, models = (pathlib.Path(place) for place, _ in volumes)
            versions = {n: self.load(models / str(n), n) for n in TABLE}
            self.model = servables.Model("messages", versions)
            grpc = self._servers.enter_context(prediction_service.serving(self.model))
            server = simple_server.make_server("127.0.0.1", 0, self.answer)
            threading.Thread(target=server.serve_forever, args=(0.01,)).start()
            for end in (server.server_close, server.shutdown):
                self._servers.callback(end)
            self.ports = {"8500": grpc, "8501": f"127.0.0.1:{server.server_port}"}
        if command == "rm":
            self._servers.close()
        return self.ports[arguments[1]] if command == "port" else "name"

    def answer(self, environ, start_response):
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
        config = (self.config / "models.config").read_text()
        for label, number in re.findall(r'"(\w+)" value: (\d)', config):
            path = path.replace(f"labels/{label}:", f"versions/{number}:")
        status, text = test_rest.answer(method, path, body, self.model)
        if body and len(json.loads(body)["inputs"]) > 32:
            status = 400
        if path == "/monitoring/prometheus/metrics":
            status, text = 200, ':request_count{model_name="messages"} 1'
        start_response(f"{int(status)} -", [])
        return [text.encode()]


def fixed(_, number):
    def call(_, arrays):
        rows = np.tile(TABLE[number][0], (len(arrays["text"]), 1))
        return {"label": rows.argmax(axis=1), "probabilities": rows}

    return servables.Version(test_rest.SIGNATURES, call)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "wrong", "message"),
    [
        (fixed, "", None),
        (fixed, "predictor", "versions/1 is not version 1"),
        (fixed, "grpc", "gRPC: "),
        pytest.param(None, "", None, marks=pytest.mark.slow),
    ],
)
def test_answers_are_compared(load, wrong, message, tmp_path, monkeypatch):
    docker = Docker(load or (lambda path, _: servables.open_version(str(path))))
    run, by_grpc = tf_serving.output, tf_serving.grpc_predictions

    def output(command, *arguments):
        if command == "docker":
            return docker(*arguments)
        if load is None:
            return run(command, *arguments)
        place = arguments[-1].partition("=")[2]  # of run_classifier.py
        return (pathlib.Path(place) / "export" / "1").mkdir(parents=True)

    def predictions(version_dir):
        actual = np.add(TABLE[int(version_dir.name)], 2e-5 * (wrong == "predictor"))
        return actual.tolist()

    def grpc_predictions(address, version):
        return by_grpc(address, version) + 2e-5 * (wrong == "grpc")

    monkeypatch.setattr(tf_serving, "output", output)
    if load:
        monkeypatch.setattr(tf_serving, "predictions", predictions)
        monkeypatch.setattr(tf_serving, "grpc_predictions", grpc_predictions)
        monkeypatch.setattr(tf_serving, "SECONDS", 0.5)
    fails = pytest.raises(AssertionError, match=message)
    with fails if message else contextlib.nullcontext():
        model = tiny.write_model(tmp_path / "tiny", tiny.LETTERS)
        tf_serving.check(tmp_path, str(model))
    assert set(docker.commands[0]) >= WANTED
    assert docker.commands[-1] == ("rm", "--force", "name")
    assert docker.commands[-2][0] == ("logs" if message else "port")
