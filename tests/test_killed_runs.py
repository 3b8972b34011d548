"""A training process is killed again and again, and nothing of its work is lost."""

import random
import signal
import time

import pytest

from tests import forked, whole_runs

# A run on masks that are drawn while it trains, with dropout: all that is random.
NAME = "masking"
OTHER = "left_to_right"
# Whose states go from batch to batch.
STREAMS = "streams"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = forked.Server(tmp_path_factory.mktemp("logs"))
    yield server
    server.close()


@pytest.mark.slow  # every day test_run.py and some scripts go on, to the same bits
@pytest.mark.parametrize(
    ("name", "moments", "steps"),
    # So many steps that it does not end before it is killed for the last time, and 6
    # more than a multiple of 7.
    [
        (NAME, 1, 104),
        (NAME, 10, 1000),
        (OTHER, 4, 1000),
        (STREAMS, 6, 1000),
    ],
)
def test_killed_run_ends_as_the_uninterrupted_one(
    server, tmp_path, name, moments, steps
):
    data = whole_runs.write(tmp_path / "data")
    flags = whole_runs.arguments(name, data, steps=steps, evaluates=False)

    def start(directory, *more):
        output = f"--output_dir={tmp_path / directory}"
        return server.start(whole_runs.SCRIPTS[name], *flags, output, *more)

    whole = start("whole")
    draw = random.Random(5)
    often = ("--save_checkpoints_steps=7", "--log_steps=3")
    ends = []
    for number in range(moments):
        job = start("killed", *often)
        # Most moments lie in training, some before it.
        job.wait_for("training: step" if number % 4 == 3 else "first ")
        time.sleep(draw.uniform(0.0, 0.3))
        job.kill(signal.SIGTERM if number % 2 else signal.SIGKILL)
        ends.append(job.code())
        assert ends[-1] in (-signal.SIGKILL, -signal.SIGTERM, 143), job.text()
    assert ends.count(-signal.SIGKILL) == (moments + 1) // 2
    assert (143 in ends) == (moments > 1)
    last = start("killed", *often)
    assert last.code() == 0, last.text()
    assert whole.code() == 0, whole.text()
    found, expected = (
        whole_runs.variables(tmp_path / directory, steps)
        for directory in ("killed", "whole")
    )
    whole_runs.assert_equal(found, expected)
    before = whole_runs.variables(tmp_path / "killed", steps - 6)  # a multiple of 7
    assert whole_runs.largest_difference(before, expected) > 1e-4
    assert not list((tmp_path / "killed").glob("*.incomplete*"))
