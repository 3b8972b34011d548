"""Tests of training/inference.py on one device; on two: test_two_replicas.py."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import batching, packing
from training import inference

STRATEGY = tf.distribute.get_strategy()


@pytest.fixture
def packed():
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 9, 11)
    return packing.Packed(
        tokens=rng.integers(1, 30, lengths.sum()).astype(np.int32),
        splits=np.concatenate([[0], np.cumsum(lengths)]),
        first_lengths=lengths.astype(np.int32),
    )


def test_result_is_remembered_for_one_step_and_its_arguments():
    calls = []

    def evaluate(*arguments):
        calls.append(arguments)
        return len(calls)

    remembered = inference.CachedEvaluation(evaluate)
    assert remembered.at(3, "dev") == 1
    assert remembered("dev", 8) == 2
    remembered.keep(6)
    assert remembered("dev", 8) == 3  # of other weights
    assert remembered.at(6, "dev", 8) == 2
    # Other weights, data and batch sizes: evaluated again.
    assert remembered.at(9, "dev", 8) == 4
    assert remembered.at(6, "test", 8) == 5
    assert remembered.at(6, "dev", 16) == 6
    assert remembered.at(6, "dev", 8) == 2 and len(calls) == 6


@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_predictions_are_in_the_order_of_the_examples(packed, batch_size):
    def first_and_sum(features):
        ids = features["input_ids"]
        return {"first": ids[:, 0], "both": tf.stack([ids[:, 0], ids[:, 1]], axis=1)}

    order = batching.evaluation_order(packed.lengths, batch_size)
    batches = batching.batches(packed, order)
    outputs = inference.predict(first_and_sum, batches, order, STRATEGY)
    starts = packed.splits[:-1]
    np.testing.assert_array_equal(outputs["first"], packed.tokens[starts])
    np.testing.assert_array_equal(outputs["both"][:, 1], packed.tokens[starts + 1])
    assert outputs["both"].shape == (11, 2)


@pytest.mark.parametrize("num_sequences", [1, 2])
def test_few_examples_are_predicted_without_a_dataset(
    packed, num_sequences, monkeypatch
):
    if num_sequences > 1:
        even = dataclasses.replace(packed, num_sequences=num_sequences)
        packed = packing.take(even, np.arange(5))

    def first_and_length(features, training):
        mask = features["input_mask"]
        return {
            "first": tf.reshape(features["input_ids"], [len(packed), -1])[:, 0],
            "length": tf.reduce_sum(mask, axis=range(1, mask.shape.rank)),
        }

    monkeypatch.setattr(batching, "batches", None)
    outputs = inference.packed_function(first_and_length, 64)(packed)
    starts = packed.splits[:-1:num_sequences]
    np.testing.assert_array_equal(outputs["first"], packed.tokens[starts])
    lengths = packed.sequence_lengths.reshape(len(packed), -1).sum(axis=1)
    np.testing.assert_array_equal(outputs["length"], lengths)
    with pytest.raises(TypeError):  # of several batches there is one
        inference.packed_function(first_and_length, 4)(packed)


def test_longest_batch_is_predicted_first(packed):
    """A batch that does not fit into memory ends the run at once."""
    widths = []

    def sums(features):
        widths.append(features["input_ids"].shape[1])
        return {"sum": tf.reduce_sum(features["input_ids"], axis=1)}

    examples = batching.Examples(packed, names=list, digest=str)
    outputs = inference.Predictor(sums, STRATEGY, batch_size=4)(examples)
    assert widths == sorted(widths, reverse=True) and len(set(widths)) > 1
    order = batching.evaluation_order(packed.lengths, 4)
    batches = batching.batches(packed, order)
    expected = inference.predict(sums, batches, order, STRATEGY)
    np.testing.assert_array_equal(outputs["sum"], expected["sum"])


@pytest.mark.parametrize("rows", [None, np.arange(1, 4)])
def test_batch_of_many_rows_is_cut(packed, rows):
    """A last batch of 2**31 was filled up, without an end."""
    sizes = []

    def sums(features):
        sizes.append(features["input_ids"].shape[0])
        return {"sum": tf.reduce_sum(features["input_ids"], axis=1)}

    examples = batching.Examples(packed, names=list, digest=str)
    predictor = inference.Predictor(sums, STRATEGY, batch_size=10_000)
    outputs = predictor(examples) if rows is None else predictor.rows(examples, rows)
    assert sizes == [256]  # 11 examples
    expected = np.add.reduceat(packed.tokens, packed.splits[:-1])
    wanted = slice(None) if rows is None else rows
    np.testing.assert_array_equal(outputs["sum"], expected[wanted])


def test_predictions_for_tokens_are_filled_up(packed):
    def ids(features):
        ids = features["input_ids"]
        return {"ids": ids, "scores": tf.stack([1.0 * tf.cast(ids, tf.float32)] * 2, 2)}

    order = batching.evaluation_order(packed.lengths, 4)
    batches = batching.batches(packed, order)
    outputs = inference.predict(ids, batches, order, STRATEGY)
    assert outputs["ids"].shape == (11, 8) and outputs["scores"].shape == (11, 8, 2)
    for row, length in enumerate(packed.lengths):
        tokens = packed.tokens[packed.splits[row] :][:length]
        assert outputs["ids"][row, :length].tolist() == tokens.tolist()
        assert set(outputs["ids"][row, length:].tolist()) <= {0, -1}
    shortest = np.argmin(packed.lengths)
    assert outputs["ids"][shortest, -1] == -1
    assert outputs["scores"][shortest, -1].tolist() == [-np.inf, -np.inf]


def test_prediction_has_no_dropout(build_classifier, classifier_batch):
    model = build_classifier(hidden_dropout_prob=0.5)
    features = {k: v for k, v in classifier_batch.items() if k != "label_ids"}
    predict = inference.predict_function(model, STRATEGY, jit_compile=False)
    np.testing.assert_allclose(
        predict(features)["logits"], model(features)["logits"], atol=1e-6
    )


def test_objective_scores_are_over_all_batches():
    """Parts and metrics as if it were one batch; `loss` the mean of the batches'."""

    def evaluate(features):
        words, total, right = features["x"][0], features["x"][1], features["x"][2]
        return {
            "totals": {"word_loss": total, "order_loss": tf.constant(6.0)},
            # The epsilon of the objective, large enough to be seen here.
            "counts": {"word_loss": words + 0.5, "order_loss": tf.constant(4.0)},
            "metrics": {"word_accuracy": (right, words)},
        }

    batches = tf.data.Dataset.from_tensor_slices({"x": [[2.0, 4, 1], [6, 1, 6]]})
    scores = inference.objective_scores(evaluate, batches, 2, STRATEGY)
    assert scores == {
        "loss": np.float32((4 / 2.5 + 1 / 6.5) / 2 + 1.5),
        "word_loss": np.float32(5 / 8),
        "order_loss": np.float32(1.5),
        "word_accuracy": np.float32(7 / 8),
    }
    assert all(isinstance(score, np.float32) for score in scores.values())


