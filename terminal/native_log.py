"""Keeps from the reader what TensorFlow writes to standard error whenever it starts.

Its C++ code writes to file descriptor 2, whatever sys.stderr is. While the filter runs,
this descriptor is a pipe to a process that drops the known lines and passes on all
others at once, unchanged and in order. A process and not a thread, because it has to
read on while an import holds the interpreter's lock, and after one has crashed.

Needs nothing that takes time to import, since it must come first.
"""

import atexit
import contextlib
import glob
import os
import re
import select
import shutil
import signal
import sys
from typing import Any, NamedTuple, NoReturn

# "E0000 00:00:1795352011.789523   27198 cuda_platform.cc:52] text", and of older code
# "2025-02-09 09:37:32.334610: E external/local_xla/.../cuda_dnn.cc:9261] text". F ends
# the process, so it is never among them.
_LOGGED = re.compile(
    rb"(?:[IWE]\d{4} [\d:.]+ +\d+|\d{4}-\d\d-\d\d [\d:.]+: [IWE]) "
    rb"(?:\S*/)?([\w.]+):\d+\] (.*)"
)
# Source file to how its lines begin; TensorFlow 2.20 and 2.21, with GPU and without.
_KNOWN: dict[bytes, tuple[bytes, ...]] = {
    b"port.cc": (b"oneDNN custom operations are on.",),
    b"util.cc": (b"oneDNN custom operations are on.", b"oneDNN supports DT_"),
    b"cpu_feature_guard.cc": (b"This TensorFlow binary is optimized",),
    b"cuda_dnn.cc": (b"Unable to register cuDNN factory", b"Loaded cuDNN version"),
    b"cuda_fft.cc": (b"Unable to register cuFFT factory",),
    b"cuda_blas.cc": (b"Unable to register cuBLAS factory",),
    b"computation_placer.cc": (b"computation placer already registered.",),
    b"py_utils.cc": (b"TF-TRT Warning: Could not find TensorRT",),
    b"cuda_executor.cc": (b"successful NUMA node read from SysFS",),
    b"gpu_device.cc": (b"Created device /",),
    b"service.cc": (b"XLA service 0x", b"  StreamExecutor "),
    b"device_compiler.h": (b"Compiled cluster using XLA!",),
}
_KNOWN_BARE: tuple[bytes, ...] = (
    b"WARNING: All log messages before absl::InitializeLog() is called are written",
    b"INFO: Created TensorFlow Lite XNNPACK delegate for CPU.",
    b"To enable the following instructions: ",  # continues a line of cpu_feature_guard
)
# These say that there is no GPU to be used. Where there is one, they say why it is not.
_KNOWN_WITHOUT_GPU: dict[bytes, tuple[bytes, ...]] = {
    b"cudart_stub.cc": (b"Could not find cuda drivers on your machine",),
    b"cuda_platform.cc": (b"failed call to cuInit: ",),
    b"cuda_driver.cc": (b"failed call to cuInit: ",),
    b"cuda_diagnostics.cc": (b"",),
    b"dso_loader.cc": (b"Could not load dynamic library 'lib",),
    b"gpu_device.cc": (b"Cannot dlopen some GPU libraries.",),
}
_KNOWN_BARE_WITHOUT_GPU: tuple[bytes, ...] = (b"Skipping registering GPU devices...",)
# What the driver of an NVIDIA GPU puts there; dxg is that of Windows' Linux.
_GPU_FILES = ("/dev/nvidia*", "/dev/dxg", "/proc/driver/nvidia")
_BLOCK_BYTES = 1 << 16
_LATE_SECONDS = 0.2  # after which the beginning of a line is passed on
_PATIENCE_SECONDS = 1.0  # to wait for the filter's last line
_MARK = b"\0terminal.native_log ends here\0"


class _Filter(NamedTuple):
    owner: int  # the process that began it, not one that was forked from it
    pid: int  # of the process that filters
    terminal: int  # descriptor of what standard error was
    finished: int  # its end of file says that all before the mark is passed on
    before: Any  # what sys.stderr was
    meanwhile: Any  # and is: the terminal itself


