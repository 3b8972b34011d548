"""What a program says first, on a TensorFlow that writes two lines and fails."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import tiny

KNOWN = (
    "I0000 00:00:1795352007.226195   27198 cudart_stub.cc:31] Could not find cuda "
    "drivers on your machine, GPU will not be used."
)
UNKNOWN = "E0000 00:00:1795352007.226195   27198 cudart_stub.cc:31] what is that?"
STUB = f"""
import os, time
time.sleep(0.3)
os.write(2, {f"{KNOWN}{chr(10)}{UNKNOWN}{chr(10)}".encode()!r})
if "STOPS" in os.environ:
    os.kill(os.getpid(), {int(signal.SIGINT)})
raise SystemExit(7)
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "tensorflow.py").write_text(STUB)
    (tmp_path / "keras.py").write_text("import tensorflow")

    def run(program, *arguments, code=7):
        places = {"PYTHONPATH": str(tmp_path), "PATH": str(tmp_path)}
        process = subprocess.Popen(
            [sys.executable, program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tiny.ROOT,
            env={**os.environ, **places},
        )
        timed = [(line.rstrip("\n"), time.monotonic()) for line in process.stderr]
        assert process.communicate(timeout=100)[0] == ""
        assert process.returncode == code
        return [line for line, _ in timed], [seconds for _, seconds in timed]

    return run


def test_first_line_is_ours_and_comes_before_the_import(run):
    shown, times = run("build_vocab.py", "--input_file=README.md", "--output_file=b")
    assert shown == ["loading TensorFlow ...", UNKNOWN]
    assert times[1] - times[0] > 0.2  # the import sleeps


def test_interrupted_import_is_one_line(run, monkeypatch):
    monkeypatch.setenv("STOPS", "1")
    arguments = ("--input_file=README.md", "--output_file=b")
    shown, _ = run("build_vocab.py", *arguments, code=-signal.SIGINT)
    assert shown[0] == "loading TensorFlow ..."
    # What went through the filter may come later.
    assert sorted(shown[1:]) == sorted([UNKNOWN, "", "interrupted"])
