"""ELMo in all that a network goes through: training, half types, files, vectors.

Its numbers are in test_elmo.py.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from modeling.elmo import config

CONFIG = config.ElmoConfig(
    projection_dim=4,
    lstm_dim=6,
    num_hidden_layers=2,
    cell_clip=0.8,
    proj_clip=0.7,
    use_skip_connections=True,
    filters=((1, 3), (2, 4)),
    char_dim=5,
    num_highway=1,
    dropout=0.25,
)
ROWS, STEPS = 3, 5
SEED = tf.constant([1, 7], tf.int64)


def build(**changes):
    model = models.BertModel(dataclasses.replace(CONFIG, **changes))
    model.build()
    rng = np.random.default_rng(2)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape, scale=0.6))
    return model


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(3)
    ids = rng.integers(1, 262, size=(ROWS, STEPS, 50), dtype=np.int32)
    ids[1, 3:] = 0
    mask = (ids[..., 0] > 0).astype(np.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * mask}


def step(model, features):
    """All layers with dropout, and gradients of a sum over them."""
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        outputs = model.encode(features, SEED)
        layers = [tf.cast(x, tf.float32) for x in outputs["layer_outputs"]]
        total = tf.add_n([tf.reduce_sum(tf.square(x)) for x in layers])
    found = layers, tape.gradient(total, variables)
    return tf.nest.map_structure(np.asarray, found)


@pytest.fixture(scope="module")
def trained(features):
    return step(build(), features)


def test_dropout_follows_from_the_seed(features, trained):
    model = build()

    def layers(model, seed):
        return [np.asarray(x) for x in model.encode(features, seed)["layer_outputs"]]

    np.testing.assert_allclose(layers(model, SEED), trained[0], atol=1e-6)
    other = layers(model, tf.constant([1, 8], tf.int64))
    assert np.abs(other[-1] - trained[0][-1]).max() > 0.1
    without = layers(build(dropout=0.0), SEED)
    np.testing.assert_allclose(without, layers(model, None), atol=1e-6)
    assert np.abs(without[-1] - trained[0][-1]).max() > 0.1


def test_each_direction_and_the_softmax_drop_others():
    network = build().network
    ones = tf.ones((8, 9, 4))
    kept = []
    for layers in range(2):  # of the input of each direction, and of what is on top
        pair = network._dropped((ones, ones), SEED, layers)
        kept += [np.asarray(x) for x in pair]
    kept += map(np.asarray, network.top([(ones, ones)], SEED))
    for i, x in enumerate(kept):
        assert set(np.unique(x)) == {0.0, np.float32(1 / 0.75)}
        assert 0.65 < np.mean(x > 0) < 0.85
        assert all((x != y).any() for y in kept[:i])


def test_layers_computed_again_give_the_same_gradients(features, trained):
    again = models.BertModel(CONFIG, recompute=True)
    again.build()
    again.set_weights(build().get_weights())
    found = step(again, features)
    for ours, theirs in zip(
        [*found[0], *found[1]], [*trained[0], *trained[1]], strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize(
    "policy",
    ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)],
)
def test_half_types_stay_close_and_states_float32(features, trained, policy):
    # Where a limit ends a gradient, rounding would decide which.
    unlimited = {"cell_clip": 0.0, "proj_clip": 0.0}
    keras.config.set_dtype_policy(policy)
    try:
        model, free = build(), build(**unlimited)
    finally:
        keras.config.set_dtype_policy("float32")
    half = {"mixed_bfloat16": tf.bfloat16, "mixed_float16": tf.float16}[policy]
    rounding = 2.0**-8 if policy == "mixed_bfloat16" else 2.0**-11
    outputs = model.network(
        *(features[name] for name in ("input_ids", "input_mask", "segment_ids")),
        states=model.network.zero_states(ROWS),
    )
    assert outputs["layer_outputs"][-1].dtype == half
    assert {x.dtype for x in outputs["states"]} == {tf.float32}
    for ours, theirs in zip(step(model, features)[0], trained[0], strict=True):
        assert np.abs(ours - theirs).max() < 10 * rounding * np.abs(theirs).max()
    ours, theirs = (
        np.concatenate([gradient.ravel() for gradient in step(each, features)[1]])
        for each in (free, build(**unlimited))
    )
    cosine = ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs)
    assert cosine > 0.999


def test_words_of_a_table_are_a_network_too(features):
    """Padding is no word, and words are rows of the table."""
    model = build(filters=(), vocab_size=20)
    ids = np.where(
        features["input_mask"] > 0, features["input_ids"][..., 0] % 19 + 1, 0
    )
    outputs = model.encode({**features, "input_ids": ids}, None)
    table = np.asarray(model.network.words.embedding)
    real = ids > 0
    np.testing.assert_array_equal(
        np.asarray(outputs["embedding_output"])[real], np.tile(table[ids[real] - 1], 2)
    )
    np.testing.assert_array_equal(np.asarray(outputs["sequence_output"])[~real], 0.0)
    counted = sum(int(np.prod(w.shape)) for w in model.trainable_variables)
    assert model.config.num_weights() == counted
