import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_pipeline.batches import batching
from data_pipeline.tagging import files
from data_pipeline.tagging import windows as sentence_windows
from data_pipeline.text import wordpiece

PIECES = "a b c ##b ##c . 中"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)


def sentences(*texts, documents=None):
    words = [text.split(" ") for text in texts]
    return files.Sentences(
        path="a.conll",
        tag_path="a.conll",
        file_format="conll",
        words=words,
        tags=None,
        documents=np.array(documents or [0] * len(texts), np.int32),
        lines=[[1] * len(row) for row in words],
    )


def cut(rows_of_words, max_seq_length=8, **options):
    windows = sentence_windows.make_windows(
        rows_of_words, TOKENIZER, max_seq_length=max_seq_length, **options
    )
    assert windows.packed.first_lengths.tolist() == windows.packed.lengths.tolist()
    return windows


def read(windows):
    """The tokens of each window, * before the one that a word is predicted from."""
    packed, places = windows.packed, set(windows.word_places.tolist())
    tokens = [
        "*" * (place in places) + token
        for place, token in enumerate(TOKENIZER.ids_to_tokens(packed.tokens))
    ]
    texts = [
        " ".join(tokens[start:end]) for start, end in itertools.pairwise(packed.splits)
    ]
    assert all(t.startswith("[CLS] ") and t.endswith(" [SEP]") for t in texts)
    return [text[6:-6] for text in texts]


@pytest.mark.parametrize(
    ("texts", "max_seq_length", "stride", "expected"),
    [
        ("abc b|c. 中", 8, 0, "*a ##b ##c *b|*c . *中"),
        # Words 4 and 5 are in both: 1 and 0 tokens behind them, 0 and 1 before them.
        ("a b c a b c a b c a", 8, 4, "*a *b *c *a *b c|b *c *a *b *c *a"),
        # Six tokens fit; the third word would be cut in the first window.
        ("ab abc abc ab a", 8, 6, "*a ##b *a ##b ##c|*a ##b ##c *a ##b *a"),
        ("a b c a b c a", 6, 1, "*a *b *c a|b c *a b|c a *b c|a b *c *a"),
        (
            "abc abc a b a b c abc",
            9,
            2,
            "*a ##b ##c *a ##b ##c a|a ##b ##c *a *b a b|a b *a *b c|a b *c *a ##b ##c",
        ),
        # Windows that predict nothing are left out.
        (
            "ab a abc a abcb abcb abcb abcb ab",
            5,
            2,
            "*a ##b *a|*a ##b ##c|*a" + 4 * "|*a ##b ##c" + "|*a ##b",
        ),
        # Words of which nothing is left are unknown.
        ("a abcb b|a \u200b b", 5, 1, "*a|*a ##b ##c|*b|*a *[UNK] *b"),
    ],
)
def test_sentences_are_cut_into_windows_of_whole_words(
    texts, max_seq_length, stride, expected
):
    windows = cut(sentences(*texts.split("|")), max_seq_length, stride=stride)
    assert read(windows) == expected.split("|")
    counts = [len(text.split(" ")) for text in texts.split("|")]
    assert windows.word_splits.tolist() == np.cumsum([0, *counts]).tolist()
    assert len(windows.word_places) == sum(counts)
    assert windows.packed.num_truncated == texts.count("abcb")


@pytest.mark.parametrize(
    ("texts", "documents", "max_seq_length", "stride", "expected"),
    [
        # Four tokens fit. One side has the room that the other lacks tokens for.
        ("a b|c|a c|b b", "0001", 6, 0, "*a *b c a|a b *c a|b c *a *c|*b *b"),
        # Of "abc", two tokens would fit on the left of "a"; "bbb" fits on its right.
        (
            "abc|a|bbb abc",
            "111",
            6,
            0,
            "*a ##b ##c a|*a b ##b ##b|a *b ##b ##b|*a ##b ##c",
        ),
        (
            "ab a b c abc a|b|abc ab a",
            "001",
            9,
            2,
            "*a ##b *a *b c|a b *c *a ##b ##c *a|b c a ##b ##c a *b|"
            "*a ##b ##c *a ##b *a",
        ),
    ],
)
def test_documents_fill_windows(texts, documents, max_seq_length, stride, expected):
    rows = sentences(*texts.split("|"), documents=list(map(int, documents)))
    windows = cut(rows, max_seq_length, stride=stride, document_context=True)
    assert read(windows) == expected.split("|")
    plain = cut(rows, max_seq_length, stride=stride)
    np.testing.assert_array_equal(windows.sentence_index, plain.sentence_index)


