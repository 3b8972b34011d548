"""Hides lines that TensorFlow's C++ code logs before it reads TF_CPP_MIN_LOG_LEVEL."""

import contextlib
import glob
import os
import re
import shutil
import sys
from collections.abc import Iterator

# "I0000 00:00:1795352011.789523   27198 port.cc:153] text"; errors have an E.
_BELOW_ERRORS = re.compile(
    rb"WARNING: All log messages before absl::Init|[IW]\d{4} "
    rb"|To enable the following instructions: |INFO: Created TensorFlow Lite XNNPACK"
)
# The driver of an NVIDIA GPU puts these there; dxg is that of Windows' Linux.
_GPU_FILES = ("/dev/nvidia*", "/dev/dxg", "/proc/driver/nvidia")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drops what is logged below errors in its block, such as an import.

    C++ writes to file descriptor 2, which a notebook shows, whatever sys.stderr is.
    All other lines come at the end of the block.
    """
    import tempfile  # takes time, which --help does not have

    try:
        terminal = os.dup(2)
    except OSError:  # there is none
        yield
        return
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            written.seek(0)
            others = [line for line in written if not _BELOW_ERRORS.match(line)]
            os.write(terminal, b"".join(others))
            os.close(terminal)


def has_gpu() -> bool:
    """Whether there is an NVIDIA GPU or its driver, and CUDA may use it."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    devices = map(glob.glob, _GPU_FILES)  # noqa: TID251 patterns of its own
    return any(devices) or shutil.which("nvidia-smi") is not None
