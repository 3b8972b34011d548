"""Tests of data_pipeline/batches/packing.py.

original_tasks/expected_features.json holds what the original's
convert_single_example (commit eedf571) makes of the tables beside it, with the
uncased vocabulary and 48 tokens a sequence.
"""

import json
import pathlib
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import batching, packing, tf_records
from data_pipeline.classification import encoding, tasks
from data_pipeline.text import wordpiece

ORIGINAL = pathlib.Path(__file__).parents[1] / "original_tasks"
EXPECTED = json.loads((ORIGINAL / "expected_features.json").read_text("utf-8"))
INPUTS = ("input_ids", "input_mask", "segment_ids")
CLS, SEP = 101, 102


class Special(NamedTuple):
    """What stands around texts: of BERT, or of GPT, where each differs."""

    start_id: int
    delimiter_ids: tuple[int, ...]
    end_id: int


BERT, GPT = Special(CLS, (SEP,), SEP), Special(61, (62,), 63)


def pop_one_at_a_time(length_a, length_b, limit):
    """run_classifier.py, _truncate_seq_pair."""
    while length_a + length_b > limit:
        if length_a > length_b:
            length_a -= 1
        else:
            length_b -= 1
    return length_a, length_b


@pytest.mark.parametrize("limit", [1, 8, 13])
def test_budgets_equal_popping_one_token_at_a_time(limit):
    pairs = [(a, b) for a in range(20) for b in range(20)]
    length_a, length_b = (np.array(lengths) for lengths in zip(*pairs, strict=True))
    keep_a, keep_b = packing.budgets(length_a, length_b, limit)
    expected = [pop_one_at_a_time(a, b, limit) for a, b in pairs]
    assert list(zip(keep_a.numpy(), keep_b.numpy(), strict=True)) == expected


def ragged(*rows):
    return tf.ragged.constant(rows, tf.int32, ragged_rank=1)


def packed_rows(ids_a, ids_b=None, max_seq_length=8):
    tokens, first_lengths = packing.pack(
        ids_a, ids_b, special=BERT, max_seq_length=max_seq_length
    )
    return tokens.to_list(), first_lengths.numpy().tolist()


def test_other_special_tokens_stand_around_and_between_texts():
    single, _ = packing.pack(ragged([1, 2, 3]), None, special=GPT, max_seq_length=4)
    assert single.to_list() == [[61, 1, 2, 63]]
    texts = ragged([1, 2, 3, 4]), ragged([5, 6])
    pair, first = packing.pack(*texts, special=GPT, max_seq_length=8)
    assert pair.to_list() == [[61, 1, 2, 3, 62, 5, 6, 63]] and first.numpy() == [5]


def test_single_texts_keep_their_beginning():
    tokens, first_lengths = packed_rows(ragged([1, 2], [], [1, 2, 3, 4, 5, 6, 7]))
    assert tokens == [[CLS, 1, 2, SEP], [CLS, SEP], [CLS, 1, 2, 3, 4, 5, 6, SEP]]
    assert first_lengths == [4, 2, 8]


def test_pairs_lose_tokens_of_the_longer_text_first():
    tokens, first_lengths = packed_rows(
        ragged([1, 2], [1, 2, 3, 4, 5], [1, 2, 3], [], [1]),
        ragged([7], [7, 8], [7, 8, 9], [7], [7, 8, 9, 10, 11, 12]),
    )
    assert tokens == [
        [CLS, 1, 2, SEP, 7, SEP],
        [CLS, 1, 2, 3, SEP, 7, 8, SEP],
        [CLS, 1, 2, 3, SEP, 7, 8, SEP],  # of equally long texts, B loses one
        [CLS, SEP, 7, SEP],
        [CLS, 1, SEP, 7, 8, 9, 10, SEP],
    ]
    assert first_lengths == [4, 5, 5, 2, 3]
    tokens, _ = packed_rows(ragged([1, 2]), ragged([3]), max_seq_length=4)
    assert tokens == [[CLS, 1, SEP, SEP]]


NONE = Special(None, (), None)  # for single texts
CHARACTERS = Special(np.full(2, 7, np.int16), (), np.full(2, 8, np.int16))


@pytest.mark.parametrize("length", [6, 40])
@pytest.mark.parametrize("is_pair", [False, True])
@pytest.mark.parametrize("special", [BERT, Special(1, (2, 3), 4), NONE, CHARACTERS])
def test_arrays_are_packed_as_in_graphs(special, is_pair, length):
    is_pair = is_pair and special is not NONE
    rng = np.random.default_rng(length)
    size, kind = ((2,), np.int16) if special is CHARACTERS else ((), np.int32)
    columns = []
    for _ in range(1 + is_pair):
        lengths = [0, *rng.integers(0, 9, 7)]
        values = rng.integers(9, 99, (sum(lengths), *size)).astype(kind)
        columns.append(tf.RaggedTensor.from_row_lengths(values, lengths))
    given = (*columns, None)[:2]
    packed = packing.pack_ids(
        *given, special=special, max_seq_length=length, num_sequences=2
    )
    tokens, firsts = packing.pack(*given, special=special, max_seq_length=length)
    whole, _ = packing.pack(*given, special=special, max_seq_length=99)
    is_cut = (tokens.row_lengths() < whole.row_lengths()).numpy()
    count = int(is_cut.reshape(-1, 2).any(axis=1).sum())
    expected = packing.unpad(tokens, firsts, 2, count)
    assert packed.num_truncated == count and (count > 0) == (length == 6)
    for name in ("tokens", "splits", "first_lengths"):
        array, wanted = getattr(packed, name), getattr(expected, name)
        np.testing.assert_array_equal(array, wanted)
        assert array.dtype == wanted.dtype


