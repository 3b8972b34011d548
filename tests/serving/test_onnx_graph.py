"""Graphs of serving/onnx_graph.py against the models that they are written from."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from serving import onnx_graph, onnx_runtime
from tests.serving import networks

ROWS, LENGTH, CLASSES = 4, 9, 3
ROUNDING = 1e-5
KINDS = {
    "classifier": (models.BertClassifier, (CLASSES,)),
    "tagger": (models.BertTagger, (CLASSES,)),
    "spans": (models.BertSpanPredictor, ()),
}


def build(kind, hidden_act="gelu_erf"):
    config = networks.config_for(
        ("a", "b", "c", "d", "e"), hidden_act=hidden_act, initializer_range=0.5
    )
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


def run(model, arrays, problem_type=None, engine=onnx_runtime.open_onnxruntime):
    content = onnx_graph.build(model, problem_type).SerializeToString()
    return engine(content)(arrays)


@pytest.mark.parametrize(
    ("kind", "hidden_act"),
    [
        *((kind, "gelu_erf") for kind in KINDS),
        *(("tagger", act) for act in ("gelu_tanh", "relu", "tanh", "linear")),
    ],
)
def test_graph_has_the_outputs_of_its_model(kind, hidden_act):
    model, arrays = build(kind, hidden_act), features()
    expected = model(arrays, training=False)
    for engine in (onnx_runtime.open_onnxruntime, onnx_runtime.open_openvino):
        actual = run(model, arrays, engine=engine)
        assert actual.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(actual[name], values, atol=ROUNDING)
    for name, values in expected.items():
        # What each input moves is seen in the result.
        for changed in arrays:
            others = {**arrays, changed: 1 - np.minimum(arrays[changed], 1)}
            assert np.abs(run(model, others)[name] - values).max() > 0.01, changed


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
