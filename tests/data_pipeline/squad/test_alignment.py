import pytest

from data_pipeline.squad import choice
from data_pipeline.text import wordpiece

TOKENIZERS = {
    lower: wordpiece.BertTokenizer(["[UNK]", "[CLS]", "[SEP]", "a"], lower)
    for lower in (True, False)
}


def test_part_that_no_vocabulary_spells_is_left_out():
    word = "a" * 201
    assert choice.split_all([f"{word}-b"], TOKENIZERS[True]) == {
        f"{word}-b": ["-", "b"]
    }
    assert choice.split_all([word[1:]], TOKENIZERS[True]) == {word[1:]: [word[1:]]}
    nothing = {"\u200b": [], "\ud800": []}
    assert choice.split_all(nothing, TOKENIZERS[True]) == nothing
    assert choice.split_all([], TOKENIZERS[True]) == {}


@pytest.mark.parametrize(
    ("spelled", "span", "lower", "answer"),
    [
        ("steve smith", "Steve Smith's", True, "Steve Smith"),
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
    parts = choice.split_all(words, TOKENIZERS[lower])
    assert choice.align(spelled, words, parts) == answer
