"""Tests of data_pipeline/text/opening.py."""

import itertools
import json
import string
import types

import pytest

from data_pipeline.text import base, byte_pairs, opening, wordpiece
from tests import tokenizer_files

WORDS = ["".join(t) for t in itertools.product(string.ascii_lowercase, repeat=2)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>", "123", "中"]
UNCASED = [*SPECIAL, *WORDS, *(f"##{word}" for word in WORDS)]
CASED = [*UNCASED, *(word.title() for word in WORDS)]
TINY = [*SPECIAL, "the", "cat"]
# A few capitals among many words, as in the Chinese vocabulary: not made cased.
MOSTLY_UNCASED = [*UNCASED, "DNA"]


def check(vocab, lowers, init_checkpoint=""):
    tokenizer = types.SimpleNamespace(vocab=vocab, do_lower_case=lowers)
    opening.check_case(tokenizer, "some/vocab.txt", init_checkpoint)


@pytest.mark.parametrize(
    ("vocab", "lowers", "message"),
    [
        (UNCASED, False, "--do_lower_case=false, but some/vocab.txt is an uncased voc"),
        (MOSTLY_UNCASED, False, "set --do_lower_case=true, or --nocheck_case"),
        (CASED, True, "--do_lower_case=true, but some/vocab.txt is a cased vocabulary"),
        (CASED, True, r"\(676 entries have capitals\); set --do_lower_case=false, or"),
    ],
)
def test_other_case_than_that_of_the_vocabulary_is_refused(vocab, lowers, message):
    check(vocab, not lowers)
    with pytest.raises(ValueError, match=message):
        check(vocab, lowers)


def test_small_vocabularies_are_cased_where_most_entries_have_capitals():
    words = [*SPECIAL, *map("".join, itertools.product("ACGT", repeat=3))]
    check(words, False)
    with pytest.raises(ValueError, match=r"\(64 entries have capitals.*--nocheck_case"):
        check(words, True)
    check([*words, *(f"{word.lower()}" for word in words[len(SPECIAL) :])], True)


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


def test_releases_are_known_by_name():
    for release in [*LOWER, *KEPT]:
        path, lowers = f"gs://bert/x/{release}/bert_model.ckpt", release in LOWER
        check(TINY, lowers, path)
        with pytest.raises(ValueError, match=r"but some/vocab\.txt is a"):
            check(TINY, not lowers, path)
        # Under another name nobody can tell by so few words.
        check(TINY, not lowers, path.replace(release, "renamed"))
        check(TINY, not lowers, f"{release}/model.ckpt-100")


@pytest.mark.parametrize("name", ["uncased", "chinese", "cased", "multilingual-cased"])
def test_real_vocabularies(shared_file, name):
    path = str(shared_file(f"data/vocab/bert-base-{name}-vocab.txt"))
    vocab, lowers = (
        base.read_vocab(path),
        not name.endswith("-cased") and name != "cased",
    )
    check(vocab, lowers)
    with pytest.raises(ValueError):
        check(vocab, not lowers)


def tokenizer_json(path, **changes):
    """The file that transformers 5 writes for a BERT; no vocab.txt lies beside it."""
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "The", "the", "##s", "cat"]
    special = [{"id": i, "content": vocab[i], "special": True} for i in range(4)]
    added = [*special, {"id": 8, "content": "<b>", "normalized": False}]
    raw = tokenizer_files.of_word_pieces(vocab, added) | changes
    path.write_text(json.dumps(raw))
    return str(path)


