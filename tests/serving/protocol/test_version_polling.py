"""Tests of serving/protocol/version_polling.py: which version answers, and from when.

tests/serving/test_predictor.py does it with exports.
"""

import threading

import pytest
import tensorflow as tf

from serving.protocol import version_polling

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


def test_polling_goes_on(monkeypatch):
    monkeypatch.setattr(version_polling, "POLL_SECONDS", 0.001)
    looks = threading.Semaphore(0)
    poller = version_polling.Poller("", lambda: looks.release() or "", None)
    poller.start()
    for _ in range(3):
        assert looks.acquire(timeout=WAIT_SECONDS)


def test_version_that_was_tried_before_is_not_tried_again(capsys):
    versions = Versions()
    versions.poller = version_polling.Poller(
        "v/1", versions.look, versions.serve, seen="v/2"
    )
    assert versions.polled("v/2", times=2) == []
    assert versions.polled("v/3") == ["v/3"]
