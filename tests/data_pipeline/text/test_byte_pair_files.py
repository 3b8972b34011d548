"""Tests of byte_pair_files.py: every layout of files, and what is wrong with them."""

import json

import pytest

from data_pipeline.text import byte_pairs, opening, vocabulary_files
from tests import tokenizer_files

TOKENS = ["<|endoftext|>", "a", "b", "c", "Ġ", "ab", "abc", "Ġa"]
MERGES = ["a b", "ab c", "Ġ a"]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False}


def ids_of(tokens):
    return {token: index for index, token in enumerate(tokens)}


def write(folder, tokens=TOKENS, merges=MERGES, names=("vocab.json", "merges.txt")):
    vocab = tokens if isinstance(tokens, str) else json.dumps(ids_of(tokens))
    (folder / names[0]).write_text(vocab, encoding="utf-8")
    lines = "".join(f"{line}\n" for line in ("#version: 0.2", *merges))
    (folder / names[1]).write_text(lines, encoding="utf-8")
    return str(folder / names[0])


def write_tokenizer(folder, **changes):
    """A tokenizer.json; `changes` are sections, or model__key=value."""
    raw = {
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "<|endoftext|>"}],
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": ids_of(TOKENS), "merges": MERGES},
    }
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            raw[section][key] = value
        else:
            raw[section] = value
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    return str(path)


def read(path):
    return byte_pairs.read(vocabulary_files.VocabularyFiles(path))


def complaint(path):
    with pytest.raises(ValueError) as caught:
        read(path)
    return str(caught.value)


@pytest.mark.parametrize(
    "names",
    [
        ("vocab.json", "merges.txt"),
        ("encoder.json", "vocab.bpe"),
        ("mine-vocab.json", "mine-merges.txt"),
    ],
)
def test_both_files_are_found_by_their_names(tmp_path, names):
    pairs = read(write(tmp_path, names=names))
    assert pairs.vocab == TOKENS
    assert pairs.merges == [("a", "b"), ("ab", "c"), ("Ġ", "a")]
    assert pairs.is_byte_level


@pytest.mark.parametrize("merges", [MERGES, [m.split() for m in MERGES]])
def test_tokenizer_json_says_both(tmp_path, merges):
    added = [{"id": 8, "content": "<|pad|>"}, {"id": 0, "content": "<|endoftext|>"}]
    path = write_tokenizer(tmp_path, model__merges=merges, added_tokens=added)
    pairs = read(path)
    assert pairs.vocab == [*TOKENS, "<|pad|>"]
    assert pairs.merges == [("a", "b"), ("ab", "c"), ("Ġ", "a")]


def test_the_kind_follows_from_the_entries(tmp_path):
    gpt = ["<unk>", "a", "b", "b</w>", "ab</w>"]
    path = write(tmp_path, gpt, ["a b</w>"])
    assert isinstance(opening.open_vocabulary(path), byte_pairs.GptTokenizer)
    # A byte-level vocabulary may have such a token, too.
    path = write(tmp_path, [*TOKENS, "</w>"])
    assert isinstance(opening.open_vocabulary(path), byte_pairs.Gpt2Tokenizer)
    path = write_tokenizer(
        tmp_path,
        **tokenizer_files.NORMALIZES_WORDS,
        added_tokens=[],
        model={
            **{"type": "BPE", "end_of_word_suffix": "</w>", "vocab": ids_of(gpt)},
            "merges": ["a b</w>"],
        },
    )
    tokenizer = opening.open_vocabulary(path)
    assert tokenizer.tokenize("AB b").numpy().tolist() == [4, 3]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_merges_file_may_lack_its_header(tmp_path, ending):
    path = write(tmp_path)
    text = ending.join([*MERGES, "", ""])
    (tmp_path / "merges.txt").write_bytes(text.encode())
    assert read(path).merges[0] == ("a", "b")
    assert len(read(path).merges) == 3
    (tmp_path / "added_tokens.json").write_text('{"_start_": 8}', encoding="utf-8")
    assert opening.open_vocabulary(path).start_id == 8


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("c b", "merge 'c b' needs the token 'cb', which "),
        ("x a", "merge 'x a' needs the token 'x', which "),
        ("a b", "merge 'a b' is there already, at {folder}/merges.txt:2; give the two"),
        ("a  b", "'a  b' is no merge, which is two tokens with a space between them; "),
        (" a", "' a' is no merge, "),
    ],
)
def test_wrong_merge_is_named_with_its_line(tmp_path, line, said):
    path = write(tmp_path, merges=[*MERGES, line])
    text = complaint(path)
    assert text.startswith(f"{tmp_path}/merges.txt:5: {said.format(folder=tmp_path)}")
    if "needs" in said:
        assert text.endswith(f"{path} does not have; give the two files of one release")


