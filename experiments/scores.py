"""Scores of the runs of a comparison, and intervals of their differences."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import file_names, json_files
from experiments import tasks
from reports.measures import confidence

SEEDS_FILE = "seeds.json"
_ROW_DRAWS = 500  # resamples of the dev rows, of those in report.json
_DRAWS = 4000
_SEED = 1


class Difference(NamedTuple):
    """How much better one is than another, and where 95 % of the resamples lie."""

    mean: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where all of the interval is on one side of 0; else 0."""
        return int(self.low > 0) - int(self.high < 0)

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


@dataclasses.dataclass(frozen=True)
class Score:
    """A system in a task: its scores of 0 to 100, and resamples of each.

    Args:
        values: {seed: score}.
        resampled: float [seeds, K], of dev rows drawn with replacement; the draws of
            two systems are the same.
    """

    values: Mapping[int, float]
    resampled: np.ndarray

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(np.mean(list(self.values.values())))

    @property
    def deviation(self) -> float:
        """Standard deviation of a sample over seeds; 0 of one seed."""
        values = list(self.values.values())
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def read(directory: str, task: tasks.Task) -> Score:
    """Reads seeds.json and the reports of a task's runs."""
    seeds = json_files.read_object(os.path.join(directory, SEEDS_FILE))["seeds"]
    values, resampled = {}, []
    for seed in sorted(seeds, key=int):
        values[int(seed)] = task.scale * seeds[seed][task.score]
        record = report(os.path.join(directory, f"seed-{seed}"))
        draws = record["evaluation"]["resampled"][task.resampled]
        resampled.append(task.scale * np.array(draws[:_ROW_DRAWS]))
    shortest = min(map(len, resampled))
    return Score(values, np.stack([draws[:shortest] for draws in resampled]))


def report(directory: str) -> dict[str, Any]:
    """The record of a run."""
    return json_files.read_object(os.path.join(directory, file_names.REPORT_JSON))


def difference(pairs: Sequence[tuple[Score, Score]]) -> Difference:
    """The difference of the second of each pair to the first, on average over pairs.

    Dev rows and seeds are drawn with replacement, rows alike for both of a pair. Seeds
    of pretraining are not drawn, for each network is pretrained once.
    """
    rng = np.random.default_rng(_SEED)
    draws = np.zeros(_DRAWS)
    for pair in pairs:
        rows = rng.integers(
            min(score.resampled.shape[1] for score in pair), size=_DRAWS
        )
        for sign, score in zip((-1, 1), pair, strict=True):
            seeds = len(score.resampled)
            drawn = rng.integers(seeds, size=(seeds, _DRAWS))
            draws += sign * score.resampled[drawn, rows].mean(axis=0) / len(pairs)
    mean = float(np.mean([second.mean - first.mean for first, second in pairs]))
    tail = (1 - confidence.LEVEL) / 2
    low, high = np.quantile(draws, [tail, 1 - tail]).tolist()
    return Difference(mean, low, high)


def is_learned(score: Score, guessed: float) -> bool:
    """Whether a score is surely above the score of the same answer to all rows."""
    answer = Score({0: guessed}, np.full((1, score.resampled.shape[1]), guessed))
    return difference([(answer, score)]).sign > 0


def share_difference(
    first: tuple[float, float], second: tuple[float, float]
) -> Difference:
    """The difference of two (share, records); with a normal interval."""
    variance = sum(share * (1 - share) / count for share, count in (first, second))
    mean, around = second[0] - first[0], 1.96 * variance**0.5
    return Difference(100 * mean, 100 * (mean - around), 100 * (mean + around))