# A vocabulary whose [PAD] is not 0, so that padding with it would show.
OTHER_VOCAB = ["film", "good", "[UNK]", "[CLS]", "[SEP]", "a", "##s", "[PAD]"]


def rows_of_other_vocab():
    tokenizer = wordpiece.BertTokenizer(OTHER_VOCAB)
    return packing.pack(
        tokenizer.tokenize(["a good film", "film", "good films"]),
        tokenizer.tokenize(["films", "a", "good"]),
        special=tokenizer,
        max_seq_length=9,
    )


def test_padding_is_0_whatever_the_id_of_pad(tmp_path):
    tokens, first_lengths = rows_of_other_vocab()
    expected = [
        [3, 5, 1, 0, 4, 0, 6, 4, 0],
        [3, 0, 4, 5, 4, 0, 0, 0, 0],
        [3, 1, 0, 6, 4, 1, 4, 0, 0],
    ]
    features = packing.pad(tokens, first_lengths, 9)
    assert features["input_ids"].numpy().tolist() == expected
    assert features["input_mask"].numpy().sum(axis=1).tolist() == [8, 5, 7]
    assert features["segment_ids"].numpy().tolist() == [
        [0, 0, 0, 0, 0, 1, 1, 1, 0],
        [0, 0, 0, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 0, 0],
    ]
    assert all(value.dtype == tf.int32 for value in features.values())
    longest = packing.pad(tokens, first_lengths)
    for name, value in longest.items():
        np.testing.assert_array_equal(features[name][:, :8], value)
    packed = packing.unpad(tokens, first_lengths)
    (batch,) = batching.batches(packed, np.array([[0, 1, 2]]), pad_to=9)
    for arrays in (batch, packing.grids(packed, 9)):
        for name in INPUTS:
            np.testing.assert_array_equal(arrays[name], features[name])
    path = tmp_path / "train.tf_record"
    columns = {"label_ids": np.array([2, 0, 1]), "is_real_example": np.ones(3, int)}
    tf_records.write(str(path), packed, columns, 9)
    for row, record in enumerate(tf.data.TFRecordDataset(str(path))):
        example = tf.train.Example()
        for name in (*INPUTS, *columns):
            values = np.ravel({**features, **columns}[name][row]).tolist()
            example.features.feature[name].int64_list.value.extend(values)
        assert record.numpy() == example.SerializeToString(deterministic=True)
    assert row == 2 and [*tmp_path.iterdir()] == [path]


def test_concatenation_keeps_order_and_adds_counts():
    rows = [[[CLS, 1, SEP]], [[CLS, SEP], [CLS, 2, 3, SEP]]]
    parts = [
        packing.Packed(
            np.concatenate(part).astype(np.int32),
            np.cumsum([0] + [len(row) for row in part]),
            np.array([len(row) for row in part], np.int32),
            num_truncated=i + 1,
        )
        for i, part in enumerate(rows)
    ]
    whole = packing.concatenate(parts)
    assert whole.tokens.tolist() == [CLS, 1, SEP, CLS, SEP, CLS, 2, 3, SEP]
    assert whole.splits.tolist() == [0, 3, 5, 9]
    assert whole.first_lengths.tolist() == [3, 2, 4]
    assert whole.num_truncated == 3


@pytest.fixture(scope="module")
def uncased_tokenizer(minilm_dir):
    return wordpiece.BertTokenizer.from_file(str(minilm_dir / "vocab.txt"))


@pytest.mark.parametrize("name", ["cola", "mnli", "mrpc"])
def test_features_equal_the_originals(uncased_tokenizer, name):
    limit = EXPECTED[name]["max_seq_length"]
    encode = encoding.Encoder(uncased_tokenizer, limit)
    for split, expected in EXPECTED[name]["splits"].items():
        table = tasks.read_split(tasks.task_named(name), str(ORIGINAL / name), split)
        assert table.example_ids == [row["guid"] for row in expected]
        packed = encoding.featurize(table, encode)
        tokens = tf.RaggedTensor.from_row_splits(packed.tokens, packed.splits)
        features = packing.pad(tokens, packed.first_lengths, limit)
        for key in INPUTS:
            wanted = [row[key] for row in expected]
            assert features[key].numpy().tolist() == wanted, (split, key)
