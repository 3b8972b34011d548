"""Tests of contract/remote_files.py on local files."""

import os
import subprocess
import sys
import threading

import pytest

from data_pipeline.pretraining import source, word_streams
from data_pipeline.tables import text_rows
from data_pipeline.vocabularies import byte_ranges
from tests.refusals import refused

READERS = [
    lambda path: [text for _, text in text_rows.lines(path)],
    lambda path: text_rows.read_text(path).splitlines(),
]


@pytest.mark.parametrize("read", READERS)
def test_pipe_is_named_before_it_is_waited_for(read, tmp_path, monkeypatch):
    path, lines = f"{tmp_path}/pipe", []
    os.mkfifo(path)

    class Screen:
        def write(self, line):
            lines.append(line)
            threading.Thread(target=fill).start()

    def fill():
        with open(path, "w") as pipe:
            pipe.write("a\nb\n")

    monkeypatch.setattr(sys, "stderr", Screen())
    late = threading.Timer(10, fill)  # where no line comes
    late.daemon = True
    late.start()
    assert read(path) == ["a", "b"]
    late.cancel()
    assert lines == [f"{path}: waiting for what a program writes to this pipe\n"]


def test_pipe_that_another_program_fills_is_read(tmp_path):
    (tmp_path / "a.txt").write_text("a\nb\n")
    command = ["cat", f"{tmp_path}/a.txt"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        lines = list(text_rows.lines(f"/dev/fd/{process.stdout.fileno()}"))
    assert lines == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    "find",
    [
        source.find,
        byte_ranges.find_files,
        lambda path: word_streams.open_files(path, "input_file", "whitespace"),
    ],
)
def test_pipe_is_refused_where_places_in_a_file_are_read(find, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with refused(f"--input_file={tmp_path}/pipe: is a pipe", "write it to a file"):
        find(f"{tmp_path}/pipe")
