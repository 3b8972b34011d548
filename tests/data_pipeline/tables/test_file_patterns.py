import os
import threading

import pytest
import tensorflow as tf

from data_pipeline.tables import file_patterns


def find(patterns):
    return file_patterns.find(patterns, flag="input_file", wanted="text files")


def test_name_with_brackets_is_found(tmp_path):
    (tmp_path / "a[bc].txt").touch()
    assert find(f"{tmp_path}/a[bc].txt") == [f"{tmp_path}/a[bc].txt"]
    (tmp_path / "ab.txt").touch()  # now it is a glob
    assert find(f"{tmp_path}/a[bc].txt") == [f"{tmp_path}/ab.txt"]
    with pytest.raises(ValueError, match="there is no such file; give text files"):
        find(f"{tmp_path}/a[x].txt")


def test_files_are_known_by_any_spelling(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").touch()
    os.symlink("a.txt", "link.txt")
    paths = ["./a.txt", "x/../a.txt", f"{tmp_path}/a.txt", "link.txt", "b.txt", "A.txt"]
    assert file_patterns.among(paths, ["a.txt"]) == paths[:4]
    remote = ["gs://bucket/a.txt", "gs://bucket/b.txt"]
    assert file_patterns.among(remote, ["a.txt", remote[1]]) == remote[1:]


def test_a_file_that_several_globs_name_is_listed_once(tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).touch()
    actual = find(f"{tmp_path}/b.txt,{tmp_path}/*.txt,{tmp_path}/a.*")
    assert [os.path.basename(path) for path in actual] == ["b.txt", "a.txt", "c.txt"]


def test_many_files_are_looked_at_at_a_time(tmp_path, monkeypatch):
    names = [tmp_path / f"{number}.txt" for number in range(4)]
    for length, path in enumerate(names):
        path.write_text("x" * length)
    meeting = threading.Barrier(len(names), timeout=20)

    def replace(name):
        look = getattr(tf.io.gfile, name)

        def look_together(path):
            # Servers of other tests look for their versions meanwhile.
            if str(path).startswith(str(tmp_path)):
                meeting.wait()
            return look(path)

        monkeypatch.setattr(tf.io.gfile, name, look_together)

    replace("isdir")
    replace("stat")
    files = find(f"{tmp_path}/*.txt")
    assert file_patterns.sizes(files) == [0, 1, 2, 3]
