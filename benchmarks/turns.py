"""Sides of a comparison that take turns, each in a process of its own."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

FLAGS = flags.FLAGS
ROOT = pathlib.Path(__file__).resolve().parents[1]
Result = dict[str, Any]


class SideFailed(Exception):
    """A side ended with an error; the message is the end of what it logged."""


def run(command: Sequence[str]) -> Result:
    """The JSON object that a command prints on its last line.

    It finds the modules of this checkout, `python -m benchmarks.ours` for example.

    Raises:
        SideFailed: its exit code is not 0.
    """
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if done.returncode:
        log = done.stderr[-3000:].strip()
        raise SideFailed(f"{' '.join(command[:3])}: exit code {done.returncode}\n{log}")
    return json.loads(done.stdout.splitlines()[-1])


def alternate(
    sides: Mapping[str, Callable[[], Result]], rounds: int
) -> dict[str, list[Result]]:
    """What each side returns in each round: first, second, first, second, ..."""
    found: dict[str, list[Result]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, take_turn in sides.items():
            found[side].append(take_turn())
    return found


def ratios(runs: Mapping[str, Sequence[Mapping[str, float]]], name: str) -> list[float]:
    """A figure of the first side over that of the second, of each pair."""
    first, second, *_ = runs.values()
    return [one[name] / other[name] for one, other in zip(first, second, strict=True)]


def median(runs: Sequence[Mapping[str, float]], name: str) -> float:
    """The median of a figure over the rounds."""
    return statistics.median(run[name] for run in runs)


def define_flags(sides: Sequence[str]) -> None:
    """How often the sides of `compare` take turns."""
    flags.DEFINE_integer("rounds", 3, "Turns of each side.")
    flags.DEFINE_enum("side", None, sides, "Internal: time one.")


def compare(sides: Mapping[str, Callable[[], dict[str, float]]], rate: str) -> None:
    """Times one side, if --side names it, or all in turn; prints JSON of their medians.

    The processes get every flag that the script defines. `rate` is the figure whose
    ratio, of the first side to the second, is printed for each pair.
    """
    if FLAGS.side:
        print(json.dumps(sides[FLAGS.side]()))
        return
    script = sys.argv[0]
    given = [flag.serialize() for flag in FLAGS.get_key_flags_for_module(script)]

    def turn(side):
        return lambda: run(
            [sys.executable, script, f"--side={side}", *filter(None, given)]
        )

    runs = alternate({side: turn(side) for side in sides}, FLAGS.rounds)
    results: dict[str, Any] = {
        side: {name: round(median(found, name), 3) for name in found[0]}
        for side, found in runs.items()
    }
    results["ratios"] = [round(ratio, 2) for ratio in ratios(runs, rate)]
    print(json.dumps(results, indent=2))
