"""Tests of training/optimization/lamb.py against its formula in float64.

Three steps of float32 leave differences of about 1e-6 in weights of order 1.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from training.optimization import lamb, optimizer

RATES = (0.1, 0.05, 0.2)


def reference(p, g, m, v, *, rate, adapts, step, correct):
    """You et al., algorithm 2; p, m, v after one update."""
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g**2
    scale = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1)) if correct else 1
    update = scale * m / (np.sqrt(v) + 1e-6)
    ratio = 1.0
    if adapts:
        update = update + 0.01 * p
        norms = np.linalg.norm(p), np.linalg.norm(update)
        ratio = norms[0] / norms[1] if min(norms) > 0 else 1.0
    return p - rate * ratio * update, m, v


def trained(made, values, gradients):
    """Weights of a kernel and a bias after every step."""
    variables = [
        keras.Variable(np.asarray(value, np.float32), name=name)
        for value, name in zip(values, ("kernel", "bias"), strict=True)
    ]
    made.build(variables)
    found = []
    for step, (rate, pair) in enumerate(zip(RATES, gradients, strict=True)):
        made.apply_reduced([tf.constant(g, tf.float32) for g in pair], rate, step)
        found.append([np.asarray(v).copy() for v in variables])
    return found


def draw(seed=1):
    rng = np.random.default_rng(seed)
    shapes = ((4, 3), (3,))
    values = [rng.normal(size=shape) for shape in shapes]
    return values, [[rng.normal(size=shape) for shape in shapes] for _ in RATES]


@pytest.mark.parametrize("correct", [False, True])
def test_update_is_the_formula(correct):
    values, gradients = draw()
    made = lamb.BertLamb(bias_correction=correct, clip_norm=0.0)
    found = trained(made, values, gradients)
    state = [(value, 0.0, 0.0) for value in values]
    for step, rate in enumerate(RATES):
        state = [
            reference(
                *(p, g, m, v), rate=rate, adapts=adapts, step=step, correct=correct
            )
            for (p, m, v), g, adapts in zip(
                state, gradients[step], (True, False), strict=True
            )
        ]
        for weights, (p, _, _) in zip(found[step], state, strict=True):
            np.testing.assert_allclose(weights, p, atol=1e-5)
    for (_, mean, square), (_, m, v) in zip(made.slots(), state, strict=True):
        np.testing.assert_allclose(mean, m, atol=1e-6)
        np.testing.assert_allclose(square, v, atol=1e-6)


def test_adam_is_told_apart():
    """The twin: kernels move otherwise, and what is not adapted moves alike."""
    values, gradients = draw()
    kernel, bias = trained(lamb.BertLamb(), values, gradients)[-1]
    other_kernel, other_bias = trained(optimizer.BertAdam(), values, gradients)[-1]
    assert np.abs(kernel - other_kernel).max() > 0.1
    # The fused kernel of Adam rounds 1 - beta_2 to float32 first.
    np.testing.assert_allclose(bias, other_bias, atol=3e-5)


def test_step_is_as_long_as_the_rate_says():
    """A share of the weight's norm, whatever the gradient's."""
    values, gradients = draw()
    for scale in (1e-3, 1e3):
        scaled = [[g * scale for g in pair] for pair in gradients]
        kernel = trained(lamb.BertLamb(clip_norm=0.0), values, scaled)[0][0]
        moved = np.linalg.norm(kernel - values[0])
        assert moved == pytest.approx(RATES[0] * np.linalg.norm(values[0]), rel=1e-5)


def test_weights_of_zero_start_to_move():
    values, gradients = draw()
    kernel, _ = trained(lamb.BertLamb(), [values[0] * 0, values[1]], gradients)[0]
    adam, _ = trained(optimizer.BertAdam(), [values[0] * 0, values[1]], gradients)[0]
    np.testing.assert_allclose(kernel, adam, atol=3e-5)
    assert np.abs(kernel).min() > 0.01


def test_no_gradient_and_no_weight_leaves_numbers():
    made = lamb.BertLamb()
    zeros = [np.zeros((4, 3)), np.zeros(3)]
    for weights in trained(made, zeros, [zeros] * 3)[-1]:
        np.testing.assert_array_equal(weights, 0.0)


def test_what_has_no_gradient_is_left_alone():
    values, gradients = draw()
    for kind in (lamb.BertLamb, optimizer.BertAdam):
        kernel = keras.Variable(np.asarray(values[0], np.float32), name="kernel")
        other = keras.Variable(np.asarray(values[0], np.float32), name="kernel")
        made = kind()
        made.build([kernel, other])
        made.apply_reduced([None, tf.constant(gradients[0][0], tf.float32)], 0.1, 0)
        np.testing.assert_array_equal(np.asarray(kernel), values[0].astype(np.float32))
        assert np.abs(np.asarray(other) - values[0]).min() > 1e-4
        assert not np.any(np.asarray(made.slots()[0][1]))
