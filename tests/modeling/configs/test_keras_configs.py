"""Layers and models are made again from what Keras writes of them."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import features as names
from modeling import bert, gpt, heads, models, pretrainers
from modeling.configs import gpt_config, keras_configs
from modeling.elmo import characters
from tests.modeling import random_weights

LAYERS = {
    "encoder": lambda config: bert.BertEncoder(config, recompute=True),
    "embeddings": bert.Embeddings,
    "attention": lambda config: bert.SelfAttention(config, 7),
    "block": lambda config: bert.EncoderBlock(config, 2),
    "dense": lambda config: bert.dense(config, 5, "dense"),
    "projection": lambda config: bert.OutputProjection(3, stddev=0.5),
    "masked_lm": bert.MaskedLMHead,
    "classifier": lambda config: heads.ClassifierHead(3),
    "span": lambda config: heads.SpanHead(),
    "model": lambda config: models.BertModel(config, recompute=True),
    "tags": lambda config: models.BertTagger(config, 5),
}
KEPT = ("config", "recompute", "site", "index", "units", "stddev", "num_classes")


def three_inputs():
    return {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in names.ENCODER_INPUTS
    }


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
    inputs = three_inputs()
    model = models.BertModel(tiny_config)
    bare = bert.BertEncoder(tiny_config)
    pooled = model(inputs)["pooled_output"]
    tokens = bare(*inputs.values())["sequence_output"]
    mean = keras.layers.GlobalAveragePooling1D()(tokens)
    joined = keras.layers.Concatenate()([pooled, mean])
    model = keras.Model(inputs, keras.layers.Dense(3)(joined))

    features = {name: tiny_features[name] for name in inputs}
    wanted = np.asarray(model(features))
    model.save(tmp_path / "own.keras")
    again = keras.models.load_model(tmp_path / "own.keras")
    np.testing.assert_allclose(np.asarray(again(features)), wanted, atol=1e-6)


@pytest.fixture(scope="module")
def gpt_shape():
    """GPT-2's config, of a size that is fast to train."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return gpt_config.GptConfig(vocab_size=60, norm_first=True, **sizes)


def test_functional_model_with_a_layer_of_gpt_is_loaded(gpt_shape, tmp_path):
    """ELMo's characters have another convolution, under another name."""
    assert gpt.GptDense.__name__ != characters.Convolution.__name__
    inputs = keras.Input((16,))
    model = keras.Model(inputs, gpt.GptDense(gpt_shape, 5)(inputs))
    model.save(tmp_path / "own.keras")
    again = keras.models.load_model(tmp_path / "own.keras")
    ones = np.ones((2, 16), np.float32)
    wanted = ones @ np.asarray(model.layers[1].kernel)[0]
    np.testing.assert_allclose(again(ones), wanted, rtol=1e-6)


def test_name_of_another_class_is_not_registered():
    kind = type("Highway", (), {"__module__": "modeling.other"})
    with pytest.raises(ValueError, match="characters both have a class Highway"):
        keras_configs.register(kind)
    known = keras.saving.get_registered_object("bert>Highway")
    assert known is characters.Highway is keras_configs.register(known)


