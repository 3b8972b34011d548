"""Tests of terminal/progress.py: lines in a file, bars on real pseudo-terminals."""

import fcntl
import io
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
        progress.print_line("evaluation at step 2000: accuracy 0.75")
        {more}
        report(4000, 4000, "loss 0.2500")
        {after}
work()
print("end")
"""


@pytest.fixture
def clock(monkeypatch):
    """A clock that shows what the test sets."""
    hands = {"now": 100.0}
    monkeypatch.setattr(progress.time, "monotonic", lambda: hands["now"])
    return hands


def on_terminal(*, short=0.0, file=10.0, more="", after="", run=RUN, **variables):
    """The output of RUN on a terminal of 100 columns, and its exit code."""
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(tiny.ROOT)}
    environment.pop("CI", None)
    text = run.format(short=short, file=file, more=more, after=after)
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | variables,
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            block = os.read(ours, 1 << 16)
        except OSError:  # nobody writes any more
            break
        text += block
    os.close(ours)
    return text.decode(), process.wait(60)


def split(text):
    """The states of the last line, one after another."""
    states = (state.strip() for state in re.split(r"(?:[\r\n]|\x1b\[A)+", text))
    return [state for state in states if state]


def test_bars_are_below_lines_of_text():
    text, code = on_terminal()
    assert code == 0
    states = split(text)
    bar = r"step  50 %\|.*\| 2000/4000  [\d.]+/s  00:00 left, loss 0\.5000  rate 3\.1e"
    place = states.index("evaluation at step 2000: accuracy 0.75")
    assert re.match(bar, states[place - 4]) and re.match(bar, states[place + 1])
    assert [state[:23] for state in states[place - 3 : place]] == [
        f"predicting: batch {share} %" for share in ("  0", " 50", "100")
    ]
    # The time of the first unit, which compiles, is in no speed.
    assert re.search(r" 1000/4000  \?/s  \? left, loss", states[1])
    assert re.match(r"step 100 %\|.*\| 4000/4000 .*loss 0\.2500$", states[-2])
    assert states[-1] == "end" and max(map(len, states)) == 99


def screen(text):
    """The lines that a person sees, without blanks at their ends."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\r|\n|\x1b\[A|[^\r\n\x1b]+", text):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[A":
            row -= 1
        else:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + part + line[column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines if line.strip()]


# What follows a bar that goes, or stands beside one.
LINES = """
import sys, time
from terminal import progress
with progress.Progress("long work with a name: row") as report:
    report(0, 10)
    time.sleep(1.2)
    progress.print_line("above")
    report(4, 10)
    progress.print_line("x")
print("result")
with progress.Progress("next: row") as report:
    report(0, 10)
    progress.print_line("y")
print("end")
"""


def test_lines_leave_nothing_of_a_bar():
    text, code = on_terminal(run=LINES)
    assert code == 0 and "long work with a name: row  40 %" in text
    assert screen(text) == ["above", "x", "result", "y", "end"]


@pytest.mark.parametrize("columns", [60, 80, 100, 160])
@pytest.mark.parametrize("name", ["step", "predicting: batch"])
def test_bar_is_wide_enough_to_be_read(monkeypatch, name, columns):
    monkeypatch.setattr(progress, "_BAR_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with (
        open(ours, "rb", 0) as screen,
        open(theirs, "w", encoding="utf-8") as stream,
        progress.Progress(name, stays=True, stream=stream) as report,
    ):
        report(0, 40)
        for step in (39, 40):
            beside = "loss 0.5000", "rate 3.1e-05", "scale 1024"
            report(step, 40, *beside, examples=640, tokens=81920)
        text = b""
        while b" 100 %" not in text:
            text += screen.read(1 << 16)
        line = text.decode().rpartition("\r")[2].rstrip()
    bar, numbers = re.fullmatch(rf"{name} 100 %\|(.*)\| 40/40  (.*)", line).groups()
    assert len(bar) >= (5 if columns == 60 else 10) and len(line) == columns - 1
    rest = numbers.partition("00:00 left")[2]
    shown = re.sub(r", \d+/s", "", rest.removeprefix(", ")).split("  ")
    whole = [*beside, "640 examples", "81920 tokens"]
    assert shown in ([""], whole[: len(shown)])  # no number is cut
    assert columns < 160 or shown == whole


def test_short_work_has_no_bar():
    text, _ = on_terminal(short=5.0)
    assert "predicting" not in text and "100 %" in text


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"CI": "true"}])
def test_terminal_of_a_log_gets_lines(variables):
    text, code = on_terminal(**variables)
    assert code == 0
    assert re.sub(r"  \d+/s", "", text).splitlines() == [
        "evaluation at step 2000: accuracy 0.75",
        "step 4000/4000 (100 %)  00:00 left  loss 0.2500",
        "end",
    ]


@pytest.mark.parametrize("variables", [{}, {"TERM": "dumb"}])
def test_wait_for_the_first_item_has_a_line(variables):
    more = "for _ in progress.track('ab', 2, 'inner: item'): time.sleep(0.3)"
    text, code = on_terminal(short=9.0, file=0.2, more=more, **variables)
    assert code == 0
    assert split(text).count("inner: item 1/2 ...") == 1
    assert "predicting: batch 1/2 " not in text


def test_interruption_leaves_the_cursor_on_a_new_line():
    more = "os.kill(os.getpid(), 2); time.sleep(9)"
    more = f"for _ in progress.track('ab', 2, 'inner'): {more}"
    text, code = on_terminal(more=more)
    assert code == -2
    assert re.search(r"step  50 %[^\r\n]*\r\nTraceback", text) and text.endswith("\n")


def test_bar_of_unknown_size_has_its_speed():
    more = (
        "with progress.Progress('lines') as rows:\n"
        "            for n in range(5): rows(n, None, 'a'); time.sleep(0.02)"
    )
    states = [state for state in split(on_terminal(more=more)[0]) if "lines" in state]
    assert re.fullmatch(r"lines 4  [\d.]+/s, a", states[-1])


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
    progress.print_line("end", stream)
    shown = [
        "writing: task 20/40 (50 %)  --:-- left  300 instances",
        "writing: task 30/40 (75 %)  0.5/s  00:20 left  510 instances, 10/s",
        "writing: task 31  0.275/s  a text",
    ]
    assert stream.getvalue().splitlines() == [*([] if is_hidden else shown), "end"]


def test_slices_cover_all_rows_once(clock):
    stream = io.StringIO()
    actual = []
    for rows in progress.slices(10, 4, "tokenizing: row", stream=stream):
        actual += range(10)[rows]
        clock["now"] += 10
    assert actual == list(range(10))
    assert stream.getvalue().splitlines() == [
        "tokenizing: row 4/10 (40 %)  --:-- left",
        "tokenizing: row 8/10 (80 %)  0.4/s  00:05 left",
        "tokenizing: row 10/10 (100 %)  0.3/s  00:00 left",
    ]
    assert list(progress.slices(0, 4, "tokenizing: row", stream=stream)) == []
