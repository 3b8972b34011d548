"""Batches without a text twice."""

import numpy as np
import pytest

from data_pipeline.batches import batching, packing
from data_pipeline.embedding import split

# Rows 0, 3 and 5 share their second text; row 4 has the first text of row 1 second.
IDS = np.array([[0, 9], [1, 10], [2, 11], [3, 9], [4, 1], [5, 9], [6, 12], [7, 13]])


def examples():
    lengths = np.arange(1, 17)
    packed = packing.Packed(
        np.zeros(lengths.sum(), np.int32),
        np.concatenate([[0], np.cumsum(lengths)]),
        lengths.astype(np.int32),
        num_sequences=2,
    )
    return split.DistinctExamples(packed, list, str, {"text_ids": IDS})


def order(steps, seed=1):
    return examples().training_order(batch_size=3, num_steps=steps, seed=seed)


def test_no_batch_has_a_text_twice_and_all_rows_come():
    batches = order(60)
    for batch in batches:
        texts = IDS[batch].ravel()
        assert len(set(texts.tolist())) == len(texts)
    # Each row comes as often as any other, but for those that wait.
    counts = np.bincount(batches.ravel(), minlength=8)
    assert counts.min() >= 19 and counts.sum() == 180


def test_order_follows_from_the_seed_and_begins_that_of_more_steps():
    np.testing.assert_array_equal(order(10), order(10))
    np.testing.assert_array_equal(order(10), order(40)[:10])
    assert (order(10) != order(10, seed=2)).any()


def test_rows_that_wait_come_with_the_next_batch():
    stream = np.array([0, 3, 1, 2, 6, 7])
    batches = split.without_repeats(stream, IDS, 2, 3)
    assert batches.tolist() == [[0, 1], [3, 2], [6, 7]]


def test_too_few_different_texts_are_refused():
    ids = np.array([[0, 1]] * 5)
    with pytest.raises(
        ValueError, match=r"has 1 rows, and all 4 others .* --train_batch_size=2"
    ):
        split.without_repeats(np.arange(5), ids, 2, 1)


def frequent(share, count=1000):
    """Pairs of which so many have one first text, and all others are different."""
    number = int(share * count)
    firsts = np.concatenate([np.zeros(number, int), np.arange(1, count - number + 1)])
    return np.stack([firsts, count + np.arange(count)], axis=1)


def batches_of(ids, size, steps):
    packed = packing.Packed(
        np.zeros(len(ids), np.int32),
        np.arange(len(ids) + 1),
        np.ones(len(ids), np.int32),
        num_sequences=1,
    )
    rows = split.DistinctExamples(packed, list, str, {"text_ids": ids})
    return rows.training_order(batch_size=size, num_steps=steps, seed=1)


def test_a_very_frequent_text_stands_in_each_batch_once(capsys):
    for share in (0.6, 0.9):
        ids = frequent(share)
        batches = batches_of(ids, 64, 40)
        firsts = ids[batches, 0]
        assert all(len({*row}) == 64 for row in firsts.tolist())
        assert (np.sum(firsts == 0, axis=1) <= 1).all()
        unused = 1000 - len(np.unique(batches))
        assert f"batches: {unused} of 1000 rows are in none" in capsys.readouterr().out
        assert unused >= share * 1000 - 40
    batches_of(frequent(0.0), 64, 40)
    assert capsys.readouterr().out == ""
    # 50 different texts fill a batch of 51 with the frequent one, and none of 52.
    assert batches_of(frequent(0.95), 51, 3).shape == (3, 51)
    with pytest.raises(ValueError, match=r"has 51 rows, and all 949 others"):
        batches_of(frequent(0.95), 52, 3)


def test_batches_are_those_of_earlier_versions():
    # Recorded before rows came without end: resumed runs go on with the same batches.
    assert order(4).tolist() == [[5, 1, 2], [0, 4, 6], [3, 7, 6], [1, 0, 2]]


CLINC = np.repeat(
    np.arange(150), 20
)  # as many labels and rows of each as a small CLINC


def grouped(labels, rows_per_label, size, steps, seed=1):
    count = len(labels)
    packed = packing.Packed(
        np.zeros(count, np.int32), np.arange(count + 1), np.ones(count, np.int32)
    )
    values = packed, list, str, {"label_ids": np.asarray(labels)}
    examples = batching.Examples(*values)
    if rows_per_label:
        examples = split.GroupedExamples(*values, rows_per_label)
    return examples.training_order(batch_size=size, num_steps=steps, seed=seed)


def others(labels, batches):
    """How many rows of its batch have the label of each row."""
    chosen = np.asarray(labels)[batches]
    return np.sum(chosen[:, :, None] == chosen[:, None], axis=2) - 1


@pytest.mark.parametrize("rows_per_label", [2, 4, 8])
def test_batches_are_of_labels_times_rows(rows_per_label):
    batches = grouped(CLINC, rows_per_label, 32, 80)
    assert batches.shape == (80, 32) and batches.dtype == np.int32
    counts = others(CLINC, batches)
    wanted = rows_per_label - 1
    # Of 20 rows, 8 and 12 are together; a batch may end within such a group.
    is_whole = counts >= wanted
    assert is_whole.mean() >= (1.0 if rows_per_label < 8 else 0.75)
    by_chance = others(CLINC, grouped(CLINC, 0, 32, 80))
    assert (by_chance == 0).mean() > 0.75


def test_every_row_comes_once_in_an_epoch_and_none_twice_in_a_batch():
    labels = [0] * 7 + [1] * 2 + [2] + [3] * 5 + [4]
    batches = grouped(labels, 2, 4, 400)
    assert all(len({*batch}) == 4 for batch in batches.tolist())
    assert (np.sort(batches.reshape(-1, 16), axis=1) == np.arange(16)).all()
    # Labels with another row have it in the batch, unless the batch ends between them.
    alone = others(labels, batches) == 0
    shares = np.bincount(np.take(labels, batches[alone]), minlength=5) / alone.sum()
    assert shares[2] + shares[4] > 0.5
    # The rows that fill no batch are others in each epoch.
    longer = grouped(labels, 2, 5, 300)
    assert (np.bincount(longer.ravel(), minlength=16) > 0).all()


def test_grouped_order_follows_from_the_seed_and_begins_that_of_more_steps():
    first = grouped(CLINC, 2, 32, 10)
    np.testing.assert_array_equal(first, grouped(CLINC, 2, 32, 200)[:10])
    assert (first != grouped(CLINC, 2, 32, 10, seed=2)).any()
    # Fewer rows than a batch come as without groups.
    few = [0, 0, 1, 1]
    np.testing.assert_array_equal(grouped(few, 2, 6, 3), grouped(few, 0, 6, 3))