LENGTHS = [3, 1, 2, 5, 4]
# Two stretches, each by length, with filling.
ORDER = [[-1, 1], [2, 0], [-1, -1], [4, 3]]


def dataset():
    def batches():
        for row in ORDER:
            lengths = [LENGTHS[max(i, 0)] for i in row]
            mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
            ids = np.where(mask, 10 * (1 + np.array(row)[:, None]), 0)
            yield {
                "unique_ids": np.array(row, np.int64),
                "input_ids": ids.astype(np.int32),
                "input_mask": mask.astype(np.int32),
            }

    matrix = tf.TensorSpec([None, None], tf.int32)
    return tf.data.Dataset.from_generator(
        batches,
        output_signature={
            "unique_ids": tf.TensorSpec([None], tf.int64),
            "input_ids": matrix,
            "input_mask": matrix,
        },
    )


def read_tokens(features):
    ids = tf.cast(features["input_ids"], tf.float32)
    return {**features, "values": tf.stack([ids, -ids], axis=-1)[..., tf.newaxis]}


def read_lines(features):
    ids = tf.cast(features["input_ids"], tf.float32)
    return {**features, "values": tf.reduce_max(ids, axis=1)[:, tf.newaxis]}


@pytest.mark.parametrize("is_of_tokens", [True, False])
def test_extraction_is_in_order_and_without_filling(is_of_tokens):
    reports = []
    groups = list(
        inference.extract_in_order(
            read_tokens if is_of_tokens else read_lines,
            dataset(),
            STRATEGY,
            report=lambda done, **counts: reports.append((done, counts["lines"])),
            cut=lambda v, length: v[:length] if is_of_tokens else v,
        )
    )
    # As soon as they are complete.
    assert [[r.unique_id for r in group] for group in groups] == [[0, 1, 2], [3, 4]]
    assert reports == [(1, 1), (6, 3), (6, 3), (15, 5)]
    for result in (result for group in groups for result in group):
        ids = np.full(LENGTHS[result.unique_id], 10 * (1 + result.unique_id))
        np.testing.assert_array_equal(result.input_ids, ids)
        expected = np.stack([ids, -ids], axis=-1)[..., np.newaxis]
        if not is_of_tokens:
            expected = ids[:1]
        np.testing.assert_array_equal(result.values, expected)
