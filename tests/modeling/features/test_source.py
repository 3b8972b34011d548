"""Layers of a network as features of a task, and the heads that read them."""

import dataclasses
import itertools
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import features as feature_names
from modeling import pretrainers
from modeling.checkpoints import google
from modeling.features import head_config, layer_choices, source, vectors
from tests import daily

ROUNDING = 1e-5
SKIP = pathlib.Path(__file__).parents[2] / "golden" / "elmo" / "skip.npz"
LSTM = {"head": "bilstm", "bilstm_units": 5}


@pytest.fixture(scope="module")
def config(tiny_config):
    return dataclasses.replace(tiny_config, num_hidden_layers=5, hidden_act="relu")


def build(kind, config, /, **chosen):
    keras.utils.set_random_seed(7)
    reading = head_config.HeadConfig(**chosen)
    num_classes = None if kind == "span" else 3
    model = pretrainers.build(kind, num_classes, config, reading=reading)
    for block in model.network.blocks:  # or each layer has the variance 1
        norm = block.ffn_norm
        norm.gamma.assign(np.linspace(0.5, 1.5, config.hidden_size) * block.site)
    return model


def test_learned_mix_is_reported_by_layer(config):
    equal = {f"s_{j}": pytest.approx(1 / 6) for j in range(6)}
    model = build("tagger", config, layer_mix="learned")
    assert model.learned_mix() == {"gamma": 1.0, **equal}
    model.layer_mix.logits.assign(np.log([1.0, 2.0, 3.0, 4.0, 5.0, 5.0]))
    model.layer_mix.gamma.assign([1.5])
    weights = [0.05, 0.1, 0.15, 0.2, 0.25, 0.25]
    wanted = {f"s_{j}": pytest.approx(weight) for j, weight in enumerate(weights)}
    assert model.learned_mix() == {"gamma": 1.5, **wanted}
    assert build("tagger", config).learned_mix() == {}
    assert pretrainers.build("none", None, config).learned_mix() == {}


# Which of the states [embedding, layer 1, ..., layer 5] each choice reads: K of
# them, or one that is made of several.
SEPARATE = {
    "last": [5],
    "embedding": [0],
    "second_to_last": [4],
    "learned": [0, 1, 2, 3, 4, 5],
}
MERGED = {
    "sum_last_4": lambda states: sum(states[2:]),
    "sum_all": lambda states: sum(states[1:]),
    "concat_last_4": lambda states: np.concatenate(states[:1:-1], axis=-1),
}


def test_layer_states_are_those_that_a_mix_names(config, tiny_features):
    model = build("tagger", config, freeze_encoder=True)
    outputs = model.encode(tiny_features, None)
    states = [outputs["embedding_output"], *outputs["layer_outputs"]]
    states = [np.asarray(state) for state in states]
    wanted = {name: [states[i] for i in held] for name, held in SEPARATE.items()}
    wanted |= {name: [merge(states)] for name, merge in MERGED.items()}
    for name, expected in wanted.items():
        model.source.states, model.source.merge = layer_choices.choose_mix(config, name)
        actual = np.asarray(model.source.layer_states(tiny_features))
        assert actual.dtype == np.float32
        assert actual.shape[2:] == model.source.states_shape
        np.testing.assert_allclose(
            actual, np.stack(expected, axis=2), atol=ROUNDING, err_msg=name
        )


def pooled_rows(hidden, mask, pooling):
    """Vectors [B, D] of texts, row by row."""
    merge = {
        "mean": lambda tokens: tokens.mean(axis=0),
        "max": lambda tokens: tokens.max(axis=0),
        "cls": lambda tokens: tokens[0],
        "last": lambda tokens: tokens[-1],
    }[pooling]
    pairs = zip(hidden, mask, strict=True)
    return np.stack([merge(tokens[is_real > 0]) for tokens, is_real in pairs])


