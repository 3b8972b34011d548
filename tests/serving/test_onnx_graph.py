"""Graphs of serving/onnx_graph.py against the models that they are written from."""

import dataclasses
import itertools
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import models, text_encoder
from modeling.configs import config as config_lib
from modeling.features import head_config
from modeling.features.text_vectors import TextVectors
from modeling.networks import (
    albert,
    distilbert,
    electra,
    mpnet,
    nomic_bert,
    roberta,
)
from modeling.networks.modernbert import config as modernbert
from serving import onnx_graph, onnx_runtime
from tests import daily
from tests.serving import networks

ROWS, LENGTH, CLASSES = 4, 9, 3
ROUNDING = 1e-5
KINDS = {
    "classifier": (models.BertClassifier, (CLASSES,)),
    "tagger": (models.BertTagger, (CLASSES,)),
    "spans": (models.BertSpanPredictor, ()),
    "vectors": (text_encoder.TextEncoder, ()),
}


TOKENS = ("a", "b", "c", "d", "e")
SIZES = dataclasses.asdict(networks.config_for(TOKENS, num_hidden_layers=3))
RELATIVES = {  # and what they have besides
    distilbert.DistilBertConfig: {},
    roberta.RobertaConfig: {"pad_token_id": 3},
    electra.ElectraConfig: {"embedding_size": 6, "type_vocab_size": 2},
    albert.AlbertConfig: {"embedding_size": 6, "type_vocab_size": 2},
    mpnet.MPNetConfig: {},
    nomic_bert.NomicBertConfig: {"type_vocab_size": 2},
}


UNFUSED = (nomic_bert.NomicBertConfig,)  # their attention is of single operations


def relative(kind):
    fields = {field.name for field in dataclasses.fields(kind)} - {"hidden_act"}
    sizes = {name: SIZES[name] for name in fields & SIZES.keys()}
    return kind(**{**sizes, **RELATIVES[kind]})


def build(kind, hidden_act="gelu_erf", config=None):
    config = config or networks.config_for(
        TOKENS, hidden_act=hidden_act, initializer_range=0.5
    )
    keras.utils.set_random_seed(1)
    make, arguments = KINDS[kind]
    model = make(config, *arguments)
    model.build()
    for number, variable in enumerate(model.variables):  # norms and biases, too
        if variable.dtype == "float32":
            noise = tf.random.stateless_normal(variable.shape, [number, 2])
            variable.assign_add(0.3 * noise)
    return model


def features():
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 5, [ROWS, LENGTH])
    mask = np.arange(LENGTH) < [[9], [4], [1], [7]]
    mask[3, 2] = False  # wherever a zero stands
    segments = rng.integers(0, 2, [ROWS, LENGTH])
    arrays = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    return {name: array.astype(np.int32) for name, array in arrays.items()}


def run(
    model, arrays, problem_type=None, engine=onnx_runtime.open_onnxruntime, **settings
):
    proto = onnx_graph.build(model, problem_type, **settings)
    return engine(proto.SerializeToString())(arrays)


@pytest.mark.parametrize(
    ("kind", "hidden_act"),
    daily.params(
        [
            *((kind, "gelu_erf") for kind in KINDS),
            *(
                ("tagger", act)
                for act in sorted(config_lib.BertConfig.activations - {"gelu_erf"})
            ),
        ],
        lambda pair: pair[1].startswith("gelu"),
    ),
)
def test_graph_has_the_outputs_of_its_model(kind, hidden_act):
    model, arrays = build(kind, hidden_act), features()
    expected = model(arrays, training=False)
    for engine in (onnx_runtime.open_onnxruntime, onnx_runtime.open_openvino):
        actual = run(model, arrays, engine=engine)
        assert actual.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(actual[name], values, atol=ROUNDING)
    assert_inputs_move(model, arrays, expected)


@pytest.mark.parametrize(
    ("network", "kind"),
    daily.params(
        itertools.product((None, *RELATIVES), KINDS),
        lambda pair: pair[0] in (None, mpnet.MPNetConfig) and pair[1] == "tagger",
    ),
)
def test_products_on_their_own_are_those_of_fused_operations(network, kind):
    config = relative(network) if network else networks.config_for(TOKENS)
    model, arrays = build(kind, config=config), features()
    expected = model(arrays, training=False)
    proto = onnx_graph.build(model, None, "static_int8")
    assert "Attention" not in {node.op_type for node in proto.graph.node}
    for engine in (onnx_runtime.open_onnxruntime, onnx_runtime.open_openvino):
        actual = run(model, arrays, engine=engine, quantization="static_int8")
        for name, values in expected.items():
            np.testing.assert_allclose(actual[name], values, atol=ROUNDING)
    left = onnx_graph.products_of_activations(proto)  # 2 of a block, if not fused
    assert len(left) == 2 * config.num_hidden_layers * (network in UNFUSED)


