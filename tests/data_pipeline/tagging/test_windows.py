"""Tests of data_pipeline/tagging/windows.py.

The reference below says the rules of windows once more, one word at a time.
"""

import random

import numpy as np
import pytest

from data_pipeline.batches import batching
from data_pipeline.tagging import files
from data_pipeline.tagging import windows as sentence_windows
from data_pipeline.text import wordpiece

UNK, CLS, SEP = 1, 2, 3
PIECES = "a b c ##b ##c . 中"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
IDS = {token: index for index, token in enumerate(VOCAB)}


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


def cut(found, max_seq_length=8, **options):
    windows = sentence_windows.make_windows(
        found, TOKENIZER, max_seq_length=max_seq_length, **options
    )
    assert windows.packed.first_lengths.tolist() == windows.packed.lengths.tolist()
    return windows


def rows(windows, values=None):
    values = windows.packed.tokens if values is None else values
    return [part.tolist() for part in np.split(values, windows.packed.splits[1:-1])]


def read(windows):
    """The tokens of each window between [CLS] and [SEP], as text."""
    found = []
    for row in rows(windows):
        assert (row[0], row[-1]) == (CLS, SEP)
        found.append(" ".join(TOKENIZER.ids_to_tokens(row[1:-1])))
    return found


def test_short_sentences_are_one_window_each():
    windows = cut(sentences("abc b", "c. 中"))
    assert read(windows) == ["a ##b ##c b", "c . 中"]
    assert windows.sentence_index.tolist() == [0, 1]
    # The first piece of each word, behind [CLS].
    assert windows.word_places.tolist() == [1, 4, 7, 9]
    assert windows.word_splits.tolist() == [0, 2, 4]
    assert windows.packed.num_truncated == 0


def test_words_of_which_nothing_is_left_are_unknown():
    windows = cut(sentences("a \u200b b", "\u00ad"))
    assert read(windows) == ["a [UNK] b", "[UNK]"]
    assert len(windows.word_places) == 4


def test_long_sentences_have_overlapping_windows():
    windows = cut(sentences("a b c a b c a b c a"), max_seq_length=8, stride=4)
    assert read(windows) == ["a b c a b c", "b c a b c a"]
    assert windows.sentence_index.tolist() == [0, 0]
    # Words 4 and 5 are in both: 1 and 0 tokens behind them here, 0 and 1 before there.
    in_first = windows.word_places < windows.packed.splits[1]
    assert in_first.tolist() == [True] * 5 + [False] * 5
    columns = windows.word_places - np.where(in_first, 0, windows.packed.splits[1])
    assert columns.tolist() == [1, 2, 3, 4, 5, 2, 3, 4, 5, 6]


def test_windows_have_whole_words():
    # Six tokens fit; the third word would be cut in the first window.
    windows = cut(sentences("ab abc abc ab a"), max_seq_length=8, stride=6)
    assert read(windows) == ["a ##b a ##b ##c", "a ##b ##c a ##b a"]


def test_words_longer_than_a_window_are_cut():
    windows = cut(sentences("a abcbcbcb b"), max_seq_length=5, stride=1)
    assert read(windows) == ["a", "a ##b ##c", "b"]
    assert windows.packed.num_truncated == 1
    assert len(windows.word_places) == 3


def test_windows_that_predict_nothing_are_left_out():
    """So that every window has a label, and costs something for something."""
    windows = cut(sentences("a b c a b c a"), max_seq_length=6, stride=1)
    assert len(windows) == 4
    owners = np.searchsorted(windows.packed.splits, windows.word_places, "right") - 1
    assert set(owners) == set(range(4))
    windows = cut(sentences("abc a abc a"), max_seq_length=6, stride=1)
    owners = np.searchsorted(windows.packed.splits, windows.word_places, "right") - 1
    assert set(owners) == set(range(len(windows)))


def test_documents_fill_windows():
    found = sentences("a b", "c", "a c", "b b", documents=[0, 0, 0, 1])
    plain, wide = cut(found, 6), cut(found, 6, document_context=True)
    assert read(plain) == ["a b", "c", "a c", "b b"]
    # Four tokens fit. What one side lacks the other has, within the document.
    assert read(wide) == ["a b c a", "a b c a", "b c a c", "b b"]
    says = np.concatenate(rows(wide))[wide.word_places]
    assert TOKENIZER.ids_to_tokens(says) == ["a", "b", "c", "a", "c", "b", "b"]
    assert wide.sentence_index.tolist() == [0, 1, 2, 3]


def test_documents_fill_windows_with_whole_words():
    found = sentences("abc", "a", "bbb abc", documents=[1, 1, 1])
    wide = cut(found, 6, document_context=True)
    # Of "abc", two tokens would fit on the left of "a"; all of "bbb" fits on its right.
    assert read(wide) == ["a ##b ##c a", "a b ##b ##b", "a b ##b ##b", "a ##b ##c"]