@pytest.mark.parametrize(
    ("vocab", "said"),
    [
        ('{"a": 0, "b": 0}', "the ids of its 2 tokens are not 0, 1, ...; copy the f"),
        ('{"a": 0, "b": true}', "the ids of its 2 tokens are not 0, 1, ...; copy the"),
        ("{}", "the ids of its 0 tokens are not 0, 1, ...; copy the file again"),
        ('{"a": 0, "b": 1, "a": 2}', "cannot be read ('a' is there twice); copy it"),
        ('["a", "b"]', "the file holds no JSON object; copy it again"),
        ('{"a": 0', "cannot be read ("),
    ],
)
def test_wrong_vocabulary_is_named(tmp_path, vocab, said):
    path = write(tmp_path, vocab, [])
    assert complaint(path).startswith(f"{path}: {said}")


def test_missing_merges_are_named(tmp_path):
    path = write(tmp_path)
    (tmp_path / "merges.txt").unlink()
    text = complaint(path)
    assert text.startswith(f"{tmp_path}/merges.txt: there is no such file")
    assert text.endswith(f"merges of {path}; copy it beside the vocabulary")
    path = write(tmp_path, names=("tokens.json", "merges.txt"))
    assert complaint(path).startswith(
        f"{path}: a vocabulary of byte pairs has a name that ends in encoder.json, "
        "vocab.json, tokenizer.json; rename it"
    )


def test_what_a_tokenizer_needs_besides_its_files(tmp_path):
    path = write(tmp_path, ["a", "b</w>", "ab</w>"], ["a b</w>"])
    with pytest.raises(ValueError, match="3 tokens lacks <unk>; give the one of"):
        opening.open_vocabulary(path)
    path = write(tmp_path, ["<unk>", "b</w>"], [])
    settings = tmp_path / "tokenizer_config.json"  # of earlier versions
    settings.write_text('{"gpt_tokenizer": "hugging_face"}')
    assert opening.open_vocabulary(path).vocab == ["<unk>", "b</w>"]
    settings.write_text('{"gpt_tokenizer": "original"}')
    with pytest.raises(ValueError, match=r"gpt_tokenizer='original'.*openai-gpt"):
        opening.open_vocabulary(path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "2.0"}, "version is '2.0', but GPT and GPT-2 have '1.0'; give a"),
        ({"model__merges": [1]}, "is not laid out as tokenizers 0.23 writes it"),
        ({"model__type": "Unigram"}, "model.type is 'Unigram', but GPT and GPT-2"),
        ({"model__byte_fallback": True}, "model.byte_fallback is True, but GPT and"),
        ({"pre_tokenizer": None}, "pre_tokenizer.type is None, but GPT and GPT-2"),
        ({"normalizer": {"type": "NFC"}}, "normalizer is 'NFC', but GPT and GPT-2"),
        (
            {"added_tokens": [{"id": 9, "content": "a"}]},
            "'a' has the id 9 in added_tokens, and another in model.vocab; give the",
        ),
        ({"model__merges": [["a", "b", "c"]]}, "model.merges[0]: 'a b c' is no merge,"),
        ({"model__merges": ["c b"]}, "model.merges[0]: merge 'c b' needs the token"),
    ],
)
def test_other_tokenizer_is_refused(tmp_path, changes, said):
    path = write_tokenizer(tmp_path, **changes)
    assert complaint(path).startswith(f"{path}: {said}")
