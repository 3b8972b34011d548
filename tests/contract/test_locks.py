"""Two at once: one writes, the other is refused, and nothing is lost."""

import errno
import fcntl
import os
import threading

import pytest

from contract import atomic_files, locks
from tests import locked, tiny
from tests.refusals import refused


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.0)


@pytest.mark.parametrize("is_directory", [False, True])
def test_second_process_is_refused_until_the_first_is_killed(
    tmp_path, at_once, is_directory
):
    path, growing = tmp_path / "a", tmp_path / "a.incomplete"
    if is_directory:
        growing.mkdir()

    def write():
        if is_directory:
            with locks.directory(str(growing), str(path)):
                path.write_text("new")
        else:
            atomic_files.write({str(tmp_path / "b"): ["b"], str(path): ["new"]})

    path.write_text("old")
    with locked.by_another(growing) as first:
        before = tiny.listing(tmp_path)
        message = f"{path}: process {first.pid} writes it; wait for "
        with refused(message, "name another place"):
            write()
        assert tiny.listing(tmp_path) == before and before["a"] == b"old"
        first.kill()
        first.wait()
        write()
    assert path.read_text() == "new"


def test_second_thread_is_refused_or_served(tmp_path, monkeypatch):
    """It waits for a small file, and not for a large one."""
    path, begun, release = str(tmp_path / "a"), threading.Event(), threading.Event()

    def parts():
        begun.set()
        yield "first"
        release.wait(60)

    first = threading.Thread(target=atomic_files.write, args=({path: parts()},))
    first.start()
    assert begun.wait(60)
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.0)
    for device in (None, lambda number: 77):  # as on btrfs
        if device:
            monkeypatch.setattr(os, "major", device)
        with refused(f"process {os.getpid()} writes it"):
            atomic_files.write_text(path, "second")
    with monkeypatch.context() as elsewhere:  # no Linux
        elsewhere.setattr(os, "stat", lambda path: os.fstat(99999))
        assert locks._holder(path) == "another process"
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 60.0)
    second = threading.Thread(target=atomic_files.write_text, args=(path, "second"))
    second.start()
    release.set()
    first.join()
    second.join()
    assert tiny.listing(tmp_path) == {"a": b"second"}


def test_file_that_was_renamed_meanwhile_is_not_held(tmp_path, monkeypatch):
    """The second opens what the first then renames, so its lock is not of the name."""
    path, opened, renamed = str(tmp_path / "a"), os.open, []

    def open_and_rename(place, *arguments):
        descriptor = opened(place, *arguments)
        if not renamed:
            renamed.append(place)
            os.rename(place, path)
        return descriptor

    monkeypatch.setattr(os, "open", open_and_rename)
    atomic_files.write_text(path, "second")
    assert renamed and tiny.listing(tmp_path) == {"a": b"second"}


def test_half_file_of_a_killed_command_takes_no_name(tmp_path):
    """Where the next one has nothing to write, and so opens no file."""
    (tmp_path / "a.incomplete").write_text("half")
    atomic_files.write({str(tmp_path / "a"): []})
    assert tiny.listing(tmp_path) == {"a": b""}


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_there_are_no_locks_work_goes_on(tmp_path, monkeypatch, number):
    asked = []

    def fail(descriptor, _):
        asked.append(descriptor)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    atomic_files.write_text(str(tmp_path / "a"), "text")
    with locks.directory(str(tmp_path / "new"), "new"):
        (tmp_path / "new" / "b").touch()
    assert tiny.listing(tmp_path) == {"a": b"text", "new/b": b""}
    assert len(asked) == 2
    for descriptor in asked:  # closed
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_lock_that_keeps_the_writer_out_is_dropped(tmp_path, monkeypatch):
    """As on SMB, where other descriptors cannot write to a file that is locked."""
    locked_files, flock = [], fcntl.flock

    def lock(descriptor, how):
        flock(descriptor, how)
        locked_files.append(descriptor)

    def open_unless_locked(path, mode):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(fcntl, "flock", lock)
    monkeypatch.setattr(locks, "open", open_unless_locked, raising=False)
    monkeypatch.setattr(locks, "_advisory", set())
    path = str(tmp_path / "a")
    with atomic_files.replacing(path) as (temporary,):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(locked_files[0])
        with open(temporary, "w") as file:
            file.write("text")
    assert tiny.listing(tmp_path) == {"a": b"text"}
