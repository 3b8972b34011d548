"""Left-to-right networks against values recorded from the original graphs.

Differences measured are a few 1e-6, the rounding of float32 sums in another order.
"""

import numpy as np
import pytest
import tensorflow as tf

from modeling import models, pretrainers
from modeling.networks.gpt import config as gpt_config
from tests.modeling import left_to_right

ROUNDING = 1e-5


def close(actual, expected, where=..., atol=ROUNDING):
    actual, expected = np.asarray(actual)[where], np.asarray(expected)[where]
    np.testing.assert_allclose(actual, expected, atol=atol, rtol=0)


@pytest.fixture(scope="module")
def load(shared_file):
    def read(path):
        with np.load(shared_file(f"golden/{path}")) as record:
            return dict(record)

    return read


@pytest.fixture(scope="module")
def gpt_record(load):
    return load("gpt/tiny_gpt.npz")


@pytest.fixture(scope="module")
def gpt_features(gpt_record):
    ids = gpt_record["X"].reshape(8, 24, 2)[..., 0]
    return left_to_right.features(ids, gpt_record["M"].reshape(8, 24))


@pytest.fixture(scope="module")
def gpt(gpt_record):
    return left_to_right.gpt(gpt_record)


@pytest.fixture(scope="module")
def gpt_2(shared_file):
    return left_to_right.gpt_2(shared_file("golden/gpt2/tiny_model/model.ckpt.index"))


@pytest.fixture(scope="module")
def gpt_2_record(load):
    return load("gpt2/tiny_gpt2.npz")


@pytest.fixture(scope="module")
def gpt_2_logits(gpt_2, gpt_2_record):
    return gpt_2.logits(left_to_right.features(gpt_2_record["tokens"]))


def hidden(outputs):
    return [outputs["embedding_output"], *outputs["layer_outputs"]]


def test_gpt_layers_and_logits_are_the_originals(gpt, gpt_record, gpt_features):
    real = gpt_features["input_mask"].astype(bool)
    for i, ours in enumerate(hidden(gpt.encode(gpt_features, None))):
        close(ours, gpt_record[f"hidden_{i}"], real)
    # There are tokens, specials and positions.
    logits = np.asarray(gpt.logits(gpt_features))[:, :-1]
    close(logits, gpt_record["lm_logits"], real[:, :-1])


def average_by_sequence(outputs, mask):
    """The mean loss of the real tokens of each sequence, [B]."""
    weights = np.asarray(mask, np.float32)[:, 1:]
    totals = tf.reduce_sum(outputs["next_token_losses"] * weights, axis=1)
    return totals / weights.sum(axis=1)


def test_gpt_losses_are_the_originals(gpt, gpt_record, gpt_features):
    losses = average_by_sequence(gpt(gpt_features), gpt_features["input_mask"])
    close(losses, gpt_record["lm_losses"])
    # The twin: as Hugging Face has it, positions take no part in the softmax.
    other = left_to_right.gpt(gpt_record, joined_table=False)
    moved = average_by_sequence(other(gpt_features), gpt_features["input_mask"])
    assert (np.asarray(losses) - np.asarray(moved)).min() > 0.1


def test_gpt_2_layers_and_logits_are_the_originals(gpt_2, gpt_2_record, gpt_2_logits):
    outputs = gpt_2.encode(left_to_right.features(gpt_2_record["tokens"]), None)
    *ours, last = hidden(outputs)
    for i, values in enumerate(ours):
        close(values, gpt_2_record[f"hidden_{i}"])
    assert last is outputs["sequence_output"]
    norm = gpt_2.network.final_norm
    close(last, norm(gpt_2_record["hidden_3"]))
    assert np.abs(np.asarray(last) - gpt_2_record["hidden_3"]).max() > 0.1  # the twin
    close(gpt_2_logits, gpt_2_record["logits"])