@pytest.mark.parametrize(
    ("pooling", "is_normalized"),
    daily.params(
        itertools.product(vectors.TEXT_POOLINGS, [False, True]),
        lambda pair: pair in (("mean", True), ("last", False)),
    ),
)
def test_linear_head_reads_pooled_tokens(config, tiny_features, pooling, is_normalized):
    made = {"pooling": pooling, "is_normalized": is_normalized}
    model = build("classifier", config, **made)
    hidden = np.asarray(model.encode(tiny_features, None)["sequence_output"])
    values = pooled_rows(hidden, tiny_features["input_mask"], pooling)
    if is_normalized:
        values /= np.linalg.norm(values, axis=1, keepdims=True)
    head = model.classifier.logits
    expected = values @ np.asarray(head.kernel).T + np.asarray(head.bias)
    actual = np.asarray(model(tiny_features)["logits"])
    np.testing.assert_allclose(actual, expected, atol=ROUNDING)
    plain = build("classifier", config)
    assert np.abs(np.asarray(plain(tiny_features)["logits"]) - actual).max() > 1e-3
    # Of a frozen network it is computed once.
    states = model.source.layer_states(tiny_features)
    given = {**tiny_features, feature_names.LAYER_STATES: states}
    np.testing.assert_allclose(model(given)["logits"], expected, atol=ROUNDING)


@pytest.fixture(scope="module")
def recorded():
    with np.load(SKIP) as record:
        return dict(record)


@pytest.mark.parametrize("number", range(3))
def test_mix_is_that_of_the_original(recorded, number):
    layers = recorded[f"batch{number}/lm_embeddings"].swapaxes(1, 2)  # [B, S, K, W]
    mix = source.LayerMix(layers.shape[2])
    mix.build(None)
    mix.logits.assign(recorded["mix_W"])
    mix.gamma.assign(recorded["mix_gamma"])
    mask = recorded[f"batch{number}/mask"]
    expected = recorded[f"batch{number}/mix_plain"]
    np.testing.assert_allclose(
        np.asarray(mix(layers))[mask], expected[mask], atol=ROUNDING
    )


def keras_lstms(head, width):
    """Keras' layers of both directions with the weights of a BiLstm.

    Its gates come in the order i, f, j, o, and its biases have the 1 of forgetting.
    """
    stack = []
    for pair in zip(head.forward, head.backward, strict=True):
        lstm = keras.layers.LSTM(head.units, return_sequences=True)
        layer = keras.layers.Bidirectional(lstm)
        layer.build((None, None, width))
        weights = []
        for cell in pair:
            parts = [
                np.split(np.asarray(value), 4, axis=-1)
                for value in (cell.kernel, cell.bias)
            ]
            kernel, bias = (
                np.concatenate([i, f, j, o], axis=-1) for i, j, f, o in parts
            )
            bias = bias + np.repeat([0.0, 1.0, 0.0, 0.0], head.units)
            weights += [kernel[:width], kernel[width:], bias]
        layer.set_weights(weights)
        stack.append(layer)
        width = 2 * head.units
    return stack


def test_bilstm_is_a_stack_of_keras_layers():
    keras.utils.set_random_seed(5)
    head = source.BiLstm(2, 4)
    head.build((None, None, 6))
    for cell in (*head.forward, *head.backward):
        cell.bias.assign(np.random.default_rng(1).normal(size=16))
    mask = np.arange(7) < np.array([[7], [4], [1]])
    vectors = np.random.default_rng(2).normal(size=(3, 7, 6)).astype(np.float32)
    expected = vectors
    for layer in keras_lstms(head, 6):
        expected = layer(expected, mask=mask)
    actual = np.asarray(head(vectors, mask.astype(np.int32)))
    assert actual.shape == (3, 7, 8) and not actual[~mask].any()
    np.testing.assert_allclose(actual[mask], np.asarray(expected)[mask], atol=ROUNDING)
    others = np.asarray(head(vectors, np.ones((3, 7), np.int32)))
    assert np.abs(others - actual)[1, :4].max() > 1e-2