def test_dense_has_what_keras_dense_has():
    chosen = {"activation": "relu", "use_bias": False, "kernel_initializer": "ones"}
    outputs = bert.Dense(2, **chosen)(np.array([[-1.0, -2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(outputs, [[0, 0], [7, 7]])


def test_low_rank_updates_are_of_berts_layers_alone(tiny_config, gpt_shape):
    dense = bert.dense(tiny_config, 3, "dense")
    dense.build((None, 16))
    before = np.asarray(dense.kernel)
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones((2, 3)))
    moved = before + np.asarray(dense.lora_kernel_a).sum(1, keepdims=True)
    ones = np.ones((1, 16), np.float32)
    np.testing.assert_allclose(dense(ones), ones @ moved, rtol=1e-5)
    block = gpt.GptBlock(gpt_shape, 0)
    with pytest.raises(ValueError, match=r"ffn_in: GPT's kernels \[1, D, units\] take"):
        block.ffn_in.enable_lora(4)


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize`")
@pytest.mark.parametrize("network", ["bert", "gpt"])
def test_quantization_that_would_do_nothing_is_refused(tiny_config, gpt_shape, network):
    config = gpt_shape if network == "gpt" else tiny_config
    model = models.BertClassifier(config, 3)
    model.build()
    inputs = three_inputs()
    functional = keras.Model(inputs, model(inputs)["logits"])
    for each in (model, functional):
        with pytest.raises(ValueError, match="computes in floats alone; export to"):
            each.quantize("int8")


class WithMean(models.BertModel):
    """Of a user: what is pooled and the mean, side by side, in a narrow vector."""

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.mean = keras.layers.GlobalAveragePooling1D()
        self.merge = keras.layers.Concatenate()
        self.narrow = keras.layers.Dense(3)

    def call(self, features, training=False, seed=None):
        outputs = super().call(features, training, seed)
        both = [outputs["pooled_output"], self.mean(outputs["sequence_output"])]
        return {"narrow": self.narrow(self.merge(both))}


def test_subclass_with_layers_of_keras_is_built_and_loaded(
    tiny_config, tiny_features, tmp_path
):
    model = WithMean(tiny_config)
    model.build()
    assert model.narrow.kernel.shape == (32, 3)
    model.save(tmp_path / "own.keras")
    again = keras.models.load_model(tmp_path / "own.keras")
    wanted = model(tiny_features)["narrow"]
    np.testing.assert_array_equal(again(tiny_features)["narrow"], wanted)


@pytest.mark.parametrize(
    "head", ["none", pytest.param("seq2seq", marks=pytest.mark.slow)]
)
def test_models_are_exported_as_they_were_built(
    tiny_config, tiny_features, tmp_path, head
):
    model = random_weights.random_model(tiny_config, head)
    model.export(str(tmp_path), verbose=False)
    inputs = {name: tiny_features[name] for name in model.features_spec()}
    exported = tf.saved_model.load(str(tmp_path))
    outputs = exported.serve(inputs)
    expected = dict(model(inputs))
    for k, layer in enumerate(expected.pop("layer_outputs", [])):
        expected[f"layer_outputs_{k}"] = layer
    assert outputs.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-4, err_msg=name)
    shapes = model.compute_output_shape({n: x.shape for n, x in inputs.items()})
    if head == "none":
        assert shapes.pop("layer_outputs") == [(2, 10, 16)] * 2
    assert shapes == {name: expected[name].shape for name in shapes}


def test_encoder_alone_drops_where_a_functional_model_trains(
    tiny_config, tiny_features
):
    features = {name: tiny_features[name] for name in names.ENCODER_INPUTS}
    for rate in (0.0, 0.9):
        changes = {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}
        config = dataclasses.replace(tiny_config, **changes)
        inputs, bare = three_inputs(), bert.BertEncoder(config)
        pooled = bare(*inputs.values())["pooled_output"]
        model = keras.Model(inputs, keras.layers.Dense(1)(pooled))
        still = np.asarray(model(features))
        drawn = [np.asarray(model(features, training=True)) for _ in range(2)]
        moved = [np.abs(drawn[0] - other).max() for other in (still, drawn[1])]
        assert min(moved) > 0.1 if rate else max(moved) < 1e-5
        np.testing.assert_array_equal(model(features), still)
        # None is no dropout, whatever is around the call.
        alone = [
            bare(*features.values(), seed=None, training=training)["sequence_output"]
            for training in (False, True)
        ]
        np.testing.assert_array_equal(*alone)
        assert not bare.non_trainable_variables  # nor is the seed in a file
    model.compile("sgd", "mse")
    labels = np.zeros((2, 1), np.float32)
    losses = [model.train_on_batch(features, labels) for _ in range(2)]
    assert np.isfinite(losses).all() and losses[0] != losses[1]
    shapes = bare.compute_output_shape(*[(4, 7)] * 3)
    assert shapes["layer_outputs"] == [(4, 7, 16)] * 2
    assert shapes["pooled_output"] == (4, 16)


def policies(model):
    return {layer.path: layer.dtype_policy.name for layer in model._flatten_layers()}


@pytest.mark.parametrize("head", pretrainers.HEADS)
def test_dtype_is_that_of_all_parts_and_is_kept(
    tiny_config, set_policy, tmp_path, head
):
    config = random_weights.fitting(tiny_config, head)
    set_policy("mixed_bfloat16")
    expected = policies(pretrainers.build(head, 3, config, name="model"))
    set_policy("float32")
    model = pretrainers.build(head, 3, config, name="model", dtype="mixed_bfloat16")
    assert policies(model) == expected
    model.save(tmp_path / "half.keras")
    again = keras.models.load_model(tmp_path / "half.keras")
    assert policies(again) == expected
    assert {*expected.values()} >= {"mixed_bfloat16"}


def test_dtype_that_a_part_does_not_have_is_refused(tiny_config):
    with pytest.raises(ValueError, match="dtype=float16: variables are float32 here"):
        models.BertModel(tiny_config, dtype="float16")
    with pytest.raises(ValueError, match="a SpanHead computes in float32 under every"):
        heads.SpanHead(dtype="mixed_bfloat16")


def test_own_subclass_is_registered_under_another_name(tiny_config):
    class BertTagger(models.BertModel):
        """Of a user, who need not know our names."""

    written = keras.saving.serialize_keras_object(BertTagger(tiny_config))
    assert written["registered_name"] == "Custom>BertTagger"
    assert type(keras.saving.deserialize_keras_object(written)) is BertTagger
