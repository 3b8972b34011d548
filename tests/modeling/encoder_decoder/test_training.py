"""An encoder-decoder in training: dropout, memory, half types."""

import dataclasses

import keras
import pytest
import tensorflow as tf

from modeling import kernels_tf, losses, pretrainers
from modeling.encoder_decoder import config as encoder_decoder_config
from modeling.encoder_decoder import network as network_lib

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
HIGH = {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.0}


@pytest.fixture
def build(tiny_config):
    def make(**changes):
        keras.utils.set_random_seed(5)
        shape = {"num_hidden_layers": 1, "initializer_range": 0.3}
        side = dataclasses.replace(tiny_config, **shape, **changes)
        config = encoder_decoder_config.EncoderDecoderConfig.from_berts(
            side, side, decoder_start_token_id=1, eos_token_id=2
        )
        return pretrainers.build("seq2seq", None, config)

    return make


@pytest.fixture
def features(tiny_features):
    return {name: tf.constant(value) for name, value in tiny_features.items()}


def seed_of(number):
    return tf.constant([1, number], tf.int64)


def loss_and_gradients(model, features, seed):
    objective = losses.target_token()
    with tf.GradientTape() as tape:
        (loss,) = objective.totals(features, model(features, seed=seed)).values()
    variables = [variable.value for variable in model.trainable_variables]
    return [loss, *map(tf.convert_to_tensor, tape.gradient(loss, variables))]


def difference(ours, theirs):
    pairs = zip(ours, theirs, strict=True)
    return max(float(tf.reduce_max(tf.abs(a - b))) for a, b in pairs)


def test_training_without_dropout_computes_what_inference_does(build, features):
    plain = build(**NO_DROPOUT)
    expected = loss_and_gradients(plain, features, None)
    scale = max(float(tf.reduce_max(tf.abs(value))) for value in expected)
    found = loss_and_gradients(plain, features, seed_of(1))
    assert difference(found, expected) < 1e-5 * scale
    model = build()
    dropped = loss_and_gradients(model, features, seed_of(1))
    assert difference(dropped, expected) > 0.1
    again = loss_and_gradients(model, features, seed_of(1))
    assert difference(dropped, again) == 0
    losses = (model(features, seed=seed_of(n))["next_token_losses"] for n in (1, 2))
    assert difference(*([loss] for loss in losses)) > 0.1


def test_sides_drop_different_entries(build, features, monkeypatch):
    model = build(**HIGH)
    same = {
        **features,
        "decoder_input_ids": features["input_ids"],
        "decoder_mask": features["input_mask"],
    }

    def dropped():
        outputs = model.encode(same, seed_of(1))
        sides = outputs["encoder_outputs"], outputs
        return [side["embedding_output"].numpy() == 0 for side in sides]

    first, second = dropped()
    assert 0.4 < first.mean() < 0.6 and 0.4 < second.mean() < 0.6
    assert 0.4 < (first == second).mean() < 0.6
    monkeypatch.setattr(network_lib, "_OF_DECODER", (0, 0))  # the twin
    first, second = dropped()
    assert (first == second).all()


def test_each_dropout_of_the_decoder_has_a_site_of_its_own(tiny_config, monkeypatch):
    sites = []
    keep_mask = kernels_tf.keep_mask
    monkeypatch.setattr(
        *(kernels_tf, "keep_mask"),
        lambda rate, seed, site: sites.append(site) or keep_mask(rate, seed, site),
    )
    decoder = network_lib.Decoder(dataclasses.replace(tiny_config, attention="causal"))
    ids = tf.ones([1, 3], tf.int32)
    decoder(ids, ids, tf.ones([1, 4, 16]), tf.ones([1, 4], tf.int32), seed=seed_of(1))
    # Of embeddings two, one of which drops nothing; of two blocks three each, and two.
    assert sorted(sites) == [0, *range(11)]
