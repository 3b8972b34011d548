"""Layers and models are made again from what Keras writes of them."""

import keras
import numpy as np
import pytest

from modeling import encoder, heads, layers, models, token_heads

LAYERS = {
    "encoder": lambda config: encoder.BertEncoder(config, recompute=True),
    "embeddings": layers.Embeddings,
    "attention": lambda config: layers.SelfAttention(config, 7),
    "block": lambda config: layers.EncoderBlock(config, 2),
    "dense": lambda config: layers.dense(config, 5, "dense"),
    "projection": lambda config: heads.OutputProjection(3, stddev=0.5),
    "masked_lm": token_heads.MaskedLMHead,
    "classifier": lambda config: heads.ClassifierHead(3),
    "tagger": lambda config: heads.TaggerHead(4),
    "span": lambda config: heads.SpanHead(),
    "model": lambda config: models.BertModel(config, recompute=True),
    "tags": lambda config: models.BertTagger(config, 5),
}
KEPT = ("config", "recompute", "site", "index", "units", "stddev", "num_classes")


@pytest.mark.parametrize("kind", LAYERS)
def test_layer_is_made_again(tiny_config, kind):
    made = LAYERS[kind](tiny_config)
    written = keras.saving.serialize_keras_object(made)
    assert written["registered_name"].startswith("bert>")
    again = keras.saving.deserialize_keras_object(written)
    assert type(again) is type(made) and again.name == made.name
    kept = {name: getattr(made, name) for name in KEPT if hasattr(made, name)}
    assert {name: getattr(again, name) for name in kept} == kept
    assert bool(kept) or kind == "span"


def test_head_of_ones_own_is_saved_and_loaded(tiny_config, tiny_features, tmp_path):
    """In Keras' functional way, over the model and over the bare encoder."""
    names = ("input_ids", "input_mask", "segment_ids")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    bert = models.BertModel(tiny_config)
    bare = encoder.BertEncoder(tiny_config)
    pooled = bert(inputs)["pooled_output"]
    tokens = bare(*(inputs[name] for name in names))["sequence_output"]
    mean = keras.layers.GlobalAveragePooling1D()(tokens)
    joined = keras.layers.Concatenate()([pooled, mean])
    model = keras.Model(inputs, keras.layers.Dense(3)(joined))

    features = {name: tiny_features[name] for name in names}
    wanted = np.asarray(model(features))
    model.save(tmp_path / "own.keras")
    again = keras.models.load_model(tmp_path / "own.keras")
    np.testing.assert_allclose(np.asarray(again(features)), wanted, atol=1e-6)


def test_own_subclass_is_registered_under_another_name(tiny_config):
    class BertTagger(models.BertModel):
        """Of a user, who need not know our names."""

    written = keras.saving.serialize_keras_object(BertTagger(tiny_config))
    assert written["registered_name"] == "Custom>BertTagger"
    assert type(keras.saving.deserialize_keras_object(written)) is BertTagger


def test_frozen_layers_stay(tiny_config):
    model = models.BertClassifier(tiny_config, 3)
    model.build()
    model.network.embeddings.trainable = False
    model.network.blocks[0].trainable = False
    left = {variable.path.split("/")[2] for variable in model.trainable_variables}
    assert left == {"block_1", "pooler", "logits"}
