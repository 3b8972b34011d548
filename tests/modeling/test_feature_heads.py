"""Layers of a network as features of a task, and what heads make of them."""

import dataclasses

import keras
import numpy as np
import pytest

from contract import features as names
from modeling import pretrainers
from modeling.configs import readings

ROUNDING = 1e-5


@pytest.fixture(scope="module")
def config(tiny_config):
    """Layers enough for the last four to be some of them."""
    return dataclasses.replace(tiny_config, num_hidden_layers=5)


def build(head, config, **chosen):
    keras.utils.set_random_seed(7)
    reading = readings.Reading(**chosen)
    return pretrainers.build(head, 3, config, reading=reading)


# Of each choice, the states [embedding, layer 1, ..., layer 5] that it reads: K of
# them, or one that is made of several.
SEPARATE = {
    "last": [5],
    "embedding": [0],
    "second_to_last": [4],
    "learned": [0, 1, 2, 3, 4, 5],
    "learned_last_4": [2, 3, 4, 5],
    "top": [5],
}
MERGED = {
    "sum_last_4": lambda states: sum(states[2:]),
    "sum_all": lambda states: sum(states[1:]),
    "concat_last_4": lambda states: np.concatenate(states[:1:-1], axis=-1),
}


def test_layer_states_are_those_that_a_mix_names(config, tiny_features):
    model = build("tagger", config)
    outputs = model.encode(tiny_features, None)
    states = [outputs["embedding_output"], *outputs["layer_outputs"]]
    states = [np.asarray(state) for state in states]
    wanted = {name: [states[i] for i in held] for name, held in SEPARATE.items()}
    wanted |= {name: [merge(states)] for name, merge in MERGED.items()}
    for name, expected in wanted.items():
        model = build("tagger", config, layer_mix=name)
        found = np.asarray(model.layer_states(tiny_features))
        assert found.dtype == np.float32
        np.testing.assert_allclose(
            found, np.stack(expected, axis=2), atol=ROUNDING, err_msg=name
        )


@pytest.mark.parametrize("head", ["tagger", "classifier"])
def test_model_with_layer_states_runs_no_network(config, tiny_features, head):
    model = build(head, config, freeze_encoder=True)
    expected = model(tiny_features)["logits"]
    states = np.asarray(model.layer_states(tiny_features))
    assert states.shape == (2, 10 if head == "tagger" else 1, 1, config.hidden_size)
    given = {names.INPUT_MASK: tiny_features[names.INPUT_MASK]}
    told = model({**given, names.LAYER_STATES: states})["logits"]
    np.testing.assert_array_equal(told, expected)
    others = model({**given, names.LAYER_STATES: states[:, ::-1, :, ::-1]})["logits"]
    assert np.abs(others - expected).max() > 1e-2
