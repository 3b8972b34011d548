"""The recorded encoder-decoder; see tests/golden/README.md."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import pretrainers
from modeling.checkpoints import checkpoint
from modeling.configs import config_files
from tests.conftest import ROOT

GOLDEN = ROOT / "tests" / "golden" / "seq2seq"


@pytest.fixture(scope="session")
def seq2seq_dir():
    return GOLDEN / "hugging_face"


@pytest.fixture(scope="session")
def seq2seq_config(seq2seq_dir):
    return config_files.read(seq2seq_dir / "config.json")


@pytest.fixture(scope="session")
def seq2seq_record():
    with np.load(GOLDEN / "tiny_seq2seq.npz") as record:
        return dict(record)


@pytest.fixture(scope="session")
def seq2seq_model(seq2seq_dir, seq2seq_config):
    """The recorded network; tests must not change its weights."""
    model = pretrainers.build("seq2seq", None, seq2seq_config)
    report = checkpoint.load(model, seq2seq_dir)
    assert not report.missing and not report.unused
    return model


@pytest.fixture(scope="session")
def seq2seq_features(seq2seq_record):
    names = ("input_ids", "input_mask", "decoder_input_ids", "decoder_mask")
    features = {name: seq2seq_record[name] for name in names}
    features["segment_ids"] = np.zeros_like(features["input_ids"])
    features["labels"] = np.maximum(seq2seq_record["labels"], 0)
    return {n: tf.constant(value, tf.int32) for n, value in features.items()}
