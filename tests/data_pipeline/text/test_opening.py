"""Tests of data_pipeline/text/opening.py."""

import itertools
import json
import string
import types

import pytest

from data_pipeline.text import base, gpt2, opening, wordpiece

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
    [
        ("uncased", True),
        ("chinese", True),
        ("cased", False),
        ("multilingual-cased", False),
    ],
)
def test_real_vocabularies(shared_file, name, lowers):
    path = str(shared_file(f"data/vocab/bert-base-{name}-vocab.txt"))
    vocab = base.read_vocab(path)
    check(vocab, lowers)
    with pytest.raises(ValueError):
        check(vocab, not lowers)


def tokenizer_json(path, **changes):
    """The file that transformers 5 writes for a BERT; no vocab.txt lies beside it."""
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "The", "the", "##s", "cat"]
    special = [{"id": i, "content": vocab[i], "special": True} for i in range(4)]
    raw = {
        "model": {"type": "WordPiece", "vocab": {t: i for i, t in enumerate(vocab)}},
        "added_tokens": [*special, {"id": 8, "content": "<b>", "normalized": False}],
        "normalizer": {"type": "BertNormalizer", "lowercase": True},
        **changes,
    }
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
    for added in (None, []):
        path = tokenizer_json(tmp_path / "tokenizer.json", added_tokens=added)
        assert opening.open_vocabulary(path).vocab[7:] == ["cat"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"added_tokens": ["x"]}, "not a tokenizer of word pieces"),
        ({"added_tokens": [{"content": "x"}]}, "not a tokenizer of word pieces"),
        ({"added_tokens": [{"content": "x", "id": 4}]}, "ids of its 9 tokens are not"),
        ({"model": "x"}, "not a tokenizer of word pieces"),
        ({"model": {"type": "Unigram", "vocab": {"a": 0}}}, "not a tokenizer of word"),
        ({"model": {"vocab": [["a", 0.5]]}}, "not a tokenizer of word pieces"),
        ({"model": {"vocab": {"a": "0"}}}, "ids of its 6 tokens"),
        ({"model": {"vocab": {"a": 4, "b": 4}}}, "ids of its 7 tokens"),
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


def test_byte_pairs_take_no_tokens(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("word\n")
    with pytest.raises(ValueError, match="to word pieces, not to byte pairs"):
        opening.add_tokens(gpt2.Gpt2Tokenizer(["a", "b"], []), str(path))


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
    found = longer.tokenize(["Kettle teapot teaspoon thé"]).to_list()
    assert found == [[8, 5, 6, 5, 9, 1]]
    before = wordpiece.BertTokenizer(SMALL).tokenize(["Kettle teaspoon"]).to_list()
    assert before == [[1, 1]]


def test_tokens_that_text_never_becomes(tmp_path):
    assert add(tmp_path, "Mug\n[E1]\nmug\n茶\n")[1] == ["Mug", "[E1]"]
    assert add(tmp_path, "Mug\n[E1]\nmug\n茶\n", lowers=False)[1] == ["[E1]"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mug\n\nbowl\n", "tokens.txt:2: '' is not one token"),
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
    with pytest.raises(FileNotFoundError, match=r"gone\.txt: no such file"):
        opening.add_tokens(tokenizer, str(tmp_path / "gone.txt"))
