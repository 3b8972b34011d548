"""Jobs that die and are begun again: how they die, and what must hold afterwards.

There are three ways. At a call in this process (`at_call`): quick, and exact to the
call. By a signal, as a process of its own: `kill` of tests/forked.py. Or without dying,
for a training: as a copy of a run that ended well, without what came later (`cut_off`).
tests/test_killed_jobs.py kills every command that goes on.
"""

import contextlib
import pathlib
import re
import shutil

import pytest

from tests import tiny, whole_runs

# What a training writes after its last step, or anew by every command.
LATER = ("eval*", "export", "test_*", "*predictions.json", "null_odds.json")


class Killed(BaseException):
    """The end of a process. No handler of errors sees that."""


@contextlib.contextmanager
def counted(owner, *names):
    """A list of the arguments of each call of these functions of a module or class."""
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            _replace(patch, owner, name, calls.append, bool)
        yield calls


@contextlib.contextmanager
def dying(owner, *names, number=0, after=False):
    """A block that dies at one of the calls of these functions, if it comes so far.

    Args:
        owner: a module or a class.
        *names: of its functions.
        number: of the call, from 0. A dead process makes no later one either.
        after: whether the work of that call is done.
    """
    left = [number + after]

    def before(_):
        if left[0] <= 0:
            raise Killed
        left[0] -= 1

    def behind(_):
        if after and not left[0]:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            _replace(patch, owner, name, before, behind)
        yield


@contextlib.contextmanager
def at_call(owner, *names, **call):
    """`dying`, and it must come so far."""
    with pytest.raises(Killed), dying(owner, *names, **call):
        yield


def _replace(patch, owner, name, before, after):
    function = getattr(owner, name)

    def call(*arguments, **keywords):
        before(arguments)
        value = function(*arguments, **keywords)
        after(arguments)
        return value

    patch.setattr(owner, name, call)


@contextlib.contextmanager
def kept(paths):
    """Files that the block does not write again."""
    before = {path: path.stat().st_mtime_ns for path in paths}
    yield before
    assert {path: path.stat().st_mtime_ns for path in before} == before


def children(pid):
    """The process ids of the children of a process."""
    with contextlib.suppress(OSError):
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in text.split()]
    return []


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state.rsplit(")", 1)[1].split()[0] != "Z"


def cut_off(whole, directory, step):
    """A copy of a run as its end after `step`, where it saved, would have left it."""
    shutil.copytree(
        whole, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*LATER)
    )
    for number in saved_steps(whole):
        if number > step:
            for file in directory.glob(f"model.ckpt-{number}.*"):
                file.unlink()
    return directory


def saved_steps(directory):
    actual = (
        re.fullmatch(r"model\.ckpt-(\d+)\.index", path.name)
        for path in directory.iterdir()
    )
    return sorted(int(match[1]) for match in actual if match)


def assert_ends_as(whole, directory, step, results, *more):
    """A run that is cut off goes on, by the command of run.json, and ends as the whole.

    Args:
        whole: the directory of an uninterrupted run.
        directory: where the other one goes on.
        step: after which that one ends first.
        results: names of files that hold the same bytes then.
        *more: flags beside those of the command.
    """
    cut_off(whole, directory, step)
    *_, last = later = [n for n in saved_steps(whole) if n > step]
    done = tiny.run_again(whole, f"--output_dir={directory}", *more)
    assert done.code == 0, done.err
    assert f"{directory}/model.ckpt-{step} with its moments (resumed)" in done.out
    assert f"training: step {step} to {last}" in done.out
    for number in later:
        actual, expected = (whole_runs.variables(d, number) for d in (directory, whole))
        whole_runs.assert_equal(actual, expected)
    assert results
    for name in results:
        assert (directory / name).read_bytes() == (whole / name).read_bytes(), name
