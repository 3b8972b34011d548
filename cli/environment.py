"""Settings that TensorFlow reads when it is imported; a user's own stand.

Needs nothing that takes time to import, since it must come first.
"""

import atexit
import contextlib
import gc
import importlib
import os
import platform
import sys
import warnings
from collections.abc import Iterator

from contract import errors
from terminal import native_log
from training.distribution import processor

# Less than this of TensorFlow's own log is for the reader of a run: errors.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
_ALL = {"TF_CPP_MIN_LOG_LEVEL": "0"}
# Where there is no GPU, its C++ code logs that as an error.
_SILENT = {"TF_CPP_MIN_LOG_LEVEL": "3"}
# Reuses the memory of tensors. Without it, each one of some megabytes is given back to
# the system and fetched anew, page by page: a few percent of training, a third of
# extracting vectors.
_ALLOCATOR = {"TF_CPU_ALLOCATOR_USE_BFC": "1"}
# TensorFlow takes these kernels by itself only where there is AVX-512; with AVX2 a
# step of training takes about a tenth less time with them.
_KERNELS = {"TF_ENABLE_ONEDNN_OPTS": "1"}
# Keeps weights in the order in which these kernels read them, even those of variables.
# Variables that change afterwards would be ignored: only for a process that serves.
_PACKED_WEIGHTS = {"TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"}

# Keras and TensorFlow import them if they can, which takes up to a second.
_NOT_NEEDED = ("matplotlib", "sklearn", "scipy", "IPython")
_SET_BY_IMPORT: list[str] = []  # of bert_reborn, which a command has as its package


def prepare(
    cpu_info: str = processor.PATH, *, is_quiet: bool = True, serves: bool = False
) -> dict[str, str]:
    """Sets what pays on this processor and is not set; returns what holds, by name.

    `serves` means that no weight will change in this process after its first use.
    """
    while _SET_BY_IMPORT:
        os.environ.pop(_SET_BY_IMPORT.pop(), None)
    wanted = _wanted(cpu_info, is_quiet, serves)
    return {name: os.environ.setdefault(name, value) for name, value in wanted.items()}


def prepare_notebook() -> dict[str, str]:
    """`prepare`, which warns where TensorFlow is imported already."""
    open_closed_streams()
    wanted = _wanted(processor.PATH, is_quiet=True, serves=False)
    _SET_BY_IMPORT[:] = [name for name in wanted if name not in os.environ]
    late = [f"{name}={wanted[name]}" for name in _SET_BY_IMPORT]
    if late and sys.modules.get("tensorflow"):
        warnings.warn(
            f"TensorFlow is imported already, too late for {', '.join(late)}: it is "
            "slower than it could be; restart, and import `bert_reborn` first",
            stacklevel=3,
        )
    return {name: os.environ.setdefault(name, value) for name, value in wanted.items()}


def open_closed_streams() -> None:
    """Opens the null device for each standard stream that is closed, as by `2>&-`.

    Otherwise the next file gets the descriptor, and what libraries write to it.
    sys.stdin stays None, so `command_line.parse` can refuse flags that read it.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(null, True)
            if name != "stdin":
                setattr(sys, name, os.fdopen(null, "w", encoding="utf-8"))


def check_backend() -> None:
    """Raises InputError where Keras computes by another backend than TensorFlow."""
    # Set, so that a keras.json of the user does not choose another.
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if "keras" in sys.modules:  # which has chosen
        backend = sys.modules["keras"].backend.backend()
    if backend != "tensorflow":
        raise errors.InputError(
            f"KERAS_BACKEND={backend}: the networks run on TensorFlow; unset it, or "
            "set it to tensorflow, and start Python anew"
        )


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras, without what they import only if it is there."""
    if "tensorflow" in sys.modules:
        return
    absent = [name for name in _NOT_NEEDED if name not in sys.modules]
    sys.modules |= dict.fromkeys(absent)  # type: ignore[arg-type]
    try:
        with no_collections(), _quiet():
            importlib.import_module("keras")
    finally:
        for name in absent:
            del sys.modules[name]
    gc.freeze()  # later collections, of which tracing has many, pass over its objects


def _quiet() -> contextlib.AbstractContextManager[None]:
    """Nothing is hidden from a user who wants to see all."""
    is_wanted = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2") < "2"
    return contextlib.nullcontext() if is_wanted else native_log.quiet()


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Collects no garbage: of 300,000 objects that an import makes, all stay.

    The last collections of the process would pass over them, too.
    """
    atexit.register(gc.freeze)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _wanted(cpu_info: str, is_quiet: bool, serves: bool) -> dict[str, str]:
    quiet = _QUIET if native_log.has_gpu() else _SILENT
    wanted = (quiet if is_quiet else _ALL) | _ALLOCATOR
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    if is_x86 and "avx2" in processor.instruction_sets(cpu_info):
        wanted |= _KERNELS | (_PACKED_WEIGHTS if serves else {})
    return wanted
