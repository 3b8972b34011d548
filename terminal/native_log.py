"""Hides lines that TensorFlow's C++ code logs before it reads TF_CPP_MIN_LOG_LEVEL.

It writes them to file descriptor 2, some of them as errors. While the filter runs, the
descriptor is a pipe to a process, this file, that drops these and passes on all others
at once. A thread could not read while an import holds the interpreter's lock, nor after
a crash.
"""

import atexit
import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
from typing import Any

# Lines of TensorFlow 2.20 and later, and of LiteRT. Notes and warnings begin as in
# "I0000 00:00:1795352011.789523   27198 port.cc:153] text".
_DROPPED = re.compile(
    rb"[IW]\d{4} [\d:.]+ +\d+ |WARNING: All log messages before absl::InitializeLog"
    rb"|To enable the following instructions: |E.* util\.cc:\d+\] oneDNN supports DT_"
    rb"|INFO: Created TensorFlow Lite XNNPACK delegate for CPU\."
)
# Where there is a GPU, these name the reason why it is not used.
_ABOUT_GPU = re.compile(
    rb"[IW].*\] (Could not find cuda drivers|Cannot dlopen some GPU libraries)"
    rb"|E.*cuda_\w+\.cc:\d+\] failed call to cuInit: |Skipping registering GPU devices"
)
# The driver of an NVIDIA GPU puts these there; dxg is that of Windows' Linux.
_GPU_FILES = ("/dev/nvidia*", "/dev/dxg", "/proc/driver/nvidia")
_PATIENCE_SECONDS = 1.0  # to wait for the filter's last line
# While the filter runs: the id of the process that began it, the filter's process, and
# sys.stderr, which the filter does not read.
_running: tuple[int, Any, Any] | None = None


def begin() -> None:
    """Begins to filter, unless sys.stderr is no descriptor 2, as in a test.

    sys.stderr writes past the filter, and is a terminal if it was one.
    """
    global _running
    if _running or sys.platform == "win32":
        return
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2") < "2":  # the user wants to see all
        return
    try:
        if sys.stderr.fileno() != 2:
            return
    except (AttributeError, OSError, ValueError):  # none, of a test, or closed
        return
    sys.stderr.flush()
    terminal = os.dup(2)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, *(["--has_gpu"] if has_gpu() else [])],
        stdin=subprocess.PIPE,
        stdout=terminal,
        start_new_session=True,  # Ctrl-C must not end it before the last lines
    )
    assert process.stdin is not None
    os.dup2(process.stdin.fileno(), 2)
    process.stdin.close()
    encoding, on_error = sys.stderr.encoding, sys.stderr.errors
    past = os.fdopen(terminal, "w", 1, encoding, on_error, closefd=False)
    _running = os.getpid(), process, past
    sys.stderr = past
    atexit.register(end)


def end() -> None:
    """Ends the filter, if it runs, once all that was written is passed on.

    sys.stderr stays what `begin` made it: bars that are open write to that. Processes
    that were forked meanwhile stay filtered.
    """
    global _running
    running, _running = _running, None
    if running is None or running[0] != os.getpid():
        return
    _, process, past = running
    os.dup2(past.fileno(), 2)  # closes the pipe
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE_SECONDS)


def has_gpu() -> bool:
    """Whether there is an NVIDIA GPU or its driver, and CUDA may use it."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    devices = map(glob.glob, _GPU_FILES)  # noqa: TID251 patterns of its own
    return any(devices) or shutil.which("nvidia-smi") is not None


def is_dropped(line: bytes, *, has_gpu: bool) -> bool:
    """Whether a line is not for the reader."""
    if _ABOUT_GPU.match(line):
        return not has_gpu
    return _DROPPED.match(line) is not None


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        if not is_dropped(line, has_gpu="--has_gpu" in sys.argv):
            with contextlib.suppress(OSError):  # nobody reads any more
                os.write(1, line)
