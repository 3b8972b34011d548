"""Settings that TensorFlow reads when it is imported; a user's own stand.

Needs nothing that takes time to import, since it must come first.
"""

import os
import platform

# Less than this of TensorFlow's own log is for the reader of a run: errors.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}
_ALL = {"TF_CPP_MIN_LOG_LEVEL": "0"}
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
_CPU_INFO = "/proc/cpuinfo"


def prepare(
    cpu_info: str = _CPU_INFO, *, is_quiet: bool = True, serves: bool = False
) -> dict[str, str]:
    """Sets what pays on this processor and is not set; returns what holds, by name.

    `serves` says that no weight will change in this process after its first use.
    """
    wanted = (_QUIET if is_quiet else _ALL) | _ALLOCATOR
    if platform.machine() in ("x86_64", "AMD64") and "avx2" in _features(cpu_info):
        wanted |= _KERNELS | (_PACKED_WEIGHTS if serves else {})
    return {name: os.environ.setdefault(name, value) for name, value in wanted.items()}


def _features(cpu_info: str) -> set[str]:
    """Instruction sets of the processor; nothing where Linux does not say."""
    try:
        with open(cpu_info, encoding="utf-8") as file:
            lines = [line for line in file if line.startswith("flags")]
    except OSError:
        return set()
    return set(lines[0].split()) if lines else set()
