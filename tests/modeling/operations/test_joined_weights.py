"""Tests of modeling/joined_weights.py."""

import keras
import numpy as np
import pytest

from modeling import pretrainers
from modeling.operations import joined_weights
from tests.modeling import random_weights

INPUTS = ("input_ids", "input_mask", "segment_ids")


def outputs(model, features):
    inputs = {name: features[name] for name in INPUTS}
    return {name: np.asarray(value) for name, value in model(inputs).items()}


@pytest.mark.parametrize(("head", "reads"), [("classifier", 3), ("tagger", 3)])
def test_joined_weights_compute_the_same(head, reads, tiny_config, tiny_features):
    model = random_weights.random_model(tiny_config, head)
    apart = outputs(model, tiny_features)
    query = model.network.blocks[0].attention.query.kernel
    with joined_weights.joined(model) as variables:
        joined = outputs(model, tiny_features)
        # The products of a first layer and of a last one, 3 and 2 of 16 columns.
        shapes = [tuple(variable.shape) for variable in variables]
        assert shapes.count((16, 48)) == shapes.count((16, 32)) == 1
        assert sum(map(np.prod, shapes)) == sum(
            np.prod(variable.shape) for variable in model.variables
        )
        query.assign(query + 1.0)  # which is not read now
        unmoved = outputs(model, tiny_features)
        variables[-4].assign(variables[-4] + 1.0)  # the kernel of the first layer
        moved = outputs(model, tiny_features)
    for name, value in apart.items():
        np.testing.assert_allclose(joined[name], value, rtol=0, atol=2e-5)
        np.testing.assert_array_equal(unmoved[name], joined[name])
        assert not np.allclose(moved[name], joined[name], atol=1e-3)
    after = outputs(model, tiny_features)
    for name, value in apart.items():  # the layer's own weights again
        assert not np.allclose(after[name], value, atol=1e-3)


def test_joined_weights_have_the_compute_dtype(tiny_config, tiny_features):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = pretrainers.build("classifier", 3, tiny_config)
    finally:
        keras.config.set_dtype_policy(before)
    apart = outputs(model, tiny_features)["logits"]
    with joined_weights.joined(model) as variables:
        assert [v.dtype.name for v in variables[-4:]] == ["bfloat16"] * 4
        joined = outputs(model, tiny_features)["logits"]
    np.testing.assert_allclose(joined, apart, rtol=0, atol=2e-2 * np.abs(apart).max())
