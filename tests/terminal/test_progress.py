"""Tests of terminal/progress.py: lines in a file, bars on real pseudo-terminals."""

import fcntl
import io
import itertools
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from terminal import progress
from tests import tiny

# A run that trains, with an evaluation on the way, as fast as the bars' pauses allow.
RUN = """
import os, sys, time
from terminal import progress
progress._SHORT_SECONDS = {short}
progress._BAR_SECONDS = 0.0
progress._FILE_SECONDS = {file}
def work():
    with progress.Progress("step", stays=True) as report:
        report(0, 4000)
        for step in (1000, 2000):
            time.sleep(0.02)
            report(step, 4000, "loss 0.5000", "rate 3.1e-05", f"{{'x' * 30}}", "last")
        for _ in progress.track("ab", 2, "predicting: batch"):
            time.sleep(0.02)
        progress.say("evaluation at step 2000: accuracy 0.75")
        {more}
        report(4000, 4000, "loss 0.2500")
        {after}
work()
print("end")
"""
ALL = [
    "step 0/4000",
    "step 1000/4000",
    "step 2000/4000",
    "predicting: batch 0/2",
    "predicting: batch 1/2",
    "predicting: batch 2/2",
    "step 2000/4000",
    "evaluation at step 2000: accuracy 0.75",
    "step 2000/4000",
    "step 4000/4000",
    "end",
]


@pytest.fixture
def clock(monkeypatch):
    """A clock that shows what the test sets."""
    hands = {"now": 100.0}
    monkeypatch.setattr(progress.time, "monotonic", lambda: hands["now"])
    return hands


def on_terminal(columns, *, short=0.0, file=10.0, more="", after="", **variables):
    """What RUN writes to a terminal, with all its control characters, and its code."""
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(tiny.ROOT)}
    environment.pop("CI", None)
    text = RUN.format(short=short, file=file, more=more, after=after)
    ours, its = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=its,
        stdout=its,
        stderr=its,
        env=environment | variables,
    )
    os.close(its)
    text = b""
    while True:
        try:
            block = os.read(ours, 1 << 16)
        except OSError:  # nobody writes any more
            break
        text += block
    os.close(ours)
    return text.decode(), process.wait(60)


def states(text):
    """What stood in the last line, one state after another."""
    found = [state.strip() for state in re.split(r"(?:[\r\n]|\x1b\[K)+", text)]
    return list(filter(None, found))


def summary(text):
    """The states, short and without repetitions."""
    return [state for state, _ in itertools.groupby(map(short, states(text)))]


def short(state):
    """A state of a bar as a line in a file would begin."""
    bar = re.match(r"(.*?) +(\d+) %\|.*\| (\d+/\d+)", state)
    return f"{bar[1]} {bar[3]}" if bar else state


def cells(text):
    """The lines of a terminal in the end: later characters replace earlier ones."""
    lines = []
    for line in text.split("\n"):
        shown = ""
        for part in line.rstrip("\r").split("\r"):
            part = part.removeprefix("\x1b[K")
            shown = part + ("" if part else shown)
        lines.append(shown.rstrip())
    return lines


@pytest.fixture(scope="module")
def narrow():
    return on_terminal(80)


def test_one_bar_at_a_time_and_lines_above_it(narrow):
    text, code = narrow
    assert code == 0
    assert summary(text) == ALL
    # What is left: the inner bar has given its line back.
    evaluation, step, *rest = cells(text)
    assert evaluation == "evaluation at step 2000: accuracy 0.75"
    assert short(step) == "step 4000/4000"
    assert rest == ["end", ""]


def test_bar_says_speed_time_left_and_what_there_is_room_for(narrow):
    first, second = (
        next(state for state in states(narrow[0]) if f" {step}/4000" in state)
        for step in (1000, 2000)
    )
    texts = r"  loss 0\.5000  rate 3\.1e-05"
    bar = r"step  %s %%\|[█▏▎▍▌▋▊▉ ]{8,}\| %s/4000"
    # Nobody knows yet how much of its time was for making ready.
    assert re.fullmatch(bar % (25, 1000) + "  --:-- left" + texts, first)
    speed = r"  [\d.]+/s  00:00 left"
    assert re.fullmatch(bar % (50, 2000) + speed + texts, second)
    for state, parts in ((first, 4), (second, 2)):
        assert state.count("█") == len(re.search(r"\|(.*)\|", state)[1]) // parts
    assert max(map(len, states(narrow[0]))) == 79


