"""The whole network against what google-research/bert computed; tests/golden/README.md.

Differences measured are about 1e-6 where values are of order 1, the rounding of float32
sums in another order. Asserted is 1e-5 (of the losses, of order 10, relative); a wrong
epsilon, activation, mask or order of segments moves the outputs by 1e-3 and more.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses, models
from modeling.checkpoints import checkpoint

ROUNDING = 1e-5


@pytest.fixture(scope="module")
def encoded(golden_pretrainer, forward_record):
    return golden_pretrainer.encode(forward_record, seed=None)


def close(actual, expected, atol=ROUNDING):
    np.testing.assert_allclose(np.asarray(actual), expected, atol=atol, rtol=0)


@pytest.fixture(scope="module")
def predicted(golden_pretrainer, forward_record):
    return golden_pretrainer(forward_record)


def test_every_layer_equals_the_originals(encoded, forward_record):
    for name in ("embedding_output", "sequence_output", "pooled_output"):
        close(encoded[name], forward_record[name])
    for ours, theirs in zip(
        encoded["layer_outputs"], forward_record["layers"], strict=True
    ):
        close(ours, theirs)


def test_next_sentence_equals_the_originals(predicted, forward_record):
    logits = predicted["next_sentence_logits"]
    expected = forward_record["next_sentence_log_probs"]
    close(tf.nn.log_softmax(logits), expected)
    each = losses.cross_entropy(logits, forward_record["next_sentence_labels"])
    close(each, forward_record["next_sentence_example_loss"])


def test_masked_words_equal_the_originals(predicted, forward_record):
    log_probs = tf.nn.log_softmax(predicted["masked_lm_logits"])
    top = tf.math.top_k(tf.reshape(log_probs, (80, -1)), 5)
    np.testing.assert_array_equal(top.indices, forward_record["masked_lm_top5"])
    close(top.values, forward_record["masked_lm_top5_log_probs"])
    each = losses.cross_entropy(
        predicted["masked_lm_logits"], forward_record["masked_lm_ids"]
    )
    expected = forward_record["masked_lm_example_loss"]
    np.testing.assert_allclose(np.ravel(each), expected, rtol=ROUNDING)


def test_losses_equal_the_originals(predicted, forward_record):
    objective = losses.pretraining()
    counts = objective.counts(forward_record)
    totals = objective.totals(forward_record, predicted)
    means = {name: float(totals[name] / counts[name]) for name in totals}
    for name in ("masked_lm_loss", "next_sentence_loss"):
        assert means[name] == pytest.approx(float(forward_record[name]), rel=ROUNDING)
    total = float(forward_record["total_loss"])
    assert sum(means.values()) == pytest.approx(total, rel=ROUNDING)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_act": "gelu_erf"},
        {"layer_norm_epsilon": 1e-3},  # the default of Keras
    ],
    ids=str,
)
def test_small_numbers_matter(golden_config, golden_dir, forward_record, change):
    """The twin of the tests above: they would see such a mistake."""
    model = models.BertModel(dataclasses.replace(golden_config, **change))
    model.build()
    checkpoint.load(model, golden_dir)
    output = np.asarray(model(forward_record)["sequence_output"])
    moved = np.abs(output - forward_record["sequence_output"]).max()
    assert moved > 50 * ROUNDING


@pytest.mark.parametrize("feature", ["input_ids", "input_mask", "segment_ids"])
def test_every_feature_of_the_record_matters(
    golden_pretrainer, forward_record, feature
):
    other = {**forward_record, feature: np.ones_like(forward_record[feature])}
    output = np.asarray(golden_pretrainer.encode(other, None)["sequence_output"])
    real = forward_record["input_mask"].astype(bool)
    moved = np.abs(output - forward_record["sequence_output"])[real].max()
    assert moved > 0.1
