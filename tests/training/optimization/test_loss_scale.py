"""Tests of training/optimization/loss_scale.py; that a step uses it: test_steps.py."""

import json

import pytest
import tensorflow as tf

from training.optimization import loss_scale


def numbers(scaling):
    return float(scaling.scale), int(scaling.good_steps)


def after(scaling, *are_finite):
    for is_finite in are_finite:
        scaling = loss_scale.updated(scaling, tf.constant(is_finite))
    return numbers(scaling)


def test_new_run_starts_high():
    assert numbers(loss_scale.of({})) == (32768.0, 0)
    assert loss_scale.of({}).scale.dtype == tf.float32


def test_overflow_halves_the_scale_and_starts_counting_anew():
    start = loss_scale.of({"loss_scale": 1024.0, "good_steps": 7})
    assert after(start, True) == (1024.0, 8)
    assert after(start, False) == (512.0, 0)
    assert after(start, False, False, True) == (256.0, 1)


def test_scale_is_doubled_after_many_good_steps():
    almost = loss_scale.GROWTH_STEPS - 1
    start = loss_scale.of({"loss_scale": 8.0, "good_steps": almost - 1})
    assert after(start, True) == (8.0, almost)
    assert after(start, True, True) == (16.0, 0)
    assert after(start, True, True, True) == (16.0, 1)
    # An overflow just before undoes all of them.
    assert after(start, True, False, True) == (4.0, 1)


def test_scale_has_a_ceiling():
    """Else it is infinite at last, and infinity halved is infinity."""
    almost = {"good_steps": loss_scale.GROWTH_STEPS - 1}
    top = loss_scale.of({"loss_scale": loss_scale.LARGEST, **almost})
    assert after(top, True) == (2.0**24, 0)
    assert after(top, True, False) == (2.0**23, 0)
    beyond = loss_scale.of({"loss_scale": 2.0**127, **almost})
    assert after(beyond, True) == (2.0**24, 0)


@pytest.mark.parametrize("scale", [2.0**15, 2.0**-3, 2.0**100])
def test_state_of_a_checkpoint_brings_it_back(scale):
    scaling = loss_scale.Scaling(tf.constant(scale), tf.constant(1999))
    state = json.loads(json.dumps(loss_scale.to_state(scaling)))
    assert state == {"loss_scale": scale, "good_steps": 1999}
    assert numbers(loss_scale.of({**state, "best_step": 3})) == (scale, 1999)
