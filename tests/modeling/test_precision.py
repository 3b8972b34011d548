"""Mixed precision and XLA: the same network in half types, and compiled.

A half type rounds by one part in 2^8 (bfloat16) or 2^11 (float16). What is measured is
up to 2 such roundings of the largest output, because a value is rounded some ten times
on its way and roundings cancel; allowed are 5. Gradients keep a cosine of 0.9999;
allowed is 0.999. A part that stays in float32 by mistake would show in the operations.
"""

import dataclasses
import math
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses, models, pretrainers
from modeling.features import head_config
from modeling.networks.gpt import config as gpt_config
from tests import elmo_streams
from tests.modeling import random_weights, traced_operations

ROUNDING = {"mixed_bfloat16": 2.0**-8, "mixed_float16": 2.0**-11}
HALF = {"mixed_bfloat16": tf.bfloat16, "mixed_float16": tf.float16}
ROUNDINGS, COSINE = 5, 0.999
OBJECTIVES = {
    "pretraining": losses.pretraining(),
    "classifier": losses.classifier("classification"),
    "tagger": losses.tagger(),
    "span": losses.span(),
    "seq2seq": losses.target_token(),
}


@pytest.fixture(scope="module")
def config(tiny_config):
    """Smaller weights than tiny_config's, where a rounded score picks another key."""
    return dataclasses.replace(
        tiny_config,
        hidden_size=32,
        intermediate_size=64,
        max_position_embeddings=48,
        initializer_range=0.1,
    )


@pytest.fixture
def features(tiny_features):
    return {
        **{name: tf.constant(value) for name, value in tiny_features.items()},
        "start_positions": tf.constant([1, 2]),
        "end_positions": tf.constant([3, 2]),
    }


def build(config, head):
    keras.utils.set_random_seed(5)
    classes = 3 if head in pretrainers.CLASS_HEADS else None
    return pretrainers.build(head, classes, random_weights.fitting(config, head))


def step(model, head):
    variables = [variable.value for variable in model.trainable_variables]

    def run(features, seed):
        labels = {
            "classifier": tf.constant([1, 2]),
            "tagger": features["segment_ids"] - 1 + features["input_mask"],
        }
        features = {**features, "label_ids": labels.get(head)}
        with tf.GradientTape() as tape:
            outputs = model(features, training=True, seed=seed)
            if head in ("none", "language_model"):
                # Squares do not cancel.
                outputs.pop("next_token_hits", None)  # steps, which have no slope
                values = tf.nest.flatten(outputs)
                totals = [tf.reduce_sum(tf.sin(value) ** 2) for value in values]
            else:
                totals = list(OBJECTIVES[head].totals(features, outputs).values())
            loss = tf.add_n(totals)
        return outputs, loss, tape.gradient(loss, variables)

    return run


def seed_of(number):
    return tf.constant([1, number], tf.int64)


def largest(tensors):
    return max(float(tf.reduce_max(tf.abs(value))) for value in tensors)


def worst_error(actual, expected):
    outputs, wanted = (tf.nest.flatten(result[0]) for result in (actual, expected))
    errors = [ours - theirs for ours, theirs in zip(outputs, wanted, strict=True)]
    return max(
        largest(errors) / largest(wanted),
        largest([actual[1] - expected[1]]) / largest([expected[1]]),
    )


def cosines(model, actual, expected):
    # A softmax does not see what is added to all scores, nor that to all places of an
    # answer: these true gradients are zero.
    blind = ["/key/bias"]
    if isinstance(model, models.BertSpanPredictor):
        last = model.config.num_hidden_layers - 1
        blind += [f"/block_{last}/ffn_norm/beta", "/span/logits/bias"]
    outputs = {}
    triples = zip(model.trainable_variables, actual[2], expected[2], strict=True)
    for variable, *pair in triples:
        assert (pair[0] is None) == (pair[1] is None), variable.path
        if pair[0] is None or variable.path.endswith(tuple(blind)):
            continue
        ours, theirs = (np.ravel(tf.convert_to_tensor(value)) for value in pair)
        size = np.linalg.norm(ours) * np.linalg.norm(theirs)
        outputs[variable.path] = float(ours @ theirs / size)
    return outputs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "policy"),
    [
        ("pretraining", "mixed_bfloat16"),
        ("seq2seq", "mixed_bfloat16"),
        ("span", "mixed_float16"),
        ("language_model", "mixed_float16"),
    ],
)
def test_half_types_give_nearly_the_same(config, features, set_policy, head, policy):
    expected = step(build(config, head), head)(features, seed_of(5))
    set_policy(policy)
    model = build(config, head)
    actual = step(model, head)(features, seed_of(5))
    # With less nothing was computed in the half type at all.
    error = worst_error(actual, expected) / ROUNDING[policy]
    assert 0.02 < error < ROUNDINGS
    outputs = cosines(model, actual, expected)
    assert min(outputs.values()) > COSINE, min(outputs, key=outputs.get)
    # The twin: what another dropout mask makes of both.
    other = step(model, head)(features, seed_of(6))
    assert min(cosines(model, other, expected).values()) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "policy"),
    [
        pytest.param("pretraining", "mixed_bfloat16", marks=pytest.mark.slow),
        ("tagger", "mixed_bfloat16"),
        pytest.param("seq2seq", "mixed_bfloat16", marks=pytest.mark.slow),
        pytest.param("span", "mixed_float16", marks=pytest.mark.slow),
    ],
)
def test_what_leaves_the_model_is_float32(config, features, set_policy, head, policy):
    set_policy(policy)
    model = build(dataclasses.replace(config, num_hidden_layers=1), head)
    assert {v.dtype for v in model.trainable_variables} == {"float32"}
    outputs, loss, gradients = step(model, head)(features, seed_of(5))
    assert {v.dtype for v in tf.nest.flatten(outputs)} == {tf.float32}
    assert {v.dtype for v in tf.nest.flatten(model(features))} == {tf.float32}
    assert loss.dtype == tf.float32
    gradients = dict(
        zip((v.path for v in model.trainable_variables), gradients, strict=True)
    )
    for path, gradient in gradients.items():
        if gradient is not None:
            assert gradient.dtype == tf.float32, path
            assert np.all(np.isfinite(tf.convert_to_tensor(gradient))), path
    tables = [p for p in gradients if p.endswith("/word_embeddings")]
    assert len(tables) == (2 if head == "seq2seq" else 1)
    # The output layer of pretraining reaches every row, of a decoder's table.
    predicts = head in ("pretraining", "language_model")
    for path in tables:
        is_sparse = isinstance(gradients[path], tf.IndexedSlices)
        assert is_sparse == (not predicts and "/decoder/" not in path)


