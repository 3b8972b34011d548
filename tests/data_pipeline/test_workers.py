"""Workers: what they return, and how they end."""

import functools
import multiprocessing
import os
import pathlib
import signal
import time

import pytest

from data_pipeline import engines
from tests import forked, killed

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["create_pretraining_data"])


def square(number):
    return number * number, os.getpid()


def fail(word):
    raise ValueError(word)


def end(signal_number):
    os.kill(os.getpid(), signal_number)


def test_one_worker_works_in_this_process():
    with engines.start_workers(1) as executor:
        future = executor.submit(square, 7)
        assert future.done() and future.result() == (49, os.getpid())
        failed = executor.submit(fail, "word")
        with pytest.raises(ValueError, match="word"):
            failed.result()
        assert list(executor.map(len, ["a", "bc"])) == [1, 2]
    with pytest.raises(KeyboardInterrupt):  # is not kept for later
        engines.InThisProcess().submit(signal.raise_signal, signal.SIGINT)


# --- Several workers, in a process that has no threads of TensorFlow.


def warm(directory):
    """What each worker begins with; its exception is for the work to raise again."""
    pathlib.Path(directory, str(os.getpid())).touch()
    raise TypeError("too early")


def work(directory, results):
    with engines.start_workers(2, functools.partial(warm, directory)) as executor:
        squares = list(executor.map(square, range(20), chunksize=1))
        results.put([number for number, _ in squares])
        results.put({pid for _, pid in squares} - {os.getpid()})
        with pytest.raises(ValueError, match="word"):
            executor.submit(fail, "word").result()
        # Ctrl-C goes to all of them; only the parent answers.
        executor.submit(end, signal.SIGINT).result()
        assert executor.submit(square, 3).result()[0] == 9


def lose(directory, results):
    try:
        with engines.start_workers(2) as executor:
            executor.submit(end, signal.SIGKILL).result()
    except OSError as error:
        results.put(str(error))


def run(function, directory):
    """A function in a process of its own; what it has put into `results`."""
    results = SERVER.SimpleQueue()
    process = SERVER.Process(target=function, args=(str(directory), results))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    values = []
    while not results.empty():
        values.append(results.get())
    return values


@pytest.mark.slow
def test_two_workers_begin_with_the_warm_up_and_give_results_in_order(tmp_path):
    numbers, pids = run(work, tmp_path)
    assert numbers == [n * n for n in range(20)]
    assert 1 <= len(pids) <= 2
    assert not any(map(killed.is_running, pids))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_killed_worker_is_explained(tmp_path):
    (text,) = run(lose, tmp_path)
    assert "one of 2 workers was killed" in text and "--num_workers" in text
    assert "run the same command again" in text


def wait_for_ever(directory, results):
    with engines.start_workers(2) as executor:
        executor.submit(time.sleep, 600)
        pathlib.Path(directory, "begun").touch()
        time.sleep(600)


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(tmp_path):
    process = SERVER.Process(target=wait_for_ever, args=(str(tmp_path), None))
    process.start()
    forked.until((tmp_path / "begun").exists)
    pids = killed.children(process.pid)
    assert len(pids) == 2 and all(map(killed.is_running, pids))
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    forked.until(lambda: not any(map(killed.is_running, pids)))
