"""Real weights, against what Hugging Face's BertModel computes with them.

minilm_reference.npz was made once, on a CPU, with transformers 5.23.0 and PyTorch
2.13.0: BertModel.from_pretrained(directory of all-MiniLM-L6-v2).eval() on two pairs of
sentences of 22 and 9 tokens, the second one padded to 22:

    the parcel arrived on monday / but the box was empty and torn , so we sent it back .
    who wrote this ? / nobody knows

It holds input_ids, input_mask, segment_ids, and float32 last_hidden_state and
pooler_output. Six layers of float32 differ by about 2e-6; asserted is 1e-5. The tanh
form of gelu, by which Google's checkpoints mean "gelu", differs by more than 1e-4.
"""

import dataclasses
import pathlib

import numpy as np
import pytest

from modeling import models
from modeling.checkpoints import checkpoint
from modeling.configs import config

REFERENCE = pathlib.Path(__file__).with_name("minilm_reference.npz")


@pytest.fixture(scope="module")
def reference():
    with np.load(REFERENCE) as arrays:
        return dict(arrays)


def built(minilm_dir, **changes):
    read = config.BertConfig.from_json_file(minilm_dir / "config.json")
    model = models.BertModel(dataclasses.replace(read, **changes))
    model.build()
    report = checkpoint.load(model, minilm_dir)
    assert report.missing == report.unused == ()
    return model


def difference(model, features, reference):
    """Largest difference of the last layer at real tokens, example by example."""
    sequence = np.asarray(model(features)["sequence_output"])
    real = reference["input_mask"][:, :, None]
    return np.abs((sequence - reference["last_hidden_state"]) * real).max(axis=(1, 2))


def test_outputs_equal_hugging_faces(minilm_dir, reference):
    model = built(minilm_dir)
    assert np.all(difference(model, reference, reference) < 1e-5)
    pooled = model(reference)["pooled_output"]
    np.testing.assert_allclose(pooled, reference["pooler_output"], atol=1e-5)
    # Mask, segments and the other gelu are seen.
    for feature in ("input_mask", "segment_ids"):
        other = {**reference, feature: np.ones_like(reference[feature])}
        assert difference(model, other, reference)[1] > 1e-2
    model = built(minilm_dir, hidden_act="gelu_tanh")
    assert np.all(difference(model, reference, reference) > 1e-4)
