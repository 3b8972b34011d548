"""Compared with sentence_windows.make_windows and TagNames.decode."""

import dataclasses
import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import padding
from data_pipeline.tagging import files, graph, schemes
from data_pipeline.tagging import windows as sentence_windows
from data_pipeline.text import elmo, wordpiece

PIECES = "a b c ##a ##b ##c . - 中"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
CHARACTERS = elmo.ElmoTokenizer()
# Of one piece, of several, of more than any window here, unknown, and of none.
WORDS = ["a", "B", "abc", "ab", "c" * 30, "x", "中b", ".", "\u200b", "\u00ad", "á"]


def random_sentences(count, longest):
    rng = random.Random(5)
    weights = [8, 8, 4, 4, 1, 2, 2, 2, 1, 1, 2]
    lengths = [rng.randint(0, longest) for _ in range(count)]
    return [rng.choices(WORDS, weights, k=length) for length in lengths]


SENTENCES = [[], *random_sentences(40, 60), [], ["c" * 30], ["a"] * 200, []]


def padded(rows):
    width = max(map(len, rows), default=0)
    cells = [[*row, *[""] * (width - len(row))] for row in rows]
    return tf.reshape(tf.constant(cells, tf.string), [len(rows), width])


def encode(rows, tokenizer=TOKENIZER, **limits):
    return graph.encoder(tokenizer, **limits)(padded(rows))


def made(rows, tokenizer=TOKENIZER, **limits):
    """The windows of tagging.py, and their features."""
    sentences = files.Sentences(
        path="a.conll",
        tag_path="a.conll",
        file_format="conll",
        words=rows,
        tags=None,
        documents=np.zeros(len(rows), np.int32),
        lines=[[1] * len(row) for row in rows],
    )
    windows = sentence_windows.make_windows(sentences, tokenizer, **limits)
    return windows, padding.grids(windows.packed, windows.packed.lengths.max())


def test_text_is_split_at_white_space_and_punctuation():
    texts = [
        "Mira's bus, 3.50$!",
        "",
        " \t\u3000\x85",
        "Zoë\u2003中文a\nb",
        b"\xffa\xe6\x9d b",
    ]
    found = graph.split_words(tf.constant(texts))
    words = [[w.decode() for w in row if w] for row in found["words"].numpy()]
    assert words == [
        ["Mira", "'", "s", "bus", ",", "3", ".", "50", "$", "!"],
        [],
        [],
        ["Zoë", "中", "文", "a", "b"],
        ["a", "b"],
    ]
    assert {name: values.shape for name, values in found.items()} == {
        name: (5, 10) for name in ("words", "starts", "ends")
    }
    for i, text in enumerate(texts):
        text = text if isinstance(text, str) else text.decode(errors="ignore")
        starts, ends = (found[name][i].numpy().tolist() for name in ("starts", "ends"))
        count = len(words[i])
        places = zip(starts[:count], ends[:count], strict=True)
        assert [text[start:end] for start, end in places] == words[i]
        assert set(starts[count:]) | set(ends[count:]) <= {-1}


@pytest.mark.parametrize("text", ["a\u200bb", "a\u0301\u00ad", "A_b"])
def test_words_stay_as_they_are_written(text):
    words = graph.split_words(tf.constant([text]))["words"].numpy()[0]
    assert b"".join(words).decode() == text
    assert len(words) == (3 if "_" in text else 1)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_seq_length": 12},
        {"max_seq_length": 12, "stride": 1},
        {"max_seq_length": 12, "stride": 10},
        {"max_seq_length": 9, "stride": 2},
        {"max_seq_length": 3},
        {"max_seq_length": 500},
    ],
    ids=str,
)
def test_windows_are_those_of_training(limits):
    found = encode(SENTENCES, **limits)
    windows, features = made(SENTENCES, **limits)
    for name, grid in features.items():
        np.testing.assert_array_equal(found.features[name], grid)
    splits = windows.packed.splits
    owner = np.searchsorted(splits, windows.word_places, side="right") - 1
    places = np.stack([owner, windows.word_places - splits[owner]], axis=1)
    np.testing.assert_array_equal(found.outputs, places)
    assert found.words.numpy().tolist() == [
        [i, j] for i, row in enumerate(SENTENCES) for j in range(len(row))
    ]
    assert found.shape.numpy().tolist() == [len(SENTENCES), 200]
    per_sentence = np.bincount(windows.sentence_index)
    assert (per_sentence.max() >= 20) == (limits["max_seq_length"] < 20)


