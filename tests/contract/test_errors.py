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


@pytest.fixture
def heeded(monkeypatch):
    """Signals are heeded in a test, and those to come are not those of before."""
    monkeypatch.setattr(errors, "_heard", [])
    before = {n: signal.getsignal(n) for n in errors.STOP_SIGNALS}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # even under nohup
    errors.heed(errors.STOP_SIGNALS)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("number", errors.STOP_SIGNALS)
@pytest.mark.parametrize(
    "error", [ValueError("None"), errors.InputError("a row"), None]
)
def test_signal_has_its_code_whatever_a_library_makes_of_it(number, error, capsys):
    """AssertionErrors and SystemErrors came of it where TensorFlow traced."""
    with pytest.raises(SystemExit) as caught, errors.explained():
        try:
            signal.raise_signal(number)
        except BaseException as stop:
            if error:
                raise error from stop
    assert caught.value.code == 128 + number
    lines = {signal.SIGINT: "interrupted", signal.SIGHUP: "stopped by SIGHUP"}
    line = lines.get(number, "stopped by SIGTERM")
    assert capsys.readouterr().err == f"\n{line}\n"


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_signal_that_nohup_or_a_shell_ignores_stays_so(number):
    signal.signal(number, signal.SIG_IGN)
    errors.heed(errors.STOP_SIGNALS)
    with errors.explained():
        signal.raise_signal(number)
    assert signal.getsignal(number) is signal.SIG_IGN


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
@pytest.mark.parametrize(
    "end", ["raise OSError(28, 'No space')", "", "raise SystemExit"]
)
def test_full_standard_output_is_named(flushes, end):
    text = "from contract import errors\nwith errors.explained():\n print('a')\n"
    text += f" print('a', flush={flushes})\n {end}"
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
