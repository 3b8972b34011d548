"""Worker processes for scripts that read a corpus."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


class InThisProcess(concurrent.futures.Executor):
    """An executor for one worker: it does the work at once."""

    def submit(self, function: Callable, /, *args: Any, **kwargs: Any):
        future: concurrent.futures.Future = concurrent.futures.Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextlib.contextmanager
def start(
    count: int, warm_up: Callable[[], Any] = int
) -> Iterator[concurrent.futures.Executor]:
    """Starts workers; enter it before TensorFlow does anything in this process.

    On Linux they are forked, which takes no time and shares the memory of the
    libraries; a process whose TensorFlow has threads already cannot be forked. A single
    worker works in this process. Others call `warm_up` first, while this process goes
    on; its ValueError is ignored, since the work will raise it again. After an
    exception, work that has not begun is dropped.

    Raises:
        OSError: a worker was killed.
    """
    if count == 1:
        yield InThisProcess()
        return
    method = "fork" if sys.platform == "linux" else "spawn"
    executor = concurrent.futures.ProcessPoolExecutor(
        count,
        multiprocessing.get_context(method),
        _begin,
        (os.getpid(), warm_up),
    )
    try:
        executor.submit(os.getpid)  # forks all of them now
        yield executor
    except concurrent.futures.process.BrokenProcessPool as error:
        raise OSError(
            f"one of {count} workers was killed, most likely for want of memory; run "
            "the same command again, with fewer --num_workers"
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _begin(parent: int, warm_up: Callable[[], Any]) -> None:
    """Prepares a worker: it uses one thread, and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with contextlib.suppress(ValueError):
        warm_up()


def _end_with(parent: int) -> None:
    """Ends this process when its parent is gone, even if the parent was killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
