"""Sides of a comparison that take turns, each in a process of its own."""

import json
import os
import pathlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
Result = dict[str, Any]


class SideFailed(Exception):
    """A side ended with an error; the message is the end of its log."""


def run(command: Sequence[str], **variables: str) -> Result:
    """The JSON object on the last line of a command's output.

    The command may run modules of this checkout, such as `python -m benchmarks.ours`;
    `variables` are of its environment.

    Raises:
        SideFailed: its exit code is not 0.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        log = done.stderr[-3000:].strip()
        raise SideFailed(f"{' '.join(command[:3])}: exit code {done.returncode}\n{log}")
    return json.loads(done.stdout.splitlines()[-1])


def alternate(
    sides: Mapping[str, Callable[[], Result]], rounds: int
) -> dict[str, list[Result]]:
    """Results of each side in each round: first, second, first, second, ..."""
    results: dict[str, list[Result]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, take_turn in sides.items():
            results[side].append(take_turn())
    return results
