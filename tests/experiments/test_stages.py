"""Programs that are run once each, side by side, and go on where they were killed."""

import os

import pytest

from experiments import stages

# Adds a line to a file; ends with the exit code it is given.
PROGRAM = """
import sys, time
path, text, code, seconds = sys.argv[1:]
time.sleep(float(seconds))
open(path, "a").write(text + "\\n")
print("said " + text)
sys.exit(int(code))
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
    assert (
        "runs: 3 runs, 2 of them already done\n  3/3  c: 0 s" in capsys.readouterr().out
    )
    other = stage(root, "a")._replace(
        command=("program.py", f"{root}/out", "d", "0", "0")
    )
    assert stages.seconds_of(stage(root, "a")) > 0
    assert stages.seconds_of(other) == 0
    run(root, [other])
    assert (root / "out").read_text().split()[-1] == "d"


def test_what_failed_is_shown_with_its_command_and_nothing_begins_after_it(root):
    (root / "bad").mkdir()
    (root / "bad" / stages.LOG).write_text("of an earlier time\n")
    with pytest.raises(stages.Failed) as raised:
        run(root, [stage(root, "bad", 3), stage(root, "later")], alone=True)
    message = str(raised.value)
    assert message.startswith("bad: ended with exit code 3. Last lines of ")
    assert "    said bad\nCommand: python program.py" in message
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
