"""Tests of data_pipeline/text/vocabulary_checks.py."""

import itertools
import string
import types

import pytest

from data_pipeline.text import tokenization, vocabulary_checks

WORDS = ["".join(t) for t in itertools.product(string.ascii_lowercase, repeat=2)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", "123", "中"]
UNCASED = [*SPECIAL, *WORDS, *(f"##{word}" for word in WORDS)]
CASED = [*UNCASED, *(word.title() for word in WORDS)]
TINY = [*SPECIAL, "the", "cat"]
# A few capitals among many words, as in the Chinese vocabulary: not made cased.
MOSTLY_UNCASED = [*UNCASED, "DNA"]


def check(vocab, lowers, init_checkpoint=""):
    tokenizer = types.SimpleNamespace(vocab=vocab, do_lower_case=lowers)
    vocabulary_checks.check_case(tokenizer, "some/vocab.txt", init_checkpoint)


@pytest.mark.parametrize(
    ("vocab", "lowers"),
    [
        (UNCASED, True),
        (MOSTLY_UNCASED, True),
        (CASED, False),
        (TINY, True),
        (TINY, False),
    ],
)
def test_vocabulary_that_fits(vocab, lowers):
    check(vocab, lowers)


def test_lower_casing_for_a_cased_vocabulary_is_refused():
    with pytest.raises(ValueError) as caught:
        check(CASED, True)
    text = str(caught.value)
    assert text.startswith("--do_lower_case=true, but some/vocab.txt is a cased")
    assert "(676 entries have capitals" in text
    assert "set --do_lower_case=false, or --nocheck_case" in text


@pytest.mark.parametrize("vocab", [UNCASED, MOSTLY_UNCASED])
def test_capitals_for_an_uncased_vocabulary_are_refused(vocab):
    with pytest.raises(ValueError) as caught:
        check(vocab, False)
    text = str(caught.value)
    assert text.startswith("--do_lower_case=false, but some/vocab.txt is an uncased")
    assert "set --do_lower_case=true, or --nocheck_case" in text


# tokenization.py, validate_case_matches_checkpoint.
LOWER = [
    "uncased_L-24_H-1024_A-16",
    "uncased_L-12_H-768_A-12",
    "multilingual_L-12_H-768_A-12",
    "chinese_L-12_H-768_A-12",
]
KEPT = [
    "cased_L-12_H-768_A-12",
    "cased_L-24_H-1024_A-16",
    "multi_cased_L-12_H-768_A-12",
]


@pytest.mark.parametrize(
    ("release", "lowers"),
    [*((name, True) for name in LOWER), *((name, False) for name in KEPT)],
)
def test_releases_are_known_by_name(release, lowers):
    path = f"gs://bert/2018_10_18/{release}/bert_model.ckpt"
    check(TINY, lowers, path)
    with pytest.raises(ValueError, match=r"but some/vocab\.txt is a"):
        check(TINY, not lowers, path)
    # Under another name the original cannot tell, nor can we of so few words.
    check(TINY, not lowers, path.replace(release, "renamed"))
    check(TINY, not lowers, f"{release}/model.ckpt-100")


@pytest.mark.parametrize(
    ("name", "lowers"),
    [("uncased", True), ("chinese", True), ("cased", False)],
)
def test_real_vocabularies(shared_file, name, lowers):
    path = str(shared_file(f"data/vocab/bert-base-{name}-vocab.txt"))
    vocab = tokenization.read_vocab(path)
    check(vocab, lowers)
    with pytest.raises(ValueError):
        check(vocab, not lowers)


def test_real_multilingual_vocabulary(shared_file):
    path = shared_file("data/vocab/bert-base-multilingual-cased-vocab.txt")
    vocab = tokenization.read_vocab(str(path))
    check(vocab, False)
    with pytest.raises(ValueError, match="is a cased vocabulary"):
        check(vocab, True)
