"""Clients that send, or take, a little now and then: no connection stays for them."""

import contextlib
import socket
import time

import numpy as np
import psutil
import pytest

from serving.server import app, limits, process, tasks
from tests import daily
from tests.serving.server import running, test_tasks

SECONDS = 10  # of a busy machine; the deadlines below are 0.7 together
LIMITS = limits.Limits(
    max_body_bytes=2**20,
    header_seconds=0.2,
    body_seconds=0.2,
    request_seconds=0.3,
    max_connections=1000,
)
LOCAL, KEY = b"Host: localhost\r\n", b"Authorization: Bearer secret\r\n"
SIZED = b"Content-Length: 900000\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
PREDICT = b"POST %s HTTP/1.1\r\n" % running.PREDICT.encode()
LIVE = b"GET /health/live HTTP/1.1\r\n" + LOCAL + b"\r\n"
ASKED = PREDICT + LOCAL + KEY + b'Content-Length: 20\r\n\r\n{"instances": ["a"]}'
# What is sent at first, and then every now and then.
DRIPPING = {
    "nothing": (b"", b""),
    "head": (b"GET / HTTP/1.1\r\nA: ", b"a"),
    "head after a request": (LIVE, b"G"),
    "body": (PREDICT + LOCAL + KEY + SIZED, b"a"),
    "body that stops": (PREDICT + LOCAL + KEY + SIZED + b"a", b""),
    "body of a search": (b"POST /v1/search HTTP/1.1\r\n" + LOCAL + KEY + SIZED, b"a"),
    "body that waits": (
        PREDICT + LOCAL + KEY + b"Expect: 100-continue\r\n" + SIZED,
        b"",
    ),
    "body in chunks": (PREDICT + LOCAL + KEY + CHUNKED, b"1\r\na\r\n"),
    "body too large": (
        PREDICT + LOCAL + KEY + b"Content-Length: 9000000\r\n\r\n",
        b"a",
    ),
    "body of GET": (b"GET / HTTP/1.1\r\n" + LOCAL + SIZED, b"a"),
    "chunks of GET": (b"GET / HTTP/1.1\r\n" + LOCAL + CHUNKED, b"1\r\na\r\n"),
    "body of HEAD": (b"HEAD /health/live HTTP/1.1\r\n" + LOCAL + SIZED, b"a"),
    "body of DELETE": (b"DELETE /v1/a HTTP/1.1\r\n" + LOCAL + KEY + SIZED, b"a"),
    "body of OPTIONS": (
        b"OPTIONS / HTTP/1.1\r\nOrigin: http://a\r\n"
        b"Access-Control-Request-Method: GET\r\n" + LOCAL + SIZED,
        b"a",
    ),
    "body of 401": (PREDICT + LOCAL + SIZED, b"a"),
    "body of 403": (PREDICT + b"Host: evil\r\n" + KEY + SIZED, b"a"),
    "body of 415": (PREDICT + LOCAL + KEY + b"Content-Type: a/b\r\n" + SIZED, b"a"),
    "body of 505": (b"GET / HTTP/2.0\r\n" + LOCAL + SIZED, b"a"),
}
# Each ends as another that is sent every day.
REPEATING = ("body of", "body that", "chunks of")
# What is sent by clients that read nothing.
DEAF = {
    "large answer": ASKED.replace(b'["a"]', b'["b"]'),
    "large answer, closed": ASKED.replace(b'["a"]', b'["b"]').replace(
        b"Host", b"Connection: close\r\nHost"
    ),
    "answers of a pipeline": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4000,
    "half of a pipeline": ASKED.replace(b'["a"]', b'["b"]') * 3 + b"GET /",
}


def upper_or_large(name, arrays):
    if b"b" not in arrays["text"]:
        return running.upper(name, arrays)
    return {"upper": np.array([b"x" * 2**24], object), "size": np.zeros(1, np.int32)}


@pytest.fixture(scope="module")
def server():
    def answers(one):
        return {**tasks.of_models(one), **test_tasks.of_index(one)}

    access = app.Access(origins={"http://a"}, key="secret")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_KEEP_ALIVE_SECONDS", 0.3)
        model = running.echo(upper_or_large)
        with running.running(model, LIMITS, access, answers=answers) as server:
            yield server


def is_open(connection, server):
    """Whether the server holds its end, of which a deaf client reads nothing."""
    mine = connection.getsockname()
    ends = psutil.Process().net_connections("tcp4")
    return any(end.raddr == mine and end.laddr == server.place for end in ends)


def wait_for_end(connection, server, drop, reads):
    """Sends a drop now and then until the server closes its end."""
    connection.setblocking(False)
    running.until(lambda: is_open(connection, server))
    began = time.monotonic()
    while is_open(connection, server):
        assert time.monotonic() < began + SECONDS
        try:
            connection.send(drop)
            while reads and connection.recv(2**16):
                pass
        except BlockingIOError:
            pass
        except OSError:
            break
        time.sleep(0.03)


@pytest.mark.parametrize(
    "kind",
    daily.params(DRIPPING, lambda kind: not kind.startswith(REPEATING)),
)
def test_dripping_client_is_let_go(kind, server):
    first, drop = DRIPPING[kind]
    with socket.create_connection(server.place) as connection:
        connection.sendall(first)
        wait_for_end(connection, server, drop, reads=True)
    assert server.request("/health/live")[0] == 200


@pytest.mark.parametrize(
    "kind",
    daily.params(DEAF, lambda kind: kind.endswith(("answer", "answers of a pipeline"))),
)
def test_client_that_reads_nothing_is_let_go(kind, server):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(server.place)
        connection.settimeout(1)
        with contextlib.suppress(TimeoutError):  # the server reads no more, either
            connection.sendall(DEAF[kind])
        wait_for_end(connection, server, b"", reads=False)
    assert server.request("/health/live")[0] == 200
