"""Tests of cli/environment.py."""

import os
import pathlib
import platform
import shlex
import subprocess
import sys

import pytest

from cli import environment
from terminal import native_log

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
    level = "2" if native_log.has_gpu() else "3"
    expected = {"TF_CPP_MIN_LOG_LEVEL": level, "TF_CPU_ALLOCATOR_USE_BFC": "1"}
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


@pytest.mark.slow
def test_program_imports_what_it_uses():
    code = """if True:
      import gc, sys
      from cli import environment
      environment.import_tensorflow()
      assert gc.isenabled() and gc.get_freeze_count() > 10**5
      import run_classifier
      late = {"IPython", "matplotlib", "scipy", "sklearn", "tensorflow_text"}
      print(sorted(late & set(sys.modules)))
      import scipy.stats"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def run_closed(closed, *command):
    """Runs Python as a shell does whose redirection closes standard streams."""
    line = f"exec {shlex.join([sys.executable, *command])} {closed}"
    return subprocess.run(["bash", "-c", line], capture_output=True, cwd=ROOT)


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_take_lines_and_give_no_descriptor_to_a_file(closed, tmp_path):
    code = f"""if True:
      import os, subprocess, sys
      from cli import environment
      environment.open_closed_streams()
      from terminal import progress
      with open({str(tmp_path / "data")!r}, "w") as file:
        assert file.fileno() > 2, file.fileno()
        print("a line"), progress.print_line("a line")
        list(progress.track("ab", 2, "work"))
        child = [sys.executable, "-c", "import sys; assert sys.stdin and sys.stderr"]
        subprocess.run(child, check=True)
      raise SystemExit(7)"""
    done = run_closed(closed, "-c", code)
    assert done.returncode == 7 and not (tmp_path / "data").read_text()


@pytest.mark.slow
def test_program_works_with_closed_streams(tmp_path):
    text, vocabulary = tmp_path / "text.txt", tmp_path / "vocab.txt"
    text.write_text("the sea is green\n" * 9)
    flags = [f"--input_file={text}", f"--output_file={vocabulary}", "--vocab_size=130"]
    done = run_closed("<&- >&- 2>&-", "build_vocab.py", *flags)
    assert done.returncode == 0 and "[MASK]\n" in vocabulary.read_text()


def test_closed_standard_input_is_refused_where_it_is_read(tmp_path):
    for program in (
        ["run_predictor.py", f"--export_dir={tmp_path}", "--input_file=-"],
        ["run_generation.py", f"--pretrained={tmp_path}", "--prompt_file=-"],
    ):
        done = run_closed("<&-", *program)
        assert done.returncode == 2, done
        assert done.stderr.decode().startswith("error: -: standard input is closed")
        assert len(done.stderr.splitlines()) == 1