def test_heads_of_bilstm_read_the_largest_values_of_segments():
    features = {
        feature_names.INPUT_MASK: np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]),
        feature_names.SEGMENT_IDS: np.array([[0, 0, 1, 1, 0], [0, 0, 0, 0, 0]]),
    }
    vectors = np.array(
        [
            [[0.1, -0.9], [-0.3, -0.5], [0.2, 0.4], [0.5, -0.8], [0.9, 0.9]],
            [[-0.2, 0.3], [0.6, -0.1], [-0.7, 0.2], [0.9, 0.9], [0.9, 0.9]],
        ],
        np.float32,
    )
    actual = source.largest_of_segments(vectors, features, joins_pairs=False)
    np.testing.assert_allclose(actual, [[0.5, 0.4], [0.6, 0.3]], atol=ROUNDING)
    actual = source.largest_of_segments(vectors, features, joins_pairs=True)
    u, v = np.array([[0.1, -0.5], [0.6, 0.3]]), np.array([[0.5, 0.4], [-1.0, -1.0]])
    expected = np.concatenate([u, v, np.abs(u - v), u * v], axis=1)
    np.testing.assert_allclose(actual, expected, atol=ROUNDING)


def test_parts_have_names_in_checkpoints(config):
    model = build("classifier", config, layer_mix="learned", **LSTM, joins_pairs=True)
    own = {
        name: tuple(variable.shape)
        for name, variable in google.variables(model).items()
        if not name.startswith("bert/")
    }
    lstms = {
        f"bilstm/{way}_{j}/{end}": (width + 5, 20) if end == "kernel" else (20,)
        for way in ("forward", "backward")
        for j, width in ((0, config.hidden_size), (1, 10))
        for end in ("kernel", "bias")
    }
    assert own == {
        "layer_mix/ELMo_W": (6,),
        "layer_mix/ELMo_gamma": (1,),
        **lstms,
        "output_weights": (3, 40),
        "output_bias": (3,),
    }
    plain = {*google.variables(build("classifier", config))}
    assert plain == {*google.variables(model)} - own.keys() | {
        "output_weights",
        "output_bias",
    }
    widths = {"concat_last_4": 4 * config.hidden_size, "sum_all": config.hidden_size}
    for mix, width in widths.items():
        head = google.variables(build("tagger", config, layer_mix=mix))
        assert head["output_weights"].shape == (3, width)


@pytest.mark.slow
def test_frozen_network_has_no_gradient_and_no_dropout(config, tiny_features):
    chosen = {"layer_mix": "learned", **LSTM}
    model = build("tagger", config, **chosen, freeze_encoder=True)
    trained = build("tagger", config, **chosen)
    paths = [variable.path.split("/")[1] for variable in model.trainable_variables]
    assert {*paths} == {"layer_mix", "bilstm", "tagger"} and len(paths) == 12
    assert len(trained.trainable_variables) > 80
    seed = tf.constant([1, 2], tf.int64)
    still = np.asarray(model.source.token_vectors(tiny_features, seed))
    np.testing.assert_array_equal(still, model.source.token_vectors(tiny_features))
    moved = np.abs(trained.source.token_vectors(tiny_features, seed) - still)
    assert moved.max() > 1e-2
    with tf.GradientTape() as tape:
        outputs = model(tiny_features, training=True, seed=seed)
        loss = tf.reduce_sum(outputs["logits"])
    assert all(g is not None for g in tape.gradient(loss, model.trainable_variables))
    assert model(tiny_features).keys() == {"logits"}


@pytest.mark.slow
def test_dropout_of_features_comes_before_and_between_lstms(config, tiny_features):
    seed = tf.constant([1, 2], tf.int64)

    def vectors(**chosen):
        model = build("tagger", config, freeze_encoder=True, **chosen)
        return np.asarray(model.source.token_vectors(tiny_features, seed))

    dropped = vectors(feature_dropout=0.5)
    assert 0.3 < np.mean(dropped == 0.0) < 0.7
    kept = dropped != 0.0
    np.testing.assert_allclose(dropped[kept], 2 * vectors()[kept], rtol=ROUNDING)
    first, second = (
        vectors(**LSTM, bilstm_layers=layers, feature_dropout=0.5) for layers in (1, 2)
    )
    assert np.abs(first - vectors(**LSTM, bilstm_layers=1)).max() > 1e-2
    # Nothing is dropped of what the last of them puts out; a closed gate may give 0.
    assert max(np.mean(x[0] == 0.0) for x in (first, second)) < 0.4
