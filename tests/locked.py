"""Another process that holds a file or a directory, for tests of two at once."""

import contextlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
_HOLD = """
import os, sys
from contract import locks
with (locks.directory if os.path.isdir(sys.argv[1]) else locks.held)(*sys.argv[1:]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def by_another(path):
    """Yields the process that holds `path`."""
    command = [sys.executable, "-c", _HOLD, os.fspath(path), "name"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()
