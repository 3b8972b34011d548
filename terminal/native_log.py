"""Keeps from the reader what TensorFlow writes to standard error whenever it starts.

Its C++ code writes to file descriptor 2, whatever sys.stderr is, and begins before it
reads TF_CPP_MIN_LOG_LEVEL. While the filter runs, this descriptor is a pipe to a
process, this file, that drops notes and warnings of TensorFlow's logger and passes on
all other lines at once. A process and not a thread, because it has to read on while an
import holds the interpreter's lock, and after one has crashed.
"""

import atexit
import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
from typing import Any, NamedTuple

# "I0000 00:00:1795352011.789523   27198 port.cc:153] text", and of older code
# "2025-02-09 09:37:32.334610: W external/local_xla/.../py_utils.cc:38] text".
_NOTE = re.compile(rb"[IW]\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: [IW] ")
_KNOWN = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written"
    rb"|INFO: Created TensorFlow Lite XNNPACK delegate for CPU\."
    rb"|To enable the following instructions: "  # continues a note
    rb"|E.* util\.cc:\d+\] oneDNN supports DT_"
    rb"|\d{4}-.*: E .*\] Unable to register cu"
)
# These say that there is no GPU to be used. Where there is one, they say why it is not.
_WITHOUT_GPU = re.compile(
    rb".*\] Could not find cuda drivers on your machine"
    rb"|.*\] Cannot dlopen some GPU libraries"
    rb"|.*\] Could not load dynamic library 'lib"
    rb"|E.*/?cuda_\w+\.cc:\d+\] failed call to cuInit: "
    rb"|.*cuda_diagnostics\.cc:\d+\] "
    rb"|Skipping registering GPU devices\.\.\."
)
# What the driver of an NVIDIA GPU puts there; dxg is that of Windows' Linux.
_GPU_FILES = ("/dev/nvidia*", "/dev/dxg", "/proc/driver/nvidia")
_PATIENCE_SECONDS = 1.0  # to wait for the filter's last line


class _Filter(NamedTuple):
    owner: int  # the process that began it, not one that was forked from it
    process: Any
    terminal: int  # descriptor of what standard error was
    before: Any  # what sys.stderr was
    meanwhile: Any  # and is: the terminal itself


_running: _Filter | None = None


def begin(*, in_notebook: bool = False) -> None:
    """Begins to filter what is written to file descriptor 2.

    sys.stderr writes past the filter, and is a terminal if it was one. Another stream,
    as of a test, leaves all as it is, but `in_notebook`, where it shows the descriptor.
    """
    global _running
    is_standard = _is_standard(sys.stderr)
    if _running or sys.platform == "win32" or not (is_standard or in_notebook):
        return
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2") < "2":  # somebody wants to see them
        return
    sys.stderr.flush()
    terminal = os.dup(2)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, *(["--has_gpu"] if has_gpu() else [])],
        stdin=subprocess.PIPE,
        stdout=terminal,
        start_new_session=True,  # Ctrl-C is not for it; it has the last lines to pass
    )
    assert process.stdin is not None
    os.dup2(process.stdin.fileno(), 2)
    process.stdin.close()
    before = sys.stderr
    if is_standard:
        sys.stderr = _opened_like(before, terminal)
    _running = _Filter(os.getpid(), process, terminal, before, sys.stderr)
    atexit.register(end)


def end() -> None:
    """Ends the filter, if it runs, once all that was written is passed on.

    Processes that were forked meanwhile stay filtered.
    """
    global _running
    ending, _running = _running, None
    if ending is None or ending.owner != os.getpid():
        return
    os.dup2(ending.terminal, 2)  # closes the pipe
    if sys.stderr is ending.meanwhile:
        sys.stderr = ending.before
    with contextlib.suppress(subprocess.TimeoutExpired):
        ending.process.wait(_PATIENCE_SECONDS)


def has_gpu() -> bool:
    """Whether there is an NVIDIA GPU or its driver, and CUDA is not told to hide it."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return any(map(glob.glob, _GPU_FILES)) or shutil.which("nvidia-smi") is not None


def is_known(line: bytes, *, hides_gpu: bool) -> bool:
    """Whether a line is not for the reader; with `hides_gpu`, also if it is of CUDA."""
    if _WITHOUT_GPU.match(line):
        return hides_gpu
    return bool(_NOTE.match(line) or _KNOWN.match(line))


def _is_standard(stream: Any) -> bool:
    try:
        return stream.fileno() == 2
    except (AttributeError, OSError, ValueError):  # none, of a test, or closed
        return False


def _opened_like(stream: Any, descriptor: int) -> Any:
    return open(
        *(descriptor, "w"),
        buffering=1,  # a line at a time, as standard error always is
        encoding=stream.encoding,
        errors=stream.errors,
        closefd=False,
    )


def _filter() -> None:
    hides_gpu = "--has_gpu" not in sys.argv
    for line in sys.stdin.buffer:
        if not is_known(line, hides_gpu=hides_gpu):
            with contextlib.suppress(OSError):  # nobody reads there any more
                os.write(1, line)


if __name__ == "__main__":
    _filter()
