import numpy as np
import pytest
import tensorflow as tf

from contract import features
from data_pipeline.seq2seq import decoder_features

TOKENS = features.DecoderTokens(start=2, end=3)
NAMES = ("decoder_input_ids", "decoder_mask", "labels")
TARGETS = [[8, 10], [9], [8, 11, 10, 12]]


def grids(limit=8, tokens=TOKENS, **options):
    closed = decoder_features.append_eos(tf.ragged.constant(TARGETS), tokens, limit)
    batch = decoder_features.grids(closed, tokens, **options)
    return [batch[name].numpy().tolist() for name in NAMES]


def test_targets_are_shifted_right_behind_the_start():
    inputs, mask, labels = grids()
    assert inputs == [[2, 8, 10, 0, 0], [2, 9, 0, 0, 0], [2, 8, 11, 10, 12]]
    assert mask == [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert labels == [[8, 10, 3, 0, 0], [9, 3, 0, 0, 0], [8, 11, 10, 12, 3]]
    _, _, labels = grids(length=7)
    assert labels[0] == [8, 10, 3, 0, 0, 0, 0]
    inputs, mask, labels = grids(limit=3)  # a target that is cut has an end, too
    assert labels == [[8, 10, 3], [9, 3, 0], [8, 11, 3]]
    assert inputs[2] == [2, 8, 11] and mask[2] == [1, 1, 1]


def test_features_are_those_that_transformers_makes():
    """Recorded of EncoderDecoderModel, which made decoder_input_ids of the labels.

    It leaves the end token where no target is any more; the mask hides it.
    """
    labels = [[28, 39, 42, 30, 18, 65, 37, 26, 3], [38, 23, 61, 13, 3]]
    recorded = [[2, 28, 39, 42, 30, 18, 65, 37, 26], [2, 38, 23, 61, 13, 3, 0, 0, 0]]
    targets = tf.ragged.constant([row[:-1] for row in labels])
    closed = decoder_features.append_eos(targets, TOKENS, 9)
    assert closed.to_list() == labels
    batch = decoder_features.grids(closed, TOKENS)
    mask = batch["decoder_mask"].numpy()
    assert mask.sum(axis=1).tolist() == [9, 5]
    inputs = batch["decoder_input_ids"].numpy()
    np.testing.assert_array_equal(inputs * mask, np.array(recorded) * mask)
    assert not np.array_equal(inputs, recorded)  # only where the mask is 0


def test_config_may_have_other_tokens():
    other = features.DecoderTokens(start=5, end=6, padding=7)
    inputs, mask, labels = grids(tokens=other)
    assert inputs[1] == [5, 9, 7, 7, 7] and labels[1] == [9, 6, 7, 7, 7]
    assert mask == grids()[1]


SOURCES = ["one", "two", "one two six", "two two"]
WANTED = ["1", "1 2", "2", "1 2 1"]


@pytest.fixture
def examples(load):
    rows = "".join(f"{a}\t{b}\n" for a, b in zip(SOURCES, WANTED, strict=True))
    return load({"train": rows})["train"].examples()


def test_batches_have_sources_and_targets_of_their_own_lengths(examples):
    order = np.array([[2, 1], [0, -1]], np.int32)
    first, second = (
        {name: value.numpy().tolist() for name, value in batch.items()}
        for batch in examples.batches(order, None)
    )
    assert first == {
        "input_ids": [[2, 4, 5, 7, 3], [2, 5, 3, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]],
        "segment_ids": [[0] * 5] * 2,
        "decoder_input_ids": [[2, 9, 0], [2, 8, 9]],
        "decoder_mask": [[1, 1, 0], [1, 1, 1]],
        "labels": [[9, 3, 0], [8, 9, 3]],
    }
    # -1 stands for any example, whose decoder sees something.
    assert second["labels"] == [[8, 3], [8, 3]]
    for batch in examples.batches(np.array([[0, 1], [2, 3]], np.int32), 16):
        assert batch["input_ids"].shape == (2, 16)
        assert batch["labels"].shape == batch["decoder_mask"].shape == (2, 8)


def test_sources_alone_may_be_numbered(load):
    data = load({"test": "one\ntwo six\n"})["test"]
    order = np.array([[1, -1, 0]], np.int32)
    (batch,) = data.examples(is_numbered=True).batches(order, None)
    assert batch.pop("unique_ids").numpy().tolist() == [1, 0, 0]
    assert set(batch) == {"input_ids", "input_mask", "segment_ids"}
    examples = data.examples()
    assert examples.training_order(batch_size=1, num_steps=2, seed=1).shape == (2, 1)


def test_equally_long_sources_are_ordered_by_their_targets(load):
    rng = np.random.default_rng(3)
    rows = [(rng.integers(1, 4), rng.integers(1, 7)) for _ in range(400)]
    text = "".join(f"{'one ' * a}\t{'1 ' * b}\n" for a, b in rows)
    examples = load({"train": text})["train"].examples()
    grouped = examples.training_order(batch_size=8, num_steps=50, seed=1)

    def padding(lengths, order):
        batches = lengths[order]
        return 1 - batches.sum() / (batches.max(axis=1) * batches.shape[1]).sum()

    assert padding(examples.packed.lengths, grouped) < 0.01
    assert padding(examples.target_lengths, grouped) < 0.08
    assert sorted(grouped.ravel()) == list(range(400))
