"""Kernels, plain and fused, against plain operations and formulas."""

import functools
import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import activations, kernels, kernels_tf
from tests import daily
from tests.modeling import random_weights

SHAPE = (100, 200)
WIDTH = 24
HALF_TYPES = daily.params((tf.bfloat16, tf.float16), lambda dtype: dtype == tf.bfloat16)


def value_and_gradients(function, *inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = function(*inputs)
        upstream = tf.random.stateless_normal(tf.shape(y), [7, 7])
        total = tf.reduce_sum(tf.cast(y, tf.float32) * upstream)
    return [y, *tape.gradient(total, inputs)]


def assert_near(actual, expected, tolerance=2e-5):
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, atol=tolerance)


def kept(rate, seed=(5, 7), site=2, shape=SHAPE):
    seed = tf.constant(seed, tf.int64)
    return kernels.dropout(tf.ones(shape), rate, seed, site).numpy() != 0


def test_masks_follow_from_seed_and_site():
    """Independent masks of rate 0.5 agree on half of the elements: run, step, site."""
    np.testing.assert_array_equal(kept(0.3), kept(0.3))
    for change in ({"seed": (6, 7)}, {"seed": (5, 8)}, {"site": 3}):
        agree = np.mean(kept(0.5) == kept(0.5, **change))
        # Three standard errors of a share of one half.
        assert abs(agree - 0.5) < 3 * 0.5 / math.sqrt(np.prod(SHAPE)), change


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_keeps_the_right_share_and_the_mean(rate):
    seed = tf.constant([1, 2], tf.int64)
    dropped = kernels.dropout(tf.fill(SHAPE, 3.0), rate, seed, 0).numpy()
    standard_error = math.sqrt(rate * (1 - rate) / np.prod(SHAPE))
    assert abs(np.mean(dropped == 0) - rate) < 3 * standard_error
    np.testing.assert_allclose(dropped[dropped != 0], 3 / (1 - rate), rtol=1e-6)


@pytest.mark.parametrize(
    ("depth", "width"), [(WIDTH, 3), (WIDTH, 40), (WIDTH, 512), (1024, 24), (512, 512)]
)
def test_affine_maps_have_the_gradients_of_their_product(depth, width):
    """Also where the cache needs rows of another length, on either side."""
    shapes = (50, depth), (depth, width), (width,)
    inputs = [tf.random.stateless_normal(shape, [7, len(shape)]) for shape in shapes]
    plain, training = (
        functools.partial(kernels.affine, training=is_on) for is_on in (False, True)
    )
    expected = value_and_gradients(plain, *inputs)
    assert_near(value_and_gradients(tf.function(training), *inputs), expected)
    rows, kernel, _ = inputs
    np.testing.assert_allclose(expected[0], rows @ kernel + inputs[2], atol=2e-4)


def test_training_takes_affine_maps_that_inference_does_not(
    tiny_config, tiny_features, monkeypatch
):
    """Nor do half types; the bias is added within the product in all cases."""
    widths = []

    def record(rows, kernel, bias):
        widths.append(kernel.shape)
        return rows @ kernel + bias

    monkeypatch.setattr(kernels_tf, "affine", record)
    model = random_weights.random_model(tiny_config, "classifier")
    model(tiny_features, training=False)
    assert not widths
    model(tiny_features, training=True, seed=tf.constant([1, 2], tf.int64))
    layers = tiny_config.num_hidden_layers
    assert len(widths) == 6 * layers + 1  # and the pooler
    assert widths.count((16, 16)) == 4 * layers + 1


@pytest.mark.parametrize("shape", [(1,), (5, 7)])
def test_dropout_of_any_shape(shape):
    """Rows are padded to whole tiles, of which nothing must be seen."""
    draw = tf.function(lambda seed: kernels.dropout(tf.ones(shape), 0.5, seed, 1))
    masks = [draw(tf.constant([3, step], tf.int64)) != 0 for step in range(200)]
    assert masks[0].shape == shape
    # Five standard errors, because every element is looked at.
    assert np.all(np.abs(np.mean(masks, axis=0) - 0.5) < 5 * 0.5 / math.sqrt(200))


