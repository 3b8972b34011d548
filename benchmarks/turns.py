"""Two sides of a comparison that take turns, each in a process of its own."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence

from absl import flags

FLAGS = flags.FLAGS


def define_flags() -> None:
    """How often, and which Python has the peer."""
    flags.DEFINE_integer("rounds", 3, "Turns of each side.")
    flags.DEFINE_string("peer_python", None, "Python that has torch and transformers.")
    flags.DEFINE_enum("side", None, ["ours", "hugging_face"], "Internal: time one.")


def main(
    script: str,
    ours: Callable[[], dict[str, float]],
    peer: Callable[[], dict[str, float]],
    handed_on: Sequence[str],
    rate: str,
) -> None:
    """Times one side, if that is asked for, or both in turn; prints JSON.

    Args:
        script: path of the benchmark.
        ours: times this project.
        peer: times the other, in the Python of --peer_python.
        handed_on: flags that both sides get.
        rate: the figure that is compared.
    """
    if FLAGS.side:
        print(json.dumps((ours if FLAGS.side == "ours" else peer)()))
        return
    arguments = [f"--{name}={FLAGS[name].value}" for name in handed_on]

    def timed(python, side):
        done = subprocess.run(
            [python, script, f"--side={side}", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(done.stdout.splitlines()[-1])

    mine, others = [], []
    for _ in range(FLAGS.rounds):
        mine.append(timed(sys.executable, "ours"))
        if FLAGS.peer_python:
            others.append(timed(FLAGS.peer_python, "hugging_face"))
    results = {"ours": _medians(mine)}
    if others:
        results["hugging_face"] = _medians(others)
        results["ratios"] = [
            round(first[rate] / second[rate], 2)
            for first, second in zip(mine, others, strict=True)
        ]
    print(json.dumps(results, indent=2))


def _medians(runs):
    return {
        name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]
    }
