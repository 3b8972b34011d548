"""Invariants of BERT, each with a twin that has to move the output.

The initial values are wide (tiny_config), so that outputs are of order 1; 1e-5 is the
rounding of float32, and a change that must be seen is 0.01 or more.
"""

import dataclasses
import functools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import activations, bert, dropout_sites, kernels, models
from modeling.configs import config as config_lib
from tests import family_weights

ROUNDING = 1e-5
VISIBLE = 1e-2
RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def build(config):
    keras.utils.set_random_seed(1)
    model = models.BertModel(config)
    model.build()
    return model


@pytest.fixture(scope="module")
def model(tiny_config):
    return build(tiny_config)


def sequence(model, features, seed=None):
    if seed is not None:
        seed = tf.constant(seed, tf.int64)
    return np.asarray(model(features, seed=seed)["sequence_output"])


def pad(features, length):
    return {
        name: np.pad(values, ((0, 0), (0, length - values.shape[1])))
        for name, values in features.items()
        if name in ("input_ids", "input_mask", "segment_ids")
    }


def test_padding_does_not_change_real_tokens(model, tiny_features):
    short, long = sequence(model, tiny_features), pad(tiny_features, 24)
    before = sequence(model, long)
    np.testing.assert_allclose(before[:, :10], short, atol=ROUNDING)
    # Nor does what stands in the padding.
    is_real = long["input_mask"].astype(bool)
    other = {
        **long,
        "input_ids": np.where(is_real, long["input_ids"], 33),
        "segment_ids": np.where(is_real, long["segment_ids"], 1),
    }
    after = sequence(model, other)
    np.testing.assert_allclose(after[is_real], before[is_real], atol=ROUNDING)
    # The twin: without the mask it does.
    unmasked = {**long, "input_mask": np.ones_like(long["input_mask"])}
    assert np.abs(sequence(model, unmasked) - before)[:, :10].max() > VISIBLE


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("is_pattern", [False, True])
def test_attention_is_the_formula(tiny_config, is_pattern):
    """Vaswani et al., section 3.2.2, head by head in float64; of any mask."""
    keras.utils.set_random_seed(2)
    layer = bert.SelfAttention(tiny_config, site=1)
    layer.build((None, None, 16))
    for variable in layer.trainable_variables:  # biases too
        variable.assign(tf.random.stateless_normal(variable.shape, [8, 9]))
    hidden = np.random.default_rng(4).normal(size=(2, 5, 16))
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    pattern = mask[:, None] * (np.tril(np.ones((5, 5))) if is_pattern else 1)
    bias = kernels.attention_bias(tf.constant(pattern if is_pattern else mask))
    actual = layer(tf.constant(hidden, tf.float32), bias)

    def affine(x, dense):
        return x @ np.asarray(dense.kernel, np.float64) + np.asarray(dense.bias)

    size = 16 // tiny_config.num_attention_heads
    mixed = []
    for head in range(tiny_config.num_attention_heads):
        part = slice(head * size, (head + 1) * size)
        query, key, value = (
            affine(hidden, dense)[..., part]
            for dense in (layer.query, layer.key, layer.value)
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(size)
        mixed.append(softmax(scores + (1 - pattern) * -10000.0) @ value)
    expected = affine(np.concatenate(mixed, axis=-1), layer.output_projection)
    # Scores of some tens lose two digits of float32's seven.
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_each_dropout_rate_is_used(tiny_config, tiny_features):
    still = dataclasses.replace(tiny_config, **dict.fromkeys(RATES, 0.0))
    expected = sequence(build(still), tiny_features)
    # The fused activation of training rounds otherwise than the plain one.
    actual = sequence(build(still), tiny_features, (1, 5))
    np.testing.assert_allclose(actual, expected, atol=ROUNDING)
    for rate in RATES:
        dropping = build(dataclasses.replace(still, **{rate: 0.5}))
        moved = sequence(dropping, tiny_features, (1, 5)) - expected
        assert np.abs(moved).max() > VISIBLE, rate


@pytest.mark.slow
def test_blocks_traced_once_are_blocks_traced_each(tiny_config, tiny_features):
    deep = dataclasses.replace(tiny_config, num_hidden_layers=4, hidden_act="relu")
    model = build(deep)
    blocks = model.network.blocks
    variables = [variable.value for variable in model.trainable_variables]

    def gradients():
        with tf.GradientTape() as tape:
            seed = tf.constant([1, 5], tf.int64)
            hidden = model(tiny_features, seed=seed)["sequence_output"]
            total = tf.reduce_sum(tf.square(hidden) * VISIBLE)
        return [tf.convert_to_tensor(x) for x in tape.gradient(total, variables[:-2])]

    def largest_difference(values, others):
        pairs = zip(values, others, strict=True)
        return max(np.abs(value - other).max() for value, other in pairs)

    function = functools.partial(tf.function, autograph=False)
    traced = function(gradients)
    operations = traced.get_concrete_function().graph.get_operations()
    called = [x.get_attr("f").name for x in operations if "Part" in x.type]
    called = [name for name in called if "forward_traced" in name]
    assert len(called) == 4
    assert len(set(called)) == 1
    once = traced()
    for block in blocks:
        block.call_traced = None
    assert largest_difference(once, function(gradients)()) < ROUNDING
    blocks[2].site += 1
    assert largest_difference(once, function(gradients)()) > VISIBLE


def test_every_place_draws_its_own_dropout(tiny_config):
    deep = dataclasses.replace(tiny_config, num_hidden_layers=24)
    sites = [0]
    for block in bert.BertEncoder(deep).blocks:
        sites += block.attention.site, block.site + 1, block.site + 2
    assert len(set(sites)) == len(sites) == 1 + 24 * dropout_sites.PER_BLOCK
    assert max(sites) < 4095  # which is the heads'


def test_initial_values_are_the_originals(tiny_config):
    config = dataclasses.replace(tiny_config, vocab_size=4000)
    model = build(config)
    table = np.asarray(model.network.embeddings.word_embeddings)
    # tf.truncated_normal_initializer(stddev): cut at two deviations, not rescaled, so
    # the deviation of what is left is 0.8796 of it. 64,000 values: three standard
    # errors of a deviation are below 1 %.
    assert np.abs(table).max() <= 2 * config.initializer_range
    assert table.std() == pytest.approx(0.8796 * config.initializer_range, rel=0.01)
    beginnings = []
    for variable in model.trainable_variables:
        kind = variable.path.rsplit("/", 1)[-1]
        if kind in ("bias", "beta", "gamma"):
            constant = 1 if kind == "gamma" else 0
            assert np.all(np.asarray(variable) == constant), variable.path
        else:
            beginnings.append(tuple(np.asarray(variable).ravel()[:8].tolist()))
    # A shared initializer would give equal kernels.
    assert len(set(beginnings)) == len(beginnings)


def test_activations():
    """Formulas in float64, and values that transformers computes."""
    recorded = family_weights.read_activations()
    x = recorded["x"].astype(np.float64)
    normal = (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    cubic = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    formulas = {
        "relu": np.maximum(x, 0),
        "tanh": np.tanh(x),
        "linear": x,
        "gelu_tanh": x * (1 + np.tanh(cubic)) / 2,
        "gelu_erf": x * normal,
        "relu2": np.maximum(x, 0) ** 2,
        "silu": x / (1 + np.exp(-x)),
        "mish": x * np.tanh(np.log1p(np.exp(x))),
        "quick_gelu": x / (1 + np.exp(-1.702 * x)),
        "gelu_10": np.clip(x * normal, -10, 10),
    }
    assert formulas.keys() == config_lib.BertConfig.activations
    known = config_lib.HUGGING_FACE_ACTIVATIONS
    for name, expected in formulas.items():
        for training in (True, False):
            actual = activations.activate(
                name, tf.constant(recorded["x"]), training=training
            )
            np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)
        theirs = [
            recorded[key] for key in recorded.keys() & known if known[key] == name
        ]
        for values in theirs:
            np.testing.assert_allclose(actual, values, rtol=2e-6, atol=2e-6)
        assert theirs, name
    values = np.stack([*formulas.values()])  # the twin: no two of them are one
    apart = np.abs(values[:, None] - values).max(axis=-1)
    assert apart[~np.eye(len(values), dtype=bool)].min() > 1e-4


@pytest.mark.parametrize("is_pattern", [False, True])
def test_chosen_positions_have_the_outputs_of_all(model, tiny_features, is_pattern):
    if is_pattern:
        causal = np.tril(np.ones((2, 10, 10), np.int32))
        tiny_features = {**tiny_features, "input_mask": causal}
    positions = tf.constant([[0, 7, 2], [0, 3, 9]])
    every, chosen = (model.encode(tiny_features, None, p) for p in (None, positions))
    picked = np.take_along_axis(
        np.asarray(every["sequence_output"]), positions.numpy()[..., None], axis=1
    )
    np.testing.assert_allclose(chosen["sequence_output"], picked, atol=ROUNDING)
    np.testing.assert_allclose(
        chosen["pooled_output"], every["pooled_output"], atol=ROUNDING
    )
    # The twin: other positions.
    other = model.encode(tiny_features, None, positions[::-1])["sequence_output"]
    assert np.abs(other - picked).max() > VISIBLE
