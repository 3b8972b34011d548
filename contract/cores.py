"""The number of processor cores that this process may use."""

import math
import os
import pathlib

# CPU time of a container in each period, in microseconds: of cgroup v2, and of v1.
_CPU = "/sys/fs/cgroup/cpu"
_QUOTAS = ((f"{_CPU}.max",), (f"{_CPU}/cpu.cfs_quota_us", f"{_CPU}/cpu.cfs_period_us"))


def usable() -> int:
    """The cores of the affinity of this process, within the quota of its container."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    for paths in _QUOTAS:
        try:
            texts = [pathlib.Path(path).read_text() for path in paths]
        except OSError:
            continue
        quota, period = " ".join(texts).split()
        if quota.isdecimal():  # neither "max" nor -1, which are no limit
            return max(1, min(cores, math.ceil(int(quota) / int(period))))
    return cores
