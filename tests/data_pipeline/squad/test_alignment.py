import random
import re

import pytest

from data_pipeline.squad import alignment
from data_pipeline.text import wordpiece
from tests.data_pipeline import original_words

LINES = original_words.random_lines(1500, original_words.POOLS, seed=5)
TOKENIZERS = {
    lower: wordpiece.BertTokenizer(["[UNK]", "[CLS]", "[SEP]", "a"], lower)
    for lower in (True, False)
}
WORDS = [re.findall("[^ \t\r\n\u202f]+", line) for line in LINES]


def reference_alignment(spelled, span, lower):
    """What get_final_text of the original does, one character at a time."""
    normalized = " ".join(original_words.reference_words(span, lower))
    begin = normalized.find(spelled)
    ink = [i for i, char in enumerate(span) if char != " "]
    normalized_ink = [i for i, char in enumerate(normalized) if char != " "]
    if begin < 0 or not spelled or len(ink) != len(normalized_ink):
        return span
    first = normalized_ink.index(begin)
    last = normalized_ink.index(begin + len(spelled) - 1)
    return span[ink[first] : ink[last] + 1]


@pytest.mark.parametrize("lower", [True, False])
def test_parts_are_the_words_of_the_original(lower):
    parts = alignment.split_all(
        (word for row in WORDS for word in row), TOKENIZERS[lower]
    )
    for words in WORDS:
        joined = [part for word in words for part in parts[word]]
        assert joined == original_words.reference_words(" ".join(words), lower)


def test_nothing_has_no_parts():
    assert alignment.split_all([], TOKENIZERS[True]) == {}
    assert alignment.split_all(["\u200b", "\ud800"], TOKENIZERS[True]) == {
        "\u200b": [],
        "\ud800": [],
    }


def test_part_that_no_vocabulary_spells_is_left_out():
    word = "a" * 201
    assert alignment.split_all([f"{word}-b"], TOKENIZERS[True]) == {
        f"{word}-b": ["-", "b"]
    }
    assert alignment.split_all([word[1:]], TOKENIZERS[True]) == {word[1:]: [word[1:]]}


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["steve", "smith"], "steve smith"),
        (["para", "##gra", "##ph", "2"], "paragraph 2"),
        (["##gra", "##ph"], "graph"),
        (["[UNK]", "##s"], "[UNK]s"),
        ([], ""),
    ],
)
def test_tokens_are_spelled(tokens, text):
    assert alignment.spell(tokens) == text


@pytest.mark.parametrize(
    ("spelled", "span", "lower", "answer"),
    [
        ("steve smith", "Steve Smith's", True, "Steve Smith"),
        ("Steve Smith", "Steve Smith's", False, "Steve Smith"),
        ("steve smith", "Steve Smith's", False, "Steve Smith's"),
        ("cafe", "(Café)", True, "Café"),
        # Composed, the accent is lost with its letter; of its own, it is missed.
        ("cafe", "(Cafe\u0301)", True, "(Cafe\u0301)"),
        ("京", "東京。", True, "京"),
        ("[UNK]", "東京。", True, "東京。"),
        # The first of two places where the prediction stands, whichever was meant.
        ("a", "(A-a)", True, "A"),
        ("1 , 0", "$1,000", True, "1,0"),
        ("", "Paris", True, "Paris"),
    ],
)
def test_alignment_is_the_one_of_the_original(spelled, span, lower, answer):
    words = span.split(" ")
    parts = alignment.split_all(words, TOKENIZERS[lower])
    assert alignment.align(spelled, words, parts) == answer
    assert reference_alignment(spelled, span, lower) == answer


@pytest.mark.parametrize("lower", [True, False])
def test_alignment_of_random_text(lower):
    parts = alignment.split_all(
        (word for row in WORDS for word in row), TOKENIZERS[lower]
    )
    rng = random.Random(3)
    whole = 0
    for words in filter(None, WORDS):
        joined = " ".join(part for word in words for part in parts[word])
        cut = sorted(rng.randrange(len(joined) + 1) for _ in range(2))
        spelled = " ".join(joined[slice(*cut)].split())
        found = alignment.align(spelled, words, parts)
        assert found == reference_alignment(spelled, " ".join(words), lower)
        whole += found == " ".join(words)
    # Both outcomes are frequent: neither side of the comparison is idle.
    assert 0.1 < whole / len(WORDS) < 0.9