_running: _Filter | None = None


def begin() -> None:
    """Begins to filter what is written to file descriptor 2.

    sys.stderr writes past the filter, and is a terminal if it was one.
    """
    global _running
    if _running or sys.platform == "win32" or not _is_standard(sys.stderr):
        return
    hides_gpu = not has_gpu()
    sys.stderr.flush()
    terminal = os.dup(2)
    source, sink = os.pipe()
    finished, finishing = os.pipe()
    pid = os.fork()
    if pid == 0:
        for descriptor in (sink, finished):
            os.close(descriptor)
        _filter(source, terminal, finishing, hides_gpu)
    os.dup2(sink, 2)
    for descriptor in (source, sink, finishing):
        os.close(descriptor)
    before, sys.stderr = sys.stderr, _opened_like(sys.stderr, terminal)
    _running = _Filter(os.getpid(), pid, terminal, finished, before, sys.stderr)
    atexit.register(end)


def end() -> None:
    """Ends the filter, if it runs, once all that was written is passed on.

    Processes that were forked meanwhile stay filtered.
    """
    global _running
    ending, _running = _running, None
    if ending is None or ending.owner != os.getpid():
        return
    with contextlib.suppress(OSError):  # somebody has killed it
        os.write(2, _MARK + b"\n")
    os.dup2(ending.terminal, 2)
    if sys.stderr is ending.meanwhile:
        sys.stderr = ending.before
    select.select([ending.finished], [], [], _PATIENCE_SECONDS)
    os.close(ending.finished)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(ending.pid, os.WNOHANG)


def has_gpu() -> bool:
    """Whether there is an NVIDIA GPU or its driver, and CUDA is not told to hide it."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return any(map(glob.glob, _GPU_FILES)) or shutil.which("nvidia-smi") is not None


def is_known(line: bytes, *, hides_gpu: bool) -> bool:
    """Whether a line is not for the reader; with `hides_gpu`, also if it is of CUDA."""
    tables = [(_KNOWN, _KNOWN_BARE)]
    if hides_gpu:
        tables.append((_KNOWN_WITHOUT_GPU, _KNOWN_BARE_WITHOUT_GPU))
    logged = _LOGGED.match(line)
    if not logged:
        return any(line.startswith(bare) for _, bare in tables)
    file, text = logged.groups()
    return any(text.startswith(by_file.get(file, ())) for by_file, _ in tables)


def _is_standard(stream: Any) -> bool:
    try:
        return stream.fileno() == 2
    except (AttributeError, OSError, ValueError):  # none, of a test, or closed
        return False


def _opened_like(stream: Any, descriptor: int) -> Any:
    return open(
        descriptor,
        "w",
        buffering=1,  # a line at a time, as standard error always is
        encoding=stream.encoding,
        errors=stream.errors,
        closefd=False,
    )


def _filter(source: int, terminal: int, finishing: int, hides_gpu: bool) -> NoReturn:
    """The process that filters; ends when no process has the pipe any more."""
    try:
        # Those of a terminal go to all processes; this one has the last lines to pass.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):  # or who reads our output waits for us
            os.dup2(nothing, descriptor)
        _pass_on(source, terminal, finishing, hides_gpu)
    finally:
        os._exit(0)


def _pass_on(source: int, terminal: int, finishing: int, hides_gpu: bool) -> None:
    rest = b""
    is_begun = False  # whether the beginning of the rest's line is passed on
    while True:
        if rest and not select.select([source], [], [], _LATE_SECONDS)[0]:
            _write(terminal, rest)
            rest, is_begun = b"", True
        block = os.read(source, _BLOCK_BYTES)
        if not block:
            break
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            line, mark, _ = line.partition(_MARK)
            if is_begun or not is_known(line, hides_gpu=hides_gpu):
                _write(terminal, line if mark else line + b"\n")
            if mark:
                os.close(finishing)
            is_begun = False
    if is_begun or not is_known(rest, hides_gpu=hides_gpu):
        _write(terminal, rest)


def _write(terminal: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody reads there any more
        while data:
            select.select([], [terminal], [])
            data = data[os.write(terminal, data) :]
