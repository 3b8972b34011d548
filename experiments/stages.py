"""Programs that run for hours, one after another or side by side, each once.

A finished stage leaves done.json in its directory and does not run again. A killed one
starts with the same command, and the project's scripts resume it to the bit.
"""

import contextlib
import fcntl
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from contract import atomic_files, file_names, json_files

DONE, LOG, LOCK = "done.json", "log.txt", "lock"
_SHOWN = 15  # lines of the log of a program that failed
_POLL_SECONDS = 0.1
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
    """Locks a directory for one comparison, and for programs that a killed one left.

    Yields a descriptor that programs inherit: the lock is free when the last one ends.
    """
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, LOCK), "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                f"{directory} is in use by another comparison, or by programs of a "
                "killed one; waiting for their end ...",
                flush=True,
            )
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


class Runner:
    """Runs stages, `jobs` at once, each with `threads` cores of the processor.

    Args:
        root: directory of the project's scripts.
        lock: descriptor of `locked`.
    """

    def __init__(self, root: str, jobs: int, threads: int, lock: int) -> None:
        self._root, self._jobs, self._lock = root, jobs, lock
        self._environment = {**os.environ, **dict.fromkeys(_THREADS, str(threads))}

    def run(self, name: str, stages: Sequence[Stage], *, alone: bool = False) -> None:
        """Runs the stages that are not done, in order; with `alone` one at a time.

        Raises:
            Failed: a program failed; those beside it were stopped.
        """
        left = [stage for stage in stages if not seconds_of(stage)]
        count = len(stages) - len(left)
        print(f"{name}: {len(stages)} runs, {count} of them already done")
        running: dict[subprocess.Popen[bytes], tuple[Stage, float, int]] = {}
        try:
            while left or running:
                while left and len(running) < (1 if alone else self._jobs):
                    stage = left.pop(0)
                    program, size = self._start(stage)
                    running[program] = stage, time.monotonic(), size
                time.sleep(_POLL_SECONDS)
                for program in [p for p in running if p.poll() is not None]:
                    stage, begin, size = running.pop(program)
                    _check(program, stage, size)
                    seconds = round(time.monotonic() - begin, 3)
                    _mark_done(stage, seconds)
                    count += 1
                    print(f"  {count}/{len(stages)}  {stage.title}: {seconds:.0f} s")
                    sys.stdout.flush()
        finally:
            for program in running:  # saves and ends
                program.terminate()
            for program in running:
                program.wait()

    def _start(self, stage: Stage) -> tuple[subprocess.Popen[bytes], int]:
        """The running program, and the size of its log before."""
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


def _check(program: subprocess.Popen[bytes], stage: Stage, log_size: int) -> None:
    """Raises Failed, with the end of the log, if a program ended with an error."""
    if not program.returncode:
        return
    log = os.path.join(stage.directory, LOG)
    with open(log, "rb") as file:
        file.seek(log_size)
        lines = file.read().decode(errors="replace").splitlines()[-_SHOWN:]
    shown = "\n".join(f"    {line}" for line in lines)
    raise Failed(
        f"{stage.title}: ended with exit code {program.returncode}. Last lines of "
        f"{log}:\n{shown}\nCommand: python {shlex.join(stage.command)}"
    )


def _mark_done(stage: Stage, seconds: float) -> None:
    record = {"command": list(stage.command), "seconds": seconds}
    atomic_files.write_json(os.path.join(stage.directory, DONE), record)
    if stage.keeps_weights:
        return
    for folder, _, files in os.walk(stage.directory):
        for name in files:
            is_weight = name.startswith(f"{file_names.CHECKPOINT_PREFIX}-")
            if is_weight or name.endswith(file_names.TF_RECORD_ENDING):
                os.remove(os.path.join(folder, name))


def seconds_of(stage: Stage) -> float:
    """How long a stage took; 0 if it is not done or its command has changed."""
    path = os.path.join(stage.directory, DONE)
    if not os.path.exists(path):
        return 0.0
    record = json_files.read_object(path)
    return record["seconds"] if record["command"] == list(stage.command) else 0.0
