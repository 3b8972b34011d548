"""Tests of file_patterns.py; more in the tests of those that use it."""

import os

import pytest

from data_pipeline.files import file_patterns


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
