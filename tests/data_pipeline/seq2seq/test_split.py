import functools

import numpy as np
import pytest
import tensorflow as tf

from contract import features
from data_pipeline.seq2seq import graph, results, split

ROWS = "source\ttarget\nTwenty  -  six\t26\none\t1\ntwenty\t2 one xyz\n"


def decide(data, tokenizer, **outputs):
    decode = functools.partial(graph.decode, tokenizer, data.tokens)
    return results.decide(data, outputs, decode)


def test_rows_become_ids(load, capsys):
    train, dev = load({"train": ROWS, "dev": ROWS}).values()
    assert train.packed.tokens.tolist() == [2, 1, 12, 7, 3, 2, 4, 3, 2, 1, 3]
    assert train.packed.splits.tolist() == [0, 5, 8, 11]
    assert train.target_ids.tolist() == [9, 11, 3, 8, 3, 9, 4, 1, 3]
    assert train.target_splits.tolist() == [0, 3, 5, 9]
    assert train.target_ids.dtype == np.int32
    # Of training rows, which may be many, only ids stay.
    assert (train.sources, train.target_texts, train.spelled) == ((), (), ())
    assert dev.sources[0] == "Twenty  -  six" and dev.target_texts[2] == "2 one xyz"
    assert train.names(np.array([2, 0]))[0].endswith("train.tsv:4")
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("train: 3 pairs from ")
    assert out[0].endswith(
        "train.tsv (reads 'source', 'target'); sources of 3.7 tokens on average, "
        "0 cut to 16, 40 % [UNK]; targets of 3.0, 0 cut to 8, 16.7 % [UNK]"
    )
    (train,) = load({"train": ROWS}, lengths=(4, 3)).values()
    assert train.packed.lengths.tolist() == [4, 3, 3]
    assert train.target_ids.tolist() == [9, 11, 3, 8, 3, 9, 4, 3]
    assert (
        "1 cut to 4, 50 % [UNK]; targets of 2.7, 1 cut to 3" in capsys.readouterr().out
    )
    summary = train.summary()
    assert (summary.count, summary.unit, summary.cut) == (3, "pairs", 1)
    assert summary.lengths.tolist() == [4, 3, 3]


def test_chunks_are_put_together(load, monkeypatch):
    whole = load({"dev": ROWS})["dev"]
    monkeypatch.setattr(split, "CHUNK_ROWS", 2)
    parts = load({"dev": ROWS})["dev"]
    assert parts.digest() == whole.digest()
    assert parts.spelled == whole.spelled and parts.sources == whole.sources
    assert parts.lines.tolist() == [2, 3, 4]


def test_digest_follows_ids(load):
    def digest(text, **options):
        return load({"train": text}, **options)["train"].digest()

    assert digest(ROWS) == digest(ROWS.replace("  -  ", " - "))  # equal ids
    others = [
        digest(ROWS.replace("one\t1", "one\t2")),
        digest(ROWS.replace("one\t1", "two\t1")),
        digest(ROWS, lengths=(16, 3)),
        digest(ROWS, tokens=features.DecoderTokens(4, 3)),
    ]
    assert len({digest(ROWS), *others}) == 5


@pytest.mark.parametrize("role", ["source", "target"])
def test_texts_without_a_token_are_refused(load, role):
    row = {"source": "one", "target": "1"} | {role: "\u200d"}
    text = f"one\t1\n{row['source']}\t{row['target']}\n"
    with pytest.raises(ValueError, match=f"tsv:2: the {role} has no token"):
        load({"train": text})


def test_test_rows_need_no_targets(load, tokenizer, capsys):
    data = load({"test": "one\ntwo six\n"})["test"]
    assert not data.has_targets and data.num_cut_targets == 0
    assert data.digest().startswith("2 pairs, digest ")
    assert "test: 2 sources from " in capsys.readouterr().out
    written = decide(data, tokenizer, ids=np.array([[8, 3, -1], [9, 11, 12]]))
    assert written.predictions == ["1", "26 -"]
    assert written.results("test") == {} and written.losses is None


def test_what_was_written_is_scored(load, tokenizer):
    data = load({"dev": ROWS})["dev"]
    ids = np.array([[9, 11, 3, -1], [8, 3, 9, 9], [9, 4, 1, 3]])
    written = decide(data, tokenizer, ids=ids, losses=np.array([0.5, 1.0, 2.0]))
    # [UNK] is not xyz, and what follows an end token does not count.
    assert written.predictions == ["26", "1", "2 one [UNK]"]
    assert written.details.shares["exact_match"].tolist() == [1.0, 1.0, 0.0]
    named = written.results("eval")
    assert named["eval_exact_match"] == pytest.approx(2 / 3)
    assert named["eval_rouge1"] == pytest.approx((1 + 1 + 2 / 3) / 3)
    # The mean over tokens, as in training: 3, 2 and 4 of them.
    assert named["eval_loss"] == pytest.approx((1.5 + 2 + 8) / 9)
    assert set(named) == {f"eval_{name}" for name in (*results.NAMES, "loss")}


TOKENS = features.DecoderTokens(start=2, end=3)
NAMES = ("decoder_input_ids", "decoder_mask", "labels")
TARGETS = [[8, 10], [9], [8, 11, 10, 12]]


def grids(limit=8, tokens=TOKENS, **options):
    closed = split.append_eos(tf.ragged.constant(TARGETS), tokens, limit)
    batch = split.grids(closed, tokens, **options)
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
    closed = split.append_eos(targets, TOKENS, 9)
    assert closed.to_list() == labels
    batch = split.grids(closed, TOKENS)
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
