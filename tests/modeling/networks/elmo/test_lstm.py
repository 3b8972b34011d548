"""LSTMs of both directions: their own gradient against TensorFlow's, step by step.

tests/modeling/networks/elmo/test_network.py has the values of the original.
"""

import numpy as np
import pytest
import tensorflow as tf

from modeling.networks.elmo import lstm

ROWS, STEPS, INPUTS, UNITS, WIDTH = 3, 5, 4, 6, 3
# Padding lies to the right, more of it in the second row; no row has the last step.
MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
ROUNDING = 1e-6  # float32 sums in another order, of values around 1
CLIPS = {"cell_clip": 0.4, "projection_clip": 0.3}


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def tensors(width):
    actual = [numbers(k, ROWS, STEPS, INPUTS) for k in range(2)]
    for k in range(2):
        actual.append(numbers(10 + k, INPUTS + width, 4 * UNITS) * 0.7)
        actual.append(numbers(20 + k, 4 * UNITS) * 0.7)
        if width != UNITS:
            actual.append(numbers(30 + k, UNITS, width) * 0.7)
    return [tf.constant(x) for x in actual]


def states(width):
    actual = numbers(40, 2, ROWS, UNITS) * 0.3, numbers(41, 2, ROWS, width) * 0.2
    return lstm.States(*map(tf.constant, actual))


def run(values, trains, mask=None, start=None, **clips):
    half = len(values) // 2 + 1
    weights = lstm.Weights(*values[2:half]), lstm.Weights(*values[half:])
    outputs, after = lstm.bidirectional(
        values[:2], weights, mask, start, trains=trains, **clips
    )
    return [*outputs, *after]


def gradients(values, trains, **settings):
    with tf.GradientTape() as tape:
        tape.watch(values)
        results = run(values, trains, **settings)
        parts = [
            tf.reduce_sum(y * numbers(50 + i, *y.shape)) for i, y in enumerate(results)
        ]
        total = tf.add_n(parts)
    return results, tape.gradient(total, values)


CASES = {
    "projected": (WIDTH, {}),
    "masked": (WIDTH, {"mask": MASK}),
    "clipped": (WIDTH, {"start": states(WIDTH), **CLIPS}),
    "all": (WIDTH, {"mask": MASK, "start": states(WIDTH), **CLIPS}),
    "unprojected": (UNITS, {"mask": MASK, "start": states(UNITS)}),
}


@pytest.mark.parametrize("many_rows", [1, 1 + ROWS])
@pytest.mark.parametrize("case", CASES)
def test_gradient_is_that_of_single_operations(case, many_rows, monkeypatch):
    width, settings = CASES[case]
    with monkeypatch.context() as patch:
        patch.setattr(lstm, "_MANY_ROWS", many_rows)
        results, actual = gradients(tensors(width), trains=True, **settings)
    same, expected = gradients(tensors(width), trains=False, **settings)
    for ours, theirs in zip([*results, *actual], [*same, *expected], strict=True):
        scale = max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(ours / scale, theirs / scale, atol=ROUNDING)
        assert np.abs(theirs).max() > 0.1


def test_padding_changes_nothing_and_is_zero():
    """In its place anything may stand; a token there changes what others read."""
    values = tensors(WIDTH)
    expected = run(values, trains=True, mask=MASK)
    other = [tf.where(MASK[..., None] > 0, x, 9.0) for x in values[:2]]
    actual = run([*other, *values[2:]], trains=True, mask=MASK)
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(actual[0][MASK == 0], 0.0)
    unmasked = run([*other, *values[2:]], trains=True)
    assert np.abs(unmasked[1] - expected[1])[MASK > 0].max() > 0.05


def test_rows_end_where_alone_they_would():
    values, start = tensors(WIDTH), states(WIDTH)
    *_, cells, hiddens = run(values, trains=False, mask=MASK, start=start)
    for row, length in enumerate(MASK.sum(1)):
        alone = [x[row : row + 1, :length] for x in values[:2]]
        begin = lstm.States(*(x[:, row : row + 1] for x in start))
        *_, cell, hidden = run([*alone, *values[2:]], trains=False, start=begin)
        np.testing.assert_allclose(cells[:, row], cell[:, 0], atol=ROUNDING)
        np.testing.assert_allclose(hiddens[:, row], hidden[:, 0], atol=ROUNDING)


def test_states_carry_on_but_no_gradient_does():
    values = tensors(WIDTH)
    whole = run(values, trains=True)[0]
    parts, start = [], None
    with tf.GradientTape() as tape:
        tape.watch(values[0])
        for cut in (slice(3), slice(3, None)):
            pair = [x[:, cut] for x in values[:2]]
            forward, _, *after = run([*pair, *values[2:]], trains=True, start=start)
            start = lstm.States(*after)
            parts.append(forward)
        total = tf.reduce_sum(parts[1])
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=ROUNDING)
    reached = np.abs(tape.gradient(total, values[0])).max(axis=(0, 2))
    assert (reached[:3] == 0.0).all()
    assert (reached[3:] > 0.0).all()


@pytest.mark.slow
def test_graph_of_unknown_length_gives_the_same():
    values = tensors(WIDTH)

    def function(first, second, mask):
        pair = [first, second, *values[2:]]
        with tf.GradientTape() as tape:
            tape.watch(pair)
            results = run(pair, trains=True, mask=mask)
            total = tf.reduce_sum(results[0] * results[1])
        return results, tape.gradient(total, pair)

    specs = [tf.TensorSpec([None, None, INPUTS])] * 2
    specs.append(tf.TensorSpec([None, None], tf.int32))
    graph = tf.function(function, input_signature=specs, autograph=False)
    mask = tf.constant(MASK, tf.int32)
    pairs = graph(*values[:2], mask), function(*values[:2], mask)
    for ours, theirs in zip(*map(tf.nest.flatten, pairs), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