def test_int8_keeps_the_distances_of_mpnet():
    """The quantizer would leave them out of fused attention, in silence."""
    model, arrays = build("tagger", config=relative(mpnet.MPNetConfig)), features()
    distances = model.network.distances.bias
    without = model(arrays, training=False)["logits"]
    noise = tf.random.stateless_normal(distances.shape, [3, 4], stddev=20.0)
    distances.assign_add(noise)
    expected = np.asarray(model(arrays, training=False)["logits"])
    stages = types.SimpleNamespace(forward=model)
    module = types.SimpleNamespace(network_stages=lambda: stages)
    content = onnx_runtime.convert(module, model, "dynamic_int8", None)
    actual = onnx_runtime.open_onnxruntime(content)(arrays)["logits"]
    error, effect = (np.abs(each - expected)[0].mean() for each in (actual, without))
    assert error < 0.3 * effect, (error, effect)


def test_name_of_a_constant_has_one_value():
    graph = onnx_graph.Graph(build("tagger"), "none")
    assert graph.number(1.0) == graph.number(1.0) != graph.number(1.702)
    with pytest.raises(ValueError, match="two constants are called float"):
        graph.constant("float 1.0", np.float32(2.0))


def test_vectors_are_cut_as_the_model_cuts_them(monkeypatch):
    arrays = features()
    width = build("vectors").width
    for size in (3, width, width + 5):
        cut = TextVectors(truncate_dim=size)
        monkeypatch.setitem(KINDS, "cut", (text_encoder.TextEncoder, (cut,)))
        model = build("cut")
        expected = np.asarray(model(arrays, training=False)["vectors"])
        assert expected.shape == (ROWS, min(size, width))
        np.testing.assert_allclose(
            run(model, arrays)["vectors"], expected, atol=ROUNDING
        )


@pytest.mark.parametrize(
    ("pooling", "is_normalized"),
    daily.params(
        itertools.product(["mean", "cls", "max"], [False, True]),
        lambda pair: pair in (("mean", True), ("cls", False)),
    ),
)
@pytest.mark.parametrize("network", ["bert", "modernbert"])
def test_linear_head_may_read_pooled_tokens(
    network, pooling, is_normalized, monkeypatch
):
    reading = head_config.HeadConfig(pooling=pooling, is_normalized=is_normalized)
    config = networks.config_for(TOKENS, initializer_range=0.5)
    if network == "modernbert":
        fields = {f.name for f in dataclasses.fields(modernbert.ModernBertConfig)}
        fields -= {"hidden_act", "type_vocab_size"}
        sizes = {name: SIZES[name] for name in fields & SIZES.keys()}
        config = modernbert.ModernBertConfig(**sizes)
    onnx_runtime.check(config, reading, "single")
    with pytest.raises(ValueError, match="no pooling of the last token"):
        last = head_config.HeadConfig(pooling="last")
        onnx_runtime.check(config, last, "single")

    def make(config, count):
        return models.BertClassifier(config, count, reading=reading)

    monkeypatch.setitem(KINDS, "classifier", (make, (CLASSES,)))
    model = build("classifier", config=config)
    arrays = features()
    expected = np.asarray(model(arrays)["logits"])
    actual = run(model, arrays)
    np.testing.assert_allclose(
        actual["logits"], expected, atol=ROUNDING * np.abs(expected).max()
    )
    if pooling != "max":  # which is no number where a mask has no tokens
        assert_inputs_move(model, arrays, actual)


def assert_inputs_move(model, arrays, expected):
    for name, values in expected.items():
        # What each input moves is seen in the result.
        for changed in arrays:
            others = {**arrays, changed: 1 - np.minimum(arrays[changed], 1)}
            moved = np.abs(run(model, others)[name] - values).max()
            is_read = changed != "segment_ids" or model.config.type_vocab_size
            assert moved > 0.01 if is_read else moved == 0, changed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "kind"),
    daily.params(
        itertools.product(RELATIVES, KINDS), lambda pair: pair[1] == "classifier"
    ),
)
def test_relatives_have_the_outputs_of_their_models(network, kind):
    model, arrays = build(kind, config=relative(network)), features()
    onnx_runtime.check(model.config, model.reading, "single")
    expected = model(arrays, training=False)
    for engine in (onnx_runtime.open_openvino, onnx_runtime.open_onnxruntime):
        actual = run(model, arrays, engine=engine)
        assert actual.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(actual[name], values, atol=ROUNDING)
    assert_inputs_move(model, arrays, actual)


@pytest.mark.parametrize(
    ("problem_type", "share"),
    [
        ("classification", lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        ("multi_label", lambda x: 1 / (1 + np.exp(-x))),
        ("regression", lambda x: x),
    ],
)
def test_probabilities_follow_from_logits(problem_type, share):
    model, arrays = build("classifier"), features()
    expected = np.asarray(model(arrays)["logits"], np.float64)
    actual = run(model, arrays, problem_type)
    np.testing.assert_allclose(actual["probabilities"], share(expected), atol=ROUNDING)
    assert list(actual) == ["logits", "probabilities"]
