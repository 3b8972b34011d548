"""Intervals of scores and of differences of two runs, and a test of the latter."""

import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np

RESAMPLES = 1000
LEVEL = 0.95
_EQUAL = 1e-9  # scores that differ by less do so by rounding
_SEED = 1
_DRAWN = 10_000_000  # labels in all resamples: about two seconds
_PART = 100  # the least number of resamples, and a factor of any


def num_resamples(num_rows: int, num_labels: int = 1) -> int:
    """RESAMPLES, or fewer hundreds for many rows of `num_labels` labels each.

    Depends on the sizes alone, so that equal runs have equal reports.
    """
    affordable = _DRAWN // max(num_rows * num_labels, 1) // _PART * _PART
    return max(_PART, min(RESAMPLES, affordable))


def resample(
    rescore: Callable[[np.ndarray], Mapping[str, float]],
    keys: Sequence[str],
    *,
    num_labels: int = 1,
) -> dict[str, np.ndarray]:
    """Scores of rows drawn with replacement, {name: float [K]} (Efron, 1979).

    K is `num_resamples`. The draws follow from the set of keys, so those of two runs on
    equal rows are pairs, whatever their order.

    Args:
        rescore: as in outcomes.Outcomes.
        keys: of N rows, all different.
        num_labels: of each row.
    """
    rng = np.random.default_rng(_SEED)
    order = np.argsort(np.asarray(keys))
    resampled: dict[str, list[float]] = {}
    for _ in range(num_resamples(len(order), num_labels)):
        rows = order[rng.integers(len(order), size=len(order))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a draw may lack a class
            scores = rescore(rows)
        for name, score in scores.items():
            # Of rows that are all equal no correlation shows.
            score = 0.0 if np.isnan(score) else float(score)
            resampled.setdefault(name, []).append(score)
    return {name: np.array(scores) for name, scores in resampled.items()}


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float] | None:
    """The middle LEVEL of resampled scores; None where `why_no_interval` has a reason.

    Resamples of rows that are all right do not show how many errors other rows have.
    """
    return None if why_no_interval(values) else _middle(values)


def why_no_interval(values: Sequence[float] | np.ndarray) -> str:
    """Why resampled scores have no interval, or ""."""
    if not len(values) or not np.all(np.isfinite(values)):
        return "not known"
    low, high = _middle(values)
    return "no spread over the resamples" if high - low < _EQUAL else ""


def _middle(values):
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def share_interval(num_right: int, num_rows: int) -> tuple[float, float]:
    """The score interval of a share (Wilson, 1927); it has a width for 0 and 1 too."""
    share = num_right / num_rows
    deviate = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)
    spread = deviate**2 / num_rows
    center = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    low = center - half if num_right else 0.0
    high = center + half if num_right < num_rows else 1.0
    return low, high


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided p value of McNemar's test (1947).

    The counts are those of rows that only one of two models gets right.
    """
    total = only_first + only_second
    if not total:
        return 1.0
    import scipy.stats  # which takes time

    return float(scipy.stats.binomtest(only_first, total, 0.5).pvalue)
