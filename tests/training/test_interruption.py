"""Tests of training/interruption.py with real signals to this process."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import tensorflow as tf

from contract import errors
from tests import tiny
from training import interruption


@pytest.fixture(autouse=True)
def harmless():
    def ignore(*_):
        pass

    before = {n: signal.signal(n, ignore) for n in errors.STOP_SIGNALS}
    yield ignore
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


def send_soon(number=signal.SIGTERM):
    """From another thread, while this one is busy; returns that thread."""
    timer = threading.Timer(0.1, send, (number,))
    timer.start()
    return timer


def rounds_until(stop_requested):
    """A function most -> rounds done in one call before `stop_requested` is 1."""
    matrix = tf.ones([100, 100]) / 100

    @tf.function
    def rounds(most):
        done, value = 0, matrix
        while done < most and stop_requested == 0.0:
            value = tf.linalg.matmul(value, matrix)
            done += 1
        return done, value

    rounds(tf.constant(1))  # traced, so that the next call is all TensorFlow
    return lambda most: int(rounds(tf.constant(most))[0])


@pytest.mark.parametrize("number", errors.STOP_SIGNALS)
def test_signal_is_seen_within_one_call_of_tensorflow(number):
    most = 1_000_000  # a minute or two
    with interruption.Interruption() as watch:
        rounds = rounds_until(watch.stop_requested)
        timer = send_soon(number)
        done = rounds(most)
        timer.join()
        assert 0 < done < most
        assert watch.number == number and float(watch.stop_requested) == 1.0


# A step, of one call of TensorFlow, that asks nobody whether to stop.
STEP = """
import tensorflow as tf
from contract import errors
from training import interruption

@tf.function
def step():
    matrix = tf.ones([400, 400]) / 400
    for _ in tf.range(ROUNDS):
        matrix = matrix @ matrix * 1.0
    return matrix

with errors.explained(), interruption.Interruption() as watch:
    tf.print("begun")
    step()
    print("saved", flush=True)
    raise errors.Stopped(watch.number)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "times"), [(signal.SIGTERM, 1), (signal.SIGINT, 2)])
def test_signal_within_a_step_is_answered_at_once(number, times, tmp_path):
    """Nothing was seen for 49 s after ^C, while the first step was compiled."""
    rounds = 1_000 if times == 1 else 1_000_000  # seconds, or many minutes
    program = tmp_path / "program.py"
    program.write_text(STEP.replace("ROUNDS", str(rounds)))
    again = "Ctrl-C again" if number == signal.SIGINT else "a second signal"
    with subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(tiny.ROOT)},
    ) as process:
        assert "begun\n" in iter(process.stderr.readline, "")
        time.sleep(0.3)
        process.send_signal(number)
        line = f"stopping after this step; {again} ends without saving\n"
        assert process.stderr.readline() == line
        if times == 2:
            process.send_signal(number)
        ended = process.communicate(timeout=100)
    assert process.returncode == 128 + number
    assert ended == (("saved\n", "") if times == 1 else ("", "ended without saving\n"))


@pytest.mark.parametrize("is_sent", [False, True])
def test_everything_is_left_as_it_was(harmless, is_sent):
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    threads = threading.enumerate()
    before = signal.set_wakeup_fd(sender)
    try:
        with interruption.Interruption():
            assert len(threading.enumerate()) == len(threads) + 1
            if is_sent:
                send()
        assert signal.set_wakeup_fd(before) == sender
    finally:
        signal.set_wakeup_fd(before)
        os.close(sender)
        os.close(receiver)
    assert threading.enumerate() == threads
    for number in errors.STOP_SIGNALS:
        assert signal.getsignal(number) is harmless


@pytest.mark.parametrize("is_sent", [False, True])
def test_run_under_nohup_goes_on_after_the_terminal(is_sent):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # `harmless` undoes it
    with interruption.Interruption() as watch:
        if is_sent:
            send()
            assert watch.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        send(signal.SIGHUP)
        assert watch.number == (signal.SIGTERM if is_sent else None)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("number", errors.STOP_SIGNALS)
def test_python_code_can_be_broken_off(number):
    started = time.monotonic()
    with interruption.Interruption() as watch:
        timer = send_soon(number)
        with pytest.raises(errors.Stopped) as caught, watch.raised():
            time.sleep(20)
        timer.join()
    assert time.monotonic() - started < 10
    assert caught.value.number == number
    assert str(caught.value) == signal.Signals(number).name
    with interruption.Interruption() as watch:
        send(number)  # does not raise here
        with pytest.raises(errors.Stopped), watch.raised():
            pytest.fail("it was sent before")


def test_tracing_can_be_broken_off():
    """AutoGraph, which reads the function, makes an error of its own of any."""

    def traced(number):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            number += 1
        return number

    numbers = tf.data.Dataset.range(3)
    with (
        interruption.Interruption() as watch,
        pytest.raises(errors.Stopped, match=r"^SIGTERM$"),
        watch.raised(),
    ):
        numbers.map(traced)
