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
    resampled = confidence.resample(accuracy, KEYS)
    assert len(resampled["accuracy"]) == confidence.RESAMPLES
    low, high = confidence.interval(resampled["accuracy"])
    deviation = math.sqrt(0.8 * 0.2 / 400)
    # 1,000 resamples place a quantile within about a tenth of the deviation.
    assert low == pytest.approx(0.8 - 1.96 * deviation, abs=0.2 * deviation)
    assert high == pytest.approx(0.8 + 1.96 * deviation, abs=0.2 * deviation)


def test_resamples_follow_from_the_keys_and_not_from_the_order_of_rows():
    expected = confidence.resample(accuracy, KEYS)["accuracy"]
    order = np.random.default_rng(3).permutation(400)

    def shuffled(rows):
        return {"accuracy": RIGHT[order][rows].mean()}

    keys = [KEYS[i] for i in order]
    actual = confidence.resample(shuffled, keys)["accuracy"]
    np.testing.assert_array_equal(actual, expected)
    # twin: other keys, other resamples
    others = confidence.resample(shuffled, KEYS)["accuracy"]
    assert np.any(others != expected)


@pytest.mark.parametrize(
    "rows, labels, number",
    [(100, 1, 1000), (40_430, 1, 200), (5_400, 28, 100), (9_000_000, 1, 100)],
)
def test_number_of_resamples_follows_from_the_sizes(rows, labels, number):
    assert confidence.num_resamples(rows, labels) == number


@pytest.mark.parametrize(
    "right, rows, low, high",
    [
        # Newcombe (1998), table I, method 3; and 1 / (1 + 1.96^2 / 100) of all right
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (100, 100, 0.9630, 1.0),
    ],
)
def test_interval_of_counted_rows_is_wilsons(right, rows, low, high):
    assert confidence.share_interval(right, rows) == pytest.approx(
        (low, high), abs=5e-5
    )


def test_scores_that_are_equal_in_all_resamples_have_no_interval():
    assert confidence.interval(np.full(100, 0.3) + 1e-16) is None
    assert confidence.why_no_interval(np.ones(100)) == "no spread over the resamples"
    nearly = [0.0, *[1.0] * 99]  # 1 % lie outside of any 95 % interval
    assert confidence.interval(nearly) is None
    assert confidence.why_no_interval([0.0, np.nan]) == "not known"
    assert confidence.interval([0.0, 1.0]) == pytest.approx((0.025, 0.975))


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