def operations(config, features, head):
    function = tf.function(step(build(config, head), head))
    graph = function.get_concrete_function(features, seed_of(5)).graph
    return [*traced_operations.each(graph)]


def is_lookup(operation, table):
    return operation.type == "GatherV2" and tuple(operation.inputs[0].shape) == table


@pytest.mark.parametrize(
    "policy", [pytest.param("float32", marks=pytest.mark.slow), "mixed_bfloat16"]
)
def test_each_operation_has_its_type(config, features, set_policy, policy):
    set_policy(policy)
    actual = operations(config, features, "tagger")

    def types(kind, layer=""):
        # Keras numbers the scope of a layer anew for each call.
        place = re.compile(rf"/{layer}(_\d+)?/") if layer else re.compile("")
        return {
            operation.inputs[0].dtype
            for operation in actual
            if operation.type == kind and place.search(operation.name)
        }

    half = HALF.get(policy, tf.float32)
    assert types("BatchMatMulV2", "attention") == {half}
    assert types("MatMul", "ffn_in") == {half}
    for kind in ("Softmax", "SparseSoftmaxCrossEntropyWithLogits"):
        assert types(kind) == {tf.float32}
    assert types("MatMul", "logits") == {tf.float32}
    table = (config.vocab_size, 32)
    assert [op.inputs[0].dtype for op in actual if is_lookup(op, table)] == [tf.float32]
    casts = [
        op for op in actual if op.type == "Cast" and op.inputs[0].dtype.is_floating
    ]
    # The rows of the word table are looked up, never cast as a whole.
    tables = {table, (config.max_position_embeddings, 32)}
    assert not tables & {tuple(v.shape) for v in build(config, "tagger").weights[5:]}
    assert not [op for op in casts if tuple(op.inputs[0].shape) in tables]
    assert bool(casts) == (policy != "float32")


def test_pooler_keeps_the_gradient_of_large_sums(config, set_policy):
    """tanh(4) is 0.9993, which bfloat16 rounds to 1, where its slope is zero."""
    set_policy("mixed_bfloat16")
    model = build(config, "none")
    model.network.pooler.bias.assign(tf.fill([32], 4.0))
    model.network.pooler.kernel.assign(tf.zeros([32, 32]))
    ids = tf.ones([1, 3], tf.int32)
    with tf.GradientTape() as tape:
        pooled = model.network(ids, ids, ids)["pooled_output"]
        total = tf.reduce_sum(pooled)
    slope = tape.gradient(total, model.network.pooler.bias.value)
    # float32: 1 - tanh^2 of numbers near 1 keeps four digits.
    np.testing.assert_allclose(slope, 1 - math.tanh(4) ** 2, rtol=1e-3)
    assert float(tf.cast(math.tanh(4), tf.bfloat16)) == 1.0


@pytest.mark.parametrize(
    ("network", "policy"), [("bert", "mixed_bfloat16"), ("gpt2", "mixed_float16")]
)
def test_layer_states_are_read_as_they_were_computed(
    config, features, set_policy, network, policy
):
    """In float32, in which GPT-2's sums are, whose values no half type has."""
    if network == "gpt2":
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        config = gpt_config.GptConfig(vocab_size=60, norm_first=True, **sizes)
    set_policy(policy)
    reading = head_config.HeadConfig(freeze_encoder=True, layer_mix="learned")
    model = pretrainers.build("tagger", 3, config, reading=reading)
    if network == "gpt2":  # beyond what float16 holds
        table = model.network.embeddings.word_embeddings
        table.assign(tf.fill(table.shape, 70_000.1))
    states = model.source.layer_states(features)
    assert states.dtype == tf.float32
    rounded = tf.cast(tf.cast(states, HALF[policy]), tf.float32)
    is_exact = bool(tf.reduce_all(rounded == states))
    assert is_exact == (network == "bert")  # whose states are of the half type
    cached = model({**features, "layer_states": states})["logits"]
    np.testing.assert_array_equal(cached, model(features)["logits"])
    assert np.isfinite(cached).all() and np.abs(cached).max() > 0


def test_carried_states_are_float32(set_policy):
    values = elmo_streams.record()
    features = {**elmo_streams.batch(values, 0), "sampling_seed": np.ones((2, 2))}

    def run():
        model = elmo_streams.model(values)
        states = {
            name: np.full((2, *shape), 1 / 3, np.float32)
            for name, shape in model.states.items()
        }
        return model({**features, **states})

    expected = run()
    set_policy("mixed_bfloat16")
    actual = run()
    assert {value.dtype for value in actual.values()} == {tf.float32}
    for name, value in actual.items():  # of many; a recurrence enlarges a few errors
        error = tf.reduce_mean(abs(value - expected[name])) / largest([expected[name]])
        assert 0 < error < ROUNDINGS * 2.0**-8, name
