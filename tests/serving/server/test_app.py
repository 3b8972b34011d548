"""Tests of serving/server/app.py and service.py over connections on loopback."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import socket
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from serving.protocol import servables
from serving.server import app, limits, process, service
from tests.serving.protocol import test_rest
from tests.serving.server import running

ECHO = {"instances": ["a", "b"]}
ROWS = [{"size": 1, "upper": "A"}, {"size": 1, "upper": "B"}]
GZIP = {"Content_Encoding": "gzip"}


@pytest.fixture(scope="module")
def server():
    with running.running() as server:
        yield server


def test_request_is_answered_on_loopback_alone(server):
    assert server.place[0] == "127.0.0.1"
    status, head, actual = server.request(running.PREDICT, ECHO)
    assert (status, actual) == (200, {"predictions": ROWS})
    assert head["Content-Type"] == "application/json"
    parts = [part.split(";")[0] for part in head["Server-Timing"].split(", ")]
    assert parts == ["queue", "compute", "total"]
    states = server.request("/v1/models/echo")[2]["model_version_status"]
    assert states[0]["state"] == "AVAILABLE"
    assert server.request("/v1/models/%65cho/metadata")[0] == 200


def test_wrong_requests_have_their_status(server):
    assert server.request(running.PREDICT, b"{")[0] == 400
    assert server.request("/v1/models/echo/versions/2:predict", ECHO)[0] == 404
    assert server.request(running.PREDICT, ECHO, **GZIP)[0] == 415
    status, actual = server.predict("a", "broken")
    assert (status, [*actual]) == (500, ["error"])
    assert "mistake" not in actual["error"]
    status, _, actual = server.request("/anything")
    assert status == 400 and actual["error"].startswith("Malformed request: GET /any")
    body = b'{"signature_name": "\\ud800", "instances": ["a"]}'
    status, _, actual = server.request(running.PREDICT, body)
    assert status == 400 and '"\ud800" not found' in actual["error"]
    assert server.predict("a")[0] == 200


HEAD = b"POST /v1/models/echo:predict HTTP/1.1\r\nHost: localhost\r\n"
BODY = b'{"instances": ["a"]}'
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        (HEAD + b"\r\n", 411, "Content-Length"),
        (HEAD + b"Content-Length: 9\r\n" + CHUNKED, 411, ""),
        (HEAD + CHUNKED, 411, ""),
        (HEAD + b"Expect: 100-continue\r\n" + CHUNKED[:-5], 411, ""),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc", 400, "not HTTP"),
        (HEAD + b"Content-Length: 1" + b"0" * 25 + b"\r\n\r\n", 400, "not HTTP"),
        (HEAD + b"Content-Length: 1" + b"0" * 15 + b"\r\n\r\n", 413, "8388608"),
        (b"nonsense\r\n\r\n", 400, "Bad request"),
        (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", 400, "Bad request"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 9000 + b"\r\n", 400, "Bad request"),
    ],
)
def test_broken_http_is_an_error_object(server, text, status, message):
    head, _, body = server.speak(text).partition("\r\n\r\n")
    assert f" {status} " in head.split("\r\n")[0]
    assert "connection: close" in head.lower()
    assert message in json.loads(body)["error"]


def test_no_body_is_read_as_a_request(server):
    """Smuggling: the body of a GET, and what follows a second Content-Length."""
    inner = HEAD + b"Content-Length: 20\r\nConnection: close\r\n\r\n" + BODY
    size = b"Content-Length: %d" % len(inner)
    outer = b"GET /v1/models/echo HTTP/1.1\r\nHost: localhost\r\n" + size
    end = b"GET /health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answer = server.speak(outer + b"\r\n\r\n" + inner + end)
    assert answer.count("HTTP/1.1 200") == 2 and "predictions" not in answer
    two = HEAD + b"Content-Length: 0\r\nContent-Length: 20\r\n\r\n" + inner
    answer = server.speak(two)
    assert answer.count("HTTP/1.1") == 1 and " 400 " in answer.split("\r\n")[0]


def test_client_that_waits_to_send_is_let_go_on(server):
    wish = b"Content-Length: 20\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    answer = server.speak(HEAD + wish + BODY)
    assert answer.startswith("HTTP/1.1 100") and '"upper":"A"' in answer


LIMITS = limits.Limits(
    max_body_bytes=2**16,
    max_request_rows=3,
    max_request_tokens=40,
    max_waiting=1,
    max_connections=3,
    header_seconds=0.3,
    body_seconds=0.3,
    request_seconds=0.5,
)


@pytest.fixture(scope="module")
def limited():
    with running.running(limits=LIMITS) as server:
        yield server


def test_each_limit_has_its_status(limited):
    large = b" " * 2**16
    status, _, actual = limited.request(running.PREDICT, large + b" ")
    assert (status, actual["error"]) == (
        413,
        "a body of 65537 bytes, the limit is 65536; send less",
    )
    assert limited.request(running.PREDICT, BODY.ljust(2**16))[0] == 200
    for form in ({"instances": ["a"] * 4}, {"inputs": ["a"] * 4}):
        status, _, actual = limited.request(running.PREDICT, form)
        assert status == 413 and "the limit is 3; send several" in actual["error"]
    assert limited.predict(*"abc")[0] == 200
    assert limited.predict("a" * 44, *"bc")[0] == 200  # 3 rows of 2 + 11 tokens
    status, actual = limited.predict("a" * 45, *"bc")
    assert (status, actual["error"]) == (
        413,
        "a request of 42 tokens, padding included, the limit is 40; send several, or "
        "raise --max_request_tokens",
    )
    text = HEAD + b"Content-Length: 5\r\n\r\nab"
    printed = limited.speak(text)
    assert " 408 " in printed.split("\r\n")[0] and "no body arrived in 0.3 s" in printed
    for text in (b"POST", b"", HEAD):
        assert "no request arrived in 0.3 s" in limited.speak(text)


def test_values_of_a_body_are_counted(server):
    """Lists take 60 times the bytes of their text."""
    body = b'{"inputs": [' + b",".join([b"[]"] * 600_000) + b"]}"
    status, _, actual = server.request(running.PREDICT, body)
    assert status == 413 and "a body of more than 1048576 values" in actual["error"]


def test_connections_are_bounded(limited):
    held = [socket.create_connection(limited.place, 20) for _ in range(3)]
    try:
        assert "3 connections are open" in limited.speak(b"")
    finally:
        for each in held:
            each.close()


class Slow:
    """Answers when it may."""

    def __init__(self):
        self.began, self.may_end, self.texts = threading.Event(), threading.Event(), []

    def __call__(self, _, arrays):
        self.texts += [*arrays["text"]]
        self.began.set()
        assert self.may_end.wait(running.WAIT_SECONDS)
        return running.upper(_, arrays)


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.setattr(service.cores, "usable", lambda: 1)  # one at a time
    slow = Slow()
    yield slow
    slow.may_end.set()


def test_waiting_has_limits_and_gets_do_not_wait(slow):
    limits = LIMITS._replace(max_connections=99, request_seconds=20)
    with (
        running.running(running.echo(slow), limits) as server,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        first = pool.submit(server.predict, "a")
        assert slow.began.wait(running.WAIT_SECONDS)
        second = pool.submit(server.predict, "b")
        running.until(lambda: len(server.service.batcher) == 1)
        status, head, actual = server.request(running.PREDICT, ECHO)
        assert (status, head["Retry-After"]) == (429, "1")
        assert actual["error"] == "1 requests wait already; try again later"
        assert server.request("/health/ready")[2] == {"status": "ready"}
        assert server.request("/v1/models/echo")[0] == 200
        metrics = server.request("/metrics")[2]
        assert "bert_waiting_requests 1.0" in metrics
        slow.may_end.set()
        assert first.result()[0] == second.result()[0] == 200


def test_answer_that_takes_too_long_is_504_and_dropped_work_is_not_done(slow):
    limits = LIMITS._replace(max_waiting=9, max_connections=99, request_seconds=0.3)
    with running.running(running.echo(slow), limits) as server:
        for text in ("a", "b"):
            status, actual = server.predict(text)
            assert status == 504 and "no answer within 0.3 s" in actual["error"]
        running.until(lambda: not len(server.service.batcher))
        slow.may_end.set()
        assert server.predict("d")[0] == 200
        assert slow.texts == [b"a", b"d"]


ASKED = HEAD + b"Content-Length: 20\r\n\r\n" + BODY


@pytest.mark.parametrize("is_late", [False, True])
def test_client_that_ends_sending_is_answered_and_a_late_one_has_left(
    slow, is_late, monkeypatch
):
    monkeypatch.setattr(process, "_HALF_CLOSED_SECONDS", 0.0 if is_late else 60.0)
    with (
        running.running(running.echo(slow)) as server,
        socket.create_connection(server.place, running.WAIT_SECONDS) as one,
        socket.create_connection(server.place, running.WAIT_SECONDS) as two,
    ):
        one.sendall(ASKED)
        assert slow.began.wait(running.WAIT_SECONDS)
        two.sendall(ASKED + ASKED)
        running.until(lambda: len(server.service.batcher) == 1)
        two.shutdown(socket.SHUT_WR)
        if is_late:
            running.until(lambda: len(server.service.batcher) == 0)
            left = 'bert_requests_total{code="499",path="predict"} '
            running.until(lambda: left in server.service.metrics.text().decode())
        slow.may_end.set()
        answer = b"".join(iter(lambda: two.recv(2**16), b""))
        assert answer.count(b'"upper":"A"') == (0 if is_late else 2)
        answer = b""
        while b'"upper":"A"' not in answer:
            answer += one.recv(2**16)


@pytest.mark.parametrize("version", ["1.2", "2.0", "0.9"])
def test_other_versions_of_http_are_505(server, version):
    head = f"GET /health/live HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n"
    answer = server.speak(head.encode())
    assert " 505 " in answer.split("\r\n")[0] and f"HTTP/{version} is not" in answer


def test_loading_and_draining_refuse_work_and_say_so(slow):
    may_load = threading.Event()

    def load():
        assert may_load.wait(running.WAIT_SECONDS)
        server.service.model = running.echo(slow)

    with (
        running.running(load=load) as server,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        status, head, actual = server.request(running.PREDICT, ECHO)
        assert (status, head["Retry-After"]) == (503, "5")
        assert actual == {"error": "the server is loading; try again later"}
        assert server.request("/health/ready")[::2] == (503, {"status": "loading"})
        assert server.request("/health/live")[0] == 200
        may_load.set()
        running.until(lambda: server.service.state == "ready")
        accepted = [pool.submit(server.predict, "a")]
        assert slow.began.wait(running.WAIT_SECONDS)
        accepted.append(pool.submit(server.predict, "b"))
        running.until(lambda: len(server.service.batcher) == 1)
        server.service.state = "draining"
        status, head, actual = server.request(running.PREDICT, ECHO)
        assert (status, head["Connection"]) == (503, "close")
        assert actual == {"error": "the server is draining; try again later"}
        slow.may_end.set()
        assert [one.result()[0] for one in accepted] == [200, 200]
        server.stop()


def test_requests_of_other_sites_are_refused(server):
    for headers, status in (
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost:8501"}, 200),
        ({"Host": "[::1]:8501"}, 200),
        ({"Host": "10.0.0.7"}, 200),
        ({"Host": "localhost", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost", "Origin": "null"}, 403),
        ({"Host": "localhost", "Origin": "http://localhost"}, 200),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/json; charset=utf-8"}, 200),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 200),  # of curl
    ):
        assert server.predict("a", **headers)[0] == status, headers
    assert server.request("/metrics", Host="evil.example")[0] == 403
    assert server.request("/health/live", Host="evil.example")[0] == 200


LARGE = b" " * 5_000_000
KEYED = {"Authorization": "Bearer secret"}


@pytest.mark.parametrize(
    ("status", "path", "headers"),
    [
        (401, running.PREDICT, {}),
        (403, running.PREDICT, {**KEYED, "Host": "evil.example"}),
        (403, running.PREDICT, {**KEYED, "Origin": "http://evil.example"}),
        (415, running.PREDICT, {**KEYED, "Content_Type": "text/plain"}),
        (415, running.PREDICT, {**KEYED, **GZIP}),
        (413, running.PREDICT, KEYED),
        (413, "/v1/embeddings", KEYED),
        (503, running.PREDICT, KEYED),
    ],
)
def test_refusal_reaches_a_client_that_sends_5_mb_and_closes(status, path, headers):
    """As urllib does, which reads nothing before it has sent its body."""
    may_load = threading.Event()
    bounds = limits.Limits(max_body_bytes=2**20)
    access = app.Access(key="secret")
    load = may_load.wait if status == 503 else None
    with running.running(limits=bounds, access=access, load=load) as server:
        try:
            for _ in range(3):
                actual, head, answer = server.request(path, LARGE, **headers)
                assert (actual, [*answer]) == (status, ["error"])
                assert head["Connection"] == "close"
        finally:
            may_load.set()


def test_metrics_have_a_key_of_their_own():
    def statuses(server, key):
        sent = {"Authorization": key} if key else {}
        return [
            server.request(path, **sent)[0] for path in ("/metrics", "/v1/models/echo")
        ]

    for access, own, metrics, none in (
        (app.Access(key="api", metrics_key="numbers"), 200, 401, 401),
        (app.Access(metrics_key="numbers"), 401, 200, 200),
    ):
        with running.running(access=access) as server:
            assert statuses(server, "Bearer api") == [own, 200]
            assert statuses(server, "Bearer numbers") == [200, metrics]
            assert statuses(server, "") == [401, none]
            assert statuses(server, "bearer  numbers") == [200, metrics]
            assert statuses(server, "Basic numbers")[0] == 401


def test_access_is_opened_by_name():
    access = app.Access({"bert"}, {"https://ours.example"}, "secret")
    key = {"Authorization": "Bearer secret"}
    with running.running(access=access) as server:
        assert server.predict("a", **key, Host="bert:8501")[0] == 200
        assert server.predict("a", **key, Host="other")[0] == 403
        origin = {"Origin": "https://ours.example"}
        status, head, _ = server.request(running.PREDICT, ECHO, **key, **origin)
        assert status == 200
        assert head["Access-Control-Allow-Origin"] == "https://ours.example"
        assert server.predict("a", **key, Origin="https://other.example")[0] == 403
        for wrong in ({}, {"Authorization": "Bearer secre"}, {"Authorization": "é"}):
            status, head, actual = server.request(running.PREDICT, ECHO, **wrong)
            assert (status, head["WWW-Authenticate"]) == (401, "Bearer")
            assert "secret" not in actual["error"]
        assert server.request("/metrics")[0] == 401
        assert server.request("/health/ready")[0] == 200
        assert server.request("/")[0] == 200


def test_every_request_is_counted_and_logged(capfd):
    with running.running(log="json") as server:
        _, head, _ = server.request(running.PREDICT, ECHO, X_Request_Id="mine-1")
        assert head["X-Request-Id"] == "mine-1"
        _, head, _ = server.request("/v1/models/echo", X_Request_Id="not\tone")
        assert len(head["X-Request-Id"]) == 16
        server.request("/v1/a%0Ab")
        server.request("/health/ready")
        metrics = server.request("/metrics")[2]
    for line in (
        'bert_requests_total{code="200",path="predict"} 1.0',
        'bert_requests_total{code="400",path="other"} 1.0',
        'bert_requests_total{code="200",path="/health/ready"} 1.0',
        "bert_batch_rows_sum 2.0",
        "bert_batch_tokens_sum 6.0",
        "bert_version 1.0",
    ):
        assert f"{line}\n" in metrics
    logged = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    first = logged[0]
    assert (first["request"], first["status"]) == (f"POST {running.PREDICT}", 200)
    assert (first["id"], first["rows"], first["batch"]) == ("mine-1", 2, 2)
    assert logged[2]["request"] == "GET /v1/a\nb" and len(logged) == 3


@pytest.mark.parametrize("kind", ["pipe", "disk", "none"])
def test_log_that_cannot_be_written_ends_nothing(kind, monkeypatch):
    """A client keeps one connection for all requests."""
    with contextlib.ExitStack() as stack:
        stream = None
        if kind == "disk":
            stream = stack.enter_context(open("/dev/full", "w"))
        if kind == "pipe":
            reader, writer = os.pipe()
            os.close(reader)
            stream = stack.enter_context(open(writer, "w"))
        server = stack.enter_context(running.running(log="lines"))
        monkeypatch.setattr(sys, "stderr", stream)
        connection = http.client.HTTPConnection(*server.place, running.WAIT_SECONDS)
        connection.connect()
        mine = connection.sock.getsockname()
        for _ in range(5):
            connection.request("GET", "/v1/models/echo")
            answer = connection.getresponse()
            assert answer.status == 200 and json.load(answer)
            assert connection.sock.getsockname() == mine
        connection.close()


def test_lines_of_the_log_cannot_be_forged(capfd):
    with running.running(log="lines") as server:
        server.request("/v1/a%0Ab%1B")
    (line,) = capfd.readouterr().err.splitlines()
    assert ' "GET /v1/a\\nb\\u001b" 400 ' in line and line.isprintable()


def test_request_ends_with_the_version_that_it_began_with(slow):
    def new(_, arrays):
        return {"upper": np.array([b"new"] * len(arrays["text"]), object)}

    with (
        running.running(running.echo(slow)) as server,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        first = pool.submit(server.predict, "a")
        assert slow.began.wait(running.WAIT_SECONDS)
        server.service.model = running.echo(new, 2)
        second = pool.submit(server.predict, "a")
        running.until(lambda: len(server.service.batcher) == 1)
        slow.may_end.set()
        assert first.result()[1] == {"predictions": ROWS[:1]}
        assert second.result()[1] == {"predictions": ["new"]}
        assert server.request("/v1/models/echo/versions/1:predict", ECHO)[0] == 404


def test_outputs_as_wide_as_the_longest_text_are_computed_alone():
    signature = test_rest.definition(
        {"text": (tf.string, [None])}, {"words": (tf.string, [None, None])}
    )
    fixed = test_rest.definition(
        {"text": (tf.string, [None])}, {"words": (tf.string, [None, 3])}
    )
    ids = test_rest.SIGNATURES["ids"]
    signatures = {"wide": signature, "fixed": fixed, "ids": ids}
    version = servables.Version(signatures, None)
    assert version.joined_signatures == {"fixed"}
