"""Dynamic loss scaling, which float16 needs (Micikevicius et al., 2018, section 3.2).

Small gradients vanish in float16, so the loss is multiplied by a scale before the
backward pass and gradients are divided by it. An overflow skips the step and halves the
scale; many steps without one double it.
"""

from typing import NamedTuple

import tensorflow as tf

FIRST = 2.0**15
# Good steps in a row after which the scale is doubled.
GROWTH_STEPS = 2000
# The scale does not grow beyond, where it would end as infinity; Apex has the same.
LARGEST = 2.0**24
# A scale below means that the numbers overflow whatever it is.
SMALLEST = 1.0


class Scaling(NamedTuple):
    """float32 scale, a power of 2, and int32 finite steps since it last changed."""

    scale: tf.Tensor
    good_steps: tf.Tensor


def of(state):
    """The Scaling in a checkpoint's state, or the first one."""
    return Scaling(
        tf.constant(state.get("loss_scale", FIRST), tf.float32),
        tf.constant(state.get("good_steps", 0), tf.int32),
    )


def to_state(scaling):
    """The numbers that `of` reads, for a JSON file."""
    scale, good_steps = float(scaling.scale), int(scaling.good_steps)
    return {"loss_scale": scale, "good_steps": good_steps}


def updated(scaling, is_finite):
    """The Scaling after a step whose gradients were finite, or were not."""
    good_steps = tf.where(is_finite, scaling.good_steps + 1, 0)
    grows = good_steps >= GROWTH_STEPS
    factor = tf.where(is_finite, tf.where(grows, 2.0, 1.0), 0.5)
    scale = tf.minimum(scaling.scale * factor, LARGEST)
    return Scaling(scale, tf.where(grows, 0, good_steps))
