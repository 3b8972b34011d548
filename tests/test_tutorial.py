"""docs/tutorial.md: typed as printed, its blocks print what the page shows.

Numbers may differ as they do from one processor to another. Blocks of `sh` are not run:
they install, or need docker or a browser.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
NUMBER = r"-?\d+(?:\.\d+)?"


def blocks(markdown):
    """[(language, code, the outputs that are shown of it)] of what the page runs."""
    runs = []
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", markdown, re.M | re.S):
        if language in ("bash", "python"):
            runs.append((language, text, []))
        elif language == "text":
            runs[-1][2].append(text)
    return runs


def differences(shown, printed):
    """Where a printed text is not the shown one, of which `...` is any lines."""
    # Of the labels of a text the first is that of the model, others are near 0.
    shown = re.sub(r"^(    \w+ [\d.]+),.*", r"\1,(others)", shown, flags=re.M)
    pattern = f"({NUMBER})".join(re.escape(part) for part in re.split(NUMBER, shown))
    pattern = pattern.replace(re.escape("(others)"), ".*")
    pattern = re.sub(r"^\\\.\\\.\\\.\\?\n", "(?:.*\\n)*?", pattern, flags=re.M)
    if not (match := re.fullmatch(pattern, printed)):
        return [f"shown:\n{shown}\nprinted:\n{printed}"]
    return [
        f"{actual} is shown as {number}"
        for number, actual in zip(
            re.findall(NUMBER, shown), match.groups(), strict=True
        )
        if abs(float(number) - float(actual)) > (0.15 if "." in number else 6)
    ]


def test_outputs_that_differ_are_found():
    shown = "...\n  eval_accuracy = 0.8889\n...\nreport: a/report.html\n"
    printed = "x\n  eval_accuracy = 0.9\n  loss = 1\nreport: a/report.html\n"
    assert differences(shown, printed) == []
    assert differences(shown, printed.replace("0.9", "0.5"))
    assert differences(shown, printed.replace("report.html", "b.html"))
    assert differences(shown, "x\n" + printed.replace("  loss = 1\n", "")) == []
    assert differences("a 72, b\n", "a 72, b\nc\n")
    assert differences("    b 0.9, c 0.0\n", "    b 0.8, a 0.1\n") == []
    assert differences("    b 0.9, c 0.0\n", "    a 0.8, b 0.1\n")


def test_page_shows_outputs():
    runs = blocks(PAGE)
    assert [bool(shown) for _, _, shown in runs].count(False) == 1  # of the server
    assert len(runs) == 9 and sum(len(shown) for _, _, shown in runs) == 9


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return str(free.getsockname()[1])


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl"), reason="the page sends a request by curl")
def test_tutorial_prints_what_it_shows(minilm_dir, tmp_path, port):
    for path in ROOT.iterdir():  # a checkout of links, so that output goes elsewhere
        if path.name != "output":
            (tmp_path / path.name).symlink_to(path)
    programs = os.path.dirname(sys.executable)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    environment |= {"CUDA_VISIBLE_DEVICES": "-1"}
    server, wrong = None, []
    try:
        for language, code, shown in blocks(PAGE):
            code = code.replace("8501", port)
            shell = ["bash", "-c"] if language == "bash" else [sys.executable, "-c"]
            if "--serve" in code:
                server = subprocess.Popen(
                    ["bash", "-c", f"exec {code}"], cwd=tmp_path, env=environment
                )
                wait(f"http://localhost:{port}/health/ready", server)
                continue
            done = subprocess.run(
                [*shell, code], cwd=tmp_path, env=environment, capture_output=True
            )
            errors = re.findall(r"^error: .*\n", done.stderr.decode(), re.M)
            assert done.returncode == (2 if errors else 0), done.stderr.decode()[-2000:]
            # A table for spreadsheets has a byte-order mark and CRLF.
            printed = done.stdout.decode().removeprefix("\ufeff").replace("\r\n", "\n")
            printed += "".join(errors)
            printed += "" if printed.endswith("\n") else "\n"
            for text in shown:
                wrong += differences(text, printed)
    finally:
        if server:
            server.terminate()
            server.wait()
    assert wrong == []


def wait(address, server):
    for _ in range(600):
        assert server.poll() is None
        try:
            with urllib.request.urlopen(address):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the server is not ready")
