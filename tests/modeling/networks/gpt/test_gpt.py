"""GPT and GPT-2: dropout of the table, what is read, and initial values."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import pretrainers
from modeling.features import attention_maps, vectors
from modeling.networks.gpt import config as gpt_config
from tests.modeling import left_to_right

# Initial values so wide that a mistake anywhere moves the output visibly.
SHAPE = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,  # the last one may read some positions only
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 12,
    "initializer_range": 0.3,
}
KINDS = {
    "GPT": gpt_config.GptConfig(**SHAPE, joined_table=True),
    "GPT-2": gpt_config.GptConfig(**SHAPE, norm_first=True),
}
MASK = np.array([[1] * 9, [1] * 6 + [0] * 3])
IDS = np.random.default_rng(0).integers(0, 40, MASK.shape) * MASK
FEATURES = left_to_right.features(IDS, MASK)
NO_DROPOUT = {
    "embedding_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def build(kind, head="language_model", **changes):
    keras.utils.set_random_seed(5)
    classes = 3 if head in pretrainers.CLASS_HEADS else None
    config = dataclasses.replace(KINDS[kind], **changes)
    return pretrainers.build(head, classes, config)


def seed_of(number):
    return tf.constant([1, number], tf.int64)


@pytest.mark.slow
def test_gpt_drops_entries_of_the_table_wherever_a_token_stands():
    rates = {**NO_DROPOUT, "embedding_dropout_prob": 0.5}
    model = build("GPT", **rates)
    table = np.asarray(model.network.embeddings.table(seed_of(1)))
    whole = np.asarray(model.network.embeddings.word_embeddings)
    is_kept = table != 0
    assert table.shape == (52, 16) and 0.4 < is_kept.mean() < 0.6
    np.testing.assert_allclose(table[is_kept], 2 * whole[is_kept], rtol=1e-6)
    outputs = model.encode(FEATURES, seed_of(1))
    expected = table[IDS] + table[40 + np.arange(9)]
    np.testing.assert_allclose(outputs["embedding_output"], expected, atol=1e-6)
    logits = tf.matmul(outputs["sequence_output"], table, transpose_b=True)
    wanted = tf.nn.sparse_softmax_cross_entropy_with_logits(
        FEATURES["input_ids"][:, 1:], logits[:, :-1]
    )
    actual = model(FEATURES, seed=seed_of(1))["next_token_losses"]
    np.testing.assert_allclose(actual, wanted, atol=1e-5)
    # The twin: as Hugging Face has it, the sum is dropped and the table is not.
    other = build("GPT", joined_table=False, **rates)
    assert other.network.embeddings.table(seed_of(1)) is (
        other.network.embeddings.word_embeddings
    )
    moved = np.asarray(other.encode(FEATURES, seed_of(1))["embedding_output"])
    share = (moved == 0).mean()
    assert 0.4 < share < 0.6 and (expected == 0).mean() < 0.4


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_pooled_at_its_last_token(kind):
    model = build(kind, "classifier")
    whole = model.encode(FEATURES, None)
    last = np.asarray(whole["sequence_output"])[[0, 1], [8, 5]]
    np.testing.assert_allclose(model.pool(FEATURES), last, atol=1e-6)
    np.testing.assert_allclose(whole["pooled_output"], last, atol=1e-6)
    kernel, bias = map(np.asarray, model.classifier.logits.variables)
    assert kernel.shape == (16, 3)  # as the original stores it
    expected = last @ kernel + bias
    np.testing.assert_allclose(model(FEATURES)["logits"], expected, atol=1e-5)
    choice = vectors.choose(model.config, layers=[-1], pooling="cls")
    actual = vectors.compute(whole, MASK, choice)[:, 0]
    np.testing.assert_array_equal(actual, last)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_maps_are_what_the_layers_use(kind):
    model = build(kind)
    outputs = model.encode(FEATURES, None)
    maps = np.asarray(attention_maps.compute(model.network, outputs, MASK))
    np.testing.assert_allclose(maps[0].sum(-1), 1, atol=1e-5)
    assert np.all(np.triu(maps, 1) == 0)
    block = model.network.blocks[1]
    hidden = outputs["layer_outputs"][0]
    inputs = block.attention_norm(hidden) if kind == "GPT-2" else hidden
    *_, value = block.attention.project(inputs, inputs)
    mixed = np.einsum("nst,ntk->snk", maps[0, 1], value[0]).reshape(9, 16)
    expected = block.attention.output_projection(tf.constant(mixed, tf.float32))
    adder = np.where(np.tril(np.ones((9, 9))), 0, -1e4)[None, None].astype(np.float32)
    actual = block.attention(inputs[:1], tf.constant(adder))
    np.testing.assert_allclose(actual[0], expected, atol=1e-5)


def test_initial_values_are_those_of_the_releases():
    model = build("GPT-2", initializer_range=0.02, vocab_size=4000)
    tables = model.network.embeddings
    assert np.std(tables.word_embeddings) == pytest.approx(0.02, rel=0.02)
    assert np.abs(tables.word_embeddings).max() > 3.5 * 0.02  # not truncated
    assert np.std(tables.position_embeddings) == pytest.approx(0.01, rel=0.15)
    kernel = model.network.blocks[0].ffn_in.kernel
    assert kernel.shape == (1, 16, 64)
    assert np.std(kernel) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("wrong", [40, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_id_beyond_the_tokens_reads_no_row(kind, wrong):
    """GPT's positions follow its tokens in one table; TensorFlow names the place."""
    ids = IDS.copy()
    ids[0, 1] = wrong
    embeddings = build(kind).network.embeddings
    rows = 52 if kind == "GPT" else 40
    message = rf"indices\[0,1\] = {rows} is not in \[0, {rows}\)"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        embeddings(tf.constant(ids), None)
    ids[0, 1] = 39
    assert np.isfinite(embeddings(tf.constant(ids), None)).all()
