"""Tests of cli/environment.py."""

import os
import platform

import pytest

from cli import environment

AVX2 = "processor : 0\nflags\t\t: fpu sse2 avx avx2 fma\nbugs\t: none\n"
OLDER = AVX2.replace("avx2", "f16c")
KERNELS = "TF_ENABLE_ONEDNN_OPTS"


@pytest.fixture
def without_settings(monkeypatch):
    monkeypatch.setattr(os, "environ", {"PATH": "/bin"})


def prepared(tmp_path, cpu_info):
    path = tmp_path / "cpuinfo"
    path.write_text(cpu_info)
    return environment.prepare(str(path))


@pytest.mark.parametrize(
    ("machine", "cpu_info", "has_kernels"),
    [
        ("x86_64", AVX2, True),
        ("x86_64", OLDER, False),
        ("x86_64", "", False),
        ("aarch64", AVX2, False),
    ],
)
def test_kernels_are_chosen_by_the_processor(
    tmp_path, monkeypatch, without_settings, machine, cpu_info, has_kernels
):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    expected = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_CPU_ALLOCATOR_USE_BFC": "1"}
    expected |= {KERNELS: "1"} if has_kernels else {}
    assert prepared(tmp_path, cpu_info) == expected
    assert {n: v for n, v in os.environ.items() if n.startswith("TF_")} == expected


def test_verbose_program_on_an_unknown_processor(tmp_path, without_settings):
    settings = environment.prepare(str(tmp_path / "absent"), is_quiet=False)
    assert settings["TF_CPP_MIN_LOG_LEVEL"] == "0" and KERNELS not in settings


def test_weights_are_packed_where_none_changes(tmp_path, monkeypatch, without_settings):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    packed = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
    for cpu_info, serves, expected in (
        (AVX2, False, None),
        (OLDER, True, None),
        (AVX2, True, "1"),
    ):
        path = tmp_path / "cpuinfo"
        path.write_text(cpu_info)
        actual = environment.prepare(str(path), serves=serves)
        assert actual.get(packed) == os.environ.get(packed) == expected


def test_settings_of_the_user_stand(tmp_path, monkeypatch, without_settings):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    os.environ[KERNELS] = "0"
    assert prepared(tmp_path, AVX2)[KERNELS] == "0" == os.environ[KERNELS]


def test_import_keeps_errors_alone(capfd):
    lines = (
        "WARNING: All log messages before absl::InitializeLog() is called are written",
        "I0000 00:00:1795488862.243307   13558 port.cc:153] oneDNN custom operations",
        "W0000 00:00:1795488862.243307   13558 a.cc:1] slow",
        "E0000 00:00:1795488862.243307   13558 b.cc:1] broken",
        "Illegal instruction",
    )
    with pytest.raises(ImportError), environment.quiet_import():
        os.write(2, "".join(f"{line}\n" for line in lines).encode())
        raise ImportError
    os.write(2, b"after\n")
    assert capfd.readouterr().err.splitlines() == [*lines[3:], "after"]
