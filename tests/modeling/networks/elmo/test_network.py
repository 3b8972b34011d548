"""ELMo against values that the original graph gave; see tests/golden/README.md.

Differences measured are some 1e-7, the rounding of float32 sums in another order.
"""

import pathlib
from typing import NamedTuple

import h5py
import numpy as np
import pytest

from modeling import models
from modeling.configs import config_files
from modeling.networks.elmo import lstm
from tests import elmo_files

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "elmo"
ROUNDING = 1e-5
ROWS = 4  # of the states of the original


def hdf5_name(path):
    part, *names = path.split("/")[2:] if "characters" in path else path.split("/")[1:]
    name = names[-1] if names else ""
    kind, _, index = part.partition("_")
    match kind:
        case "embedding":
            return "char_embed"
        case "convolution":
            return f"CNN/{name[0].replace('k', 'W')}_cnn_{index}"
        case "highway":
            return f"CNN_high_{index}/{name[0].replace('k', 'W')}_{names[0]}"
        case "projection":
            return f"CNN_proj/{name[0].replace('k', 'W')}_proj"
    direction = int(kind == "backward")
    name = {"kernel": "W_0", "bias": "B", "projection": "W_P_0"}[name]
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{index}/LSTMCell/{name}"


class Original(NamedTuple):
    model: models.BertModel
    record: dict


def load(name):
    model = models.BertModel(config_files.read(GOLDEN / f"{name}_options.json"))
    model.build()
    with h5py.File(GOLDEN / f"{name}_weights.hdf5") as file:
        for weight in model.trainable_variables:
            path = weight.path[weight.path.index("elmo/") :]
            weight.assign(file[hdf5_name(path)][...])
    with np.load(GOLDEN / f"{name}.npz") as record:
        return Original(model, dict(record))


@pytest.fixture(scope="module", params=["skip", "plain"])
def original(request):
    return load(request.param)


def close(actual, expected, where=...):
    actual, expected = np.asarray(actual)[where], np.asarray(expected)[where]
    np.testing.assert_allclose(actual, expected, atol=ROUNDING, rtol=0)


def batches(record):
    for i in range(3):
        ids = record[f"batch{i}/char_ids"].astype(np.int32)
        mask = (ids[..., 0] > 0).astype(np.int32)
        features = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * mask}
        yield f"batch{i}/", features, record[f"batch{i}/mask"]


def stacked(outputs):
    """The layers without the frame, [B, L + 1, S, 2 P], as the original has them."""
    layers = [outputs["embedding_output"], *outputs["layer_outputs"]]
    return np.stack([np.asarray(x)[:, 1:-1] for x in layers], axis=1)


def real_only(layers, mask):
    return np.moveaxis(layers, 1, 2)[mask]


def test_layers_are_the_originals(original):
    model, record = original
    for prefix, features, mask in batches(record):
        vectors = model.network.token_vectors(features["input_ids"])
        real = features["input_mask"].astype(bool)
        close(vectors, record[prefix + "token_embeddings"], real)
        ours = stacked(model.encode(features, None))
        theirs = record[prefix + "lm_embeddings_from_zero"]
        close(real_only(ours, mask), real_only(theirs, mask))


def test_states_are_carried_as_in_the_original(original):
    model, record = original
    states = elmo_files.zero_states(model.config, ROWS)
    for prefix, features, mask in batches(record):
        size = len(mask)
        outputs = model.network(
            *(features[name] for name in ("input_ids", "input_mask", "segment_ids")),
            states=lstm.States(*(x[:, :, :size] for x in states)),
        )
        theirs = record[prefix + "lm_embeddings"]
        close(real_only(stacked(outputs), mask), real_only(theirs, mask))
        after = outputs["states"]
        states = lstm.States(
            *(
                np.concatenate([new, old[:, :, size:]], 2)
                for new, old in zip(after, states, strict=True)
            )
        )
        for name, values in zip("ch", states, strict=True):
            for k, direction in enumerate(("forward", "backward")):
                for j in range(model.config.num_hidden_layers):
                    key = f"{prefix}state_{direction}_{j}_{name}"
                    close(values[j, k], record[key])
    # Which differ: the second batch begins where the first one ended.
    assert np.abs(theirs - record[prefix + "lm_embeddings_from_zero"]).max() > 0.01


def test_streams_of_training_are_the_originals():
    network, record = load("skip").model.network, np.load(GOLDEN / "training.npz")
    states = None
    for i in range(3):
        ids = record[f"batch{i}/tokens_characters"].astype(np.int32) + 1
        reverse = record[f"batch{i}/tokens_characters_reverse"].astype(np.int32) + 1
        forward, backward = map(network.token_vectors, (ids, reverse[:, ::-1]))
        close(forward, record[f"eval/token_embedding_{i}"])
        layers, states = network.directions(forward, backward, states=states)
        forward, backward = network.top(layers)
        close(forward, record[f"eval/lstm_top_forward_{i}"])
        close(np.asarray(backward)[:, ::-1], record[f"eval/lstm_top_backward_{i}"])
