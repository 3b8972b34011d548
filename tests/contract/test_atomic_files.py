"""Tests of contract/atomic_files.py."""

import errno
import os
import pathlib
import stat
import threading

import pytest
import tensorflow as tf

from contract import atomic_files
from tests import full_disk, tiny


def test_parts_become_files_in_new_directories(tmp_path):
    files = {f"{tmp_path}/a/b.txt": ["é\n", "2"], f"{tmp_path}/c": iter(["3"])}
    atomic_files.write(files)
    assert tiny.listing(tmp_path) == {"a/b.txt": "é\n2".encode(), "c": b"3"}


def fails(parts):
    yield from parts
    raise KeyError("as the second file is made")


@pytest.mark.parametrize("is_full", [True, False])
def test_one_that_cannot_be_written_leaves_all_as_they_were(tmp_path, is_full):
    for name in "ab":
        (tmp_path / name).write_text("old")
    a, b = f"{tmp_path}/a", f"{tmp_path}/b"
    if is_full:
        shown = rf"^{b}: cannot be written \(.*File too large.*\); make room there"
        with (
            full_disk.full_disk(after=5),
            pytest.raises(OSError, match=shown) as raised,
        ):
            atomic_files.write({a: ["new"], b: ["longer"]})
        assert "\n" not in str(raised.value)
    else:
        with pytest.raises(KeyError):
            atomic_files.write({a: ["new"], b: fails(["new"])})
    assert tiny.listing(tmp_path) == {"a": b"old", "b": b"old"}


def test_place_where_nothing_can_be_written_is_refused(tmp_path):
    atomic_files.check_writable(f"{tmp_path}/new/file.txt")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").touch()
    path = f"{tmp_path}/file/a/b"
    for refused in (atomic_files.check_writable, write_nothing):
        with pytest.raises(OSError, match=f"^{path}: cannot be written .*another"):
            refused(path)
    for path in (f"{tmp_path}/new", f"{tmp_path}/absent/"):
        with pytest.raises(ValueError, match="is a directory; name the file"):
            atomic_files.check_writable(path)


def write_nothing(path):
    atomic_files.write_text(path, "")


def test_file_that_is_not_whole_does_not_stay(tmp_path, monkeypatch):
    def full(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.io.gfile, "rename", full)
    with pytest.raises(OSError, match="No space left on device"):
        atomic_files.write_text(f"{tmp_path}/a.txt", "text")
    assert list(tmp_path.iterdir()) == []


def test_processes_that_share_a_file_write_beside_each_other(tmp_path, monkeypatch):
    sources, rename = [], tf.io.gfile.rename

    def renamed(source, path, overwrite):
        sources.append(source.removeprefix(path))
        rename(source, path, overwrite=overwrite)

    monkeypatch.setattr(tf.io.gfile, "rename", renamed)
    path = f"{tmp_path}/a"
    atomic_files.write_text(path, "text")
    for shared in (False, True, True):
        atomic_files.write_json(path, {"b": "é", "a": shared}, shared=shared)
    assert sources[:2] == [".incomplete"] * 2 and len({*sources}) == 3
    assert tiny.listing(tmp_path) == {"a": b'{"a": true, "b": "\\u00e9"}\n'}


def test_what_the_next_writer_has_begun_is_not_removed(tmp_path, monkeypatch):
    path, rename = tmp_path / "a.txt", tf.io.gfile.rename
    begun = tmp_path / f"a.txt{atomic_files.SUFFIX}"

    def rename_and_let_begin(*arguments, **others):
        rename(*arguments, **others)
        begun.write_text("of the next")

    monkeypatch.setattr(tf.io.gfile, "rename", rename_and_let_begin)
    atomic_files.write_text(str(path), "first")
    assert (path.read_text(), begun.read_text()) == ("first", "of the next")


def test_file_that_another_process_removes_meanwhile_is_removed(tmp_path, monkeypatch):
    remove = tf.io.gfile.remove

    def be_slower(path):
        os.remove(path)
        remove(path)

    (tmp_path / "a").touch()
    monkeypatch.setattr(tf.io.gfile, "remove", be_slower)
    atomic_files.remove(str(tmp_path / "a"))
    assert not tiny.listing(tmp_path)
    monkeypatch.undo()
    atomic_files.remove(str(tmp_path / "a"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").touch()
    with pytest.raises(tf.errors.OpError):  # not a file
        atomic_files.remove(str(tmp_path / "b"))


def test_special_file_without_permission_is_refused(monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(OSError, match=r"^/dev/null: .*\(Permission denied\)"):
        atomic_files.check_writable(os.devnull)


def test_reason_is_the_message_without_the_operation():
    text = "{{function_node f}} {{node g}} no space\nleft [Op:WriteFile] name: "
    for message in (
        text,
        f"graph execution error:\n<stack traces unavailable>\n{text}",
    ):
        error = tf.errors.ResourceExhaustedError(None, None, message)
        assert atomic_files.reason(error) == "no space"
    assert atomic_files.reason(ValueError("a [Op:B]")) == "a"


FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG


@pytest.mark.parametrize("number", [*FULL, errno.EROFS, errno.EACCES, errno.ENOTDIR])
def test_remedy_is_that_of_the_reason(number):
    """Whoever names it: Python, TensorFlow, or a library in words of its own."""
    text = os.strerror(number)
    remedy = "make room there, or name" if number in FULL else "name"
    for error in (
        OSError(number, text, "b"),
        tf.errors.UnknownError(None, None, f"b; {text}"),
        RuntimeError(f"b; {text}"),
    ):
        line = str(atomic_files.unwritable("a", error))
        assert line == f"a: cannot be written (b; {text}); {remedy} another place"
        try:
            raise atomic_files.unwritable("b", error) from error
        except OSError as above:
            assert str(atomic_files.unwritable("a", above)) == line


def test_a_pipe_is_written_to_and_stays(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    atomic_files.check_writable(path)
    received = []
    reader = threading.Thread(
        target=lambda: received.append(pathlib.Path(path).read_text("utf-8"))
    )
    reader.start()
    atomic_files.write({path: ["a", "b"], f"{tmp_path}/file": ["c"]})
    reader.join(timeout=60)
    assert received == ["ab"]
    assert stat.S_ISFIFO(os.stat(path).st_mode)
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make devices")
def test_a_full_device_is_an_error_and_stays(tmp_path):
    path = str(tmp_path / "full")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))  # as /dev/full
        open(path, "rb").close()
    except PermissionError:
        pytest.skip("devices cannot be made or opened here")
    atomic_files.check_writable(path)
    with pytest.raises(OSError, match=f"^{path}: cannot be written .*No space left"):
        atomic_files.write_text(path, "text")
    assert stat.S_ISCHR(os.stat(path).st_mode)
    assert os.listdir(tmp_path) == ["full"]


def test_links_of_the_system_are_special_and_other_links_are_not(tmp_path):
    with open(tmp_path / "file", "w") as file:
        assert atomic_files.is_special(f"/dev/fd/{file.fileno()}")
    os.symlink(tmp_path / "file", tmp_path / "link")
    os.symlink(os.devnull, tmp_path / "null")
    names = sorted(os.listdir(tmp_path))
    special = [atomic_files.is_special(f"{tmp_path}/{name}") for name in names]
    assert dict(zip(names, special, strict=True)) == {
        "file": False,
        "link": False,
        "null": True,
    }
    assert not atomic_files.is_special(f"{tmp_path}/absent")
    assert not atomic_files.is_special("ram://file")
