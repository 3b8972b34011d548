"""Runs that end early and go on, made of one that ended well.

A process that dies leaves the checkpoints it has saved, and the files from before the
first step. tests/test_many_devices.py kills real ones.
"""

import re
import shutil

from tests import tiny, whole_runs

# What is written after the last step, or anew by every command.
LATER = ("eval*", "export", "test_*", "*predictions.json", "null_odds.json")


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
