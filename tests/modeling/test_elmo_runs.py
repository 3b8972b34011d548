"""ELMo in all that a network goes through: training, half types, files, vectors.

Its numbers are in test_elmo.py.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from modeling.networks.elmo import config

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
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        outputs = model.encode(features, SEED)
        layers = [tf.cast(x, tf.float32) for x in outputs["layer_outputs"]]
        total = tf.add_n([tf.reduce_sum(tf.square(x)) for x in layers])
    actual = layers, tape.gradient(total, variables)
    return tf.nest.map_structure(np.asarray, actual)


@pytest.fixture(scope="module")
def trained(features):
    return step(build(), features)


@pytest.mark.slow
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
    actual = step(again, features)
    for ours, theirs in zip(
        [*actual[0], *actual[1]], [*trained[0], *trained[1]], strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())


def test_weights_are_counted():
    model = build()
    counted = sum(int(np.prod(w.shape)) for w in model.trainable_variables)
    assert model.config.num_weights() == counted
