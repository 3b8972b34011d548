"""Left-to-right networks against values recorded from the original graphs.

Differences measured are a few 1e-6, the rounding of float32 sums in another order.
"""

import numpy as np
import pytest
import tensorflow as tf

from modeling import models, pretrainers
from modeling.configs import config as config_lib
from tests.modeling import left_to_right

ROUNDING = 1e-5
GPT_2_SHAPE = {
    **left_to_right.GPT_SHAPE,
    "vocab_size": 417,
    "max_position_embeddings": 64,
    "norm_first": True,
    "joined_table": False,
}


def close(actual, expected, where=..., atol=ROUNDING):
    actual, expected = np.asarray(actual)[where], np.asarray(expected)[where]
    np.testing.assert_allclose(actual, expected, atol=atol, rtol=0)


@pytest.fixture(scope="module")
def load(shared_file):
    """A function from a path in golden/ to the arrays of an .npz."""

    def read(path):
        with np.load(shared_file(f"golden/{path}")) as record:
            return dict(record)

    return read


@pytest.fixture(scope="module")
def gpt_record(load):
    return load("gpt/tiny_gpt.npz")


@pytest.fixture(scope="module")
def gpt_features(gpt_record):
    """Both answers of four examples, [8, 24]."""
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
    # Of tokens, specials and positions.
    logits = np.asarray(gpt.logits(gpt_features))[:, :-1]
    close(logits, gpt_record["lm_logits"], real[:, :-1])


def of_sequences(outputs, mask):
    """The mean loss of the real tokens of each sequence, [B]."""
    weights = np.asarray(mask, np.float32)[:, 1:]
    totals = tf.reduce_sum(outputs["next_token_losses"] * weights, axis=1)
    return totals / weights.sum(axis=1)


def test_gpt_losses_are_the_originals(gpt, gpt_record, gpt_features):
    losses = of_sequences(gpt(gpt_features), gpt_features["input_mask"])
    close(losses, gpt_record["lm_losses"])
    # The twin: as Hugging Face has it, positions take no part in the softmax.
    other = left_to_right.gpt(gpt_record, joined_table=False)
    moved = of_sequences(other(gpt_features), gpt_features["input_mask"])
    assert (np.asarray(losses) - np.asarray(moved)).min() > 0.1


def test_gpt_gradients_are_the_originals(load, gpt_record, gpt_features):
    """Of classification + 0.5 * language model, both on one network."""
    expected = load("gpt/tiny_gpt_gradients.npz")
    model = left_to_right.gpt(gpt_record, left_to_right.choice)
    reader = left_to_right.gpt(gpt_record)
    real = gpt_features["input_mask"]
    # The original pools at _classify_; here that is the last real token.
    assert (gpt_features["input_ids"][np.arange(8), real.sum(1) - 1] == 63).all()
    found = {}
    for part in (model, reader):
        with tf.GradientTape() as tape:
            if part is model:
                logits = tf.reshape(model(gpt_features)["logits"], (4, 2))
                loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    gpt_record["Y"], logits
                )
                close(loss, gpt_record["clf_losses"])
                loss = tf.reduce_mean(loss)
            else:
                loss = 0.5 * tf.reduce_mean(of_sequences(reader(gpt_features), real))
        named = left_to_right.named(part)
        gradients = tape.gradient(loss, [v.value for v in named.values()])
        for name, gradient in zip(named, gradients, strict=True):
            found[name] = found.get(name, 0) + tf.convert_to_tensor(gradient)
    names = {key.removeprefix("grad/") for key in expected if key.startswith("grad/")}
    assert names == found.keys()
    for name in names:
        close(found[name], expected[f"grad/{name}"])


def test_gpt_is_hugging_faces_with_two_tables(load, gpt_record):
    expected = load("gpt/hugging_face_outputs.npz")
    model = left_to_right.gpt(gpt_record, joined_table=False)
    batch = left_to_right.features(expected["lm_input_ids"])
    close(model.logits(batch), expected["lm_logits"])
    loss = tf.reduce_mean(model(batch)["next_token_losses"])
    assert float(loss) == pytest.approx(float(expected["lm_only_loss"]), abs=ROUNDING)


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


def read_in_steps(model, ids, sizes, capacity, hidden_columns=0):
    """Logits through the cache, where so many tokens are read at once."""
    batch, length = ids.shape
    cache = model.empty_cache(batch, capacity)
    is_visible = np.arange(capacity)[None] >= np.full((batch, 1), hidden_columns)
    logits, start = [], 0
    for size in sizes:
        places = np.arange(start, start + size)
        some, cache = model.extend(
            tf.constant(ids[:, start : start + size]),
            tf.constant(np.tile(places, (batch, 1)), tf.int32),
            start + hidden_columns,
            tf.constant(is_visible),
            cache,
        )
        logits.append(some)
        start += size
    assert start == length
    return np.concatenate(logits, axis=1)


@pytest.mark.parametrize("hidden_columns", [0, 3])
def test_gpt_2_reads_through_its_cache(gpt_2, gpt_2_record, hidden_columns):
    """Prompts that are padded to the left begin behind columns that are hidden."""
    ids = gpt_2_record["tokens"]
    sizes = (12, *[1] * 8)
    logits = read_in_steps(gpt_2, ids, sizes, 25, hidden_columns)
    close(logits, gpt_2_record["incremental_logits"])


def test_gpt_reads_through_its_cache(gpt, gpt_features):
    ids = gpt_features["input_ids"]
    batch = left_to_right.features(ids)
    logits = read_in_steps(gpt, ids, (1, 20, 3), 24)
    close(logits, gpt.logits(batch))
    # The twin: a token that it has not read moves what comes after.
    other = ids.copy()
    other[:, 0] = (ids[:, 0] + 1) % 60
    moved = read_in_steps(gpt, other, (1, 20, 3), 24)
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
    logits = read_in_steps(model, ids, (4, 1, 1, 3), 12, 2)
    close(logits, model.logits(left_to_right.features(ids)))


def test_language_model_refuses_to_look_ahead(tiny_config):
    assert isinstance(tiny_config, config_lib.BertConfig)
    with pytest.raises(ValueError, match='set "attention": "causal" in bert_config'):
        pretrainers.LanguageModel(tiny_config)
