"""What a figure was measured on."""

import os
import platform

from benchmarks import sides
from training.distribution import processor

# Which decide what kernels a library may take.
INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def describe(cpu_info: str = processor.PATH) -> dict:
    """Processor, instruction sets, cores and memory in 10^9 bytes.

    Where Linux does not say, the instruction sets are unknown and therefore [].
    """
    found = processor.instruction_sets(cpu_info)
    return {
        "processor": processor.name(cpu_info) or platform.machine(),
        "instruction_sets": [name for name in INSTRUCTION_SETS if name in found],
        "cores": sides.cores(),
        "memory_gb": round(_memory() / 1e9, 1),
    }


def _memory() -> int:
    if not hasattr(os, "sysconf"):
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