def test_masks_have_no_pattern():
    """Neighbours in rows and columns, and the same place in two steps, agree by chance.

    With rate 0.5 independent masks agree on half of the elements; 4 standard errors.
    """
    shape = (512, 96)
    masks = [kept(0.5, (1, step), 1, shape) for step in range(6)]
    pairs = [
        (one[shift[0] :, shift[1] :], one[: shape[0] - shift[0], : shape[1] - shift[1]])
        for one in masks
        for shift in ((1, 0), (0, 1), (8, 0), (0, 32), (128, 0), (1, 1))
    ]
    for one, other in [*pairs, *itertools.combinations(masks, 2)]:
        assert abs(np.mean(one == other) - 0.5) < 4 * 0.5 / math.sqrt(one.size)
    # The shares of rows and of columns vary as sums of independent elements do.
    for axis in (0, 1):
        shares = np.concatenate([one.mean(axis=axis) for one in masks])
        squares = np.square((shares - 0.5) * 2) * shape[axis]
        assert abs(squares.mean() - 1) < 4 * math.sqrt(2 / len(shares))


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_dropout_of_half_types(dtype):
    """The mask of float32, and no smaller mean where 1 / 0.9 cannot be written."""
    seed = tf.constant([5, 7], tf.int64)
    x = tf.cast(tf.random.stateless_normal(SHAPE, [1, 2]), dtype)
    dropped = kernels.dropout(x, 0.1, seed, 2)
    assert dropped.dtype == dtype
    is_kept = np.not_equal(kernels.dropout(tf.cast(x, tf.float32), 0.1, seed, 2), 0)
    np.testing.assert_array_equal(
        np.not_equal(tf.cast(dropped, tf.float32), 0), is_kept
    )

    def scale(values):
        values, x32 = (tf.cast(v, tf.float64).numpy()[is_kept] for v in (values, x))
        return values @ x32 / (x32 @ x32) * 0.9

    # 18,000 values, each rounded by up to 2^-8 (bfloat16), to either side.
    assert scale(dropped) == pytest.approx(1, abs=2e-4)
    # The twin: a product in bfloat16.
    if dtype == tf.bfloat16:
        assert scale(x * tf.constant(1 / 0.9, dtype)) < 1 - 1e-3


def exact_gelu(x, *, approximate):
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + math.tanh(inner))
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_is_the_formula(approximate):
    x = np.linspace(-6, 6, 241)
    expected = [exact_gelu(value, approximate=approximate) for value in x]
    gradients = []
    for training in (False, True):
        gelu = functools.partial(
            kernels.gelu, approximate=approximate, training=training
        )
        actual, gradient = value_and_gradients(gelu, tf.constant(x, tf.float32))
        # float32 rounds values of up to 6 by 3e-7; erf and tanh are some steps off.
        np.testing.assert_allclose(actual, expected, atol=3e-6)
        gradients.append(gradient)
    np.testing.assert_allclose(*gradients, atol=1e-5)
    other = [exact_gelu(value, approximate=not approximate) for value in x]
    assert np.abs(actual - other).max() > 1e-4


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_gelu_of_half_types_is_rounded_once(dtype, approximate, training):
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
        x, lambda x: kernels.gelu(x, approximate=approximate, training=training)
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


def norm_layer(policy="float32"):
    layer = keras.layers.LayerNormalization(epsilon=1e-12, dtype=policy)
    layer.build((None, None, WIDTH))
    layer.gamma.assign(tf.random.stateless_uniform([WIDTH], [1, 1], 0.5, 1.5))
    layer.beta.assign(tf.random.stateless_normal([WIDTH], [1, 2]))
    return layer


def tensors(count):
    return [tf.random.stateless_normal([3, 7, WIDTH], [2, i]) for i in range(count)]


def plain_norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-12) * gamma + beta


def plain_sum(residual, x, rate, seed, site):
    return residual + kernels.dropout(x, rate, seed, site)


def join(pair):
    return tf.concat([pair[0], 2 * pair[1]], 0)


