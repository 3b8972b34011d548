"""The recorded pretraining of tests/golden/elmo: model, batches, what came out."""

import dataclasses
import pathlib

import h5py
import numpy as np

from modeling.configs import config_files
from modeling.networks.elmo import objective
from tests.modeling.networks.elmo import test_network

GOLDEN = pathlib.Path(__file__).with_name("golden") / "elmo"


def record():
    with np.load(GOLDEN / "training.npz") as actual:
        return dict(actual)


def original_name(variable):
    part, _, name = variable.path.partition("/")[2].partition("/")
    if part == "bidirectional_lm":
        return {"kernel": "softmax/W", "bias": "softmax/b"}[name]
    return test_network.hdf5_name(f"{part}/{name}")


def model(values, **changes):
    """The recorded network, and softmax, before the first step."""
    config = config_files.read(GOLDEN / "train_options.json")
    actual = objective.BidirectionalLM(dataclasses.replace(config, **changes))
    actual.build()
    with h5py.File(GOLDEN / "skip_weights.hdf5") as file:
        for variable in actual.trainable_variables:
            name = original_name(variable)
            source = values if name.startswith("softmax/") else file
            variable.assign(source[name][...])
    return actual


def batch(values, number):
    actual = {"input_mask": np.ones((2, 6), np.int32)}
    characters = []
    for k, (name, ending) in enumerate((("forward", ""), ("backward", "_reverse"))):
        own = values[f"batch{number}/tokens_characters{ending}"].astype(np.int32) + 1
        characters.append(own.reshape(-1, own.shape[-1]))
        actual[f"{name}_words"] = np.arange(12, dtype=np.int32).reshape(2, 6) + 12 * k
        targets = values[f"batch{number}/next_token_id{ending}"]
        actual[f"{name}_targets"] = targets.astype(np.int32)
    return actual | {"distinct_words": np.concatenate(characters)}
