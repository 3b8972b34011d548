"""Tests of serving/server/doors.py: a server answers before TensorFlow is there."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from serving.server import doors
from tests import tiny
from tests.serving.server import running

# Holds Python's lock at first, as libraries do that are loaded, and then takes long.
SLOW = "import ctypes, time; ctypes.PyDLL(None).usleep(500_000); time.sleep(99)"
LIVE = b"GET /health/live HTTP/1.1\r\n\r\n"
REFUSED = {"error": "the server is loading; try again later"}


@contextlib.contextmanager
def opened(seconds, most=100):
    door = doors.Door("127.0.0.1", 0, seconds, most)
    yield running.Running(doors.address(door.listener), None, None)
    door.hand_over().close()


@pytest.fixture(scope="module")
def server():
    with opened(running.WAIT_SECONDS) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "status", "value"),
    [
        ("/health/live", 200, {"status": "live"}),
        ("/health/live?a=1", 200, {"status": "live"}),
        ("/health/ready", 503, {"status": "loading"}),
        ("/health/live/a", 503, REFUSED),
        ("/", 503, REFUSED),
        ("/v1/models/a", 503, REFUSED),
    ],
)
def test_door_answers_that_the_server_loads(server, path, status, value):
    assert server.request(path)[::2] == (status, value)
    connection = http.client.HTTPConnection(*server.place)
    with contextlib.closing(connection):
        connection.request("HEAD", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (status, b"")
        length = answer.headers["Content-Length"]
    assert int(length) == len(json.dumps(value))


def test_door_refuses_a_body_that_its_sender_sends_to_the_end(server):
    status, head, actual = server.request(running.PREDICT, b"a" * 2_000_000)
    assert (status, head["Retry-After"], actual) == (503, "5", REFUSED)
    assert " 503 " in server.speak(b"nonsense\r\n\r\n")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nA: ", b"a" * 2**17])
def test_door_closes_on_a_request_that_does_not_end(sent):
    with opened(0.05) as server, contextlib.suppress(ConnectionResetError):
        assert server.speak(sent) == ""


def test_door_closes_connections_beyond_the_limit():
    with opened(running.WAIT_SECONDS, most=1) as server:
        with socket.create_connection(server.place) as one:
            assert server.speak(b"") == ""
            one.sendall(LIVE)
            one.settimeout(running.WAIT_SECONDS)
            assert one.recv(2**16).startswith(b"HTTP/1.1 200 OK\r\n")

        def is_answered():
            with contextlib.suppress(ConnectionResetError):
                return server.speak(LIVE).startswith("HTTP/1.1 200 OK\r\n")

        running.until(is_answered)


@pytest.fixture
def start(tmp_path):
    """Starts the server on a TensorFlow that takes long; on a port that is free."""
    (tmp_path / "tensorflow.py").write_text(SLOW)
    (tmp_path / "keras.py").write_text("import tensorflow")
    (tmp_path / "export").mkdir()
    processes = []

    def start(program, port):
        command = [
            "-m",
            program,
            "--serve",
            f"--port={port}",
            f"--export_dir={tmp_path}",
        ]
        more = [f"--index_dir={tmp_path}"] if program.endswith("search") else []
        paths = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{tiny.ROOT}"}
        started = subprocess.Popen(
            [sys.executable, *command, *more],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **paths},
        )
        processes.append(started)
        return started

    yield start
    for started in processes:
        started.kill()
        started.communicate()


@pytest.mark.parametrize(
    ("program", "signum", "code", "text"),
    [
        ("serving.predictor", signal.SIGTERM, 128 + signal.SIGTERM, ""),
        ("serving.search", signal.SIGINT, -signal.SIGINT, "\ninterrupted\n"),
    ],
)
def test_server_answers_while_tensorflow_is_imported(
    start, program, signum, code, text
):
    with doors.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    started = start(program, port)
    assert started.stderr.readline() == "loading TensorFlow ...\n"
    server = running.Running(f"http://127.0.0.1:{port}", None, None)
    assert server.request("/health/live")[::2] == (200, {"status": "live"})
    assert server.predict("a") == (503, REFUSED)
    started.send_signal(signum)
    assert started.wait(running.WAIT_SECONDS) == code
    assert started.stderr.read() == text
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_port_in_use_is_refused_before_tensorflow_is_imported(start):
    with doors.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        started = start("serving.predictor", port)
        assert started.wait(running.WAIT_SECONDS) == 2
        (line,) = started.stderr.read().splitlines()
    assert f"--port={port}: cannot listen there" in line