# Each kernel as a function of residual, x, a layer and (rate, seed, site), beside the
# plain operations of residual, x, gamma, beta and these.
KERNELS = {
    "norm": (
        lambda residual, x, layer, _: kernels.norm(layer, x, training=True),
        lambda residual, x, gamma, beta, _: plain_norm(x, gamma, beta),
    ),
    "norm_of_sum": (
        lambda residual, x, layer, at: kernels.norm_of_sum(layer, residual, x, *at),
        lambda residual, x, gamma, beta, at: plain_norm(
            plain_sum(residual, x, *at), gamma, beta
        ),
    ),
    "sum_and_norm": (
        lambda residual, x, layer, at: join(
            kernels.sum_and_norm(layer, residual, x, *at)
        ),
        lambda residual, x, gamma, beta, at: join(
            (
                plain_sum(residual, x, *at),
                plain_norm(plain_sum(residual, x, *at), gamma, beta),
            )
        ),
    ),
    "residual_sum": (
        lambda residual, x, layer, at: kernels.residual_sum(residual, x, *at),
        lambda residual, x, gamma, beta, at: plain_sum(residual, x, *at),
    ),
}


def test_a_gate_takes_its_halves_apart_or_side_by_side():
    x, y = (tf.random.stateless_normal((3, 5, WIDTH), [1, n]) for n in range(2))
    seed = tf.constant([5, 7], tf.int64)

    def gate(*parts):
        return activations.gate("gelu_erf", parts, 0.1, seed, 2)

    value, *slopes = value_and_gradients(gate, x, y)
    whole, slope = value_and_gradients(gate, tf.concat([x, y], axis=-1))
    assert_near([whole, slope], [value, tf.concat(slopes, axis=-1)])
    exchanged = gate(tf.concat([y, x], axis=-1))
    assert np.abs(exchanged - value).max() > 0.1


