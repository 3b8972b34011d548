"""Tests of training/schedule.py; `fit` of Keras does what our loop does."""

import math

import numpy as np
import pytest
import tensorflow as tf

from training import schedule
from training.optimizers import warmup

RATES = {"learning_rate": 0.05, "num_train_steps": 6, "num_warmup_steps": 2}


@pytest.mark.parametrize("num_warmup_steps", [0, 3])
def test_schedule_has_the_rates_of_the_loop(num_warmup_steps):
    arguments = {**RATES, "num_warmup_steps": num_warmup_steps}
    made = warmup.LinearWithWarmup(**arguments)
    made = type(made).from_config(made.get_config())
    rate = schedule.linear_with_warmup(**arguments)
    actual = [float(made(tf.constant(step, tf.int64))) for step in range(9)]
    assert actual == [float(np.float32(rate(step))) for step in range(9)]
    assert len(set(actual)) > 3 and actual[6:] == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="num_train_steps=3, num_warmup_steps=4"):
        warmup.LinearWithWarmup(1.0, 3, 4)


def test_schedule_warms_up_drops_and_ends_at_zero():
    rate = schedule.linear_with_warmup(2.0, num_train_steps=10, num_warmup_steps=4)
    # It drops, because the fall is counted from step 0.
    expected = {0: 0, 1: 0.5, 3: 1.5, 4: 2 * (1 - 4 / 10), 9: 2 * (1 - 9 / 10), 11: 0}
    assert {step: rate(step) for step in expected} == pytest.approx(expected, abs=1e-12)
    rate = schedule.linear_with_warmup(2.0, num_train_steps=4, num_warmup_steps=0)
    assert [rate(step) for step in range(5)] == [2.0, 1.5, 1.0, 0.5, 0.0]
    assert schedule.SCHEDULES["gpt_constant"](0.5, 10, 0)(0) == 0.5
    assert schedule.SCHEDULES["gpt_linear"](0.5, 10, 0)(0) == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("examples", "batch", "epochs", "expected"),
    [(3668, 32, 3.0, 343), (100, 32, 1.0, 3), (10, 32, 3.0, 0), (10, 4, 0.5, 1)],
)
def test_steps_are_counted_as_in_the_original(examples, batch, epochs, expected):
    """run_classifier.py: int(len(train_examples) / train_batch_size * epochs)."""
    assert schedule.count_steps(examples, batch, epochs) == expected


def opt_py(name, step, num_train_steps, warmup):
    """The functions of openai/finetune-transformer-lm's opt.py, by their formulas."""
    x = (step + 1) / num_train_steps
    s = float(x <= warmup)
    rises = s * (x / warmup)
    return {
        "gpt_cosine": rises + (1 - s) * 0.5 * (1 + math.cos(math.pi * x)),
        "gpt_constant": rises + (1 - s),
        "gpt_linear": (rises + (1 - s)) * (1 - x),
    }[name]


@pytest.mark.parametrize("name", ["gpt_linear", "gpt_cosine", "gpt_constant"])
@pytest.mark.parametrize(("steps", "warmup"), [(20, 0.25), (20, 0.13), (7, 0.002)])
def test_schedule_is_that_of_opt_py(name, steps, warmup):
    rate = schedule.SCHEDULES[name](2.0, steps, warmup * steps)
    for step in range(steps):
        expected = 2.0 * opt_py(name, step, steps, warmup)
        assert rate(step) == pytest.approx(expected, abs=1e-12)
    assert rate(steps + 3) == rate(steps - 1)  # never below 0, nor up again
