"""From which probability on a prediction needs no person."""

import math

import numpy as np
import pytest

from reports.measures import selective


def tail(errors, count, share):
    return sum(
        math.comb(count, k) * share**k * (1 - share) ** (count - k)
        for k in range(errors + 1)
    )


def test_as_many_are_answered_as_a_binomial_allows():
    """Errors at places 30, 45, 60 and 75 of 80; all are as sure as their place."""
    sure = np.linspace(0.99, 0.2, 80)
    right = np.ones(80, bool)
    right[[30, 45, 60, 75]] = False
    found = selective.promise(sure, right, 0.1)
    first = 22  # without an error: 0.9 ** 22 is the first power below 0.1
    assert found["needed"] == first == math.ceil(math.log(0.1) / math.log(0.9))
    errors = np.cumsum(~right)
    count = first
    while tail(int(errors[count]), count + 1, 0.1) <= 0.1:
        count += 1
    assert first < count == found["answered"] < 80
    assert found["wrong"] == errors[count - 1]
    assert found["threshold"] == pytest.approx(sure[count] + 1e-6, abs=1e-9)
    assert np.sum(np.round(sure, 6) >= found["threshold"]) == count
    # The order of the rows is of no matter, that of the probabilities is.
    mixed = np.random.default_rng(1).permutation(80)
    assert selective.promise(sure[mixed], right[mixed], 0.1) == found
    assert selective.promise(sure[::-1], right, 0.1)["threshold"] is None


def test_rows_of_one_probability_are_answered_together_or_not_at_all():
    sure = np.repeat([0.9, 0.6], [40, 60])
    right = np.arange(100) < 80
    found = selective.promise(sure, right, 0.1)
    assert (found["answered"], found["threshold"]) == (40, 0.600001)
    assert selective.promise(sure, np.ones(100, bool), 0.1)["threshold"] == 0.0


def test_too_few_rows_promise_nothing_and_a_line_has_the_number():
    rows = selective.promises(np.full(44, 0.9), np.ones(44, bool))
    assert [row["threshold"] for row in rows] == [None, None, None, 0.0]
    _, one, _, five, ten, use = selective.lines(rows, 44)
    assert use == f"  to use a row, {selective.USE}"
    assert len([*selective.lines(rows[:3], 44)]) == 4  # no row can be used
    assert "too few rows to promise 1 %: 230 are needed" in one
    assert "too few rows to promise 5 %: 45 are needed" in five
    shown = [cell.strip() for cell in ten.split("  ") if cell]
    assert shown == ["10 %", "0.000000", "100.0 %", "0.0 %", "0.0 % (0 of 44)"]


def test_promises_hold_as_often_as_they_say():
    """Of 400 draws; with errors that are far more than promised, and just more."""
    rng = np.random.default_rng(2)
    grid = (np.arange(100_000) + 0.5) / 100_000
    for rates in (lambda p: 0.4 * (1 - p) ** 2, lambda p: np.full(len(p), 0.105)):
        broken = alone = 0
        for _ in range(400):
            sure = rng.random(120)
            right = rng.random(120) >= rates(sure)
            threshold = selective.promise(sure, right, 0.1)["threshold"]
            if threshold is not None:
                alone += 1
                broken += rates(grid[grid >= threshold]).mean() > 0.1
        assert alone and broken <= 0.13 * 400  # 0.1, and two standard errors
