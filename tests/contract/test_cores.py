"""Tests of contract/cores.py."""

import os

import joblib
import pytest

from contract import cores


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 6),
        ({"cpu.max": "max 100000\n"}, 6),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "900000 100000\n"}, 6),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, 6),
        ({"cpu.cfs_quota_us": "300000\n", "cpu.cfs_period_us": "100000\n"}, 3),
    ],
)
def test_cores_are_within_affinity_and_quota(files, expected, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    v1 = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    paths = [[tmp_path / name for name in names] for names in (("cpu.max",), v1)]
    monkeypatch.setattr(cores, "_QUOTAS", paths)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert cores.usable() == expected


def test_cores_of_this_machine_are_those_of_joblib(monkeypatch):
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    assert cores.usable() == joblib.cpu_count()
