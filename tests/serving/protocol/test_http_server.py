"""Tests of serving/protocol/http_server.py over connections on loopback."""

import contextlib
import json
import socket
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest

from serving.protocol import http_server, servables
from tests.serving.protocol import test_rest

LINE = {"serving_default": test_rest.SIGNATURES["serving_default"]}


def upper(_, arrays):
    (texts,) = arrays.values()
    if b"broken" in texts:
        raise KeyError("a mistake of ours")
    return {"upper": np.array([text.upper() for text in texts], object)}


@contextlib.contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def server():
    model = servables.Model("echo", {1: servables.Version(LINE, upper)})
    server = http_server.Server(model, "127.0.0.1", 0)
    with serving(server):
        yield server


def post(server, body, path=":predict", **headers):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(server.address + path, raw, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.load(error)


def test_request_is_answered_on_loopback_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    status, head, actual = post(server, {"instances": ["a", "b"]})
    assert (status, actual) == (200, {"predictions": ["A", "B"]})
    assert head["Content-Type"] == "application/json"
    with urllib.request.urlopen(server.address, timeout=20) as answer:
        assert json.load(answer)["model_version_status"][0]["state"] == "AVAILABLE"


def test_wrong_requests_have_their_status(server):
    assert post(server, b"{")[0] == 400
    assert post(server, {"instances": ["a"]}, "/versions/2:predict")[0] == 404
    assert post(server, {"instances": ["a"]}, ":predict", **GZIP)[0] == 415
    status, _, actual = post(server, {"instances": ["broken"]})
    assert (status, [*actual]) == (500, ["error"])
    assert "mistake" not in actual["error"]
    assert post(server, {"instances": ["a"]})[0] == 200


GZIP = {"Content-Encoding": "gzip"}


def speak(server, text):
    with socket.create_connection(server.server_address, 20) as connection:
        connection.sendall(text)
        return b"".join(iter(lambda: connection.recv(2**16), b"")).decode()


HEAD = b"POST /v1/models/echo:predict HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        (HEAD + b"\r\n", 411, "Content-Length"),
        (HEAD + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n", 411, ""),
        (HEAD + b"Content-Length: 1" + b"0" * 30 + b"\r\n\r\n", 413, "33554432"),
        (b"nonsense\r\n\r\n", 400, "Bad request"),
        (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", 414, ""),
    ],
)
def test_broken_http_is_an_error_object(server, text, status, message):
    head, _, body = speak(server, text).partition("\r\n\r\n")
    assert f" {status} " in head.split("\r\n")[0] and "Connection: close" in head
    assert message in json.loads(body)["error"]


def test_body_above_the_limit_is_refused_after_it_was_sent(server, monkeypatch):
    monkeypatch.setattr(http_server, "MAX_BODY_BYTES", 2**20)
    status, _, actual = post(server, b" " * (2**20 + 1))
    assert status == 413 and "1048577 bytes, the limit is 1048576" in actual["error"]
    assert (
        post(server, json.dumps({"instances": ["a"]}).ljust(2**20).encode())[0] == 200
    )


def test_client_that_stops_in_the_middle_is_told(server, monkeypatch):
    monkeypatch.setattr(http_server._Handler, "timeout", 0.2)
    printed = speak(server, HEAD + b"Content-Length: 5\r\n\r\nab")
    assert " 408 " in printed.split("\r\n")[0] and "5 bytes did not arrive" in printed
    assert speak(server, b"POST") == ""  # and one that has not begun is let go


def test_client_that_waits_to_send_is_let_go_on(server):
    with socket.create_connection(server.server_address, 20) as connection:
        wish = b"Content-Length: 20\r\nExpect: 100-continue\r\n"
        connection.sendall(HEAD + wish + b"\r\n")
        assert connection.recv(2**16).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(b'{"instances": ["a"]}')
        assert b'{"predictions": ["A"]}' in connection.recv(2**16)


def test_place_that_cannot_be_had_is_one_error(server):
    port = server.server_address[1]
    model = servables.Model("echo", {1: servables.Version(LINE, upper)})
    for wrong in (port, 70000):
        with pytest.raises(ValueError, match=f"--port={wrong}: cannot listen there"):
            http_server.Server(model, "127.0.0.1", wrong)
    with pytest.raises(ValueError, match=r"--host=no\.such\.host\.invalid"):
        http_server.Server(model, "no.such.host.invalid", 0)
