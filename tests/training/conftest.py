"""The recorded network of tests/golden/README.md, and small models to train."""

import dataclasses
import os
import pathlib
import signal

import keras
import numpy as np
import pytest

from contract import errors
from modeling import models, pretrainers
from modeling.checkpoints import checkpoint
from modeling.configs import config

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "tiny_uncased"


@pytest.fixture(scope="session")
def forward_record():
    with np.load(GOLDEN / "forward.npz") as record:
        return dict(record)


@pytest.fixture(scope="session")
def optimizer_record():
    with np.load(GOLDEN / "optimizer.npz") as record:
        return dict(record)


@pytest.fixture(scope="session")
def make_pretrainer():
    """A function that builds the recorded network without dropout, to be trained."""
    read = config.BertConfig.from_json_file(GOLDEN / "bert_config.json")
    still = dataclasses.replace(
        read, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )

    def make():
        model = pretrainers.BertPretrainer(still)
        model.build()
        checkpoint.load(model, GOLDEN)
        return model

    return make


@pytest.fixture(scope="session")
def tiny_config():
    return config.BertConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=12,
        hidden_act="relu",  # XLA, which the gelu of training needs, takes its time
        max_position_embeddings=16,
        type_vocab_size=2,
        initializer_range=0.5,
    )


@pytest.fixture(scope="session")
def build_classifier(tiny_config):
    def build(**changes):
        keras.utils.set_random_seed(5)
        model = models.BertClassifier(dataclasses.replace(tiny_config, **changes), 3)
        model.build()
        return model

    return build


@pytest.fixture(scope="session")
def build_pretrainer(tiny_config):
    def build(dropout=0.0, **changes):
        keras.utils.set_random_seed(5)
        rates = {"hidden_dropout_prob": dropout}
        rates["attention_probs_dropout_prob"] = dropout
        config = dataclasses.replace(tiny_config, **rates, **changes)
        model = pretrainers.BertPretrainer(config)
        model.build()
        return model

    return build


@pytest.fixture(scope="session")
def classifier_batch():
    """Eight sequences whose first word tells the label."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 8).astype(np.int32)
    ids = rng.integers(5, 30, (8, 6)).astype(np.int32)
    ids[:, 1] = labels + 2
    mask = (np.arange(6) < rng.integers(3, 7, (8, 1))).astype(np.int32)
    return {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": np.zeros_like(ids),
        "label_ids": labels,
    }


@pytest.fixture(scope="session")
def make_pretraining_features():
    """A function (records, predictions) -> features of a batch of pretraining.

    The second half has far fewer masked words than the first.
    """

    def make(count, predictions):
        rng = np.random.default_rng(3)
        weights = np.ones((count, predictions), np.float32)
        weights[count // 2 :, 1:] = 0.0
        words, places = (count, 6), (count, predictions)
        return {
            "input_ids": rng.integers(1, 30, words).astype(np.int32),
            "input_mask": np.ones(words, np.int32),
            "segment_ids": np.zeros(words, np.int32),
            "masked_lm_positions": rng.integers(0, 6, places).astype(np.int32),
            "masked_lm_ids": rng.integers(1, 30, places).astype(np.int32),
            "masked_lm_weights": weights,
            "next_sentence_labels": rng.integers(0, 2, count).astype(np.int32),
        }

    return make


@pytest.fixture
def send():
    """A function that sends a signal to this process, which survives it."""
    before = [(n, signal.getsignal(n)) for n in errors.STOP_SIGNALS]
    for number, _ in before:
        signal.signal(number, lambda *_: None)
    yield lambda number=signal.SIGTERM: os.kill(os.getpid(), number)
    for number, handler in before:
        signal.signal(number, handler)
