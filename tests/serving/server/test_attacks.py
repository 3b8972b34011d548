"""Broken, hostile and large requests: each is answered or let go, in bounded memory."""

import concurrent.futures
import json
import random
import re
import socket
import subprocess
import sys

import psutil
import pytest

from serving.server import app, limits, service, tasks, tei
from tests.serving.server import running, test_tasks

MB = 2**20
# A server in a process of its own, so that its memory can be read.
PROGRAM = """
from serving.server import doors, process
from tests.serving.server import running, test_attacks

application = test_attacks.application()
def load():
    application.service.model = test_attacks.model()
    print(doors.address(listener), flush=True)
with doors.listen("127.0.0.1", 0) as listener:
    process.run(application, listener, load)
"""


def application():
    """An app with all answers that there are."""
    bounds = limits.Limits(
        max_body_bytes=2**20, header_seconds=0.5, body_seconds=5, max_connections=300
    )
    one = service.Service(bounds)
    names = {name for name in vars(tasks) if name.startswith("of_")}
    assert names == {"of_models", "of_index"}, "a new kind of answers: attack it, too"
    answers = {**tasks.of_models(one), **tei.of_models(one), **test_tasks.of_index(one)}
    return app.App(one, answers, app.Access())


def model():
    """Answers `:predict`, embeddings and pairs."""
    signatures = {**running.LINE, "embed": test_tasks.SIGNATURES["embed"]}
    signatures["pair"] = test_tasks.SIGNATURES["serving_default"]

    def call(name, arrays):
        if name == "serving_default":
            return running.upper(name, arrays)
        return test_tasks.call(name, arrays)

    return running.echo(call, signatures=signatures)


