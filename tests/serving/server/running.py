"""Servers in a thread of a test, and requests to them."""

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import NamedTuple

import numpy as np

from serving.protocol import servables
from serving.server import app, doors, limits, process, service, tasks
from tests.serving.protocol import test_rest

WAIT_SECONDS = 20
LINE = {"serving_default": test_rest.SIGNATURES["serving_default"]}
PREDICT = "/v1/models/echo:predict"


def upper(_, arrays):
    (texts,) = arrays.values()
    if b"broken" in texts:
        raise KeyError("a mistake of ours")
    return {
        "size": np.array([len(text) for text in texts], np.int32),
        "upper": np.array([text.upper() for text in texts], object),
    }


def echo(call=upper, number=1, signatures=None):
    return servables.Model(
        "echo", {number: servables.Version(signatures or LINE, call)}
    )


class Running(NamedTuple):
    address: str
    service: service.Service
    thread: threading.Thread

    @property
    def place(self):
        host, _, port = self.address.removeprefix("http://").rpartition(":")
        return host, int(port)

    def stop(self):
        """Stops as a signal does, and waits for the end."""
        self.service.state = "draining"
        self.thread.join(WAIT_SECONDS)
        assert not self.thread.is_alive()

    def request(self, path, body=None, **headers):
        """Status, headers and JSON of a POST, or of a GET where there is no body."""
        raw = body
        if body is not None and not isinstance(body, bytes):
            raw = json.dumps(body).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        message = urllib.request.Request(self.address + path, raw, headers)
        try:
            with urllib.request.urlopen(message, timeout=WAIT_SECONDS) as answer:
                text = answer.read()
                is_json = answer.headers["Content-Type"] == app.JSON
                content = json.loads(text) if is_json else text.decode()
                return answer.status, answer.headers, content
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, json.load(error)

    def predict(self, *texts, **headers):
        status, _, answer = self.request(PREDICT, {"instances": [*texts]}, **headers)
        return status, answer

    def speak(self, text):
        """Everything that the server sends until it closes the connection."""
        with socket.create_connection(self.place, WAIT_SECONDS) as connection:
            connection.sendall(text)
            return b"".join(iter(lambda: connection.recv(2**16), b"")).decode()


@contextlib.contextmanager
def running(
    model=None,
    limits=limits.Limits(),  # noqa: B008
    access=app.Access(),  # noqa: B008
    log="none",
    load=None,
    answers=tasks.of_models,
):
    """A server on a free port of loopback, ready unless `load` is passed."""
    server = service.Service(limits)
    application = app.App(server, answers(server), access, log)
    outcomes = []

    def prepare():
        server.model = model or echo()

    with doors.listen("127.0.0.1", 0) as listener:
        address = doors.address(listener)
        thread = threading.Thread(
            target=lambda: outcomes.append(
                process.run(application, listener, load or prepare)
            )
        )
        thread.start()
        one = Running(address, server, thread)
        try:
            until(lambda: load or server.state == "ready")
            yield one
        finally:
            one.stop()


def until(is_so):
    end = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)
