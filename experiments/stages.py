"""Programs that run for hours, one after another or side by side, each once.

A finished stage leaves done.json in its directory, and is not run again. A killed one
is started with the same command, and the project's scripts resume it to the bit.
"""

import concurrent.futures
import contextlib
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from contract import atomic_files, file_names, json_files

DONE, LOG, LOCK = "done.json", "log.txt", "lock"
_SHOWN = 15  # lines of the log of a program that failed
# Threads of TensorFlow and of the libraries of products below NumPy.
_THREADS = (
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)


class Stage(NamedTuple):
    """One run of a program."""

    title: str
    directory: str  # of its log and done.json
    command: tuple[str, ...]  # from the root of the project; Python is put before it
    keeps_weights: bool = True  # or its checkpoints go when it is done


class Failed(Exception):
    """A program ended with an error; the message has its last lines."""


@contextlib.contextmanager
def locked(directory: str) -> Iterator[int]:
    """Keeps a directory for one comparison, and for programs that a killed one left.

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

    def run(self, name: str, stages: Sequence[Stage], *, alone: bool = False) -> None:
        """Runs those stages of a part of the comparison that are not done, in order.

        Args:
            alone: one after another.

        Raises:
            Failed: the first that failed, after those beside it have ended.
        """
        left = [stage for stage in stages if not seconds_of(stage)]
        print(f"{name}: {len(stages)} runs, {len(stages) - len(left)} are done")
        running: dict[subprocess.Popen[bytes], concurrent.futures.Future] = {}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            try:
                count = len(stages) - len(left)
                while left or running:
                    while left and len(running) < (1 if alone else self._jobs):
                        stage = left.pop(0)
                        program, size = self._start(stage)
                        running[program] = pool.submit(_finish, program, stage, size)
                    concurrent.futures.wait(
                        running.values(), None, concurrent.futures.FIRST_COMPLETED
                    )
                    for program in [p for p, f in running.items() if f.done()]:
                        stage, seconds = running.pop(program).result()
                        count += 1
                        print(
                            f"  {count}/{len(stages)}  {stage.title}: {seconds:.0f} s",
                            flush=True,
                        )
            except BaseException:
                for program in running:  # saves and ends
                    program.terminate()
                raise

    def _start(self, stage: Stage) -> tuple[subprocess.Popen[bytes], int]:
        """A running program, and the size of its log before."""
        os.makedirs(stage.directory, exist_ok=True)
        with open(os.path.join(stage.directory, LOG), "ab") as log:
            size = log.tell()
            program = subprocess.Popen(
                [sys.executable, *stage.command],
                cwd=self._root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(self._lock,),
            )
            return program, size


def _finish(
    program: subprocess.Popen[bytes], stage: Stage, log_size: int
) -> tuple[Stage, float]:
    """Waits for a program, and writes done.json; returns its seconds."""
    begin = time.monotonic()
    if code := program.wait():
        log = os.path.join(stage.directory, LOG)
        with open(log, "rb") as file:
            file.seek(log_size)
            lines = file.read().decode(errors="replace").splitlines()[-_SHOWN:]
        shown = "\n".join(f"    {line}" for line in lines)
        raise Failed(
            f"{stage.title}: ended with exit code {code}. The end of {log}:\n{shown}\n"
            f"Its command: python {shlex.join(stage.command)}"
        )
    seconds = round(time.monotonic() - begin, 3)
    path = os.path.join(stage.directory, DONE)
    record = {"command": list(stage.command), "seconds": seconds}
    atomic_files.write_json(path, record)
    if not stage.keeps_weights:
        remove_weights(stage.directory)
    return stage, seconds


def seconds_of(stage: Stage) -> float:
    """How long a stage took; 0 where it is not done, or ran another command."""
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
