"""Dropout of an encoder-decoder."""

import dataclasses

import pytest
import tensorflow as tf

from modeling import dropout_sites, kernels_tf
from modeling.networks.encoder_decoder import network as network_lib
from tests.modeling import random_weights


def seed_of(number):
    return tf.constant([1, number], tf.int64)


@pytest.mark.slow
def test_sides_drop_different_entries(tiny_config, tiny_features, monkeypatch):
    features = {name: tf.constant(value) for name, value in tiny_features.items()}
    side = dataclasses.replace(tiny_config, hidden_dropout_prob=0.5)
    model = random_weights.random_model(side, "seq2seq")
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
    monkeypatch.setattr(dropout_sites, "_OF_DECODER", 0)  # the twin
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
    # Embeddings have two, one of which drops nothing; two blocks have five each.
    assert sorted(sites) == [0, *range(11)]
