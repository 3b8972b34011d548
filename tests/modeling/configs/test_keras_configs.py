"""Layers and models are made again from what Keras writes of them."""

import collections
import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from contract import features as feature_names
from modeling import bert, heads, models, pretrainers
from modeling.configs import keras_configs
from modeling.networks.elmo import characters
from modeling.networks.gpt import config as gpt_config
from tests import daily
from tests.modeling import random_weights


def three_inputs():
    return {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in feature_names.ENCODER_INPUTS
    }


@pytest.fixture(scope="module")
def gpt_shape():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return gpt_config.GptConfig(vocab_size=60, norm_first=True, **sizes)


def test_no_two_classes_have_one_name_in_files():
    def list_classes(base):
        kinds = base.__subclasses__()
        return kinds + [each for kind in kinds for each in list_classes(kind)]

    kinds = list_classes(keras_configs.Configured)
    ours = {kind for kind in kinds if kind.__module__.startswith("modeling.")}
    counts = collections.Counter(kind.__name__ for kind in ours)
    assert "Highway" in counts and max(counts.values()) == 1
    known = keras.saving.get_registered_object("bert>Highway")
    assert known is characters.Highway is keras_configs.register(known)


def test_dense_has_what_keras_dense_has():
    chosen = {"activation": "relu", "use_bias": False, "kernel_initializer": "ones"}
    outputs = bert.Dense(2, **chosen)(np.array([[-1.0, -2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(outputs, [[0, 0], [7, 7]])


def test_low_rank_updates_of_berts_layers(tiny_config):
    dense = bert.dense(tiny_config, 3, "dense")
    dense.build((None, 16))
    before = np.asarray(dense.kernel)
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones((2, 3)))
    moved = before + np.asarray(dense.lora_kernel_a).sum(1, keepdims=True)
    ones = np.ones((1, 16), np.float32)
    np.testing.assert_allclose(dense(ones), ones @ moved, rtol=1e-5)


class WithMean(models.BertModel):
    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.mean = keras.layers.GlobalAveragePooling1D()
        self.merge = keras.layers.Concatenate()
        self.narrow = keras.layers.Dense(3)

    def call(self, features, training=False, seed=None):
        outputs = super().call(features, training, seed)
        both = [outputs["pooled_output"], self.mean(outputs["sequence_output"])]
        return {"narrow": self.narrow(self.merge(both))}


@pytest.mark.slow
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


@pytest.mark.slow
def test_models_are_exported_as_they_were_built(tiny_config, tiny_features, tmp_path):
    model = random_weights.random_model(tiny_config, "none")
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
    assert shapes.pop("layer_outputs") == [(2, 10, 16)] * 2
    assert shapes == {name: expected[name].shape for name in shapes}


HEADS_OF = {
    "bert": ("none", "pretraining", "classifier", "tagger", "span", "language_model"),
    "gpt": ("none", "classifier", "tagger", "span", "language_model"),
    "gpt2": ("none", "classifier", "tagger", "span", "language_model"),
    "elmo": ("none", "classifier", "tagger", "span"),
    "pair": ("seq2seq",),
}


@pytest.mark.parametrize(
    ("network", "head"),
    daily.params(
        [(n, head) for n, heads in HEADS_OF.items() for head in heads],
        lambda pair: pair[1] == HEADS_OF[pair[0]][-1],
    ),
)
def test_methods_of_keras_work_on_every_model(tiny_config, network, head, tmp_path):
    config = random_weights.configs(tiny_config)[network]
    model = random_weights.random_model(config, head)
    lines = []
    model.summary(print_fn=lambda text, line_break=False: lines.append(text))
    assert f"Total params: {model.count_params():,} " in "\n".join(lines)
    again = keras.models.clone_model(model)
    assert again.config == model.config and again is not model
    assert [v.path for v in again.variables] == [v.path for v in model.variables]
    assert keras.models.model_from_json(model.to_json()).config == model.config
    with pytest.raises(errors.InputError, match=r"m\.h5: save .* in \.keras"):
        model.save(tmp_path / "m.h5")


@pytest.mark.slow
def test_encoder_alone_drops_where_a_functional_model_trains(
    tiny_config, tiny_features
):
    features = {name: tiny_features[name] for name in feature_names.ENCODER_INPUTS}
    keras.utils.set_random_seed(5)
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
    shapes = bare.compute_output_shape(*[(4, 7)] * 3)
    assert shapes["layer_outputs"] == [(4, 7, 16)] * 2
    assert shapes["pooled_output"] == (4, 16)


def policies(model):
    return {layer.path: layer.dtype_policy.name for layer in model._flatten_layers()}


@pytest.mark.parametrize("head", ["classifier", "seq2seq"])
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
    with pytest.raises(ValueError, match="dtype=float16: variables are float32 here"):
        models.BertModel(tiny_config, dtype="float16")
    with pytest.raises(ValueError, match="a SpanHead computes in float32 under every"):
        heads.SpanHead(dtype="mixed_bfloat16")