BODIES = [
    json.dumps(body).encode()
    for body in (
        {"instances": ["a text", "b"]},
        {"inputs": {"text": ["a"]}, "signature_name": ""},
        {"instances": [{"text": {"b64": "YQ=="}}]},
        {"input": ["a"], "dimensions": 2, "encoding_format": "base64"},
        {"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1},
        {"query": ["a", "b"], "top_k": 3},
        {"text_a": ["a", "b"], "text_b": ["c", "d"], "model": "echo"},
        {"inputs": [["a", "b"], ["c"]], "truncate": True, "normalize": False},
        {"query": "a", "texts": ["b"], "return_text": True, "raw_scores": False},
    )
]
# Of TensorFlow Serving's API; the others are those of the app itself.
MODEL_PATHS = (
    running.PREDICT,
    "/v1/models/echo/versions/1:predict",
    "/v1/models/echo/metadata",
)
HEADERS = (
    b"Host: localhost",
    b"Content-Type: application/json",
    b"Transfer-Encoding: chunked",
    b"Content-Length: 7",
    b"Content-Length: -1",
    b"Content-Length: 0x10",
    b"Expect: 100-continue",
    b"Connection: close",
    b"Upgrade: websocket\r\nConnection: Upgrade",
    b"Content-Encoding: gzip",
    b"Origin: null",
    b"X-Request-Id: \xff\x00",
    b"Authorization: Bearer \xc3",
    b"Host: a/?#@[",
    b" folded: yes",
)
TOKENS = (
    b"\r\n",
    b"\0",
    b"{",
    b"[" * 99,
    b'"\\ud800"',
    b"\\ud800",
    b"\\u200b",
    b"1e999",
    b"NaN",
    b"\xff",
    b":",
)


def request(chooser, paths):
    """A request that may be valid, and is changed in up to three places."""
    method = chooser.choice((b"GET", b"POST", b"POST", b"HEAD", b"OPTIONS", b"PUT"))
    body = chooser.choice(BODIES)
    headers = [HEADERS[0], *chooser.sample(HEADERS, chooser.choice((0, 0, 1, 2)))]
    if chooser.random() < 0.9:
        headers.append(b"Content-Length: %d" % len(body))
    path = chooser.choice(paths).encode()
    head = b"%s %s HTTP/1.1\r\n%s\r\n\r\n" % (method, path, b"\r\n".join(headers))
    raw = bytearray(head + body)
    for _ in range(chooser.choice((0, 1, 1, 2, 3))):
        place = chooser.randrange(len(raw))
        kind = chooser.randrange(5)
        if kind == 0:
            raw[place] = chooser.randrange(256)
        elif kind == 1:
            raw[place:place] = chooser.choice(TOKENS)
        elif kind == 2:
            del raw[place : place + chooser.randrange(1, 9)]
        elif kind == 3:
            raw[place:place] = raw[place : place + 40]
        else:
            del raw[place:]
        if not raw:
            return b"\r\n"
    return bytes(raw)


def exchange(place, raw, ends=False):
    """Everything that the server sends; `ends` closes the sender's side."""
    with socket.create_connection(place, running.WAIT_SECONDS) as connection:
        connection.sendall(raw)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        parts = []
        try:
            while part := connection.recv(2**16):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    log = tmp_path_factory.mktemp("attacks") / "log.txt"
    with open(log, "w") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
        try:
            address = process.stdout.readline().strip()
            yield running.Running(address, None, None), psutil.Process(process.pid)
            process.terminate()
            assert process.wait(running.WAIT_SECONDS) == 0
        finally:
            process.kill()
            process.communicate()
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("count", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mutated_requests_are_answered_or_let_go(server, count):
    server, process = server
    chooser = random.Random(1)
    paths = (*MODEL_PATHS, *application().paths)
    assert {tasks.EMBEDDINGS, tasks.RERANK, tasks.SEARCH, "/metrics", "/"} <= {*paths}
    assert {tasks.CLASSIFY, tei.EMBED, tei.PREDICT, "/openapi.json"} <= {*paths}
    requests = [request(chooser, paths) for _ in range(count)]
    before = process.memory_info().rss
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [
            *pool.map(lambda raw: exchange(server.place, raw, ends=True), requests)
        ]
    statuses = [int(s) for a in answers for s in re.findall(rb"HTTP/1\.1 (\d+) ", a)]
    assert {200, 400} <= {*statuses} and 500 not in statuses
    for raw, answer in zip(requests, answers, strict=True):
        for status, body in re.findall(
            rb"HTTP/1.1 ([45]\d\d).*?\r\n\r\n(\{.*)", answer
        ):
            assert status in raw or b"error" in body, (raw, answer)
    assert server.predict("a")[0] == 200
    assert process.memory_info().rss - before < 100 * MB


@pytest.mark.slow
def test_memory_is_bounded_under_attack(server):
    """The bound of docs/server.md: 10 bodies of 1 MB, and 100 MB of values."""
    server, process = server
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += b"Content-Length: %d\r\n\r\n"
    path = running.PREDICT.encode()
    lists = b'{"inputs": [' + b",".join([b"[]"] * 340_000) + b"]}"
    texts = json.dumps({"instances": ["a"] * 200_000}).encode()
    ids = b'{"inputs": [' + b"1," * 500_000 + b"1]}"
    deep = b'{"inputs": '.ljust(MB, b"[")
    before = process.memory_info().rss
    highest = []

    def attack(body):
        answer = exchange(server.place, head % (path, len(body)) + body)
        highest.append(process.memory_info().rss)
        return answer

    bodies = [lists, texts[:MB], ids[:MB], deep, b" " * MB, b" " * 4 * MB] * 10
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        answers = [*pool.map(attack, bodies)]
    assert all(answer.startswith(b"HTTP/1.1 4") for answer in answers)
    assert max(highest) - before < 110 * MB
    assert server.predict("a")[0] == 200


@pytest.mark.slow
def test_idle_and_slow_clients_are_let_go(server):
    server, process = server
    held = [socket.create_connection(server.place, 20) for _ in range(200)]
    try:
        assert process.num_threads() < 40
        for one in held[::2]:
            one.sendall(
                b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\na"
            )
        assert server.predict("a")[0] == 200
        answers = [one.recv(2**16) for one in held]
        assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
    finally:
        for one in held:
            one.close()
