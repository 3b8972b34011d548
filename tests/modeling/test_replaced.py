"""Replaced tokens: draws, labels and metrics by NumPy; numbers of transformers."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import sharing
from modeling import replaced
from modeling.checkpoints import checkpoint, names
from modeling.networks import electra
from tests import family_weights

CASE = "electra-ForPreTraining"
PART = "weighted_discriminator_loss"


@functools.cache
def recorded():
    return family_weights.read_cases()[CASE]


def make(size=0.5, **changes):
    """A detector of the recorded config, its variables random."""
    keras.utils.set_random_seed(3)
    config = electra.ElectraConfig.from_dict({**recorded().config, **changes})
    model = replaced.ReplacedTokenDetector(config, size)
    model.build()
    return model


def features_of(case):
    """All places masked, each by token 4; `labels` are 1 where the text had another."""
    ids, labels = case.inputs["input_ids"], case.labels["labels"]
    size, length = ids.shape
    return {
        "input_ids": np.full_like(ids, 4),
        "input_mask": case.inputs["attention_mask"],
        "segment_ids": case.inputs["token_type_ids"],
        "masked_lm_positions": np.tile(np.arange(length, dtype=np.int32), (size, 1)),
        "masked_lm_ids": (ids + labels).astype(np.int32),
        "masked_lm_weights": np.ones(ids.shape, np.float32),
        "generator_draws": np.zeros(ids.shape, np.float32),
    }


def gradients(model, features, counted):
    """Loss of the discriminator, and its gradient by Hugging Face's names."""
    objective = replaced.objective(1.0)
    rows = [row for row in names.named_variables(model) if row[0].hugging_face]
    with tf.GradientTape() as tape:
        outputs = model(features)
        loss = (
            objective.totals(counted, outputs)[PART] / objective.counts(counted)[PART]
        )
    values = tape.gradient(loss, [variable.value for _, variable in rows])
    return (
        outputs,
        float(loss),
        {
            row.hugging_face: row.to_hugging_face(tf.convert_to_tensor(value).numpy())
            for (row, _), value in zip(rows, values, strict=True)
            if value is not None
        },
    )


def test_loss_and_gradients_are_those_of_transformers(tmp_path, monkeypatch):
    """Of ElectraForPreTraining, where the generator draws the recorded tokens."""
    case, model = recorded(), make()
    case.write(tmp_path)
    report = checkpoint.load(model, tmp_path)
    assert "43 of 82 variables assigned; newly initialised: generator/" in str(report)
    assert str(report).endswith(" and 31 more")
    tokens = case.inputs["input_ids"]
    monkeypatch.setattr(replaced, "draw", lambda logits, draws: tf.constant(tokens))
    features = features_of(case)
    outputs, loss, actual = gradients(model, features, features)
    np.testing.assert_array_equal(outputs["is_replaced"], case.labels["labels"])
    logits = outputs["replaced_logits"]
    np.testing.assert_allclose(logits, case.outputs["logits"], atol=1e-5)
    assert loss == pytest.approx(float(case.loss), abs=1e-5)
    assert actual.keys() == case.gradients.keys()
    for name, value in case.gradients.items():
        np.testing.assert_allclose(actual[name], value, atol=1e-5, err_msg=name)
    # Padding does not count, and would.
    padded = {**features, "input_mask": np.ones_like(tokens)}
    _, other, moved = gradients(model, features, padded)
    assert abs(other - loss) > 1e-2
    name = "discriminator_predictions.dense_prediction.bias"
    assert abs(moved[name] - case.gradients[name]).max() > 1e-2


def test_tokens_are_drawn_by_their_probabilities():
    """Even draws take each token as often as its share, but for one at each end."""
    count = 20000
    logits = np.random.default_rng(1).normal(0.0, 2.0, 17).astype(np.float32)
    logits[[0, 5, 16]] = -np.inf
    rows = tf.tile(logits[None, None], (1, count, 1))
    draws = (np.arange(count, dtype=np.float32) + 0.5) / count
    tokens = np.asarray(replaced.draw(rows, draws[None]))[0]
    shares = np.exp(logits - logits[logits > -np.inf].max())
    shares /= shares.sum()
    frequencies = np.bincount(tokens, minlength=17) / count
    np.testing.assert_allclose(frequencies, shares, atol=2 / count)
    assert np.abs(frequencies - 1 / 17).max() > 0.1
    assert np.all(np.diff(tokens) >= 0) and set(tokens[[0, -1]]) == {1, 15}
    # The largest draw below 1 takes a token that there is.
    for size in (2, 46, 30522):
        logits = np.random.default_rng(size).normal(size=(1, 1, size))
        draws = np.float32([[1 - 2.0**-24]])
        assert np.asarray(replaced.draw(tf.constant(logits, tf.float32), draws)) < size


