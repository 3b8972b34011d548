"""Learning of vocabularies on counts small enough to know what has to come out."""

import pytest

from data_pipeline.text import wordpiece
from data_pipeline.vocabularies import learn_wordpiece, word_counts

STEMS = ("walk", "talk", "jump", "play", "want", "help", "look", "need")
ENDINGS = ("", "s", "ed", "ing", "er")
INFLECTED = {stem + ending: 10 for stem in STEMS for ending in ENDINGS}


def counts_of(words):
    return word_counts.WordCounts(
        dict(words), dict(word_counts.characters_of(words)), sum(words.values()), 0
    )


def learned(words, vocab_size=10_000, **options):
    options = {"num_unused_tokens": 0, "report": lambda line: None, **options}
    return learn_wordpiece.learn(counts_of(words), vocab_size, **options)


def alphabet_of(words):
    chars = sorted(set("".join(words)))
    return [*chars, *(f"##{char}" for char in chars)]


# The order of the entries.


@pytest.mark.parametrize(
    ("count", "start"),
    [
        (0, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
        (2, ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
    ],
)
def test_special_tokens_come_first(count, start):
    vocab = learned({"ab": 3}, num_unused_tokens=count)
    assert vocab == [*start, "a", "b", "##a", "##b", "ab"]
    # 99 give the released ids; further ones come behind the special tokens.
    more = learned({"ab": 3}, num_unused_tokens=101)
    special = ["[unused98]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert more[99:107] == [*special, "[unused99]", "[unused100]", "a"]


def test_characters_come_in_order_and_pieces_by_frequency():
    words = {"zzz": 9, "the": 50, "cat": 20, "é": 1, "ж": 2}
    vocab = learned(words)
    assert vocab[5 : 5 + len(alphabet_of(words))] == alphabet_of(words)
    assert vocab[5 + len(alphabet_of(words)) :] == ["the", "cat", "zzz"]


# The pieces.


def test_stems_and_endings_are_found():
    vocab = learned(INFLECTED, len(alphabet_of(INFLECTED)) + 5 + len(STEMS) + 3)
    pieces = vocab[5 + len(alphabet_of(INFLECTED)) :]
    assert pieces == ["##ed", "##er", "##ing", *sorted(STEMS)]


def test_beginnings_that_others_share_are_kept():
    words = {"hell": 200, "hello": 50, "helle": 50, "hella": 50}
    vocab = learned(words, len(alphabet_of(words)) + 5 + 1)
    assert vocab[-1] == "hell"
    assert len(learned(words)) == len(vocab) + 3


def test_size_is_met_with_entries_that_texts_contain():
    vocab = learned({**INFLECTED, "中": 5, "!": 9}, 65)
    assert len(vocab) == len(set(vocab)) == 65 and {"中", "!"} < set(vocab)
    assert all(vocab)
    assert wordpiece.are_pieces([*vocab[5:], "##!"]).tolist() == [True] * 60 + [False]


def test_learner_is_given_what_memory_allows(monkeypatch):
    monkeypatch.setattr(learn_wordpiece, "MAX_SUBSTRINGS", 60)
    words = {"frequent": 90, "ab": 80, "rare": 2, "words": 1}
    lines = []
    vocab = learned(words, report=lines.append)
    assert lines[0] == "learning from 3 of 4 different words"
    assert {"frequent", "ab", "rare"} < set(vocab)
    assert "words" not in vocab
    assert "w" in vocab


# Characters that are too many.


def test_characters_are_never_trimmed_for_pieces():
    words = {"abc": 100, "xyz": 1}
    assert learned(words, 5 + 12) == [*learned({})[:5], *alphabet_of(words)]
    with pytest.raises(
        ValueError, match=r"no room for 12 characters; raise it above 17"
    ):
        learned(words, 16)


def test_error_names_the_size_that_fits():
    words = {"abc": 100, "xyz": 7, "uvw": 2}
    message = r"--vocab_size=20 has no room .* above 23, or --min_character_frequency"
    with pytest.raises(ValueError, match=message):
        learned(words, 20)
    vocab = learned(words, 20, min_character_frequency=7)
    assert vocab[5:] == [*alphabet_of(["abc", "xyz"]), "abc", "xyz"]
    with pytest.raises(ValueError, match="no room"):
        learned(words, 20, min_character_frequency=2)


def test_words_with_rare_characters_are_not_learned():
    words = {"abab": 50, "abqa": 3}
    vocab = learned(words, min_character_frequency=4)
    assert vocab[5:] == ["a", "b", "##a", "##b", "abab"]
    assert "abqa" in learned(words)


# How well it does.


def test_coverage_counts_running_words():
    vocab = ["[UNK]", "[CLS]", "[SEP]", "ab", "a", "##c"]
    words = {"ab": 6, "acc": 2, "z": 1, "c": 1}
    actual = learn_wordpiece.coverage(wordpiece.BertTokenizer(vocab), counts_of(words))
    assert actual.whole_share == 0.6
    assert actual.unknown_share == 0.2
    assert actual.pieces_per_word == pytest.approx((6 + 2 * 3 + 2) / 10)
