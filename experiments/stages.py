"""Programs that run for hours, one after another or side by side, each once.

A stage that is done leaves done.json in its directory, and is not run again. One that
was killed is started with the same command, and the project's scripts go on from where
they were, to the bit.
"""

import concurrent.futures
import contextlib
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from contract import atomic_files, file_names, json_files

DONE, LOG, LOCK = "done.json", "log.txt", "lock"
_SHOWN = 15  # lines of a log, where a program failed
# Threads of TensorFlow and of the libraries of products below NumPy.
_THREADS = (
    *("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"),
    "OPENBLAS_NUM_THREADS",
)


class Stage(NamedTuple):
    """One run of a program."""

    title: str
    directory: str  # where its log and done.json go
    command: tuple[str, ...]  # from the root of the project; Python is put before it
    keeps_weights: bool = True  # or its checkpoints go when it is done
    weight: float = 1.0  # how long it takes, beside others: long ones begin first


class Failed(Exception):
    """A program ended with an error; the message has its last lines."""


@contextlib.contextmanager
def locked(directory: str) -> Iterator[int]:
    """Keeps a directory for one comparison, and for what a killed one left running.

    Yields a descriptor that programs inherit: the lock is free when the last one ends.
    """
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, LOCK), "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                f"{directory} is in use: by another comparison, or by programs that "
                "one left when it was killed. Waiting for them to end ...",
                flush=True,
            )
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


class Runner:
    """Runs stages, so many at once, each with its share of the processor's cores.

    Args:
        root: directory of the project's scripts.
        lock: descriptor of `locked`.
    """

    def __init__(self, root: str, jobs: int, threads: int, lock: int) -> None:
        self._root, self._jobs, self._lock = root, jobs, lock
        self._environment = {**os.environ, **dict.fromkeys(_THREADS, str(threads))}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()
        self._stopped = False

    def run(self, name: str, stages: Sequence[Stage], *, alone: bool = False) -> None:
        """Runs those stages of a part of the comparison that are not done.

        Args:
            alone: one after another, in their order.

        Raises:
            Failed: the first that failed, after those beside it have ended.
        """
        left = [stage for stage in stages if not seconds_of(stage)]
        print(f"{name}: {len(stages)} runs, {len(stages) - len(left)} are done")
        if not alone:
            left.sort(key=lambda stage: -stage.weight)
        with concurrent.futures.ThreadPoolExecutor(1 if alone else self._jobs) as pool:
            futures = [pool.submit(self._one, stage) for stage in left]
            try:
                done = concurrent.futures.as_completed(futures)
                for number, future in enumerate(done, start=1):
                    stage, seconds = future.result()
                    count = f"{len(stages) - len(left) + number}/{len(stages)}"
                    print(f"  {count}  {stage.title}: {seconds:.0f} s", flush=True)
            except BaseException:
                self._stop()
                pool.shutdown(cancel_futures=True)
                raise

    def _one(self, stage):
        os.makedirs(stage.directory, exist_ok=True)
        begin = time.monotonic()
        with open(os.path.join(stage.directory, LOG), "ab") as log:
            said_before = log.tell()
            with self._guard:
                if self._stopped:
                    raise Failed(f"{stage.title}: not run")
                program = subprocess.Popen(
                    [sys.executable, *stage.command],
                    cwd=self._root,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(self._lock,),
                )
                self._running.add(program)
            code = program.wait()
            with self._guard:
                self._running.remove(program)
        if code:
            raise Failed(_what_failed(stage, code, said_before))
        seconds = round(time.monotonic() - begin, 3)
        path = os.path.join(stage.directory, DONE)
        record = {"command": list(stage.command), "seconds": seconds}
        atomic_files.write_json(path, record)
        if not stage.keeps_weights:
            remove_weights(stage.directory)
        return stage, seconds

    def _stop(self):
        """Asks what runs to save and to end, and lets nothing begin."""
        with self._guard:
            self._stopped = True
            for program in self._running:
                program.terminate()


def seconds_of(stage: Stage) -> float:
    """How long a stage took; 0 where it is not done, or was done by other words."""
    path = os.path.join(stage.directory, DONE)
    if not os.path.exists(path):
        return 0.0
    record = json_files.read_object(path)
    return record["seconds"] if record["command"] == list(stage.command) else 0.0


def remove_weights(directory: str) -> None:
    """Removes checkpoints and records below a directory; scores and reports stay."""
    for folder, folders, files in os.walk(directory):
        for name in files:
            is_weight = name.startswith(f"{file_names.CHECKPOINT_PREFIX}-")
            if is_weight or name.endswith(file_names.TF_RECORD_ENDING):
                os.remove(os.path.join(folder, name))
        if file_names.FEATURE_CACHE in folders:
            shutil.rmtree(os.path.join(folder, file_names.FEATURE_CACHE))


def _what_failed(stage, code, said_before):
    log = os.path.join(stage.directory, LOG)
    with open(log, "rb") as file:
        file.seek(said_before)
        lines = file.read().decode(errors="replace").splitlines()[-_SHOWN:]
    told = "\n".join(f"    {line}" for line in lines)
    return (
        f"{stage.title}: ended with exit code {code}. The end of {log}:\n{told}\n"
        f"Its command: python {shlex.join(stage.command)}"
    )
