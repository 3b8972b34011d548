"""Examples of several sequences: choices, orders that are added, and windows."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import pretrainers, sequences
from modeling.features import head_config
from tests import daily

# Rounding of float32, and what an input that is read changes at the least.
ROUNDING, VISIBLE = 1e-5, 1e-2
SEED = tf.constant([3, 5], tf.int64)
KINDS = daily.params(sequences.OF_WINDOWS, lambda kind: kind == "mean")


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


@pytest.fixture(scope="module")
def windows(grids):
    """Features [2, 3, 10], whose second example has one window."""
    mask = grids["input_mask"].copy()
    mask[1, 1:] = 0
    return {k: v * mask for k, v in grids.items()}


@pytest.fixture(scope="module")
def built(tiny_config):
    """A function of `sequences` to a model of 4 classes, the same weights in each."""
    return functools.cache(lambda kind: build(tiny_config, kind, 4))


def alone(model, features, example, number):
    return np.asarray(model(take_sequence(features, example, number))["logits"][0])


@pytest.mark.parametrize("kind", KINDS)
def test_logits_of_windows_are_joined(built, windows, kind):
    model, plain = built(kind), built("single")
    logits = np.asarray(model(windows)["logits"])
    each = np.stack([alone(plain, windows, 0, number) for number in range(3)])
    np.testing.assert_allclose(logits[0], getattr(each, kind)(axis=0), atol=ROUNDING)
    other = {"mean": "max", "max": "mean"}[kind]
    assert np.abs(logits[0] - getattr(each, other)(axis=0)).max() > VISIBLE
    # Windows are examples where they stand alone, as in exports.
    rows = {name: grid[0] for name, grid in windows.items()}
    np.testing.assert_allclose(model(rows)["logits"], each, atol=ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
def test_one_window_is_the_plain_model_to_the_bit(built, windows, kind):
    model, plain = built(kind), built("single")
    one = {name: grid[:, :1] for name, grid in windows.items()}
    rows = {name: grid[:, 0] for name, grid in windows.items()}
    np.testing.assert_array_equal(model(one)["logits"], plain(rows)["logits"])
    two = {name: grid[:, :2] for name, grid in windows.items()}  # the twin
    assert np.abs(model(two)["logits"][0] - plain(rows)["logits"][0]).max() > VISIBLE


@pytest.mark.parametrize("kind", KINDS)
def test_padding_windows_do_not_count(built, windows, kind):
    model = built(kind)
    logits = np.asarray(model(windows)["logits"])
    one = {name: grid[1:, :1] for name, grid in windows.items()}
    np.testing.assert_allclose(logits[1:], model(one)["logits"], atol=ROUNDING)
    odd = {
        **windows,
        "input_ids": windows["input_ids"] + 3 * (windows["input_mask"] == 0),
    }
    np.testing.assert_allclose(model(odd)["logits"], logits, atol=ROUNDING)
    mask = windows["input_mask"].copy()
    mask[1, 1, :4] = 1  # the twin: a window with tokens counts
    moved = np.asarray(model({**odd, "input_mask": mask})["logits"])
    assert np.abs(moved[1] - logits[1]).max() > VISIBLE
    np.testing.assert_allclose(moved[0], logits[0], atol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [True, False])
def test_gradients_are_finite_where_an_example_has_padding(
    tiny_config, windows, monkeypatch, is_kept
):
    if not is_kept:  # the twin
        monkeypatch.setattr(sequences, "window_rows", sequences.as_rows)
    reading = head_config.HeadConfig(pooling="max")
    config = dataclasses.replace(tiny_config, hidden_act="relu")
    model = pretrainers.build("classifier", 4, config, sequences="max", reading=reading)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(windows, training=True, seed=SEED)["logits"])
    weights = [variable.value for variable in model.trainable_variables]
    gradients = [g for g in tape.gradient(loss, weights) if g is not None]
    gradients = [tf.convert_to_tensor(each).numpy() for each in gradients]
    assert all(np.isfinite(each).all() for each in gradients) == is_kept
    assert any(np.abs(each).max() > 0 for each in gradients)


def test_rows_without_tokens_have_one(windows):
    rows = sequences.window_rows(windows)
    mask = np.asarray(rows["input_mask"])
    assert mask.shape == (6, 10) and mask[:, 0].all()
    np.testing.assert_array_equal(
        mask[:, 1:], windows["input_mask"].reshape(6, 10)[:, 1:]
    )
    assert not windows["input_mask"][1, 1].any()  # which has been without


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_joined_by_counts_as_in_a_grid(kind):
    logits = np.random.default_rng(4).normal(size=(6, 3)).astype(np.float32)
    actual = np.asarray(sequences.join_counted(logits, np.array([1, 3, 2]), kind))
    parts = np.split(logits, [1, 4])
    wanted = [getattr(part, kind)(axis=0) for part in parts]
    np.testing.assert_allclose(actual, wanted, rtol=1e-6)
    np.testing.assert_array_equal(actual[0], logits[0])
    nothing = sequences.join_counted(logits[:0], np.zeros(0, np.int64), kind)
    assert nothing.shape == (0, 3)
