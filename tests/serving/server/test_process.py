"""Tests of serving/server/process.py: the address, the drain, the end."""

import contextlib
import http.client
import signal
import subprocess
import sys
import threading

import pytest

from serving.server import app, doors, limits, process, service
from tests.serving.server import running

# A server whose first request takes a second; prints its address.
PROGRAM = """
import sys, time
import numpy as np
from serving.protocol import servables
from serving.server import app, doors, limits, process, service
from tests.serving.server import running

def call(name, arrays):
    if b"slow" in arrays["text"]:
        print("computing", flush=True)
        time.sleep(float(sys.argv[1]))
    return running.upper(name, arrays)

server = service.Service(limits.Limits(drain_seconds=float(sys.argv[2])))
def load():
    server.model = running.echo(call)
    print(doors.address(listener), flush=True)
with doors.listen("127.0.0.1", 0) as listener:
    outcome = process.run(app.App(server, {}, app.Access()), listener, load)
print(outcome.num_unanswered, outcome.is_idle, flush=True)
"""


def test_place_that_cannot_be_had_is_one_error():
    with doors.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert doors.address(listener) == f"http://127.0.0.1:{port}"
        for wrong in (port, 70000):
            with pytest.raises(ValueError, match=f"--port={wrong}: cannot listen"):
                doors.listen("127.0.0.1", wrong)
    with pytest.raises(ValueError, match=r"--host=no\.such\.host\.invalid"):
        doors.listen("no.such.host.invalid", 0)


def test_address_of_version_6_has_brackets():
    try:
        listener = doors.listen("::1", 0)
    except ValueError:
        pytest.skip("this machine has no IPv6")
    with listener:
        assert doors.address(listener).startswith("http://[::1]:")


def test_error_of_loading_ends_the_server():
    def load():
        raise ValueError("damaged")

    application = app.App(service.Service(limits.Limits()), {}, app.Access())
    with (
        doors.listen("127.0.0.1", 0) as listener,
        pytest.raises(ValueError, match="damaged"),
    ):
        process.run(application, listener, load)


@pytest.fixture
def start():
    processes = []

    def start(seconds, drain_seconds):
        command = [sys.executable, "-c", PROGRAM, str(seconds), str(drain_seconds)]
        started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(started)
        return started, started.stdout.readline().strip()

    yield start
    for started in processes:
        started.kill()
        started.communicate()


def ask_slowly(address):
    one = running.Running(address, None, None)
    answers = []

    def ask():
        with contextlib.suppress(OSError, http.client.HTTPException):
            answers.append(one.predict("slow"))

    thread = threading.Thread(target=ask)
    thread.start()
    return one, thread, answers


@pytest.mark.slow
def test_signals_drain_and_a_second_one_ends_at_once(start):
    """In processes of their own, of which each takes some seconds to start."""
    for signum in (signal.SIGTERM, signal.SIGINT):
        server, address = start(1.0, 20)
        one, thread, answers = ask_slowly(address)
        assert server.stdout.readline() == "computing\n"
        server.send_signal(signum)
        thread.join(running.WAIT_SECONDS)
        assert answers == [(200, {"predictions": [{"size": 4, "upper": "SLOW"}]})]
        assert server.stdout.readline() == "0 True\n"
        assert server.wait(running.WAIT_SECONDS) == 0
        with pytest.raises(OSError):
            one.predict("late")
    server, address = start(60.0, 60)
    _, thread, _ = ask_slowly(address)
    assert server.stdout.readline() == "computing\n"
    server.send_signal(signal.SIGTERM)
    assert running.Running(address, None, None).predict("a")[0] == 503
    server.send_signal(signal.SIGTERM)
    assert server.wait(running.WAIT_SECONDS) == 128 + signal.SIGTERM
    thread.join(running.WAIT_SECONDS)
    server, address = start(60.0, 0.3)
    _, thread, answers = ask_slowly(address)
    assert server.stdout.readline() == "computing\n"
    server.send_signal(signal.SIGTERM)
    assert server.stdout.readline() == "1 False\n"
    thread.join(running.WAIT_SECONDS)
    error = {"error": "the server stopped before there was an answer"}
    assert answers == [(503, error)]
