"""GPT's transformations of inputs against its original graph, from ids to losses.

Texts are cut out of the recorded inputs and go the way of run_classifier.py again:
packing.pack, batches, models.BertClassifier and its objective.
"""

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, labels
from modeling import heads, losses, models, sequences
from tests import daily
from tests.modeling import left_to_right

START, DELIMITER, END = 61, 62, 63
ROUNDING = 1e-5
SEED = tf.constant([1, 1], tf.int64)
STILL = {
    "embedding_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


class Ids:
    """A tokenizer whose texts are ids already, as numbers with spaces between."""

    start_id, delimiter_ids, end_id = START, (DELIMITER,), END

    def tokenize(self, texts):
        words = tf.strings.split(tf.convert_to_tensor(texts))
        return words.with_values(tf.strings.to_number(words.values, tf.int32))


@pytest.fixture(scope="module")
def record(shared_file):
    with np.load(shared_file("golden/gpt/tiny_gpt.npz")) as actual:
        return dict(actual)


@pytest.fixture(scope="module")
def gradients(shared_file):
    with np.load(shared_file("golden/gpt/tiny_gpt_gradients.npz")) as actual:
        return dict(actual)


@pytest.fixture(autouse=True)
def no_dropout(monkeypatch):
    monkeypatch.setattr(heads, "HEAD_DROPOUT", 0.0)


def texts_of(ids):
    """The first and, where there are some, second texts of recorded inputs [N, S]."""
    rows = []
    for row in ids:
        assert row[0] == START
        inner = row[1 : row.tolist().index(END)].tolist()
        cut = inner.index(DELIMITER) if DELIMITER in inner else len(inner)
        rows.append((inner[:cut], inner[cut + 1 :]))
    columns = [
        [" ".join(map(str, ids)) for ids in column]
        for column in zip(*rows, strict=True)
    ]
    return [tf.constant(column) for column in columns if any(column)]


def batch(label_set, label_ids, *texts):
    encode = encoding.Encoder(Ids(), 24, label_set)
    if label_set.problem_type == "choice":
        tokens = encode(*texts[:-1], choices=texts[-1])
    else:
        tokens = encode(*texts)
    packed = packing.unpad(*tokens, num_sequences=label_set.num_sequences)
    order = np.arange(len(packed), dtype=np.int32)[None]
    targets = {"label_ids": label_ids}
    (actual,) = batching.batches(packed, order, targets=targets, pad_to=24)
    return actual


def build(record, label_set, prefix="param/model/"):

    def head(config):
        kind = sequences.choose_kind(label_set.problem_type, label_set.pair_input)
        classes = label_set.num_outputs
        return models.BertClassifier(config, classes, kind, predicts_tokens=True)

    values = dict(record)
    if prefix != "param/model/":
        for name in ("w", "b"):
            values[f"param/model/clf/{name}"] = record[f"{prefix}/clf_{name}"]
    return left_to_right.gpt(values, head, **STILL)


def mean_losses(features, outputs):
    """The language model's loss of each sequence."""
    mask = tf.cast(features["input_mask"], tf.float32)[..., 1:]
    sums = tf.reduce_sum(outputs["next_token_losses"] * mask, axis=-1)
    return np.asarray(sums / tf.reduce_sum(mask, axis=-1))


FORMS = {
    "single": labels.Labels(("0", "1")),
    "entail": labels.Labels(("0", "1", "2")),
    "similar": labels.Labels(("0", "1"), pair_input="both_orders"),
    "regress": labels.Labels((), "regression", pair_input="both_orders"),
}


@pytest.mark.parametrize("form", daily.params(FORMS, "similar".__eq__))
def test_inputs_logits_and_losses_are_the_originals(record, form):
    label_set, prefix = FORMS[form], f"transform_{form}"
    ids = record[f"{prefix}/X"][..., 0]
    features = batch(label_set, np.zeros(4, np.int32), *texts_of(ids))
    model = build(record, label_set, prefix)
    outputs = model(features, seed=SEED)
    expected = [ids], [record[f"{prefix}/lm_losses"]]
    if label_set.num_sequences == 2:
        expected[0].append(record[f"{prefix}/X_reversed"][..., 0])
        expected[1].append(record[f"{prefix}/lm_losses_reversed"])
    inputs, lm_losses = (np.stack(parts, axis=1) for parts in expected)
    shape = features["input_ids"].shape
    np.testing.assert_array_equal(features["input_ids"], inputs.reshape(shape))
    actual = mean_losses(features, outputs)
    np.testing.assert_allclose(actual, lm_losses.reshape(actual.shape), atol=ROUNDING)
    logits = record[f"{prefix}/logits"]
    np.testing.assert_allclose(outputs["logits"], logits, atol=ROUNDING)
    pooled = record[f"{prefix}/pooled"]
    np.testing.assert_allclose(model.pool(features), pooled, atol=ROUNDING)
    # Without training there is nothing but logits, and they are the same.
    alone = model(features)
    assert alone.keys() == {"logits"}
    np.testing.assert_allclose(alone["logits"], logits, atol=ROUNDING)
    # The twin: one order is not both.
    if label_set.num_sequences == 2:
        single = {k: v[:, :1] for k, v in features.items() if k != "label_ids"}
        assert np.abs(model(single)["logits"] - logits).max() > 100 * ROUNDING


@pytest.mark.slow
def test_l3_of_two_answers_and_its_gradients_are_the_originals(record, gradients):
    label_set = labels.Labels(("1", "2"), "choice")
    ids = record["X"][..., 0]  # [4, 2, 24]
    contexts, first = texts_of(ids[:, 0])
    again, second = texts_of(ids[:, 1])
    assert np.array_equal(contexts, again)
    answers = tf.stack([first, second], axis=1)
    features = batch(label_set, record["Y"], contexts, answers)
    np.testing.assert_array_equal(features["input_ids"], ids)
    np.testing.assert_array_equal(features["input_mask"], record["M"])
    model = build(record, label_set)
    objective = losses.with_next_tokens(losses.classifier("choice"), 0.5)
    with tf.GradientTape() as tape:
        outputs = model(features, training=True, seed=SEED)
        totals, counts = objective.totals(features, outputs), objective.counts(features)
        parts = {name: totals[name] / counts[name] for name in totals}
        loss = tf.add_n(list(parts.values()))
    np.testing.assert_allclose(outputs["logits"], record["clf_logits"], atol=ROUNDING)
    expected = record["clf_losses"].mean(), record["lm_losses"].mean()
    assert float(parts["classifier_loss"]) == pytest.approx(expected[0], abs=ROUNDING)
    assert float(parts["weighted_lm_loss"]) == pytest.approx(
        0.5 * expected[1], abs=ROUNDING
    )
    assert float(loss) == pytest.approx(float(record["loss"]), abs=ROUNDING)
    named = left_to_right.named(model)
    actual = tape.gradient(loss, [variable.value for variable in named.values()])
    assert {f"grad/{name}" for name in named} == gradients.keys()
    for name, gradient in zip(named, actual, strict=True):
        np.testing.assert_allclose(
            *(tf.convert_to_tensor(gradient), gradients[f"grad/{name}"]),
            atol=ROUNDING,
            err_msg=name,
        )
