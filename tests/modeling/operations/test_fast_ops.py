"""Tests of modeling/fast_ops.py."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from modeling.operations import fast_ops
from tests.modeling.operations import references

SHAPE = (100, 200)


def kept(rate, seed=(5, 7), site=2):
    """Which of the elements dropout keeps."""
    seed = tf.constant(seed, tf.int64)
    return fast_ops.dropout(tf.ones(SHAPE), rate, seed, site).numpy() != 0


def test_equal_seeds_and_sites_give_equal_masks():
    np.testing.assert_array_equal(kept(0.3), kept(0.3))


@pytest.mark.parametrize(
    "change",
    [
        {"seed": (6, 7)},  # another run, or another replica of it
        {"seed": (5, 8)},  # another step
        {"site": 3},  # another place in the network
    ],
    ids=str,
)
def test_another_seed_or_site_gives_another_mask(change):
    """Independent masks of rate 0.5 agree on half of the elements."""
    agree = np.mean(kept(0.5) == kept(0.5, **change))
    # Three standard errors of a share of one half.
    assert abs(agree - 0.5) < 3 * 0.5 / math.sqrt(np.prod(SHAPE))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_keeps_the_right_share_and_the_mean(rate):
    seed = tf.constant([1, 2], tf.int64)
    dropped = fast_ops.dropout(tf.fill(SHAPE, 3.0), rate, seed, 0).numpy()
    standard_error = math.sqrt(rate * (1 - rate) / np.prod(SHAPE))
    assert abs(np.mean(dropped == 0) - rate) < 3 * standard_error
    np.testing.assert_allclose(dropped[dropped != 0], 3 / (1 - rate), rtol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (5, 7)])
def test_dropout_of_any_shape(shape):
    """Rows are padded to whole tiles, of which nothing must be seen."""
    draw = tf.function(lambda seed: fast_ops.dropout(tf.ones(shape), 0.5, seed, 1))
    kept = [draw(tf.constant([3, step], tf.int64)) != 0 for step in range(200)]
    assert kept[0].shape == shape
    share = np.mean(kept, axis=0)
    # Five standard errors, because every element is looked at.
    assert np.all(np.abs(share - 0.5) < 5 * 0.5 / math.sqrt(200))


def test_dropout_without_seed_or_rate_does_nothing():
    x = tf.random.stateless_normal(SHAPE, [1, 1])
    assert fast_ops.dropout(x, 0.5, None, 0) is x
    assert fast_ops.dropout(x, 0.0, tf.constant([1, 1], tf.int64), 0) is x


def test_gradient_flows_through_what_dropout_keeps():
    x = tf.Variable(tf.ones(SHAPE))
    with tf.GradientTape() as tape:
        y = fast_ops.dropout(x, 0.25, tf.constant([5, 7], tf.int64), 1)
    gradient = tape.gradient(y, x)
    np.testing.assert_array_equal(gradient, y)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_dropout_of_half_types(dtype):
    """The mask of float32, and no smaller mean where 1 / 0.9 cannot be written."""
    seed = tf.constant([5, 7], tf.int64)
    x = tf.cast(tf.random.stateless_normal(SHAPE, [1, 2]), dtype)
    dropped = fast_ops.dropout(x, 0.1, seed, 2)
    assert dropped.dtype == dtype
    exact = fast_ops.dropout(tf.cast(x, tf.float32), 0.1, seed, 2)
    is_kept = np.not_equal(exact, 0)
    np.testing.assert_array_equal(
        np.not_equal(tf.cast(dropped, tf.float32), 0), is_kept
    )

    def scale(values):
        values, x32 = (tf.cast(v, tf.float64).numpy()[is_kept] for v in (values, x))
        return values @ x32 / (x32 @ x32) * 0.9

    # 18,000 values, each rounded by up to 2^-8 (bfloat16), to either side.
    assert scale(dropped) == pytest.approx(1, abs=2e-4)
    # The twin: what multiplying in bfloat16 does.
    if dtype == tf.bfloat16:
        assert scale(x * tf.constant(1 / 0.9, dtype)) < 1 - 1e-3


def exact_gelu(x, *, approximate):
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + math.tanh(inner))
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_is_the_formula(approximate, fused):
    x = np.linspace(-6, 6, 241)
    expected = [exact_gelu(value, approximate=approximate) for value in x]
    actual = fast_ops.gelu(
        tf.constant(x, tf.float32), approximate=approximate, fused=fused
    )
    # float32 rounds values of up to 6 by 3e-7; erf and tanh are a few such steps off.
    np.testing.assert_allclose(actual, expected, atol=3e-6)


def test_the_two_gelus_differ():
    x = tf.linspace(-4.0, 4.0, 81)
    tanh_form, erf_form = (
        fast_ops.gelu(x, approximate=approximate, fused=False)
        for approximate in (True, False)
    )
    assert np.abs(tanh_form - erf_form).max() > 1e-4


@pytest.mark.parametrize("approximate", [False, True])
def test_fused_gelu_has_the_plain_gradient(approximate):
    x = tf.Variable(tf.random.stateless_normal(SHAPE, [4, 4]) * 2)
    upstream = tf.random.stateless_normal(SHAPE, [5, 5])
    gradients = []
    for fused in (False, True):
        with tf.GradientTape() as tape:
            y = fast_ops.gelu(x, approximate=approximate, fused=fused)
        gradients.append(tape.gradient(y, x, output_gradients=upstream))
    # Values of up to 4, and sums of some ten float32 terms.
    np.testing.assert_allclose(*gradients, atol=1e-5)


def test_fused_gelu_works_in_a_graph_of_unknown_length():
    @tf.function(input_signature=[tf.TensorSpec([None, 8])])
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(fast_ops.gelu(x, approximate=True, fused=True))
        return tape.gradient(y, x)

    for length in (3, 5):
        np.testing.assert_allclose(gradient(tf.zeros([length, 8])), 0.5)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_gelu_of_half_types_is_rounded_once(dtype, approximate, fused):
    x = tf.cast(tf.linspace(-6.0, 6.0, 241), dtype)
    upstream = tf.cast(tf.linspace(1.0, 2.0, 241), dtype)

    def value_and_gradient(x, function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, tf.cast(upstream, x.dtype))

    def plain(x):
        return tf.nn.gelu(x, approximate=approximate)

    exact = value_and_gradient(tf.cast(x, tf.float32), plain)
    actual = value_and_gradient(
        x, lambda x: fast_ops.gelu(x, approximate=approximate, fused=fused)
    )
    half = value_and_gradient(x, plain)
    # Half a step, and what float32 loses where 1 + tanh(x) is small. What is below the
    # smallest normal number of float16 may become zero.
    near = {
        "rtol": 2.0**-8 if dtype == tf.bfloat16 else 2.0**-11,
        "atol": 1e-5 if dtype == tf.bfloat16 else 2.0**-14,
    }
    for ours, theirs, other in zip(actual, exact, half, strict=True):
        assert ours.dtype == dtype
        np.testing.assert_allclose(tf.cast(ours, tf.float32), theirs, **near)
        # The twin: the same formula in the half type.
        assert not np.allclose(tf.cast(other, tf.float32), theirs, **near)


def attention(rate, seed, site=5):
    def run(query, key, value, adder):
        return fast_ops.attend(
            query, key, value, adder, scale=0.25, rate=rate, seed=seed, site=site
        )

    return run


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_attention_has_the_gradients_of_plain_operations(rate):
    """Of 5 queries to 9 keys, one of which is hidden."""
    seed = tf.constant([3, 4], tf.int64)
    query = tf.random.stateless_normal([2, 3, 5, 16], [2, 1])
    key, value = (tf.random.stateless_normal([2, 3, 9, 16], [3, i]) for i in (1, 2))
    adder = tf.concat([tf.zeros([2, 1, 1, 8]), tf.fill([2, 1, 1, 1], -1e4)], -1)

    def plain(query, key, value):
        scores = tf.matmul(query, key, transpose_b=True) * 0.25 + adder
        weights = fast_ops.dropout(tf.nn.softmax(scores), rate, seed, 5)
        return tf.matmul(weights, value)

    def fused(query, key, value):
        return attention(rate, seed)(query, key, value, adder)

    expected = references.value_and_gradients(plain, query, key, value)
    references.assert_near(
        references.value_and_gradients(fused, query, key, value), expected
    )
    # Hidden keys get no gradient, others do.
    assert not np.any(expected[2][:, :, 8])
    assert np.abs(expected[2][:, :, 7]).max() > 1e-2
    # The twin: another mask.
    other = attention(0.3, seed, site=6)(query, key, value, adder)
    assert np.abs(other - expected[0]).max() > 1e-2


def test_masks_have_no_pattern():
    """Neighbours in rows and columns, and the same place in two steps, agree by chance.

    With rate 0.5 independent masks agree on half of the elements; 4 standard errors.
    """
    shape = (512, 96)

    def mask(step):
        seed = tf.constant([1, step], tf.int64)
        return fast_ops.dropout(tf.ones(shape), 0.5, seed, 1).numpy() != 0

    masks = [mask(step) for step in range(6)]
    pairs = [
        (one[shift[0] :, shift[1] :], one[: shape[0] - shift[0], : shape[1] - shift[1]])
        for one in masks
        for shift in ((1, 0), (0, 1), (8, 0), (0, 32), (128, 0), (1, 1))
    ]
    pairs += list(itertools.combinations(masks, 2))
    for one, other in pairs:
        assert abs(np.mean(one == other) - 0.5) < 4 * 0.5 / math.sqrt(one.size)
    # The shares of rows and of columns vary as sums of independent elements do.
    for axis in (0, 1):
        shares = np.concatenate([one.mean(axis=axis) for one in masks])
        squares = np.square((shares - 0.5) * 2) * shape[axis]
        error = math.sqrt(2 / len(shares))
        assert abs(squares.mean() - 1) < 4 * error


def test_one_unknown_axis_needs_no_operation():
    found = []

    def reshaped(x):
        found.append(fast_ops.known_shape(x))
        return tf.reshape(tf.reshape(x, [-1]), found[-1])

    x = tf.reshape(tf.range(12), [3, 1, 4])
    assert fast_ops.known_shape(x) == (3, 1, 4)
    for unknown, wanted in (([None, 1, 4], [-1, 1, 4]), ([None, None, 4], None)):
        spec = tf.TensorSpec(unknown, tf.int32)
        function = tf.function(reshaped, input_signature=[spec])
        for rows in (3, 0):  # a batch may be empty
            np.testing.assert_array_equal(function(x[:rows]), x[:rows])
        types = {
            op.type for op in function.get_concrete_function().graph.get_operations()
        }
        assert ("Shape" in types) == (wanted is None)
        assert wanted is None or list(found[-1]) == wanted
