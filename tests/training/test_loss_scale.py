"""Tests of training/optimization/loss_scale.py; that a step uses it: test_steps.py."""

import json

import pytest
import tensorflow as tf

from training import train_step


def numbers(scaling):
    return float(scaling.scale), int(scaling.good_steps)


def after(scaling, *are_finite):
    for is_finite in are_finite:
        scaling = train_step.Scaling.update(scaling, tf.constant(is_finite))
    return numbers(scaling)


def test_new_run_starts_high():
    assert numbers(train_step.Scaling.from_state({})) == (32768.0, 0)
    assert train_step.Scaling.from_state({}).scale.dtype == tf.float32


def test_overflow_halves_the_scale_and_starts_counting_anew():
    start = train_step.Scaling.from_state({"loss_scale": 1024.0, "good_steps": 7})
    assert after(start, True) == (1024.0, 8)
    assert after(start, False) == (512.0, 0)
    assert after(start, False, False, True) == (256.0, 1)


def test_scale_is_doubled_after_many_good_steps():
    almost = train_step.GROWTH_STEPS - 1
    start = train_step.Scaling.from_state({"loss_scale": 8.0, "good_steps": almost - 1})
    assert after(start, True) == (8.0, almost)
    assert after(start, True, True) == (16.0, 0)
    assert after(start, True, True, True) == (16.0, 1)
    # An overflow just before undoes all of them.
    assert after(start, True, False, True) == (4.0, 1)


def test_scale_has_a_ceiling():
    """Else it is infinite at last, and infinity halved is infinity."""
    almost = {"good_steps": train_step.GROWTH_STEPS - 1}
    top = train_step.Scaling.from_state(
        {"loss_scale": train_step.LARGEST_SCALE, **almost}
    )
    assert after(top, True) == (2.0**24, 0)
    assert after(top, True, False) == (2.0**23, 0)
    beyond = train_step.Scaling.from_state({"loss_scale": 2.0**127, **almost})
    assert after(beyond, True) == (2.0**24, 0)


@pytest.mark.parametrize("scale", [2.0**15, 2.0**-3, 2.0**100])
def test_state_of_a_checkpoint_brings_it_back(scale):
    scaling = train_step.Scaling(tf.constant(scale), tf.constant(1999))
    state = json.loads(json.dumps(scaling.to_state()))
    assert state == {"loss_scale": scale, "good_steps": 1999}
    assert numbers(train_step.Scaling.from_state({**state, "best_step": 3})) == (
        scale,
        1999,
    )