def test_windows_of_characters_are_those_of_training():
    """A word is one token, of 50 characters; in graphs and eagerly."""
    limits = {"tokenizer": CHARACTERS, "max_seq_length": 12}
    windows, features = made(SENTENCES, **limits)
    cells = padded(SENTENCES)
    traced = tf.function(graph.encoder(**limits), autograph=False)
    for found in (encode(SENTENCES, **limits), traced(cells)):
        assert features["input_ids"].shape == (*features["input_mask"].shape, 50)
        for name, grid in features.items():
            np.testing.assert_array_equal(found.features[name], grid)
    window, place = found.outputs.numpy()[7]
    (word,) = CHARACTERS.ids_to_tokens([features["input_ids"][window, place]])
    assert word == [word for row in SENTENCES for word in row][7]
    targets = dataclasses.replace(windows, tag_ids=np.arange(len(windows.word_places)))
    labels = targets.targets()["label_ids"]
    assert labels.flat_values.shape == windows.packed.tokens.shape[:1]
    nothing = graph.encoder(**limits)(tf.fill([2, 3], ""))
    assert nothing.features["input_ids"].shape == (0, 1, 50)


def test_empty_cells_are_no_words_wherever_they_stand():
    cells = tf.constant([["", "a", "", "abc"], ["", "", "", ""]])
    found = graph.encoder(TOKENIZER, max_seq_length=8)(cells)
    assert found.words.numpy().tolist() == [[0, 1], [0, 3]]
    _, features = made([["a", "abc"]], max_seq_length=8)
    np.testing.assert_array_equal(found.features["input_ids"], features["input_ids"])


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_nothing_has_no_window(shape):
    found = graph.encoder(TOKENIZER, max_seq_length=8)(tf.fill(shape, ""))
    assert found.features["input_ids"].shape == (0, 1)
    choose = graph.chooser(schemes.TagNames(("O", "B-x"), "BIO"))
    chosen = choose(found, tf.zeros([0, 1, 2]))
    assert chosen["tags"].numpy().tolist() == np.full(shape, b"").tolist()
    assert chosen["probabilities"].numpy().tolist() == np.zeros(shape).tolist()


def names_of(scheme):
    if scheme == schemes.PLAIN:
        return ("NOUN", "VERB", "O")
    letters = {letter for letter in "BIESLUM" if schemes.fits(letter, scheme)}
    kinds = ("", "-x", "-y")
    return ("O", *sorted(a + b for a in letters for b in kinds))


def choose(tag_set, ids, lengths):
    """Tags and probabilities of sentences whose words have these likeliest tags."""
    splits = np.cumsum([0, *lengths])
    rows = [["a"] * length for length in lengths]
    windows = encode(rows, max_seq_length=2 + max(lengths))
    logits = np.random.default_rng(1).uniform(
        0, 1, [*windows.features["input_ids"].shape, len(tag_set.names)]
    )
    window, place = windows.outputs.numpy().T
    logits[window, place, ids] += 2
    found = graph.chooser(tag_set)(windows, tf.constant(logits, tf.float32))
    weights = np.exp(logits[window, place])
    probabilities = weights.max(axis=1) / weights.sum(axis=1)
    return (
        [
            [tag.decode() for tag in row[:length]]
            for row, length in zip(found["tags"].numpy(), lengths, strict=True)
        ],
        found,
        [probabilities[a:b] for a, b in itertools.pairwise(splits)],
    )


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_tags_are_repaired_by_their_scheme(scheme):
    tag_set = schemes.TagNames(names_of(scheme), scheme)
    rng = np.random.default_rng(2)
    lengths = [int(length) for length in rng.integers(0, 12, 150)]
    ids = rng.integers(0, len(tag_set.names), sum(lengths))
    tags, found, probabilities = choose(tag_set, ids, lengths)
    rows = np.split(ids, np.cumsum(lengths)[:-1])
    assert tags == tag_set.decode(rows)
    pairs = zip(itertools.chain.from_iterable(tags), ids, strict=True)
    num_changed = sum(tag != tag_set.names[index] for tag, index in pairs)
    assert (num_changed > 100) == (scheme != schemes.PLAIN)
    for row, wanted in zip(found["probabilities"].numpy(), probabilities, strict=True):
        np.testing.assert_allclose(row[: len(wanted)], wanted, rtol=1e-5)
        assert not row[len(wanted) :].any()


def test_sentences_do_not_continue_each_other():
    tag_set = schemes.TagNames(("O", "I-x"), "BIO")
    assert choose(tag_set, np.array([1, 1, 1]), [1, 2])[0] == [
        ["B-x"],
        ["B-x", "I-x"],
    ]


def test_placeholders_are_outside():
    names = ("PAD", "O", "B-x", "I-x")
    found = choose(schemes.TagNames(names, "BIO"), [2, 0, 3, 1, 0], [3, 2])[0]
    assert found == [["B-x", "O", "B-x"], ["O", "O"]]