def test_word_pieces_of_a_tokenizer_json(tmp_path):
    path = tokenizer_json(tmp_path / "tokenizer.json")
    tokenizer = opening.open_vocabulary(path)
    assert isinstance(tokenizer, wordpiece.BertTokenizer)
    assert tokenizer.vocab_size == 9 and tokenizer.added_tokens == {"<b>": False}
    assert tokenizer.tokenize("The cats<b>").numpy().tolist() == [5, 7, 6, 8]
    cased = opening.open_vocabulary(path, do_lower_case=False)
    assert cased.tokenize("The cats<b>").numpy().tolist() == [4, 7, 6, 8]
    path = tokenizer_json(tmp_path / "tokenizer.json", added_tokens=None)
    assert opening.open_vocabulary(path).vocab[7:] == ["cat"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"added_tokens": [{"content": "x"}]}, "not a tokenizer of word pieces"),
        ({"added_tokens": [{"content": "x", "id": 4}]}, "ids of its 9 tokens are not"),
        ({"model": {"type": "Unigram", "vocab": {"a": 0}}}, "is no unigram model"),
        ({"model": {"type": "Unigram"}, "normalizer": []}, "is no unigram model"),
        ({"model": {"type": "WordLevel", "vocab": {"a": 0}}}, "not a tokenizer of"),
        ({"model": {"vocab": {"a": "0"}}}, "ids of its 6 tokens"),
        (
            {"model": {"vocab": {"a": 4}}, "added_tokens": []},
            "ids of its 1 tokens are not 0, 1",
        ),
        (
            {"model": {"vocab": {"a": 0}}, "added_tokens": []},
            r"vocabulary of 1 tokens lacks \[UNK\], \[CLS\], \[SEP\]",
        ),
    ],
)
def test_odd_tokenizer_json_is_refused(tmp_path, change, message):
    path = tokenizer_json(tmp_path / "tokenizer.json", **change)
    with pytest.raises(ValueError, match=rf"tokenizer\.json: .*{message}"):
        opening.open_vocabulary(path)


# More tokens at the end of a vocabulary.

SMALL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tea", "##pot", "cup"]


def add(tmp_path, text, lowers=True):
    path = tmp_path / "tokens.txt"
    path.write_bytes(text.encode("utf-8"))
    tokenizer = wordpiece.BertTokenizer(SMALL, lowers)
    return opening.add_tokens(tokenizer, str(path))


def test_tokens_are_found_in_text(tmp_path):
    longer, never = add(tmp_path, "kettle\n##spoon\nthé\n")
    assert longer.vocab == [*SMALL, "kettle", "##spoon", "thé"]
    assert longer.do_lower_case
    # Uncased text loses its accents, so nothing becomes thé.
    assert never == ["thé"]
    actual = longer.tokenize(["Kettle teapot teaspoon thé"]).to_list()
    assert actual == [[8, 5, 6, 5, 9, 1]]
    before = wordpiece.BertTokenizer(SMALL).tokenize(["Kettle teaspoon"]).to_list()
    assert before == [[1, 1]]
    assert add(tmp_path, "Mug\n[E1]\nmug\n茶\n")[1] == ["Mug", "[E1]"]
    assert add(tmp_path, "Mug\n[E1]\nmug\n茶\n", lowers=False)[1] == ["[E1]"]
    with pytest.raises(ValueError, match="to word pieces, not to byte pairs"):
        opening.add_tokens(byte_pairs.Gpt2Tokenizer(["a", "b"], []), "tokens.txt")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mug\ntea cup\n", "tokens.txt:2: 'tea cup' is not one token"),
        ("mug\ncup\n", "tokens.txt:2: 'cup' is known already, id 7"),
        ("mug\nbowl\nmug\n", "tokens.txt:3: 'mug' is known already, line 1"),
        ("", "tokens.txt: is empty; give the tokens to add"),
    ],
)
def test_unusable_tokens_are_named(tmp_path, text, complaint):
    with pytest.raises(ValueError, match=complaint):
        add(tmp_path, text)


def test_files_of_other_systems(tmp_path):
    assert add(tmp_path, "\ufeffmug\r\nbowl\r\n")[0].vocab == [*SMALL, "mug", "bowl"]
    path = tmp_path / "tokens.txt"
    path.write_bytes(b"mug\ncaf\xe9\n")
    tokenizer = wordpiece.BertTokenizer(SMALL)
    with pytest.raises(ValueError, match=r"tokens\.txt:2: byte 0xe9.*not UTF-8"):
        opening.add_tokens(tokenizer, str(path))
