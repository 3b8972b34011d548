"""Where work runs: processes of this machine, or pipelines of Apache Beam."""

import concurrent.futures
import contextlib
import functools
import io
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from contract import atomic_files, errors


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
def start_workers(
    count: int, warm_up: Callable[[], Any] = int
) -> Iterator[concurrent.futures.Executor]:
    """Starts workers; enter it before TensorFlow does anything in this process.

    On Linux they are forked: a process whose TensorFlow has threads cannot be. A single
    worker works in this process. Others call `warm_up` first, whose exception is
    ignored: the work will raise it again. A killed worker raises OSError, and after an
    exception work that has not begun is dropped.
    """
    if count == 1:
        yield InThisProcess()
        return
    method = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    executor = concurrent.futures.ProcessPoolExecutor(
        count, context, _begin, (os.getpid(), warm_up)
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
    with contextlib.suppress(Exception):
        warm_up()


def _end_with(parent: int) -> None:
    """Ends this process when its parent is gone, even if the parent was killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def open_beam(options: Sequence[str]) -> Callable[..., None]:
    """Returns each(function, job, items), which calls function(job, item) for items.

    The runner, as in --runner=DataflowRunner, chooses the process of each call; all
    arguments are pickled. With `sums`, which joins any of its results and those of the
    function to one, the pipeline writes the result of all to the JSON file `path`.
    """
    try:
        import apache_beam as beam
        from apache_beam.options import pipeline_options
    except ImportError as error:
        raise errors.InputError(
            "--engine=beam needs a package: pip install apache-beam, or its extra for "
            "the runner, such as apache-beam[gcp]"
        ) from error
    settings = pipeline_options.PipelineOptions
    try:  # argparse prints its usage, and ends the process
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            beam.Pipeline(options=settings(list(options)))
    except (ValueError, ImportError, AttributeError, SystemExit) as error:
        is_usage = isinstance(error, SystemExit)
        reason = printed.getvalue().split("error: ")[-1] if is_usage else str(error)
        reason = " ".join(reason.split())
        raise errors.InputError(
            f"--beam_option={' '.join(options)}: {reason:.300}; correct it"
        ) from error

    def each(function, job, items, *, sums=None, path=None):
        if not items:
            return
        with beam.Pipeline(options=settings(list(options))) as pipeline:
            begun = pipeline | beam.Create(list(items)) | beam.Reshuffle()
            done = begun | function.__name__ >> beam.Map(
                functools.partial(function, job)
            )
            if sums:
                write = functools.partial(atomic_files.write_json, path, shared=True)
                _ = done | beam.CombineGlobally(sums) | "totals" >> beam.Map(write)

    return each


@contextlib.contextmanager
def failures_explained(place: str) -> Iterator[None]:
    """Adds to errors about files, and to Ctrl-C, how to go on."""
    remedy = f"what is done stays in {place}: run the same command again to go on"
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        reason = getattr(error, "message", str(error))
        raise OSError(f"{reason}; {remedy}") from error
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"({remedy})") from error
