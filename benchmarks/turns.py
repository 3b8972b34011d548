"""Sides of a comparison that take turns, each in a process of its own."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from absl import flags

FLAGS = flags.FLAGS
OURS, PEER = "ours", "hugging_face"


def define_flags(sides: Sequence[str] = (OURS, PEER)) -> None:
    """How often the sides take turns, and which Python has the peer."""
    flags.DEFINE_integer("rounds", 3, "Turns of each side.")
    flags.DEFINE_enum("side", None, sides, "Internal: time one.")
    if PEER in sides:
        flags.DEFINE_string(
            "peer_python", None, "Python that has torch and transformers."
        )


def compare(sides: Mapping[str, Callable[[], dict[str, float]]], rate: str) -> None:
    """Times one side, if --side names it, or all in turn; prints JSON of their medians.

    The processes get every flag that the script defines; the peer takes part where
    --peer_python names its Python. `rate` is the figure whose ratio, of the first side
    to the second, is printed for each pair.
    """
    if FLAGS.side:
        print(json.dumps(sides[FLAGS.side]()))
        return
    pythons = dict.fromkeys(sides, sys.executable)
    if PEER in pythons:
        pythons[PEER] = FLAGS.peer_python
    script = sys.argv[0]
    given = [flag.serialize() for flag in FLAGS.get_key_flags_for_module(script)]
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(FLAGS.rounds):
        for side in filter(pythons.get, sides):
            done = subprocess.run(
                [pythons[side], script, f"--side={side}", *filter(None, given)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            runs[side].append(json.loads(done.stdout.splitlines()[-1]))
    results = {side: _medians(found) for side, found in runs.items() if found}
    if len(results) > 1:
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
