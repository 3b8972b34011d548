"""The recorded network of tests/golden/README.md, and a small random one."""

import pathlib

import keras
import numpy as np
import pytest

from modeling import pretrainers
from modeling.checkpoints import checkpoint
from modeling.configs import config

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "tiny_uncased"


@pytest.fixture(scope="session")
def golden_dir():
    return GOLDEN


@pytest.fixture(scope="session")
def golden_config():
    return config.BertConfig.from_json_file(GOLDEN / "bert_config.json")


@pytest.fixture(scope="session")
def forward_record():
    with np.load(GOLDEN / "forward.npz") as record:
        return dict(record)


@pytest.fixture(scope="session")
def golden_pretrainer(golden_config):
    """The recorded network; tests must not change its weights."""
    model = pretrainers.BertPretrainer(golden_config)
    model.build()
    report = checkpoint.load(model, GOLDEN / "bert_model.ckpt")
    assert not report.missing and not report.unused
    return model


@pytest.fixture(scope="session")
def tiny_config():
    """Initial values so wide that a mistake anywhere moves the output visibly."""
    return config.BertConfig(
        vocab_size=60,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=32,
        type_vocab_size=2,
        initializer_range=0.5,
    )


@pytest.fixture
def tiny_features():
    """Two sequences of two segments, the second one shorter; and all labels."""
    rng = np.random.default_rng(3)
    lengths = np.array([[10], [7]])
    positions = np.arange(10)[None]
    mask = (positions < lengths).astype(np.int32)
    return {
        "input_ids": rng.integers(1, 60, (2, 10)).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": (positions >= 4).astype(np.int32) * mask,
        "masked_lm_positions": np.array([[1, 5, 8], [2, 3, 0]], np.int32),
        "masked_lm_ids": np.array([[9, 8, 7], [6, 5, 0]], np.int32),
        "masked_lm_weights": np.array([[1, 1, 1], [1, 1, 0]], np.float32),
        "next_sentence_labels": np.array([1, 0], np.int32),
        "decoder_input_ids": np.array([[1, 7, 9, 8, 3], [1, 5, 6, 0, 0]], np.int32),
        "decoder_mask": np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32),
        "labels": np.array([[7, 9, 8, 3, 2], [5, 6, 2, 0, 0]], np.int32),
    }


@pytest.fixture
def set_policy():
    """A function that sets the global policy; afterwards it is as it was."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)
