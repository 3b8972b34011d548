"""Tests of training/errors.py."""

import signal

import pytest

from training import errors


@pytest.mark.parametrize("error", [ValueError("bad\nrow"), FileNotFoundError("no x")])
def test_wrong_input_is_one_line_and_exit_code_2(capsys, error):
    with pytest.raises(SystemExit) as caught, errors.explained(), errors.of_input():
        raise error
    assert caught.value.code == 2
    text = " ".join(str(error).split("\n"))
    assert capsys.readouterr().err == f"error: {text}\n"


def test_wrong_input_is_an_exception_in_a_notebook(capsys):
    with (
        pytest.raises(errors.InputError, match="no such row") as caught,
        errors.of_input(),
        errors.of_input(),
    ):
        raise ValueError("no such row")
    assert isinstance(caught.value, ValueError)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "error", [KeyError("x"), AssertionError("x"), TypeError("x"), ValueError("x")]
)
def test_our_own_mistakes_keep_their_traceback(capsys, error):
    with pytest.raises(type(error)), errors.explained():
        raise error
    with pytest.raises(TypeError), errors.explained(), errors.of_input():
        raise TypeError
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
    with pytest.raises(SystemExit) as caught, errors.explained(), errors.of_input():
        raise errors.Stopped(number)
    assert caught.value.code == 128 + number
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("text", "line"), [("", ""), ("(go on)", " (go on)")])
def test_ctrl_c_is_one_line(capsys, text, line):
    with pytest.raises(SystemExit) as caught, errors.explained():
        raise KeyboardInterrupt(text)
    assert caught.value.code == 130
    assert capsys.readouterr().err == f"\ninterrupted{line}\n"


def test_no_error_passes_through():
    with errors.explained(), errors.of_input():
        value = 3
    assert value == 3
