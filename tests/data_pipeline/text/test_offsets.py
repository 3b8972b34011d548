"""Compared with word_offsets.Offsets, a word and a part at a time."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.squad import choice, files, windows
from data_pipeline.text import offsets as offsets_lib
from data_pipeline.text import wordpiece
from tests.data_pipeline import original_words, word_offsets

VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "##a", "##b", "X", "##X", "x"),
    *("##x", "cafe", "i", "istan", "##bul", "σ", "##σ", "中", ".", "-", "(", ")", "1"),
    *("ᄒ", "##ᅡ", "##ᆫ", "##한", "한", "##é", "caf", "ⅷ", "##ⅷ"),
]
# A character of each kind that normalization drops, splits or makes longer.
LINES = [
    "Cafe\u0301 (a\xadb) \N{FERRIS WHEEL}\N{VARIATION SELECTOR-16}-b",
    "\u200b \u0301a a\xa0b \xa0a\xa0 \u2028b\u2029",
    "İstanbul, 한-a ｆｕｌｌ．ｗｉｄｔｈ ⅧΣΑΣ",
    "中国中。中 \ufeffa\ufeff \U0001f1e9\U0001f1ea.\U0001f469\u200d\U0001f52c",
    "x" * 201 + "-a (b) " + "x" * 200 + "-a",
    "\xa0" + "x" * 201 + "-a\u2003 b",  # a word of unknown parts is stripped as well
    "\t a\r\nb \u202f",
    *("", " ", "\u200b", "\u0301"),
    *original_words.random_lines(300, original_words.POOLS, seed=11),
]


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def tokenizer(request):
    return wordpiece.BertTokenizer(VOCAB, request.param)


def parts_of(documents):
    """Which part of its word each token belongs to."""
    begun = np.cumsum([not VOCAB[index].startswith("##") for index in documents.tokens])
    first = np.repeat(documents.word_tokens[:-1], np.diff(documents.word_tokens))
    return begun - begun[first]


def test_tokens_are_those_of_training(tokenizer):
    actual = offsets_lib.tokenize(tf.constant(LINES), tokenizer)
    documents = windows.tokenize_contexts(LINES, tokenizer)
    np.testing.assert_array_equal(actual.ids.values, documents.tokens)
    np.testing.assert_array_equal(actual.ids.row_splits, documents.splits)


def test_places_are_those_of_the_offsets(tokenizer):
    actual = offsets_lib.tokenize(tf.constant(LINES), tokenizer)
    documents = windows.tokenize_contexts(LINES, tokenizer)
    words = [files.split_words(line) for line in LINES]
    lower = tokenizer.do_lower_case
    parts = choice.split_all((word for row in words for word in row), tokenizer)
    offsets = word_offsets.Offsets(parts, lower)
    part_index = parts_of(documents)
    begins, ends = actual.begins.numpy(), actual.ends.numpy()
    changed = whole = 0
    for row, line in enumerate(LINES):
        start = int(actual.starts[row])
        for token in range(*documents.splits[row : row + 2]):
            word = words[row][documents.token_words[token]]
            part = part_index[token]
            cut = slice(begins[token] - start, ends[token] - start)
            assert line[cut] == offsets.text([word], part, part)
            # A place found by counting the normalized characters would be wrong.
            changed += sum(map(len, parts[word])) != len(word)
            whole += not offsets.of_word(word)
    assert changed > 300 and whole


def test_places_of_parts():
    tokenizer = wordpiece.BertTokenizer(VOCAB)
    line = "(Cafe\u0301)\u202fa\xadb\xa0\U0001f600\tİstanbul"
    actual = offsets_lib.tokenize(tf.constant(["a", line]), tokenizer)
    assert actual.starts.numpy().tolist() == [0, 2]  # after "a" and a space
    texts = [
        line[begin - 2 : end - 2]
        for begin, end in zip(
            actual.begins.numpy()[1:], actual.ends.numpy()[1:], strict=True
        )
    ]
    tokens = tokenizer.ids_to_tokens(actual.ids[1].numpy())
    assert list(zip(tokens, texts, strict=True)) == [
        ("(", "("),
        ("cafe", "Cafe\u0301"),
        (")", ")"),
        ("a", "a\xadb"),
        ("##b", "a\xadb"),
        ("[UNK]", "\U0001f600"),
        ("istan", "İstanbul"),
        ("##bul", "İstanbul"),
    ]


def test_bytes_that_are_no_text_do_not_count():
    tokenizer = wordpiece.BertTokenizer(VOCAB)
    broken = [b"\xff a\xe6\x9d b", b"\xed\xa0\x80a"]
    actual = offsets_lib.tokenize(tf.constant(broken), tokenizer)
    sound = offsets_lib.tokenize(tf.constant([" a b", "a"]), tokenizer)
    for one, other in zip(actual, sound, strict=True):
        tf.debugging.assert_equal(
            getattr(one, "values", one), getattr(other, "values", other)
        )
