"""Networks in training: dropout by seeds, and blocks that are computed again."""

import dataclasses
import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import pretrainers
from modeling.checkpoints import keras_files
from modeling.networks.gpt import config as gpt_config
from tests.modeling import random_weights, traced_operations

RATES = (
    "embedding_dropout_prob",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)
GPT_2 = gpt_config.GptConfig(
    vocab_size=60,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=12,
    initializer_range=0.3,
    norm_first=True,
)


def build(config, head, recompute=False, **changes):
    keras.utils.set_random_seed(5)
    names = {field.name for field in dataclasses.fields(config)}
    changes = {name: value for name, value in changes.items() if name in names}
    classes = 3 if head in pretrainers.CLASS_HEADS else None
    config = random_weights.fitting(dataclasses.replace(config, **changes), head)
    return pretrainers.build(head, classes, config, recompute=recompute)


def step(model):
    variables = [variable.value for variable in model.trainable_variables]

    def run(features, seed):
        with tf.GradientTape() as tape:
            outputs = tf.nest.flatten(model(features, seed=seed))
            loss = tf.add_n([tf.reduce_sum(tf.sin(value)) for value in outputs])
        return loss, tape.gradient(loss, variables)

    return run


def seed_of(number):
    return tf.constant([1, number], tf.int64)


def train(model, features, seed):
    """The loss and all gradients; rows of a table and their indices apart."""
    flat = tf.nest.flatten(step(model)(features, seed), expand_composites=True)
    return [np.asarray(value) for value in flat if value is not None]


def distance(ours, theirs):
    """Largest difference, of small values as they are, of others relative."""
    return max(
        np.abs(a - b).max() / max(1.0, np.abs(b).max())
        for a, b in zip(ours, theirs, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        "none",
        pytest.param("seq2seq", marks=pytest.mark.slow),
        pytest.param("gpt2", marks=pytest.mark.slow),
    ],
)
def test_dropout_follows_from_the_seed_in_both_passes(tiny_config, tiny_features, head):
    features = {name: tf.constant(value) for name, value in tiny_features.items()}
    config = dataclasses.replace(tiny_config, initializer_range=0.3)
    if head == "gpt2":
        config, head = GPT_2, "language_model"
    plain = build(config, head, **dict.fromkeys(RATES, 0.0))
    expected = train(plain, features, None)
    # The fused operations of training round otherwise than those of inference.
    assert distance(train(plain, features, seed_of(1)), expected) < 1e-5
    dropped = train(build(config, head), features, seed_of(1))
    assert distance(dropped, expected) > 0.01
    again = build(config, head, recompute=True)
    assert distance(train(again, features, seed_of(1)), dropped) < 5e-6
    assert distance(train(again, features, seed_of(2)), dropped) > 0.01


@pytest.mark.slow
def test_blocks_are_computed_twice(tiny_config, tiny_features):
    features = {name: tf.constant(value) for name, value in tiny_features.items()}
    for recompute, times in ((False, 2), (True, 4)):  # of two layers
        function = tf.function(step(build(tiny_config, "classifier", recompute)))
        graph = function.get_concrete_function(features, seed_of(5)).graph
        types = [each.type for each in traced_operations.each(graph)]
        assert types.count("Softmax") == times


@pytest.mark.slow
def test_keras_file_keeps_it_or_is_older(tiny_config, tiny_features, tmp_path):
    model = build(tiny_config, "span", True)
    model.save(f"{tmp_path}/new.keras")
    again = keras_files.load(f"{tmp_path}/new.keras")
    assert again.recompute and again.network.recompute
    with (
        zipfile.ZipFile(tmp_path / "new.keras") as new,
        zipfile.ZipFile(tmp_path / "old.keras", "w") as old,
    ):
        for name in new.namelist():
            content = new.read(name)
            if name == "config.json":
                policy = keras.saving.serialize_keras_object(model.dtype_policy)
                written = f'"dtype": {json.dumps(policy)}'.encode()
                assert b'"dtype"' not in content
                content = content.replace(b'"recompute": true', written)
                assert b"recompute" not in content and written in content
            old.writestr(name, content)
    again = keras_files.load(f"{tmp_path}/old.keras")
    assert again.recompute is False
    for name, value in model(tiny_features).items():
        np.testing.assert_array_equal(again(tiny_features)[name], value)
