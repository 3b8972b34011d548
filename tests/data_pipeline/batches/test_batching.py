"""Tests of data_pipeline/batches/batching.py."""

import dataclasses
import zlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import batching, packing

LENGTHS = np.random.default_rng(0).integers(3, 60, size=103)


RECORDED_ORDER = 682023673  # checksum of the rows that training has always seen


def order(seed=1, num_steps=300, batch_size=4, **changes):
    return batching.training_order(
        changes.pop("lengths", LENGTHS),
        batch_size=batch_size,
        num_steps=num_steps,
        seed=seed,
        **changes,
    )


def num_twice(rows):
    """How many batches have a row twice."""
    ordered = np.sort(rows, axis=1)
    return int(np.sum(np.any(ordered[:, 1:] == ordered[:, :-1], axis=1)))


@pytest.mark.parametrize("group_by_length", [False, True])
@pytest.mark.parametrize("num_rows", [4, 7, 103])
def test_no_batch_has_a_row_twice(num_rows, group_by_length):
    lengths = LENGTHS[:num_rows]
    rows = order(lengths=lengths, group_by_length=group_by_length)
    assert num_twice(rows) == 0
    # The twin: one permutation after the other, cut into batches.
    rng = np.random.default_rng(1)
    stream = np.concatenate([rng.permutation(num_rows) for _ in range(300)])
    if num_rows == 7:
        assert num_twice(stream[:1200].reshape(300, 4)) > 0


