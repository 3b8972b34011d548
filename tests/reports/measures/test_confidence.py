"""Intervals against what is known of means, and p values against sums by hand."""

import math

import numpy as np
import pytest

from reports.measures import confidence

KEYS = [f"{i:03d}" for i in range(400)]
RIGHT = np.arange(400) % 5 != 0  # 320 of 400


def accuracy(rows):
    return {"accuracy": RIGHT[rows].mean()}


def test_interval_of_a_share_is_that_of_the_binomial():
    resampled = confidence.resample(accuracy, KEYS, seconds=math.inf)
    assert len(resampled["accuracy"]) == confidence.RESAMPLES
    low, high = confidence.interval(resampled["accuracy"])
    deviation = math.sqrt(0.8 * 0.2 / 400)
    # 1,000 resamples place a quantile within about a tenth of the deviation.
    assert low == pytest.approx(0.8 - 1.96 * deviation, abs=0.2 * deviation)
    assert high == pytest.approx(0.8 + 1.96 * deviation, abs=0.2 * deviation)


def test_resamples_follow_from_the_keys_and_not_from_the_order_of_rows():
    expected = confidence.resample(accuracy, KEYS, seconds=math.inf)["accuracy"]
    order = np.random.default_rng(3).permutation(400)

    def shuffled(rows):
        return {"accuracy": RIGHT[order][rows].mean()}

    keys = [KEYS[i] for i in order]
    found = confidence.resample(shuffled, keys, seconds=math.inf)["accuracy"]
    np.testing.assert_array_equal(found, expected)
    # twin: other keys, other resamples
    others = confidence.resample(shuffled, KEYS, seconds=math.inf)["accuracy"]
    assert np.any(others != expected)


def test_slow_scores_get_fewer_resamples_the_first_of_all():
    ticks = iter(range(10_000))
    few = confidence.resample(accuracy, KEYS, seconds=2.5, clock=lambda: next(ticks))
    assert len(few["accuracy"]) == 300  # the clock is read after each hundred
    every = confidence.resample(accuracy, KEYS, seconds=math.inf)
    np.testing.assert_array_equal(few["accuracy"], every["accuracy"][:300])


def test_one_class_in_a_resample_is_no_warning():
    def warns(rows):
        import warnings

        warnings.warn("only one class", UserWarning, stacklevel=1)
        return {"f1": math.nan}

    found = confidence.resample(warns, ["a", "b"], seconds=math.inf)
    assert confidence.interval(found["f1"]) is None


@pytest.mark.parametrize(
    "first, second, p",
    [
        (0, 0, 1.0),
        (5, 5, 1.0),
        (1, 8, 2 * (1 + 9) / 2**9),  # 0 or 1 of 9, on either side
        (6, 0, 2 / 2**6),
    ],
)
def test_mcnemars_p_is_the_sum_of_the_binomial(first, second, p):
    assert confidence.mcnemar(first, second) == pytest.approx(p)
    assert confidence.mcnemar(second, first) == pytest.approx(p)
