"""The encoder-decoder against values recorded from transformers.

Differences measured are a few 1e-6, the rounding of float32 sums in another order.
"""

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from modeling.checkpoints import names
from tests.modeling import left_to_right

ROUNDING = 1e-5


def close(actual, expected, where=..., atol=ROUNDING):
    actual, expected = np.asarray(actual)[where], np.asarray(expected)[where]
    np.testing.assert_allclose(actual, expected, atol=atol, rtol=0)


@pytest.fixture(scope="module")
def real(seq2seq_record):
    """True where a token of a target counts, bool [3, 11]."""
    return seq2seq_record["decoder_mask"] == 1


def states(outputs):
    return [outputs["embedding_output"], *outputs["layer_outputs"]]


def loss_of(features, outputs):
    objective = losses.target_token()
    (count,) = objective.counts(features).values()
    (total,) = objective.totals(features, outputs).values()
    return total / count


def test_layers_are_the_recorded_ones(
    seq2seq_model, seq2seq_features, seq2seq_record, real
):
    outputs = seq2seq_model.encode(seq2seq_features, None)
    for i, ours in enumerate(states(outputs)):
        close(ours, seq2seq_record[f"decoder_hidden_{i}"], real)
    is_there = seq2seq_record["input_mask"] == 1
    for i, ours in enumerate(states(outputs["encoder_outputs"])):
        close(ours, seq2seq_record[f"encoder_hidden_{i}"], is_there)


def test_logits_and_losses_are_the_recorded_ones(
    seq2seq_model, seq2seq_features, seq2seq_record, real
):
    logits = seq2seq_model.logits(seq2seq_features)
    close(logits, seq2seq_record["logits"], real)
    outputs = seq2seq_model(seq2seq_features)
    each = -seq2seq_record["token_log_probabilities"]
    close(outputs["next_token_losses"], each, real)
    close(loss_of(seq2seq_features, outputs), seq2seq_record["loss"])
    likeliest = seq2seq_record["logits"].argmax(-1) == seq2seq_record["labels"]
    np.testing.assert_array_equal(outputs["next_token_hits"][real], likeliest[real])
    total, count = losses.target_token().metrics(seq2seq_features, outputs)[
        "target_token_accuracy"
    ]
    assert (total, count) == (likeliest[real].sum(), real.sum())


def test_gradients_are_the_recorded_ones(
    seq2seq_model, seq2seq_features, seq2seq_record
):
    rows = names.named_variables(seq2seq_model)
    with tf.GradientTape() as tape:
        loss = loss_of(seq2seq_features, seq2seq_model(seq2seq_features))
    actual = tape.gradient(loss, [variable.value for _, variable in rows])
    actual = list(map(tf.convert_to_tensor, actual))
    for (name, _), gradient in zip(rows, actual, strict=True):
        expected = seq2seq_record[f"grad/{name.hugging_face}"]
        close(name.to_hugging_face(gradient.numpy()), expected)
    recorded = {key for key in seq2seq_record if key.startswith("grad/")}
    assert recorded == {f"grad/{name.hugging_face}" for name, _ in rows}
    close(tf.linalg.global_norm(actual), seq2seq_record["grad_global_norm"])


def test_a_token_depends_on_the_source_and_those_before_it(
    seq2seq_model, seq2seq_features, seq2seq_record
):
    logits = seq2seq_record["logits"]

    def moved(name, place):
        value = seq2seq_features[name].numpy()
        value[:, place] = (value[:, place] + 1) % (2 if "mask" in name else 60)
        changed = {**seq2seq_features, name: value}
        actual = np.asarray(seq2seq_model.logits(changed))
        return (np.abs(actual - logits) > 1e-3).any(-1)

    later = moved("decoder_input_ids", 4)
    assert not later[:, :4].any() and later[:, 4].all()
    assert moved("input_ids", 2).all()
    # The mask hides the last source's tokens, but not the first one's.
    beyond = moved("input_ids", 8)
    assert beyond[:2].all() and not beyond[2].any()
    assert moved("input_mask", 3).all()


def test_cache_gives_the_recorded_logits(
    seq2seq_model, seq2seq_features, seq2seq_record, real
):
    def read(features, *sizes):
        ids = features["decoder_input_ids"].numpy()
        return left_to_right.read_in_steps(seq2seq_model, ids, *sizes, [features])

    logits = read(seq2seq_features, [4, 6, 1], 15, 2)
    close(logits, seq2seq_record["incremental_logits"], real)
    # The last source alone is shorter than its padding, which changes nothing.
    short = {n: value[2:, :6] for n, value in seq2seq_features.items()}
    close(read(short, [6], 6, 0), logits[2:, :6], real[2:, :6])
