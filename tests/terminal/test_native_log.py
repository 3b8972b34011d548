"""Tests of terminal/native_log.py, on processes that write as TensorFlow does."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from tests import tiny

# Recorded from TensorFlow 2.21 without a GPU, from LiteRT 2.3, and from reports.
OF_EVERY_START = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to "
    "STDERR",
    "I0000 00:00:1795352007.225621   27198 port.cc:153] oneDNN custom operations are "
    "on. You may see slightly different numerical results due to floating-point "
    "round-off errors",
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild "
    "TensorFlow with the appropriate compiler flags.",
    "E0000 00:00:1795352012.109592   27198 util.cc:131] oneDNN supports DT_INT64 only "
    "on platforms with AVX-512. Falling back to the default Eigen-based implementation",
    "INFO: Created TensorFlow Lite XNNPACK delegate for CPU.",
)
WITHOUT_GPU = (
    "I0000 00:00:1795352007.226195   27198 cudart_stub.cc:31] Could not find cuda "
    "drivers on your machine, GPU will not be used.",
    "E0000 00:00:1795352011.789523   27198 cuda_platform.cc:52] failed call to cuInit: "
    "INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)",
    "W0000 00:00:1795352011.929802   27198 gpu_device.cc:2365] Cannot dlopen some GPU "
    "libraries. Please make sure the missing libraries are installed",
    "Skipping registering GPU devices...",
)
UNKNOWN = (
    "E0000 00:00:1795352011.789523   27198 cuda_platform.cc:52] no such device",
    "F0000 00:00:1795352011.789523   27198 cuda_platform.cc:52] failed call to cuInit:",
    "E0000 00:00:1795352011.789523   27198 other.cc:52] failed call to cuInit: X",
    "failed call to cuInit: said by nobody known",
    "INFO: Created TensorFlow Lite delegate for GPU.",
    "The TensorFlow library was compiled to use AVX instructions, but these are not "
    "available on your machine.",
    "",
    "ä \x1b[1mcolour\x1b[0m",
)
# Its own line is written to sys.stderr; SAID stands for what C++ writes.
PROGRAM = """
import os, sys
from terminal import native_log
native_log.begin()
os.write(2, {printed!r})
{more}
"""


def start(printed="", more="", **settings):
    settings = {"stderr": subprocess.PIPE, **settings}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(printed=printed.encode(), more=more)],
        stdout=subprocess.PIPE,
        cwd=tiny.ROOT,
        **settings,
    )


def lines(*parts):
    return "".join(f"{line}\n" for part in parts for line in part)


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(tiny.ROOT)}


@pytest.mark.parametrize("hidden", [None, "-1"])
@pytest.mark.parametrize("with_gpu", [False, True])
def test_unknown_lines_pass_and_known_ones_do_not(
    environment, tmp_path, with_gpu, hidden
):
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if hidden:
        environment["CUDA_VISIBLE_DEVICES"] = hidden
    if with_gpu:
        (tmp_path / "nvidia-smi").write_text("")
        (tmp_path / "nvidia-smi").chmod(0o755)
    printed = lines(UNKNOWN[:3], OF_EVERY_START, WITHOUT_GPU, UNKNOWN[3:])
    process = start(printed, "print('out'); os.write(2, b'no end')", env=environment)
    out, err = process.communicate(timeout=60)
    shown = WITHOUT_GPU if with_gpu and not hidden else ()
    assert err.decode() == lines(UNKNOWN[:3], shown, UNKNOWN[3:]) + "no end"
    assert (process.returncode, out) == (0, b"out\n")


def test_crash_keeps_what_was_written():
    process = start(lines(OF_EVERY_START, UNKNOWN) + "no end", "os.abort()")
    err = process.communicate(timeout=60)[1]
    assert err.decode() == lines(UNKNOWN) + "no end"
    assert process.returncode == -signal.SIGABRT


def test_more_than_a_pipe_holds_is_passed_on_while_the_interpreter_is_locked():
    """A thread of the same process would wait for the lock, and os.write for it."""
    hold = "import ctypes; text = b'x' * 99 + b'\\n'\n"
    hold += "for _ in range(5000): ctypes.PyDLL(None).write(2, text, 100)"
    err = start("", hold).communicate(timeout=60)[1]
    assert err == (b"x" * 99 + b"\n") * 5000


def test_log_that_somebody_wants_is_not_filtered(environment):
    environment["TF_CPP_MIN_LOG_LEVEL"] = "0"
    process = start(lines(OF_EVERY_START), env=environment)
    assert process.communicate(timeout=60)[1].decode() == lines(OF_EVERY_START)


def test_own_lines_pass_by_and_come_after_what_was_written_before_the_end():
    more = "os.write(2, b'native\\n'); native_log.end(); sys.stderr.write('own\\n')\n"
    more += f"os.write(2, {OF_EVERY_START[0].encode()!r})"
    err = start(OF_EVERY_START[1] + "\n", more).communicate(timeout=60)[1]
    assert err.decode() == f"native\nown\n{OF_EVERY_START[0]}"  # no filter any more


def test_forked_processes_stay_filtered_and_may_outlive_it():
    more = """
go, went = os.pipe()
if os.fork() == 0:
    os.close(went); os.read(go, 1)
    native_log.end()  # is not theirs
    os.write(2, b'worker\\n' + """
    more += f"{OF_EVERY_START[0].encode()!r} + b'\\n')\n    os._exit(0)\n"
    more += "native_log.end(); sys.stderr.write('own\\n'); os.close(went); os.wait()"
    err = start("", more).communicate(timeout=60)[1]
    assert err == b"own\nworker\n"


def test_standard_error_stays_a_terminal():
    ours, inner = pty.openpty()
    more = "assert sys.stderr.isatty() and not os.isatty(2)\n"
    more += "native_log.end()\nassert sys.stderr.isatty() and os.isatty(2)"
    process = start(OF_EVERY_START[0] + "\nother\n", more, stderr=inner)
    os.close(inner)
    assert process.communicate(timeout=60)[0] == b""
    assert (process.returncode, os.read(ours, 999)) == (0, b"other\r\n")
    os.close(ours)