@pytest.mark.parametrize("rate", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
@pytest.mark.parametrize("kernel", KERNELS)
def test_norms_and_sums_are_those_of_plain_operations(kernel, rate):
    fused, plain = KERNELS[kernel]
    layer, seed = norm_layer(), tf.constant([3, 4], tf.int64)
    inputs = tensors(2)
    weights = tf.convert_to_tensor(layer.gamma), tf.convert_to_tensor(layer.beta)

    def run_plainly(residual, x, gamma, beta):
        return plain(residual, x, gamma, beta, (rate, seed, 5))

    def run_fused(*inputs):
        return fused(*inputs, layer, (rate, seed, 5))

    expected = value_and_gradients(run_plainly, *inputs, *weights)
    variables = [layer.gamma.value, layer.beta.value]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = run_fused(*inputs)
        total = tf.reduce_sum(y * tf.random.stateless_normal(tf.shape(y), [7, 7]))
    gradients = tape.gradient(total, [*inputs, *variables])
    pairs = zip([y, *gradients], expected, strict=True)
    pairs = [(a, b) for a, b in pairs if (a, b) != (None, None)]
    assert len(pairs) == {"norm": 4, "residual_sum": 3}.get(kernel, 5)
    assert_near(*zip(*pairs, strict=True))
    without = fused(*inputs, layer, (rate, None, 5))
    if kernel != "norm" and rate:  # the twins: another mask, and none
        other = fused(*inputs, layer, (rate, seed, 6))
        for moved in (other, without):
            assert np.abs(moved - expected[0]).max() > 0.1
    else:
        np.testing.assert_allclose(without, expected[0], atol=2e-5)


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_norm_of_sum_of_half_types_is_rounded_once(dtype):
    seed = tf.constant([3, 4], tf.int64)
    inputs = [tf.cast(x, dtype) for x in tensors(2)]
    layer = norm_layer(keras.dtype_policies.DTypePolicy(f"mixed_{dtype.name}"))

    def run(layer, *inputs):
        return kernels.norm_of_sum(layer, *inputs, 0.3, seed, 5)

    half = value_and_gradients(functools.partial(run, layer), *inputs)
    exact = functools.partial(run, norm_layer())
    whole = value_and_gradients(exact, *(tf.cast(x, tf.float32) for x in inputs))
    assert {value.dtype for value in half} == {dtype}
    step = 2.0**-8 if dtype == tf.bfloat16 else 2.0**-11
    # Values are rounded by half a step, gradients those of an upstream that was, too.
    np.testing.assert_allclose(tf.cast(half[0], tf.float32), whole[0], rtol=step)
    for ours, theirs in zip(half[1:], whole[1:], strict=True):
        np.testing.assert_allclose(tf.cast(ours, tf.float32), theirs, atol=8 * step)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_attention_has_the_gradients_of_plain_operations(rate):
    seed = tf.constant([3, 4], tf.int64)
    query = tf.random.stateless_normal([2, 3, 5, 16], [2, 1])
    key, value = (tf.random.stateless_normal([2, 3, 9, 16], [3, i]) for i in (1, 2))
    bias = tf.concat([tf.zeros([2, 1, 1, 8]), tf.fill([2, 1, 1, 1], -1e4)], -1)

    def plain(query, key, value):
        scores = tf.matmul(query, key, transpose_b=True) * 0.25 + bias
        weights = kernels.dropout(tf.nn.softmax(scores), rate, seed, 5)
        return tf.matmul(weights, value)

    def attend(*inputs, seed=seed, rate=rate, site=5):
        return kernels.attend(
            *inputs, bias, scale=0.25, rate=rate, seed=seed, site=site
        )

    expected = value_and_gradients(plain, query, key, value)
    assert_near(value_and_gradients(attend, query, key, value), expected)
    # Hidden keys get no gradient, others do.
    assert not np.any(expected[2][:, :, 8])
    assert np.abs(expected[2][:, :, 7]).max() > 1e-2
    # The twins: another mask, and none.
    other = attend(query, key, value, rate=0.3, site=6)
    assert np.abs(other - expected[0]).max() > 1e-2
    difference = np.abs(attend(query, key, value, seed=None) - expected[0]).max()
    assert (difference < 1e-5) == (rate == 0.0)


# Gradients in bfloat16 are sums of up to 90 terms, each rounded by up to 2^-8.
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(tf.float32, 2e-5), (tf.bfloat16, 0.2)]
)
@pytest.mark.parametrize(
    ("shape", "rows"), [((1, 3, 9, 9), 9), ((2, 3, 9, 9), 4), ((2, 1, 1, 9), 4)]
)
@pytest.mark.parametrize("is_traced", [False, True])
def test_a_learned_bias_has_the_gradient_of_plain_operations(
    dtype, tolerance, shape, rows, is_traced
):
    """With dropout, of all queries and of some, and as a part of a masked bias."""
    seed, rate, site = tf.constant([3, 4], tf.int64), 0.3, 5
    query, key, value = (
        tf.cast(tf.random.stateless_normal([2, 3, size, 16], [3, i]), dtype)
        for i, size in enumerate((rows, 9, 9))
    )
    table = tf.random.stateless_normal(shape, [4, 4])
    mask = tf.concat([tf.zeros([2, 1, 1, 8]), tf.fill([2, 1, 1, 1], -1e4)], -1)

    def some(table):  # those of the queries
        return table[:, :, :rows]

    def plain(query, key, value, table):
        scores = tf.matmul(query * 0.25, key, transpose_b=True)
        weights = tf.nn.softmax(tf.cast(scores, tf.float32) + mask + some(table))
        weights = kernels.dropout(weights, rate, seed, site)
        return tf.matmul(tf.cast(weights, dtype), value)

    def attend(query, key, value, table, is_learned=True):
        learned = some(table)
        return kernels.attend(
            *(query, key, value, mask + learned),
            **{"scale": 0.25, "rate": rate, "seed": seed, "site": site},
            learned=learned if is_learned else None,
        )

    inputs = query, key, value, table
    expected = value_and_gradients(plain, *inputs)
    run = functools.partial(value_and_gradients, attend)
    actual = (tf.function(run) if is_traced else run)(*inputs)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == theirs.dtype
        ours, theirs = (tf.cast(each, tf.float32) for each in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, atol=tolerance)
    assert np.abs(expected[-1]).max() > 0.3
    # The twin: a bias that is not named gets none.
    twin = functools.partial(attend, is_learned=False)
    assert value_and_gradients(twin, *inputs)[-1] is None


