"""Examples of several sequences: choices that are compared, orders that are added."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import pretrainers

# Rounding of float32, and what an input that is read changes at the least.
ROUNDING, VISIBLE = 1e-5, 1e-2
SEED = tf.constant([3, 5], tf.int64)


def build(config, sequences, num_classes):
    keras.utils.set_random_seed(7)
    model = pretrainers.build("classifier", num_classes, config, sequences=sequences)
    rng = np.random.default_rng(1)
    for variable in model.classifier.variables:
        variable.assign(rng.normal(size=variable.shape))
    return model


@pytest.fixture(scope="module")
def grids():
    """Features [2, 3, 10]: two examples of three sequences of different lengths."""
    rng = np.random.default_rng(3)
    lengths = np.array([[10, 7, 9], [6, 8, 5]])[..., None]
    positions = np.arange(10)
    mask = (positions < lengths).astype(np.int32)
    return {
        "input_ids": rng.integers(1, 60, (2, 3, 10)).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": (positions >= 4).astype(np.int32) * mask,
    }


def take_sequence(grids, example, number):
    length = int(grids["input_mask"][example, number].sum())
    return {k: v[example, number : number + 1, :length] for k, v in grids.items()}


def test_each_choice_is_judged_by_itself(tiny_config, grids):
    model = build(tiny_config, "compared", 1)
    logits = np.asarray(model(grids)["logits"])
    assert logits.shape == (2, 3) and logits.dtype == np.float32
    alone = build(tiny_config, "single", 1)  # of the same seed: the same weights
    for example in range(2):
        for number in range(3):
            expected = alone(take_sequence(grids, example, number))["logits"]
            np.testing.assert_allclose(
                logits[example, number], expected[0, 0], atol=ROUNDING
            )


@pytest.mark.slow
def test_both_orders_are_added_before_the_linear_layer(tiny_config, grids):
    model = build(tiny_config, "summed", 4)
    pairs = {k: v[:, :2] for k, v in grids.items()}
    pooled = np.asarray(model.pool(pairs))
    assert pooled.shape == (2, tiny_config.hidden_size)
    alone = build(tiny_config, "single", 4)
    for example in range(2):
        parts = [alone.pool(take_sequence(grids, example, i))[0] for i in range(2)]
        np.testing.assert_allclose(pooled[example], parts[0] + parts[1], atol=ROUNDING)
    expected = pooled @ np.asarray(alone.classifier.logits.kernel).T
    expected += np.asarray(alone.classifier.logits.bias)
    turned = {k: v[:, ::-1] for k, v in pairs.items()}
    for batch in (pairs, turned):
        np.testing.assert_allclose(model(batch)["logits"], expected, atol=ROUNDING)
    compared = build(tiny_config, "compared", 1)  # the twin
    moved = np.asarray(compared(turned)["logits"] - compared(pairs)["logits"])
    assert np.abs(moved).max() > VISIBLE


def test_dropout_takes_the_same_entries_from_all_choices(tiny_config):
    head = build(tiny_config, "compared", 1).classifier
    vector = np.random.default_rng(2).normal(size=(2, 1, 16)).astype(np.float32)
    alike = np.tile(vector, (1, 3, 1))
    dropped = np.asarray(head(alike, seed=SEED, is_shared=True))
    np.testing.assert_array_equal(dropped[:, 1:], dropped[:, :1].repeat(2, axis=1))
    apart = np.asarray(head(alike, seed=SEED))  # the twin: of a tagger's tokens
    assert np.abs(apart[:, 1:] - apart[:, :1]).max() > VISIBLE
    # It is dropped at all, and not alike for every example.
    kept = np.asarray(head(alike))
    assert np.abs(dropped - kept).max() > VISIBLE
    again = np.asarray(head(np.tile(vector[:1], (2, 3, 1)), seed=SEED, is_shared=True))
    assert np.abs(again[0] - again[1]).max() > VISIBLE
