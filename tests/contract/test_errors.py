"""Tests of contract/errors.py."""

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from contract import errors


@pytest.mark.parametrize(
    "error", [errors.InputError("bad\nrow"), FileNotFoundError("no x")]
)
def test_wrong_input_is_one_line_and_exit_code_2(capsys, error):
    with pytest.raises(SystemExit) as caught, errors.explained():
        raise error
    assert caught.value.code == 2
    line = " ".join(str(error).split("\n"))
    assert capsys.readouterr().err == f"error: {line}\n"


def test_exception_that_has_an_explanation_is_wrong_input():
    with (
        pytest.raises(errors.InputError, match="row 3 of x") as caught,
        errors.named(lambda error: f"row 3 of {error}"),
    ):
        raise RuntimeError("x")
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(RuntimeError, match=r"^x$"), errors.named(lambda error: None):
        raise RuntimeError("x")


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: {}["x"],
        lambda: int("x"),
        lambda: np.zeros((2, 3)) @ np.zeros((2, 3)),
        lambda: np.zeros(3).reshape(2, 2),
    ],
)
def test_our_own_mistakes_keep_their_traceback(capsys, mistake):
    with pytest.raises((KeyError, ValueError)), errors.explained():
        mistake()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [(errors.NotFinite("the loss is nan"), 3), (errors.LostWorker("see its log"), 4)],
)
def test_run_that_cannot_go_on_has_a_code_of_its_own(caplog, error, code):
    with pytest.raises(SystemExit) as caught, errors.explained():
        raise error
    assert caught.value.code == code
    assert str(error) in caplog.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_run_has_the_code_of_its_signal(number, capsys):
    with pytest.raises(SystemExit) as caught, errors.explained():
        raise errors.Stopped(number)
    assert caught.value.code == 128 + number
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("text", "line"), [("", ""), ("(go on)", " (go on)")])
def test_ctrl_c_is_one_line(capsys, text, line):
    with pytest.raises(SystemExit) as caught, errors.explained():
        raise KeyboardInterrupt(text)
    assert caught.value.code == 130
    assert capsys.readouterr().err == f"\ninterrupted{line}\n"


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="Linux alone")
@pytest.mark.parametrize("flushes", [True, False])
def test_full_standard_output_is_named(flushes):
    text = "from contract import errors\nwith errors.explained():\n print('a')\n"
    text += f" print('a', flush={flushes})\n raise OSError(28, 'No space')"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", text],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    line = "error: standard output: [Errno 28] No space"
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1
    assert done.returncode == 2
