"""What a figure was measured on."""

import os
import pathlib
import platform

from benchmarks import sides

# Which decide what kernels a library may take.
INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def describe(cpuinfo: str | None = None) -> dict:
    """Processor, instruction sets, cores and memory in 10^9 bytes.

    `cpuinfo` is the text of /proc/cpuinfo, read here by default. Where there is none,
    the instruction sets are unknown and therefore [].
    """
    path = pathlib.Path("/proc/cpuinfo")
    if cpuinfo is None:
        cpuinfo = path.read_text() if path.exists() else ""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    found = set(fields.get("flags", "").split())
    processor = fields.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in fields:  # a virtual machine may not tell the whole name
        processor += f" (family {fields['cpu family']}, model {fields.get('model')})"
    return {
        "processor": processor,
        "instruction_sets": [name for name in INSTRUCTION_SETS if name in found],
        "cores": sides.cores(),
        "memory_gb": round(_memory() / 1e9, 1),
    }


def _memory() -> int:
    if not hasattr(os, "sysconf"):
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