def one_by_one(words, room, step, bounds, document_context):
    """(tokens, {word: column}) of the windows of a sentence, one word at a time.

    Args:
        words: pieces of each word of all sentences.
        room: tokens of a window.
        step: from one window to the next.
        bounds: first word and end of the sentence, and those of its document.
        document_context: whether windows are filled up.
    """
    first, last, low, high = bounds
    size = [len(word) for word in words]
    windows = []
    begin = first
    while True:
        end = begin
        while end < last and sum(size[begin : end + 1]) <= room:
            end += 1
        windows.append((begin, end))
        if end == last:
            break
        start = begin
        while begin < end and sum(size[start:begin]) < step:
            begin += 1
    best = {}
    for word in range(first, last):
        scores = [
            (min(sum(size[b:word]), sum(size[word:e]) - 1), -number)
            for number, (b, e) in enumerate(windows)
            if b <= word < e
        ]
        best[word] = -max(scores)[1]
    for number, (begin, end) in enumerate(windows):
        mine = [word for word in best if best[word] == number]
        if not mine:
            continue
        if document_context:
            free = room - sum(size[begin:end])
            before, behind = sum(size[low:begin]), sum(size[end:high])
            left = min(before, max(free - behind, free - free // 2))
            b, e = begin, end
            while b > low and sum(size[b - 1 : begin]) <= left:
                b -= 1
            while e < high and sum(size[b : e + 1]) <= room:
                e += 1
            begin, end = b, e
        tokens = [piece for word in words[begin:end] for piece in word]
        yield tokens, {word: 1 + sum(size[begin:word]) for word in mine}


@pytest.mark.parametrize(
    "document_context", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_windows_equal_the_rules_one_by_one(document_context):
    rng = random.Random(5)
    several = 0
    for _ in range(60):
        texts = [
            " ".join(
                "a" + rng.choice(["", "b", "bc", "bcb"])
                for _ in range(rng.randrange(1, 14))
            )
            for _ in range(rng.randrange(1, 6))
        ]
        documents = sorted(rng.choices(range(3), k=len(texts)))
        room = rng.randrange(3, 12)
        step = rng.randrange(1, room + 1)
        found = sentences(*texts, documents=documents)
        windows = cut(found, room + 2, stride=step, document_context=document_context)
        words = [
            TOKENIZER.tokenize(word).numpy().tolist()[:room]
            for text in texts
            for word in text.split()
        ]
        splits = np.cumsum([0] + [len(text.split()) for text in texts])
        expected = []
        for number, document in enumerate(documents):
            same = [i for i, other in enumerate(documents) if other == document]
            bounds = [splits[number], splits[number + 1]]
            bounds += [splits[same[0]], splits[same[-1] + 1]]
            expected += one_by_one(words, room, step, bounds, document_context)
        assert [row[1:-1] for row in rows(windows)] == [row for row, _ in expected]
        starts = windows.packed.splits
        for number, (_, columns) in enumerate(expected):
            for word, column in columns.items():
                assert windows.word_places[word] == starts[number] + column
        several += len(expected) > len(texts)
    assert several > 10


def test_labels_stand_at_first_pieces():
    found = sentences("abc b", "c. 中")
    windows = cut(found, tag_ids=np.array([4, 5, 6, 7], np.int32))
    labels = windows.targets()["label_ids"].to_list()
    assert labels == [[-1, 4, -1, -1, 5, -1], [-1, 6, -1, 7, -1]]
    assert cut(found).targets() == {}
    (batch,) = batching.batches(
        windows.packed, np.array([[1, 0]], np.int32), targets=windows.targets()
    )
    assert batch["label_ids"].numpy().tolist() == [
        [-1, 6, -1, 7, -1, -1],
        [-1, 4, -1, -1, 5, -1],
    ]


@pytest.mark.parametrize("document_context", [False, True])
def test_every_word_is_labelled_once(document_context):
    found = sentences("a b c a b c a b c a", "b", "ab abc a ab")
    tags = np.arange(15, dtype=np.int32)
    windows = cut(found, tag_ids=tags, document_context=document_context)
    labels = windows.targets()["label_ids"].values.numpy()
    assert sorted(labels[labels >= 0]) == tags.tolist()
    assert labels[windows.word_places].tolist() == tags.tolist()


def test_outputs_come_back_by_word():
    found = sentences("a b c a b c a b c a", "b", "abc ab")
    tags = np.arange(13, dtype=np.int32) % 5
    windows = cut(found, max_seq_length=7, tag_ids=tags)
    labels = windows.targets()["label_ids"].to_tensor(-1, shape=[None, 9]).numpy()
    # A model that is sure of the right tag, and says 4 where nothing is asked.
    outputs = np.eye(5, dtype=np.float32)[labels] * 0.75
    by_word = windows.by_word(outputs)
    ids = by_word.argmax(axis=-1)
    assert (
        ids.tolist() == tags.tolist() and by_word.max(axis=-1).tolist() == [0.75] * 13
    )
    assert windows.by_sentence(ids) == [
        [0, 1, 2, 3, 4, 0, 1, 2, 3, 4],
        [0],
        [1, 2],
    ]
    assert windows.by_word(labels).tolist() == tags.tolist()
    moved = np.roll(outputs, 1, axis=1)
    assert windows.by_word(moved).argmax(axis=-1).tolist() != tags.tolist()


def test_outputs_of_other_windows_are_refused():
    windows = cut(sentences("a b", "c"))
    with pytest.raises(ValueError, match=r"\(3, 4, 5\) are not those of 2 windows"):
        windows.by_word(np.zeros((3, 4, 5)))
    with pytest.raises(ValueError, match=r"of up to 4 tokens"):
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
