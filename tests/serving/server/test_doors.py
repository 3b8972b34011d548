"""Tests of serving/server/doors.py: a server answers before TensorFlow is there."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from serving.server import doors
from tests import forked, tiny
from tests.serving.server import running

# Holds Python's lock at first, as libraries do that are loaded, and then takes long.
SLOW = """import ctypes, pathlib, time
ctypes.PyDLL(None).usleep(500_000)
pathlib.Path(__file__).with_name("slow").touch()
time.sleep(99)"""
REFUSED = {"error": "the server is loading; try again later"}


@pytest.fixture(scope="module")
def server():
    door = doors.Door("127.0.0.1", 0)
    yield running.Running(doors.address(door.listener), None, None)
    door.hand_over().close()


@pytest.mark.parametrize(
    ("path", "status", "value"),
    [
        ("/health/live", 200, {"status": "live"}),
        ("/health/ready", 503, {"status": "loading"}),
        ("/health/live/a", 503, REFUSED),
        ("/", 503, REFUSED),
        ("/v1/models/a", 503, REFUSED),
    ],
)
def test_door_answers_that_the_server_loads(server, path, status, value):
    assert server.request(path)[::2] == (status, value)


def test_door_refuses_a_body_that_its_sender_sends_to_the_end(server):
    status, head, actual = server.request(running.PREDICT, b"a" * 2_000_000)
    assert (status, head["Retry-After"], actual) == (503, "5", REFUSED)
    assert " 503 " in server.speak(b"nonsense\r\n\r\n")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nA: ", b"a" * 2**17])
def test_clients_that_do_not_end_keep_nobody_out_for_long(server, sent, monkeypatch):
    monkeypatch.setattr(doors, "_CLIENT_SECONDS", 0.05)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            client = stack.enter_context(socket.create_connection(server.place))
            client.sendall(sent)
        assert server.request("/health/live")[0] == 200


def test_connections_that_wait_are_handed_over():
    door = doors.Door("127.0.0.1", 0)
    server = running.Running(doors.address(door.listener), None, None)
    with (
        door.hand_over() as listener,
        socket.create_connection(server.place) as client,
        listener.accept()[0] as accepted,
    ):
        assert accepted.getpeername() == client.getsockname()


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
        ("run_predictor", signal.SIGTERM, 128 + signal.SIGTERM, ""),
        ("run_search", signal.SIGINT, -signal.SIGINT, "\ninterrupted\n"),
    ],
)
def test_server_answers_while_tensorflow_is_imported(
    start, tmp_path, program, signum, code, text
):
    with doors.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    started = start(program, port)
    assert started.stderr.readline() == "loading TensorFlow ...\n"
    server = running.Running(f"http://127.0.0.1:{port}", None, None)
    assert server.request("/health/live")[::2] == (200, {"status": "live"})
    assert server.predict("a") == (503, REFUSED)
    forked.until((tmp_path / "slow").exists)
    started.send_signal(signum)
    assert started.wait(running.WAIT_SECONDS) == code
    assert started.stderr.read() == text
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_port_in_use_is_refused_before_tensorflow_is_imported(start):
    with doors.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        started = start("run_predictor", port)
        assert started.wait(running.WAIT_SECONDS) == 2
        (line,) = started.stderr.read().splitlines()
    assert f"--port={port}: cannot listen there" in line
