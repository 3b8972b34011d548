"""How much of a score, or of a difference of two runs, may be chance."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.stats

RESAMPLES = 1000
SECONDS = 1.5  # for all resamples; where scores take long there are fewer
LEVEL = 0.95
_SEED = 1
_PART = 100  # resamples between two looks at the clock, and the least


def resample(
    rescore: Callable[[np.ndarray], Mapping[str, float]],
    keys: Sequence[str],
    *,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, np.ndarray]:
    """Scores of rows drawn with replacement, {name: float [K]} (Efron, 1979).

    K is RESAMPLES, or as many hundreds as fit into the time. The draws follow from the
    set of keys, so those of two runs on equal rows are pairs, whatever their order.

    Args:
        rescore: as in examined.Examined.
        keys: of N rows, all different.
    """
    rng = np.random.default_rng(_SEED)
    order = np.argsort(np.asarray(keys))
    found: dict[str, list[float]] = {}
    end = clock() + seconds
    for number in range(1, RESAMPLES + 1):
        rows = order[rng.integers(len(order), size=len(order))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a draw may lack a class
            scores = rescore(rows)
        for name, score in scores.items():
            found.setdefault(name, []).append(float(score))
        if number % _PART == 0 and clock() >= end:
            break
    return {name: np.array(scores) for name, scores in found.items()}


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float] | None:
    """The middle LEVEL of resampled scores; None where one is not a number."""
    if not len(values) or not np.all(np.isfinite(values)):
        return None
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided p value of McNemar's test (1947).

    The counts are those of rows that only one of two models gets right.
    """
    total = only_first + only_second
    if not total:
        return 1.0
    return float(scipy.stats.binomtest(only_first, total, 0.5).pvalue)
