"""Sequences that share rows: the same losses and gradients as apart."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import sharing
from modeling import heads, losses, models, packed_rows, pretrainers
from modeling.configs import config
from modeling.networks.gpt import config as gpt_config
from tests import daily
from tests.training import steps
from training import batch_parts, gradients_tf

SHAPE = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
BERT = config.BertConfig(**SHAPE, initializer_range=0.3)
GPT_2 = gpt_config.GptConfig(
    **SHAPE, embedding_dropout_prob=0.0, norm_first=True, initializer_range=0.3
)
GPT = dataclasses.replace(GPT_2, norm_first=False)
LENGTHS = np.array([12, 3, 5, 4, 7, 2, 9, 12])
# Each part of these is also in another.
REPEATING = ("choice", "tagger", "left_to_right", "gpt2", "gpt_classifier")
MODELS = {
    "classifier": (
        lambda: models.BertClassifier(BERT, 3),
        losses.classifier("classification"),
    ),
    "choice": (
        lambda: models.BertClassifier(BERT, 1, "compared"),
        losses.classifier("choice"),
    ),
    "tagger": (lambda: models.BertTagger(BERT, 4), losses.tagger()),
    "pretrainer": (lambda: pretrainers.BertPretrainer(BERT), losses.pretraining()),
    "left_to_right": (
        lambda: pretrainers.LanguageModel(
            dataclasses.replace(BERT, attention="causal")
        ),
        losses.next_token(),
    ),
    "gpt2": (lambda: pretrainers.LanguageModel(GPT_2), losses.next_token()),
    "gpt_classifier": (
        lambda: models.BertClassifier(GPT, 3),
        losses.classifier("classification"),
    ),
    "gpt2_classifier": (
        lambda: models.BertClassifier(GPT_2, 3),
        losses.classifier("classification"),
    ),
}


def batch(kind):
    rng = np.random.default_rng(5)
    count, width = len(LENGTHS), LENGTHS.max()
    mask = (np.arange(width) < LENGTHS[:, None]).astype(np.int32)
    ids = rng.integers(1, 61, mask.shape).astype(np.int32)
    made = {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(width) >= LENGTHS[:, None] // 2) * mask,
        "label_ids": rng.integers(0, 3, count).astype(np.int32),
    }
    if kind == "tagger":
        made["label_ids"] = np.where(mask, rng.integers(0, 4, mask.shape), -1)
    if kind == "pretrainer":
        made |= {
            "masked_lm_positions": rng.integers(0, LENGTHS[:, None], (count, 3)),
            "masked_lm_ids": rng.integers(1, 61, (count, 3)),
            "masked_lm_weights": np.tri(count, 3, dtype=np.float32),
            "next_sentence_labels": rng.integers(0, 2, count),
        }
    if kind == "choice":
        inputs = ("input_ids", "input_mask", "segment_ids")
        made |= {name: made[name].reshape(count // 2, 2, width) for name in inputs}
        made["label_ids"] = made["label_ids"][: count // 2] % 2
    return {
        name: value.astype(np.int32) if value.dtype.kind == "i" else value
        for name, value in made.items()
    }


def shared(features, shares=1, num_rows=None):
    made = tf.data.Dataset.from_tensors(features)
    if "masked_lm_ids" in features:
        made = sharing.join_predictions(made, shares)
    (made,) = sharing.share_rows(made, shares, num_rows)
    return {name: value.numpy() for name, value in made.items()}


def losses_and_gradients(model, objective, features):
    seed = tf.constant([1, 2], tf.int64)
    with tf.GradientTape() as tape:
        outputs = model(features, training=True, seed=seed)
        totals = objective.totals(features, outputs)
        loss = tf.add_n(list(totals.values()))
    # Softmax ignores what is added to all keys alike: their bias has no gradient but
    # rounding.
    variables = [v for v in model.trainable_variables if "key/bias" not in v.path]
    gradients = tape.gradient(loss, [v.value for v in variables])
    dense = [g if g is None else tf.convert_to_tensor(g).numpy() for g in gradients]
    return float(loss), dense, float(gradients_tf.global_norm(gradients))


def largest_difference(kind, **layout):
    """Between losses and gradients of a batch with and without shared rows."""
    make, objective = MODELS[kind]
    model, features = make(), batch(kind)
    model.build()
    loss, gradients, norm = losses_and_gradients(model, objective, features)
    packed = shared(features, **layout)
    assert len(packed["packed_sources"]) < len(LENGTHS) or "num_rows" in layout
    other_loss, others, other_norm = losses_and_gradients(model, objective, packed)
    assert gradients[0] is not None and np.abs(gradients[0]).max() > 1e-3
    differences = [abs(loss - other_loss) / abs(loss), abs(norm - other_norm) / norm]
    for one, other in zip(gradients, others, strict=True):
        assert (one is None) == (other is None)
        if one is not None and np.abs(one).max() > 1e-6:  # else rounding
            differences.append(np.abs(one - other).max() / np.abs(one).max())
    return max(differences)


@pytest.mark.parametrize(
    "kind",
    daily.params(MODELS, lambda kind: kind not in REPEATING),
)
def test_losses_and_gradients_are_those_of_sequences_apart(kind):
    assert largest_difference(kind) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_more_rows_than_needed_change_nothing(kind):
    assert largest_difference(kind, num_rows=9) < 1e-5


@pytest.mark.slow
def test_shares_of_a_batch_have_rows_of_their_own():
    """As replicas and micro-batches take them."""
    make, objective = MODELS["pretrainer"]
    model, features = make(), batch("pretrainer")
    model.build()
    loss, *_ = losses_and_gradients(model, objective, features)
    parts = {
        name: batch_parts.split_parts(tf.constant(value), 2)
        for name, value in shared(features, shares=2).items()
    }
    halves = [{name: value[i] for name, value in parts.items()} for i in range(2)]
    total = sum(losses_and_gradients(model, objective, half)[0] for half in halves)
    assert total == pytest.approx(loss, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "gpt_classifier", "gpt2_classifier"])
def test_parts_of_a_batch_do_not_change_the_norm(monkeypatch, kind):
    monkeypatch.setattr(heads, "HEAD_DROPOUT", 0.0)  # drawn for each part by itself
    make, objective = MODELS[kind]
    batches, norms = steps.repeat(batch(kind)), []
    for parts in (1, 4):
        keras.utils.set_random_seed(1)
        model = make()
        model.build()
        run = steps.make(model, objective, micro_batches=parts)
        norms.append(steps.call(run, batches, [0.01])[0]["gradient_norm"])
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def test_masked_tokens_are_laid_end_to_end():
    given = {
        "masked_lm_ids": [[5, 6, 0], [7, 0, 0], [0, 0, 0], [8, 9, 0]],
        "masked_lm_weights": [[1.0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 2, 0]],
    }
    given = tf.data.Dataset.from_tensors(
        {name: tf.constant(value) for name, value in given.items()}
    )
    (made,) = sharing.join_predictions(given, shares=2)
    assert made["masked_lm_ids"].numpy().tolist() == [5, 6, 7, 9, 0, 0]
    assert made["masked_lm_weights"].numpy().tolist() == [1, 1, 1, 2, 0, 0]
    assert made["masked_lm_places"].numpy().tolist()[:4] == [0, 1, 3, 4]
    (made,) = sharing.join_predictions(given, shares=1)
    assert made["masked_lm_ids"].numpy().tolist() == [5, 6, 7, 9]


def test_first_fit_keeps_rows_few_and_sequences_whole():
    starts, count = sharing.first_fit(np.array([5, 4, 1, 6, 3, 9]), 10)
    assert (starts.tolist(), count) == ([20, 16, 9, 10, 25, 0], 3)
    order = np.array([[0, 1, 2, 3], [3, 3, 0, 0]])
    lengths = np.array([[5], [4], [1], [6]])
    assert sharing.most_rows(lengths, order, 6, shares=2) == 2
    assert sharing.most_rows(np.ones((4, 1), int), order, 6, shares=2) == 1


@pytest.mark.slow
@pytest.mark.parametrize("part", ["attention_mask", "position_ids"])
def test_without_mask_or_positions_they_differ(monkeypatch, part):
    rows = packed_rows.PackedRows
    wrong = {
        "attention_mask": lambda self: tf.tile(
            tf.ones_like(self.sources)[:, None], [1, self.length, 1]
        ),
        "position_ids": lambda self: (
            tf.range(tf.shape(self.sources)[1])[None] * tf.ones_like(self.sources)
        ),
    }
    monkeypatch.setattr(rows, part, wrong[part])
    assert largest_difference("tagger") > 1e-2