POSITIONS = np.array([[0, 5, 5, 0], [1, 2, 2, 15], [0, 0, 0, 0]], np.int32)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("shape", [(None, None, None), (3, 16, 8)])
def test_rows_at_positions_and_their_gradient(shape, is_compiled):
    rng, dtype = np.random.default_rng(1), tf.bfloat16
    values = tf.cast(rng.integers(-8, 8, (3, 16, 8)), dtype)  # sums of them are exact

    @tf.function(jit_compile=is_compiled)
    def read(x, positions):
        with tf.GradientTape() as tape:
            tape.watch(x)
            rows = kernels.take_rows(x, positions)
            total = tf.reduce_sum(rows * rows)
        return rows, tape.gradient(total, x)

    specs = tf.TensorSpec(shape, dtype), tf.TensorSpec([shape[0], None], tf.int64)
    rows, gradient = read.get_concrete_function(*specs)(
        values, tf.constant(POSITIONS, tf.int64)
    )
    assert rows.dtype == dtype
    batch = np.arange(3)[:, None]
    wanted = values.numpy().astype(np.float32)
    np.testing.assert_array_equal(rows, wanted[batch, POSITIONS])
    slope = np.zeros_like(wanted)
    np.add.at(slope, (batch, POSITIONS), 2 * wanted[batch, POSITIONS])
    np.testing.assert_array_equal(tf.cast(gradient, tf.float32), slope)


@pytest.mark.parametrize("place", ["first", "last", "mean"])
def test_vector_of_a_text_without_tokens_is_finite(place):
    values = np.arange(2 * 3 * 2, dtype=np.float32).reshape(2, 3, 2)
    mask = np.array([[1, 1, 0], [0, 0, 0]], np.int32)
    expected = {"first": [0, 1], "last": [2, 3], "mean": [1, 2]}[place]
    pooled = kernels.pool_tokens(tf.constant(values), tf.constant(mask), place)
    np.testing.assert_array_equal(pooled[0], expected)
    np.testing.assert_array_equal(pooled[1], [0, 0] if place == "mean" else [6, 7])


def read_outputs(model, features):
    inputs = ("input_ids", "input_mask", "segment_ids")
    outputs = model({name: features[name] for name in inputs})
    return {name: np.asarray(value) for name, value in outputs.items()}


def test_joined_projections_compute_the_same(tiny_config, tiny_features):
    model = random_weights.random_model(tiny_config, "classifier")
    apart = read_outputs(model, tiny_features)
    query = model.network.blocks[0].attention.query.kernel
    with kernels_tf.joined_projections(model) as variables:
        joined = read_outputs(model, tiny_features)
        # The products of a first layer and of a last one, 3 and 2 of 16 columns.
        shapes = [tuple(variable.shape) for variable in variables]
        assert shapes.count((16, 48)) == shapes.count((16, 32)) == 1
        assert sum(map(np.prod, shapes)) == sum(
            np.prod(variable.shape) for variable in model.variables
        )
        # A sum would be fused with the product only where its size is known.
        first = model.network.blocks[0].attention.joined
        hidden = tf.TensorSpec([None, None, 16])
        traced = tf.function(first).get_concrete_function(hidden, hidden)
        kinds = [op.type for op in traced.graph.get_operations()]
        assert kinds.count("BiasAdd") == kinds.count("MatMul") == 1
        assert "AddV2" not in kinds
        query.assign(query + 1.0)  # which is not read now
        unmoved = read_outputs(model, tiny_features)
        variables[-4].assign(variables[-4] + 1.0)  # the kernel of the first layer
        moved = read_outputs(model, tiny_features)
    after = read_outputs(model, tiny_features)  # the layer's own weights again
    for name, value in apart.items():
        np.testing.assert_allclose(joined[name], value, rtol=0, atol=2e-5)
        np.testing.assert_array_equal(unmoved[name], joined[name])
        assert not np.allclose(moved[name], joined[name], atol=1e-3)
        assert not np.allclose(after[name], value, atol=1e-3)
