"""modeling/vectors.py against NumPy, on outputs made up for it."""

import dataclasses
import math

import numpy as np
import pytest

from modeling.configs import config
from modeling.features import layer_choices, vectors

DEPTH, WIDTH = 5, 6
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32)


@pytest.fixture(scope="module")
def net():
    return config.BertConfig(
        vocab_size=9, hidden_size=WIDTH, num_hidden_layers=DEPTH, num_attention_heads=2
    )


@pytest.fixture(scope="module")
def outputs():
    rng = np.random.default_rng(4)
    states = rng.normal(size=(DEPTH + 1, 2, 4, WIDTH)).astype(np.float32)
    return {"embedding_output": states[0], "layer_outputs": list(states[1:])}


def computed(net, outputs, **wanted):
    return np.asarray(vectors.compute(outputs, MASK, vectors.choose(net, **wanted)))


def test_layers_are_counted_and_combined_as_in_the_paper(net, outputs):
    first, layers = outputs["embedding_output"], outputs["layer_outputs"]
    wanted = {
        "embedding": first,
        "second_to_last": layers[3],
        "last": layers[4],
        "sum_last_4": layers[1] + layers[2] + layers[3] + layers[4],
        "concat_last_4": np.concatenate(layers[:0:-1], axis=-1),
        "sum_all": sum(layers),
    }
    assert wanted.keys() == layer_choices.COMBINATIONS.keys()
    for name, value in wanted.items():
        vector = computed(net, outputs, combine=name)[:, :, 0]
        np.testing.assert_allclose(vector, value, atol=1e-5, err_msg=name)
        choice = vectors.choose(net, combine=name)
        assert (choice.names, choice.width) == ((name,), value.shape[-1])
    vector = computed(net, outputs, combine="sum_last_4", weights=(1, 2, 3, 4))
    weighted = layers[4] + 2 * layers[3] + 3 * layers[2] + 4 * layers[1]
    np.testing.assert_allclose(vector[:, :, 0], weighted, atol=1e-5)
    stack = np.stack([layers[i] for i in (4, 0, 4, 0)], axis=2)
    vector = computed(net, outputs, layers=(-1, 0, 4, -5))
    np.testing.assert_array_equal(vector, stack)


def test_texts_are_means_of_their_tokens_or_the_first(net, outputs):
    layer, other = outputs["layer_outputs"][4], outputs["layer_outputs"][3]
    actual = computed(net, outputs, layers=(-1,), pooling="mean")
    wanted = np.stack([layer[0].mean(axis=0), layer[1, :2].mean(axis=0)])
    np.testing.assert_allclose(actual[:, 0], wanted, atol=1e-6)
    assert not np.allclose(actual[1, 0], layer[1].mean(axis=0), atol=1e-2)
    actual = computed(net, outputs, layers=(-1, -2), pooling="cls")
    wanted = np.stack([layer[:, 0], other[:, 0]], axis=1)
    np.testing.assert_array_equal(actual, wanted)


def test_what_the_network_does_not_have_is_refused(net):
    for wanted, message in (
        ({"layers": (5,)}, r"--layers: layer 5, and the network has 5; .*0\.\.4"),
        ({"layers": (-1, -6)}, r"--layers: layer -6, .*-5\.\.-1"),
        ({"layers": ()}, "--layers is empty"),
        ({"weights": (1.0,)}, "no meaning with --combine=none"),
        ({"combine": "concat_last_4", "weights": (1.0,) * 4}, "no meaning"),
        ({"combine": "sum_last_4", "weights": (1.0, 2.0)}, "2 numbers, .*sums 4"),
        ({"combine": "sum_all", "weights": (math.nan,) * 5}, "nan are not all finite"),
    ):
        with pytest.raises(ValueError, match=message):
            vectors.choose(net, **wanted)
    shallow = dataclasses.replace(net, num_hidden_layers=3)
    with pytest.raises(ValueError, match=r"=sum_last_4 needs layer -4, .*has 3"):
        vectors.choose(shallow, combine="sum_last_4")
    assert vectors.choose(shallow, combine="sum_all").states == (3, 2, 1)
