"""Tests of serving/protocol/version_polling.py: which version answers, and from when.

tests/serving/test_predictor.py does it with exports.
"""

import concurrent.futures
import threading

import numpy as np
import pytest
import tensorflow as tf

from serving.protocol import http_server, servables, version_polling
from tests.serving.protocol import test_http_server

WAIT_SECONDS = 20  # of what comes at once


class Versions:
    """Directories that appear and go; those in `broken` cannot be served."""

    def __init__(self, broken=()):
        self.broken = dict(broken)
        self.newest = "v/1"
        self.tried = []
        self.poller = version_polling.Poller("v/1", self.look, self.serve)

    def look(self):
        if isinstance(self.newest, Exception):
            raise self.newest
        return self.newest

    def serve(self, version_dir):
        self.tried.append(version_dir)
        if version_dir in self.broken:
            raise self.broken[version_dir]

    def polled(self, newest, times=1):
        self.newest, self.tried = newest, []
        for _ in range(times):
            self.poller.poll()
        return self.tried


def test_each_new_version_is_served_once(capsys):
    versions = Versions()
    assert versions.polled("v/1", times=2) == []
    assert versions.polled("v/3", times=3) == ["v/3"]
    assert versions.polled("v/4") == ["v/4"]
    assert versions.polled("v/3") == ["v/3"]  # 4 was removed
    printed = [f"serving v/{number} from now on" for number in (3, 4, 3)]
    assert capsys.readouterr().out.splitlines() == printed


def test_version_that_fails_is_one_line_and_not_tried_again(capsys):
    broken = {"v/2": ValueError("v/2: damaged\nin detail"), "v/3": KeyError("bug")}
    versions = Versions(broken)
    assert versions.polled("v/2", times=3) == ["v/2"]
    assert versions.polled("", times=2) == []  # the one served is removed, and 2
    assert versions.polled("v/2", times=2) == ["v/2"]  # may be another by that number
    assert versions.polled("v/3") == ["v/3"]
    assert versions.polled("v/4") == ["v/4"]
    out, err = capsys.readouterr()
    assert out == "serving v/4 from now on\n"
    damaged = "v/1 stays in service; v/2: damaged"
    bug = "v/1 stays in service; v/3: KeyError('bug')"
    assert err.splitlines() == [damaged, damaged, bug]


@pytest.mark.parametrize("gone", ["", tf.errors.UnavailableError(None, None, "later")])
def test_served_version_stays_where_none_is_to_be_seen(gone, capsys):
    versions = Versions()
    assert versions.polled(gone, times=2) == []
    assert capsys.readouterr() == ("", "")
    assert versions.polled("v/2") == ["v/2"]


def test_polling_ends_with_its_block(monkeypatch):
    monkeypatch.setattr(version_polling, "POLL_SECONDS", 0.001)
    looks = threading.Semaphore(0)
    poller = version_polling.Poller("", lambda: looks.release() or "", None)
    with poller.running():
        for _ in range(3):
            assert looks.acquire(timeout=WAIT_SECONDS)
    while looks.acquire(blocking=False):
        pass
    assert not looks.acquire(timeout=0.05)


def test_request_under_way_ends_with_the_version_that_it_began_with(monkeypatch):
    monkeypatch.setattr(
        http_server.joblib, "cpu_count", lambda: 2
    )  # requests at a time
    began, may_end = threading.Event(), threading.Event()

    def old(_, arrays):
        began.set()
        assert may_end.wait(WAIT_SECONDS)
        return {"upper": np.array([b"old"] * len(arrays["text"]), object)}

    def new(_, arrays):
        return {"upper": np.array([b"new"] * len(arrays["text"]), object)}

    def model(number, call):
        version = servables.Version(test_http_server.LINE, call)
        return servables.Model("echo", {number: version})

    def ask():
        return test_http_server.post(server, {"instances": ["a", "b"]})[2]

    server = http_server.Server(model(1, old), "127.0.0.1", 0)
    with (
        test_http_server.serving(server),
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        first = pool.submit(ask)
        try:
            assert began.wait(WAIT_SECONDS)
            server.model = model(2, new)
            assert ask() == {"predictions": ["new", "new"]}
            assert not first.done()
        finally:
            may_end.set()
        assert first.result(WAIT_SECONDS) == {"predictions": ["old", "old"]}
        path = "/versions/1:predict"
        assert test_http_server.post(server, {"instances": ["a"]}, path)[0] == 404
