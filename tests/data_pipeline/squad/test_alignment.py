import random
import re

import pytest

from data_pipeline.squad import alignment
from tests.data_pipeline import original_words

LINES = original_words.random_lines(1500, original_words.POOLS, seed=5)
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
    parts = alignment.split_all((word for row in WORDS for word in row), lower)
    for words in WORDS:
        joined = [part for word in words for part in parts[word]]
        assert joined == original_words.reference_words(" ".join(words), lower)


def test_nothing_has_no_parts():
    assert alignment.split_all([], True) == {}
    assert alignment.split_all(["\u200b", "\ud800"], True) == {
        "\u200b": [],
        "\ud800": [],
    }


def test_part_that_no_vocabulary_spells_is_left_out():
    word = "a" * 201
    assert alignment.split_all([f"{word}-b"], True) == {f"{word}-b": ["-", "b"]}
    assert alignment.split_all([word[1:]], True) == {word[1:]: [word[1:]]}


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
    parts = alignment.split_all(words, lower)
    assert alignment.align(spelled, words, parts) == answer
    assert reference_alignment(spelled, span, lower) == answer


@pytest.mark.parametrize("lower", [True, False])
def test_alignment_of_random_text(lower):
    parts = alignment.split_all((word for row in WORDS for word in row), lower)
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


def fold(text):
    return text.replace("ς", "σ")


@pytest.mark.parametrize("lower", [True, False])
def test_offsets_cut_out_the_parts(lower):
    words = {word for row in WORDS for word in row}
    parts = alignment.split_all(words, lower)
    offsets = alignment.Offsets(parts, lower)
    cuts = {
        word: [word[slice(*place)] for place in offsets.of_word(word)] for word in words
    }
    again = alignment.split_all((cut for row in cuts.values() for cut in row), lower)
    for word, row in cuts.items():
        spelled = [" ".join(again[cut]) for cut in row]
        assert list(map(fold, spelled)) == list(map(fold, parts[word]))
        ends = [place for pair in offsets.of_word(word) for place in pair]
        assert ends == sorted(ends)


def offset_text(words, first, last, lower=True):
    parts = alignment.split_all(words, lower)
    return alignment.Offsets(parts, lower).text(words, first, last)


@pytest.mark.parametrize(
    ("span", "first", "last", "answer"),
    [
        ("我在東京工作。", 2, 3, "東京"),
        ("我在東京工作。", 2, 2, "東"),
        ("(Steve Smith's)", 1, 0, "Steve Smith"),
        ("(Cafe\u0301)", 1, 1, "Cafe\u0301"),
        ("İstanbul, 한국-a", 0, 0, "İstanbul, 한국"),
        ("a\xa0b", 0, 0, "a"),
        ("a\xa0b", 1, 1, "b"),
    ],
)
def test_text_from_part_to_part(span, first, last, answer):
    assert offset_text(span.split(" "), first, last) == answer


def test_word_of_an_unknown_part_is_whole():
    word = "a" * 201
    assert offset_text(["(b)", f"{word}-c"], 1, 0) == f"b) {word}-c"
    assert offset_text([f"{word[1:]}-c"], 2, 2) == "c"
