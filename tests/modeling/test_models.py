"""Tests of models.py and heads.py, and of checkpoints/formats/names.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import heads, losses, models, pretrainers

BUILDERS = {
    "classifier": lambda config: models.BertClassifier(config, 3),
    "tagger": lambda config: models.BertTagger(config, 4),
    "span": models.BertSpanPredictor,
    "pretrainer": pretrainers.BertPretrainer,
}


@pytest.fixture
def build(tiny_config):
    def make(kind):
        keras.utils.set_random_seed(7)
        model = BUILDERS[kind](tiny_config)
        model.build()
        return model

    return make


@pytest.mark.parametrize("kind", BUILDERS)
def test_every_variable_has_a_gradient(build, tiny_features, kind):
    """A variable that no output depends on would be trained to nothing."""
    model = build(kind)
    with tf.GradientTape() as tape:
        total = tf.add_n([tf.reduce_sum(v**2) for v in model(tiny_features).values()])
    variables = model.trainable_variables
    gradients = tape.gradient(total, [v.value for v in variables])
    blind = {v.path for v, g in zip(variables, gradients, strict=True) if g is None}
    without = {v.path for v in variables if "/pooler/" in v.path}
    assert blind == (without if kind in ("tagger", "span") else set())


def test_classifier_head_is_the_originals(build, tiny_features):
    """run_classifier.py: logits = pooled_output * output_weights^T + output_bias."""
    model = build("classifier")
    head = model.classifier.logits
    head.bias.assign([1.0, 2.0, 3.0])
    pooled = np.asarray(model.encode(tiny_features, None)["pooled_output"])
    expected = pooled @ np.asarray(head.kernel).T + np.asarray(head.bias)
    actual = model(tiny_features)["logits"]
    np.testing.assert_allclose(actual, expected, atol=1e-6)  # float32 rounding
    # Fixed in run_classifier.py, whatever the config has: here 0.5.
    assert np.abs(np.asarray(head.kernel)).max() <= 2 * 0.02


def test_classifier_drops_a_tenth_of_the_pooled_output():
    head = heads.ClassifierHead(1)
    head.build((None, 40_000))
    head.logits.kernel.assign(tf.ones((1, 40_000)))
    ones = tf.ones((1, 40_000))
    kept = float(head(ones, seed=tf.constant([1, 2], tf.int64))[0, 0]) * 0.9
    # A share of 0.9 of 40,000 has a standard error of 60.
    assert abs(kept - 36_000) < 3 * 60
    assert float(head(ones)[0, 0]) == 40_000


def test_probabilities():
    logits = tf.constant([[0.0, 1.0]])
    for problem_type, expected in (
        ("classification", [[0.2689414, 0.7310586]]),
        ("multi_label", [[0.5, 0.7310586]]),
        ("regression", [[0.0, 1.0]]),
    ):
        shares = losses.probabilities(problem_type, logits)
        np.testing.assert_allclose(shares, expected, atol=1e-6)


def test_training_without_a_seed_draws_dropout_anew(build, tiny_features):
    model = build("classifier")
    first, second = (
        np.asarray(model(tiny_features, training=True)["logits"]) for _ in range(2)
    )
    assert np.abs(first - second).max() > 1e-4
    first, second = (np.asarray(model(tiny_features)["logits"]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
