"""Tests of terminal/native_log.py, on lines as TensorFlow writes them."""

import os

import pytest

from terminal import native_log

# Recorded from TensorFlow 2.21 without a GPU, and from LiteRT 2.3.
DROPPED = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to "
    "STDERR",
    "I0000 00:00:1795352007.225621   27198 port.cc:153] oneDNN custom operations are "
    "on. You may see slightly different numerical results due to floating-point "
    "round-off errors",
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild "
    "TensorFlow with the appropriate compiler flags.",
    "INFO: Created TensorFlow Lite XNNPACK delegate for CPU.",
    "W0000 00:00:1795352011.929802   27198 gpu_device.cc:2365] Cannot dlopen some GPU "
    "libraries. Please make sure the missing libraries are installed",
)
KEPT = (
    "E0000 00:00:1795352011.789523   27198 cuda_platform.cc:52] no such device",
    "F0000 00:00:1795352011.789523   27198 cuda_platform.cc:52] failed call to cuInit:",
    "INFO: Created TensorFlow Lite delegate for GPU.",
    "The TensorFlow library was compiled to use AVX instructions, but these are not "
    "available on your machine.",
    "ä \x1b[1mcolour\x1b[0m",
)


def test_lines_below_errors_are_dropped(capfd):
    lines = [line for pair in zip(DROPPED, KEPT, strict=True) for line in pair]
    with pytest.raises(ImportError), native_log.quiet():
        os.write(2, "".join(f"{line}\n" for line in lines).encode())
        raise ImportError
    os.write(2, b"I0000 after\n")
    assert capfd.readouterr().err.splitlines() == [*KEPT, "I0000 after"]
