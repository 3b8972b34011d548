"""Programs that are run once each, side by side, and go on where they were killed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from experiments import stages

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Adds a line to a file; ends with the exit code it is given.
PROGRAM = """
import sys, time
path, text, code, seconds = sys.argv[1:]
time.sleep(float(seconds))
open(path, "a").write(text + "\\n")
print("said " + text)
sys.exit(int(code))
"""
# A comparison of two runs, of which the second takes long.
COMPARISON = """
import sys
from experiments import stages
root = sys.argv[1]
with stages.locked(root) as lock:
    runner = stages.Runner(root, 2, 1, lock)
    runner.run("runs", [
        stages.Stage(n, f"{root}/{n}", ("program.py", f"{root}/out", n, "0", seconds))
        for n, seconds in (("quick", "0"), ("slow", "60"))
    ])
"""
WAITING = """
import sys
from experiments import stages
with stages.locked(sys.argv[1]):
    open(sys.argv[2], "w").close()
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def stage(root, name, code=0, **options):
    command = ("program.py", f"{root}/out", name, str(code), "0")
    return stages.Stage(name, str(root / name), command, **options)


def run(root, steps, **options):
    with stages.locked(str(root)) as lock:
        stages.Runner(str(root), 2, 1, lock).run("runs", steps, **options)


def test_what_is_done_is_not_run_again(root, capsys):
    run(root, [stage(root, "a"), stage(root, "b")])
    run(root, [stage(root, "a"), stage(root, "b"), stage(root, "c")])
    assert sorted((root / "out").read_text().split()) == ["a", "b", "c"]
    assert "runs: 3 runs, 2 are done\n  3/3  c: 0 s" in capsys.readouterr().out
    other = stage(root, "a")._replace(
        command=("program.py", f"{root}/out", "d", "0", "0")
    )
    assert stages.seconds_of(stage(root, "a")) > 0
    assert stages.seconds_of(other) == 0
    run(root, [other])
    assert (root / "out").read_text().split()[-1] == "d"


def test_runs_begin_in_order(root):
    with stages.locked(str(root)) as lock:
        runner = stages.Runner(str(root), 1, 1, lock)
        runner.run("runs", [stage(root, name) for name in "dacb"])
    assert (root / "out").read_text().split() == ["d", "a", "c", "b"]


def test_what_failed_is_shown_with_its_command_and_nothing_begins_after_it(root):
    (root / "bad").mkdir()
    (root / "bad" / stages.LOG).write_text("of an earlier time\n")
    with pytest.raises(stages.Failed) as raised:
        run(root, [stage(root, "bad", 3), stage(root, "later")], alone=True)
    message = str(raised.value)
    assert message.startswith("bad: ended with exit code 3. The end of ")
    assert "    said bad\nIts command: python program.py" in message
    assert "earlier" not in message
    assert (root / "out").read_text().split() == ["bad"]
    assert not (root / "bad" / stages.DONE).exists()


def test_weights_go_where_they_are_not_kept(root):
    for name in ("kept", "gone"):
        folder = root / name / "seed-1"
        folder.mkdir(parents=True)
        for file in ("model.ckpt-3.index", "train.tf_record", "report.json"):
            (folder / file).write_text("")
    run(root, [stage(root, "kept"), stage(root, "gone", keeps_weights=False)])
    assert len(os.listdir(root / "kept" / "seed-1")) == 3
    assert os.listdir(root / "gone" / "seed-1") == ["report.json"]


def wait_for(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def begin(root):
    """A comparison in a process of its own, when its second run is under way."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMPARISON, str(root)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: (root / "quick" / stages.DONE).exists())
    wait_for(lambda: (root / "slow" / stages.LOG).exists())
    return process


def test_directory_is_kept_for_one_comparison(root, capsys):
    entered = threading.Event()

    def enter():
        with stages.locked(str(root)):
            entered.set()

    with stages.locked(str(root)):
        waiting = threading.Thread(target=enter)
        waiting.start()
        wait_for(lambda: "Waiting for them to end" in capsys.readouterr().out)
        assert not entered.is_set()
    waiting.join(60)
    assert entered.is_set()


@pytest.mark.slow
def test_programs_of_a_killed_comparison_keep_its_directory(root):
    process = begin(root)
    wait_for(lambda: any(p.read_text() for p in _children(process.pid)))
    left = [int(pid) for p in _children(process.pid) for pid in p.read_text().split()]
    process.send_signal(signal.SIGKILL)
    process.wait()
    path = str(root / "done")
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, str(root), path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as waiting:
        assert "Waiting for them to end" in waiting.stdout.readline()
        assert not os.path.exists(path)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert waiting.wait(60) == 0
    assert os.path.exists(path)
    assert json.loads((root / "quick" / stages.DONE).read_text())["seconds"] > 0


def _children(pid):
    return pathlib.Path(f"/proc/{pid}/task").glob("*/children")