def test_drawn_tokens_take_the_places_of_masked_ones():
    """One that is the text's is not replaced; idle places change nothing."""
    features = {
        "input_ids": np.array([[2, 4, 7, 4, 3, 0]], np.int32),
        "masked_lm_positions": np.array([[1, 3, 2, 0]], np.int32),
        "masked_lm_ids": np.array([[5, 6, 7, 0]], np.int32),
        "masked_lm_weights": np.array([[1, 1, 1, 0]], np.float32),
    }
    tokens = np.array([[5, 9, 0, 8]], np.int32)
    input_ids, is_replaced = replaced.replace(features, tokens)
    np.testing.assert_array_equal(input_ids, [[2, 5, 0, 9, 3, 0]])
    np.testing.assert_array_equal(is_replaced, [[0, 0, 1, 1, 0, 0]])


def test_losses_and_metrics_are_the_formulas_and_parts_add_up():
    logits = np.array([[2.0, -1.0, 0.5, -3.0], [1.0, 1.0, -2.0, 9.0]], np.float32)
    labels = np.array([[1, 1, 0, 0], [1, 0, 1, 0]], np.float32)
    mask = np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int32)
    words = np.log(np.array([[[0.5, 0.25, 0.25]], [[0.1, 0.1, 0.8]]], np.float32))
    features = {
        "input_mask": mask,
        "masked_lm_ids": np.array([[0], [1]], np.int32),
        "masked_lm_weights": np.ones((2, 1), np.float32),
    }
    outputs = {
        "masked_lm_logits": words,
        "replaced_logits": logits,
        "is_replaced": labels,
    }
    objective = replaced.objective(50.0)
    p = 1 / (1 + np.exp(-logits.astype(np.float64)))
    each = -(labels * np.log(p) + (1 - labels) * np.log(1 - p)) * mask
    totals, counts = objective.totals(features, outputs), objective.counts(features)
    assert {name: float(value) for name, value in totals.items()} == pytest.approx(
        {"masked_lm_loss": -np.log(0.5) - np.log(0.1), PART: 50.0 * each.sum()},
        rel=1e-6,
    )
    assert float(counts[PART]) == 7
    assert float(counts["masked_lm_loss"]) == pytest.approx(2, abs=2e-5)
    metrics = objective.metrics(features, outputs)
    pairs = {name: tuple(map(float, pair)) for name, pair in metrics.items()}
    assert pairs == {
        "masked_lm_accuracy": (1.0, 2.0),
        "discriminator_loss": (pytest.approx(each.sum(), rel=1e-6), 7.0),
        # Of 7 tokens 1, 4, 5 are right; of 4 predicted ones 1 and 5.
        "discriminator_accuracy": (3.0, 7.0),
        "discriminator_precision": (2.0, 4.0),
        "discriminator_recall": (2.0, 4.0),
    }
    halves = [
        objective.metrics(
            *(
                {name: value[rows] for name, value in each.items()}
                for each in (features, outputs)
            )
        )
        for rows in (slice(1), slice(1, 2))
    ]
    for name, pair in pairs.items():
        parts = [tuple(map(float, half[name])) for half in halves]
        assert np.sum(parts, axis=0) == pytest.approx(pair, rel=1e-6), name


