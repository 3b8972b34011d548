"""serving/plain_texts.py against the tokenizer in the graph."""

import json
import random

import numpy as np
import pytest

from data_pipeline.classification import encoding, labels
from data_pipeline.text import normalization, wordpiece
from serving import export, plain_texts

LENGTH = 24
CHARACTERS = [chr(code) for code in range(0x300)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make(directory, *, lower=True, has_pairs=False, vocab=None, **settings):
    """The encoder in the graph, and the PlainTexts of its file; None without one."""
    vocab = vocab or SPECIAL + CHARACTERS + [f"##{char}" for char in CHARACTERS]
    words = settings.pop("added", None), settings.pop("rules", None)
    tokenizer = wordpiece.BertTokenizer(vocab, lower, *words)
    encoder = encoding.Encoder(tokenizer, LENGTH, has_pairs=has_pairs, **settings)
    module = export.ServedModel(())
    module.encoder = encoder
    plain_texts.write(module, str(directory))
    if not (directory / "tokenizer.json").exists():
        return encoder, None
    names = list(encoder.text_names)
    return encoder, plain_texts.PlainTexts(str(directory), names, None)


def assert_equal(encoder, plain, *columns):
    arrays = {
        name: np.array([text.encode() for text in column], object)
        for name, column in zip(encoder.text_names, columns, strict=True)
    }
    actual, expected = plain.encode(arrays), encoder.served(*columns)
    assert actual.keys() == expected.keys()
    for name, values in expected.items():
        assert actual[name].dtype == np.int32
        np.testing.assert_array_equal(actual[name], values, err_msg=name)


@pytest.mark.parametrize("lower", [True, False])
def test_texts_are_cut_as_in_the_graph(tmp_path, lower):
    encoder, plain = make(tmp_path, lower=lower)
    rng = random.Random(3)
    lines = [f"{char} {char}{char} a{char}b" for char in CHARACTERS]
    lines += [
        "".join(rng.choices(CHARACTERS, k=rng.randrange(12))) for _ in range(3000)
    ]
    lines += ["", " ", "[CLS] [MASK] a", "##a a##b", "a" * 199, "b" * 200, "c" * 201]
    lines += ["x " * 40, "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}" * 200]
    assert_equal(encoder, plain, lines)
    for line in lines[-9:]:
        assert_equal(encoder, plain, [line])


def test_pairs_are_cut_as_in_the_graph_or_there(tmp_path):
    encoder, plain = make(tmp_path, has_pairs=True)
    assert_equal(encoder, plain, ["ab", "", "é" * 9, "a"], ["c d", "", "a" * 12, ""])
    long = {"text_a": np.array(["a" * 12], object)}
    assert plain.encode({**long, "text_b": np.array(["b" * 10], object)}) is None


@pytest.mark.parametrize("text", ["Σ", "a\u0301", "東京", b"\xff"])
def test_other_characters_are_left_to_the_graph(tmp_path, text):
    _, plain = make(tmp_path)
    assert plain.encode({"text": np.array(["a", text], object)}) is None
    assert plain.encode({"text": np.array([], object)}) is None
    assert plain.encode({"text": np.array(["a", "\u02ff"], object)}) is not None


def test_an_id_beyond_the_vocabulary_is_refused(tmp_path):
    make(tmp_path)
    path = tmp_path / "tokenizer.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["model"]["vocab"]["##a"] = 10**6
    path.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(ValueError, match=r"it has an id of 1000000.*export the model"):
        plain_texts.PlainTexts(str(tmp_path), ["text"], None)


@pytest.mark.parametrize("values", [(1, 0, 0, 1), (0, 1, 1, 1)])
def test_other_rules_of_words_are_in_the_file(tmp_path, values):
    rules = normalization.WordRules(*map(bool, values))
    encoder, plain = make(tmp_path, rules=rules)
    lines = [f"{char} a{char}b ({char})" for char in CHARACTERS]
    assert_equal(encoder, plain, lines)
    usual, _ = make(tmp_path, lower=rules.lowers)
    assert usual.tokenizer.to_ids(lines) != encoder.tokenizer.to_ids(lines)


def test_other_tokenizers_and_choices_have_no_file(tmp_path):
    vocab = [*SPECIAL, "a", "new"]
    assert make(tmp_path, vocab=vocab, added={"new": False})[1] is None
    orders = labels.Labels(("x", "y"), pair_input="both_orders")
    assert make(tmp_path, has_pairs=True, label_set=orders)[1] is None
    rules = normalization.WordRules(True, True, False, False)
    assert make(tmp_path, rules=rules)[1] is None
    assert make(tmp_path, vocab=vocab)[1] is not None
