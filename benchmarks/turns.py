"""Sides of a comparison that take turns, each in a process of its own."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from absl import flags

FLAGS = flags.FLAGS
OURS, PEER = "ours", "hugging_face"


def define_flags() -> None:
    """How often, and which Python has the peer."""
    define_side_flags([OURS, PEER])
    flags.DEFINE_string("peer_python", None, "Python that has torch and transformers.")


def define_side_flags(sides: Sequence[str]) -> None:
    """How often these sides take turns."""
    flags.DEFINE_integer("rounds", 3, "Turns of each side.")
    flags.DEFINE_enum("side", None, sides, "Internal: time one.")


def main(
    script: str,
    ours: Callable[[], dict[str, float]],
    peer: Callable[[], dict[str, float]],
    handed_on: Sequence[str],
    rate: str,
) -> None:
    """Compares this project with the other, if --peer_python says where that is.

    Args:
        script: path of the benchmark.
        ours: times this project.
        peer: times the other, in the Python of --peer_python.
        handed_on: flags that both sides get.
        rate: the figure that is compared.
    """
    pythons = {OURS: sys.executable}
    if FLAGS.peer_python:
        pythons[PEER] = FLAGS.peer_python
    compare(script, {OURS: ours, PEER: peer}, pythons, handed_on, rate)


def compare(
    script: str,
    sides: Mapping[str, Callable[[], dict[str, float]]],
    pythons: Mapping[str, str],
    handed_on: Sequence[str],
    rate: str,
) -> None:
    """Times one side, if --side asks for that, or all in turn; prints JSON.

    Args:
        script: path of the benchmark.
        sides: what times each.
        pythons: the Python of each that takes part.
        handed_on: flags that all sides get.
        rate: the figure whose ratio of the first side to the second is printed.
    """
    if FLAGS.side:
        print(json.dumps(sides[FLAGS.side]()))
        return
    arguments = [f"--{name}={FLAGS[name].value}" for name in handed_on]
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in pythons}
    for _ in range(FLAGS.rounds):
        for side, python in pythons.items():
            done = subprocess.run(
                [python, script, f"--side={side}", *arguments],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            runs[side].append(json.loads(done.stdout.splitlines()[-1]))
    results = {side: _medians(found) for side, found in runs.items()}
    if len(runs) > 1:
        first, second, *_ = runs.values()
        results["ratios"] = [
            round(one[rate] / other[rate], 2)
            for one, other in zip(first, second, strict=True)
        ]
    print(json.dumps(results, indent=2))


def _medians(runs):
    return {
        name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]
    }