def test_tables_are_shared_and_named_as_by_google():
    model = make()
    rows = dict(
        (name.google, tuple(v.shape)) for name, v in names.named_variables(model)
    )
    assert len(rows) == len(model.trainable_variables) == 82
    inside = {
        name.removeprefix("generator/encoder/layer_0/"): shape
        for name, shape in rows.items()
        if name.startswith("generator/encoder/layer_0/")
    }
    assert len(inside) == 16 and inside["intermediate/dense/kernel"] == (4, 6)
    others = {name: rows[name] for name in rows if "/layer_" not in name}
    assert others == {
        **{
            f"electra/embeddings/{n}_embeddings": (r, 6)
            for n, r in (("word", 40), ("position", 16), ("token_type", 2))
        },
        **{f"electra/embeddings/LayerNorm/{n}": (6,) for n in ("gamma", "beta")},
        **{"electra/embeddings_project/kernel": (6, 8)},
        **{"electra/embeddings_project/bias": (8,)},
        **{"generator/embeddings_project/kernel": (6, 4)},
        **{"generator/embeddings_project/bias": (4,)},
        **{"generator_predictions/dense/kernel": (4, 6)},
        **{"generator_predictions/dense/bias": (6,)},
        **{f"generator_predictions/LayerNorm/{n}": (6,) for n in ("gamma", "beta")},
        **{"generator_predictions/output_bias": (40,)},
        **{"discriminator_predictions/dense/kernel": (8, 8)},
        **{"discriminator_predictions/dense/bias": (8,)},
        **{"discriminator_predictions/dense_1/kernel": (8, 1)},
        **{"discriminator_predictions/dense_1/bias": (1,)},
    }
    # Both losses move the tables, and only one of them the discriminator.
    features, objective = features_of(recorded()), replaced.objective(50.0)
    table = model.network.embeddings.word_embeddings.value
    block = model.network.blocks[0].ffn_in.kernel.value
    with tf.GradientTape(persistent=True) as tape:
        totals = objective.totals(features, model(features))
    for part, moves in (("masked_lm_loss", False), (PART, True)):
        slope = tf.convert_to_tensor(tape.gradient(totals[part], table))
        assert np.abs(slope).max() > 1e-3
        assert (tape.gradient(totals[part], block) is not None) == moves


@pytest.mark.slow
def test_sequences_may_share_rows():
    """Losses, draws and gradients are those of a row for each sequence."""
    model, features = make(), features_of(recorded())
    shared = tf.data.Dataset.from_tensors(features)
    shared = next(iter(sharing.share_rows(shared, 1)))
    assert shared["packed_sources"].shape[0] == 2
    features["generator_draws"] += np.float32(0.5)
    shared = {**shared, "generator_draws": features["generator_draws"]}
    _, loss, expected = gradients(model, features, features)
    _, other, actual = gradients(model, shared, features)
    assert other == pytest.approx(loss, rel=1e-6)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, atol=1e-5, err_msg=name)
    moved = {**shared, "generator_draws": features["generator_draws"] - 0.4}
    assert abs(gradients(model, moved, features)[1] - loss) > 1e-4


@pytest.mark.slow
def test_dropout_of_generator_and_discriminator_differ():
    seed = tf.constant([5, 7], tf.int64)
    rates = {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.5}
    model, features = make(**rates), features_of(recorded())
    calls = []
    network = type(model.network)
    run = network.run

    def keep(self, block, *inputs, seed):
        calls.append(tuple(np.asarray(seed)))
        return run(self, block, *inputs, seed=seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "run", keep)
        model(features, seed=seed)
    assert calls == [(5, 7 + (1 << 25))] * 2 + [(5, 7)] * 2


@pytest.mark.parametrize(
    ("size", "sizes"),
    [(0.5, (4, 1, 6)), (1.0, (8, 2, 12)), (0.499, (4, 1, 6)), (0.3, None), (0.1, None)],
)
def test_generator_has_a_whole_number_of_heads(size, sizes):
    config = electra.ElectraConfig.from_dict(recorded().config)
    if sizes is None:
        with pytest.raises(ValueError, match=r"choose a multiple of 1/2$"):
            config.generator(size)
        return
    small = config.generator(size)
    assert sizes == (
        small.hidden_size,
        small.num_attention_heads,
        small.intermediate_size,
    )
    changes = dict(
        zip(
            ("hidden_size", "num_attention_heads", "intermediate_size"),
            (8, 2, 12),
            strict=True,
        )
    )
    same = dataclasses.replace(small, **changes)
    assert same == config.network_alone()