def test_gpt_2_losses_and_gradients_are_the_originals(gpt_2, gpt_2_record):
    batch = left_to_right.features(gpt_2_record["tokens"])
    named = left_to_right.named(gpt_2)
    with tf.GradientTape() as tape:
        outputs = gpt_2(batch)
        loss = tf.reduce_mean(outputs["next_token_losses"])
    close(outputs["next_token_losses"], gpt_2_record["token_losses"])
    gradients = tape.gradient(loss, [v.value for v in named.values()])
    for name, gradient in zip(named, gradients, strict=True):
        close(tf.convert_to_tensor(gradient), gpt_2_record[f"grad/{name}"])
    likeliest = gpt_2_record["logits"][:, :-1].argmax(-1)
    hits = likeliest == gpt_2_record["tokens"][:, 1:]
    np.testing.assert_array_equal(outputs["next_token_hits"], hits)


def test_padding_to_the_right_changes_no_real_token(load, gpt_2, gpt_2_logits):
    record = load("gpt2/hugging_face_outputs.npz")
    mask = record["padded_mask"]
    logits = gpt_2.logits(left_to_right.features(record["tokens"], mask))
    close(logits, record["padded_logits"], mask.astype(bool))
    close(gpt_2_logits, record["logits"])


@pytest.mark.parametrize("hidden_columns", [0, 3])
def test_gpt_2_reads_through_its_cache(gpt_2, gpt_2_record, hidden_columns):
    """Prompts that are padded to the left begin behind columns that are hidden."""
    ids = gpt_2_record["tokens"]
    sizes = (12, *[1] * 8)
    logits = left_to_right.read_in_steps(gpt_2, ids, sizes, 25, hidden_columns)
    close(logits, gpt_2_record["incremental_logits"])


def test_gpt_reads_through_its_cache(gpt, gpt_features):
    ids = gpt_features["input_ids"]
    batch = left_to_right.features(ids)
    logits = left_to_right.read_in_steps(gpt, ids, (1, 20, 3), 24)
    close(logits, gpt.logits(batch))
    # The twin: a token that it has not read moves what comes after.
    other = ids.copy()
    other[:, 0] = (ids[:, 0] + 1) % 60
    moved = left_to_right.read_in_steps(gpt, other, (1, 20, 3), 24)
    assert np.abs(moved - logits)[:, 1:].max(axis=(1, 2)).min() > 0.01


def test_left_to_right_bert_is_the_recorded_decoder(load, shared_file):
    record = load("seq2seq/left_to_right_bert.npz")
    model = left_to_right.bert(shared_file("golden/seq2seq/hugging_face/config.json"))
    batch = {
        key: record[key].astype(np.int32)
        for key in ("input_ids", "input_mask", "segment_ids")
    }
    real = batch["input_mask"].astype(bool)
    for i, ours in enumerate(hidden(model.encode(batch, None))):
        close(ours, record[f"hidden_{i}"], real)
    close(model.logits(batch), record["logits"], real)
    outputs, weights = model(batch), real[:, 1:].astype(np.float32)
    loss = float(tf.reduce_sum(outputs["next_token_losses"] * weights) / weights.sum())
    assert loss == pytest.approx(float(record["loss"]), abs=ROUNDING)
    # The twin: what the same weights say when they look to both sides.
    plain = left_to_right.bert(
        shared_file("golden/seq2seq/hugging_face/config.json"),
        models.BertModel,
        attention="bidirectional",
    )
    moved = plain.encode(batch, None)["sequence_output"]
    assert np.abs(np.asarray(moved) - record["hidden_2"])[real].max() > 0.1


def test_left_to_right_bert_reads_through_its_cache(shared_file):
    model = left_to_right.bert(shared_file("golden/seq2seq/hugging_face/config.json"))
    ids = np.random.default_rng(0).integers(0, 67, (2, 9), np.int32)
    logits = left_to_right.read_in_steps(model, ids, (4, 1, 1, 3), 12, 2)
    close(logits, model.logits(left_to_right.features(ids)))


def test_networks_predict_in_their_direction_alone(tiny_config):
    with pytest.raises(ValueError, match='set "attention": "causal" in bert_config'):
        pretrainers.LanguageModel(tiny_config)
    gpt_2 = gpt_config.GptConfig(**left_to_right.GPT_SHAPE, norm_first=True)
    with pytest.raises(ValueError, match="GPT-2 predicts the next token"):
        pretrainers.BertPretrainer(gpt_2)