def test_terminal_of_a_log_gets_lines():
    text, code = on_terminal(80, CI="true")
    assert code == 0
    assert re.sub(r"  \d+/s", "", text).splitlines() == [
        "evaluation at step 2000: accuracy 0.75",
        "step 4000/4000 (100 %)  00:00 left  loss 0.2500",
        "end",
    ]


@pytest.mark.parametrize("variables", [{}, {"TERM": "dumb"}])
def test_long_wait_for_the_first_item_has_a_line(variables):
    more = "for _ in progress.track('ab', 2, 'inner: item'): time.sleep(0.3)"
    text, code = on_terminal(80, short=9.0, file=0.2, more=more, **variables)
    assert code == 0
    lines = cells(text)
    assert lines.count("inner: item 1/2 ...") == 1
    assert not [line for line in lines if line.startswith("predicting: batch 1/2 ")]


def test_interruption_leaves_the_cursor_on_a_new_line():
    more = "os.kill(os.getpid(), 2); time.sleep(9)"
    more = f"for _ in progress.track('ab', 2, 'inner'): {more}"
    text, code = on_terminal(80, more=more)
    assert code == -2
    lines = cells(text)
    assert short(lines[1]) == "step 2000/4000"
    assert lines[2].startswith("Traceback") and lines[-1] == ""


def test_first_unit_does_not_count_in_the_time_left(clock):
    """It compiles: of 216 batches in 52 s, 55 minutes were said to be left."""
    stream = io.StringIO()
    for number, _ in enumerate(
        progress.track(range(216), 216, "predicting: batch", stream=stream)
    ):
        clock["now"] += 1 if number else 15
    assert stream.getvalue().splitlines()[:3] == [
        "predicting: batch 1/216 (0 %)  --:-- left",
        "predicting: batch 11/216 (5 %)  1/s  03:25 left",
        "predicting: batch 21/216 (9 %)  1/s  03:15 left",
    ]


@pytest.mark.parametrize("is_hidden", [False, True])
def test_lines_in_a_file_count_from_the_first_report(clock, monkeypatch, is_hidden):
    monkeypatch.setattr(progress, "_is_hidden", False)
    if is_hidden:
        progress.hide()
    stream = io.StringIO()
    with progress.Progress("writing: task", stream=stream) as report:
        clock["now"] += 50  # before anything is done
        report(10, 40, instances=100)
        clock["now"] += 20
        report(20, 40, instances=300)
        report(21, 40, instances=310)
        clock["now"] += 20
        report(30, 40, instances=510)
        clock["now"] += 20
        report(31, None, "a text")
    progress.say("end", stream)
    shown = [
        "writing: task 20/40 (50 %)  --:-- left  300 instances",
        "writing: task 30/40 (75 %)  0.5/s  00:20 left  510 instances, 10/s",
        "writing: task 31  0.275/s  a text",
    ]
    assert stream.getvalue().splitlines() == [*([] if is_hidden else shown), "end"]


def test_slices_cover_all_rows_once(clock):
    stream = io.StringIO()
    found = []
    for rows in progress.slices(10, 4, "tokenizing: row", stream=stream):
        found += range(10)[rows]
        clock["now"] += 10
    assert found == list(range(10))
    assert stream.getvalue().splitlines() == [
        "tokenizing: row 4/10 (40 %)  --:-- left",
        "tokenizing: row 8/10 (80 %)  0.4/s  00:05 left",
        "tokenizing: row 10/10 (100 %)  0.3/s  00:00 left",
    ]
    assert list(progress.slices(0, 4, "tokenizing: row", stream=stream)) == []