@pytest.mark.parametrize("group_by_length", [False, True])
def test_every_row_is_seen_once_before_the_next_epoch(group_by_length):
    lengths = np.random.default_rng(2).integers(3, 60, size=200)
    settings = {"batch_size": 32, "group_by_length": group_by_length}
    rows = order(lengths=lengths, num_steps=25, **settings)
    for epoch in (1, 2, 3, 4):
        counts = np.bincount(rows[: epoch * 200 // 32].ravel(), minlength=200)
        assert counts.max() == epoch
        assert counts.sum() // 200 == epoch - bool(epoch % 4)
        seen_later = rows[: -(-epoch * 200 // 32)].ravel()
        assert np.bincount(seen_later, minlength=200).min() == epoch
    assert np.bincount(rows.ravel(), minlength=200).tolist() == [4] * 200


@pytest.mark.parametrize("num_rows", [3, 50, 103])
@pytest.mark.parametrize("group_by_length", [False, True])
def test_a_longer_run_begins_as_the_shorter(num_rows, group_by_length):
    lengths = LENGTHS[:num_rows]
    settings = {"lengths": lengths, "group_by_length": group_by_length}
    rows = order(num_steps=60, **settings)
    for num_steps in (0, 1, 7, 31, 59):
        shorter = order(num_steps=num_steps, **settings)
        np.testing.assert_array_equal(shorter, rows[:num_steps])
    assert not np.array_equal(order(num_steps=60, seed=2, **settings), rows)


def test_orders_are_those_of_earlier_versions():
    """A resumed run goes on in the order in which it began, from pool to pool."""
    lengths = np.random.default_rng(4).integers(3, 60, size=260)
    rows = order(lengths=lengths, num_steps=400, batch_size=2, seed=[3, 1])
    assert rows.dtype == np.int32 and zlib.crc32(rows.tobytes()) == RECORDED_ORDER


def test_grouping_moves_examples_only_within_a_pool():
    lengths = np.random.default_rng(1).integers(3, 60, size=1000)
    plain, grouped = (
        order(lengths=lengths, num_steps=250, group_by_length=grouped)
        for grouped in (False, True)
    )
    for pool in np.array_split(np.arange(250), 4):  # 250 batches, 64 at most
        assert len(pool) <= batching.POOL_BATCHES
        assert sorted(plain[pool].ravel()) == sorted(grouped[pool].ravel())
    assert not np.array_equal(plain, grouped)


def test_evaluation_order_has_every_example_once():
    rows = batching.evaluation_order(LENGTHS, 8)
    assert rows.shape == (13, 8)
    assert np.sum(rows == -1) == 1
    assert np.all(rows[:-1] >= 0)
    assert sorted(rows[rows >= 0]) == list(range(103))
    assert np.all(np.diff(LENGTHS[rows[rows >= 0]]) >= 0)
    assert batching.evaluation_order(LENGTHS, 103).shape == (1, 103)


class Windows(batching.WindowSplit):
    owners = np.array([0, 2, 2, 2, 5, 5])  # texts 1, 3 and 4 have none

    def owner_name(self, owner):
        return f":{owner}"


def test_windows_are_counted_within_their_text(packed):
    assert Windows("a", packed).names(np.array([3, 0, 5, 1])) == [
        "a:2 (window 3 of 3)",
        "a:0 (window 1 of 1)",
        "a:5 (window 2 of 2)",
        "a:2 (window 1 of 3)",
    ]


@pytest.fixture
def packed():
    lengths = np.array([3, 5, 4, 9])
    return packing.Packed(
        tokens=np.concatenate([np.full(n, n) for n in lengths]).astype(np.int32),
        splits=np.concatenate([[0], np.cumsum(lengths)]),
        first_lengths=np.array([3, 2, 4, 6], np.int32),
    )


def read(dataset):
    return [
        {name: value.numpy().tolist() for name, value in batch.items()}
        for batch in dataset
    ]


def test_an_example_of_two_sequences_is_a_row_of_grids(packed):
    twos = dataclasses.replace(packed, num_sequences=2)
    assert len(twos) == 2 and twos.lengths.tolist() == [5, 9]
    rows = np.array([[1, 0]], np.int32)
    labels = np.array([10, 11], np.int32)
    targets = {"label_ids": labels}
    (batch,) = read(batching.batches(twos, rows, targets=targets, pad_to=10))
    assert batch["input_ids"] == [
        [[4] * 4 + [0] * 6, [9] * 9 + [0]],
        [[3] * 3 + [0] * 7, [5] * 5 + [0] * 5],
    ]
    assert batch["segment_ids"][0][1] == [0] * 6 + [1] * 3 + [0]
    assert batch["label_ids"] == [11, 10]
    (longest,) = read(batching.batches(twos, rows[:, 1:]))
    assert longest["input_mask"] == [[[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]]


def test_batches_hold_the_examples_of_their_row(packed):
    labels = np.array([10, 11, 12, 13], np.int32)
    rows = np.array([[2, 0], [1, 3], [1, -1]], np.int32)
    targets = {"label_ids": labels}
    first, second, third = read(batching.batches(packed, rows, targets=targets))
    assert first == {
        "input_ids": [[4, 4, 4, 4], [3, 3, 3, 0]],
        "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
        "segment_ids": [[0, 0, 0, 0], [0, 0, 0, 0]],
        "label_ids": [12, 10],
    }
    assert second["input_ids"] == [[5] * 5 + [0] * 4, [9] * 9]
    assert second["segment_ids"] == [
        [0, 0, 1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 1, 1, 1],
    ]
    assert second["label_ids"] == [11, 13]
    # -1 stands for any example, with real tokens: no division by zero.
    assert third["input_ids"][0] == [5] * 5 and sum(third["input_mask"][1]) > 0
    assert read(batching.batches(packed, rows[1:])) == [
        {k: v for k, v in batch.items() if k != "label_ids"}
        for batch in (second, third)
    ]
    # Keras' fit reads such datasets as they are; see `without_autotuning`.
    assert not batching.batches(packed, rows).options().autotune.enabled


def test_labels_of_tokens_are_filled_up(packed):
    numbers = tf.ragged.range(tf.constant(packed.lengths, tf.int32))
    rows = np.array([[1, 2]], np.int32)
    for pad_to in (None, 12):
        targets = {"label_ids": numbers}
        (batch,) = read(batching.batches(packed, rows, targets=targets, pad_to=pad_to))
        mask = np.array(batch["input_mask"])
        expected = np.where(mask == 1, np.arange(mask.shape[1]), -1)
        assert batch["label_ids"] == expected.tolist()
        assert mask.min() == 0  # so something was filled up


# Pairs for Keras' fit.


def examples_of(lengths, **targets):
    splits = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.arange(splits[-1], dtype=np.int32)
    firsts = np.asarray(lengths, np.int32)
    packed = packing.Packed(tokens, splits, firsts, 0, 1)
    return batching.Examples(packed, str, str, targets)


def test_each_epoch_of_keras_has_another_order_and_its_own_labels():
    examples = examples_of(
        [3, 5, 4, 2, 6, 3, 4], label_ids=np.arange(7, dtype=np.int32)
    )
    first = {label: start for label, start in enumerate(examples.packed.splits[:-1])}

    def epochs(batches):
        labels = []
        for _ in range(2):
            pairs = [(x["input_ids"].numpy(), y.numpy()) for x, y in batches]
            for ids, own in pairs:
                assert ids[:, 0].tolist() == [first[label] for label in own]
            labels.append([y.tolist() for _, y in pairs])
        return labels

    one, other = epochs(batching.keras_training(examples, 3))
    assert one != other and [*map(len, one)] == [3, 3]
    assert epochs(batching.keras_training(examples, 3)) == [one, other]
    assert epochs(batching.keras_training(examples, 3, seed=2))[0] != one
    assert (
        epochs(batching.keras_in_order(examples, 3))
        == [[[0, 1, 2], [3, 4, 5], [6]]] * 2
    )
    bare = next(iter(batching.keras_in_order(examples_of([3, 5]), 2)))
    assert bare["input_ids"].shape == (2, 5)
    with pytest.raises(ValueError, match="batch_size=8 exceeds 7 examples"):
        batching.keras_training(examples, 8)