def test_labels_stand_at_first_pieces():
    rows = sentences("abc b", "c. 中")
    windows = cut(rows, tag_ids=np.array([4, 5, 6, 7], np.int32))
    labels = windows.targets()["label_ids"].to_list()
    assert labels == [[-1, 4, -1, -1, 5, -1], [-1, 6, -1, 7, -1]]
    assert cut(rows).targets() == {}
    (batch,) = batching.batches(
        windows.packed, np.array([[1, 0]], np.int32), targets=windows.targets()
    )
    assert batch["label_ids"].numpy().tolist() == [
        [-1, 6, -1, 7, -1, -1],
        [-1, 4, -1, -1, 5, -1],
    ]


def test_outputs_come_back_by_word():
    rows = sentences("a b c a b c a b c a", "b", "abc ab")
    tags = np.arange(13, dtype=np.int32) % 5
    windows = cut(rows, max_seq_length=7, tag_ids=tags)
    labels = windows.targets()["label_ids"].to_tensor(-1, shape=[None, 9]).numpy()
    # A model that is sure of the right tag, and predicts 4 where nothing is wanted.
    outputs = np.eye(5, dtype=np.float32)[labels] * 0.75
    by_word = windows.by_word(outputs)
    ids = by_word.argmax(axis=-1)
    assert ids.tolist() == tags.tolist()
    assert windows.by_sentence(ids) == [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4], [0], [1, 2]]
    moved = np.roll(outputs, 1, axis=1)
    assert windows.by_word(moved).argmax(axis=-1).tolist() != tags.tolist()


def test_outputs_of_other_windows_are_refused():
    windows = cut(sentences("a b", "c"))
    with pytest.raises(ValueError, match=r"\(3, 4, 5\) are not of 2 windows"):
        windows.by_word(np.zeros((3, 4, 5)))
    with pytest.raises(ValueError, match="not of 2 windows of 4"):
        windows.by_word(np.zeros((2, 3, 5)))


@pytest.mark.parametrize(
    ("max_seq_length", "stride", "message"),
    [
        (2, 0, "--max_seq_length=2 leaves no token"),
        (8, 7, r"--window_stride=7 is outside 0\.\.6"),
        (8, -1, r"--window_stride=-1 is outside 0\.\.6"),
    ],
)
def test_bad_lengths_are_refused(max_seq_length, stride, message):
    with pytest.raises(ValueError, match=message):
        cut(sentences("a b"), max_seq_length, stride=stride)


WORDS = st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=12)


@settings(max_examples=40)
@given(st.lists(WORDS, min_size=1, max_size=3), st.integers(4, 12), st.data())
def test_each_word_is_predicted_once_and_stitched_to_its_place(texts, length, data):
    stride = data.draw(st.integers(0, length - 3))
    windows = cut(sentences(*map(" ".join, texts)), length, stride=stride)
    packed, words = windows.packed, list(itertools.chain.from_iterable(texts))
    first_pieces = [row[0] for row in TOKENIZER.tokenize(words).to_list()]
    assert packed.tokens[windows.word_places].tolist() == first_pieces
    assert (np.diff(windows.word_places) > 0).all()
    assert packed.lengths.max() <= length
    outputs = np.arange(len(packed) * length).reshape(len(packed), length)
    flat = np.concatenate(
        [row[:count] for row, count in zip(outputs, packed.lengths, strict=True)]
    )
    stitched = windows.by_word(outputs)
    assert stitched.tolist() == flat[windows.word_places].tolist()
