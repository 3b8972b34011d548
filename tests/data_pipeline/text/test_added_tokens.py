"""Tests of data_pipeline/text/added_tokens.py, through the tokenizer."""

import functools
import json

import pytest
import tensorflow as tf

from data_pipeline.squad import choice
from data_pipeline.text import offsets as offsets_lib
from data_pipeline.text import wordpiece
from tests.data_pipeline import word_offsets

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BASE = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS]
BASE += [*(f"##{letter}" for letter in LETTERS), *"ABN新冠-+[]1.", "the", "##ing"]
ADDED = {  # whether looked for in normalized text
    **dict.fromkeys(["covid", "covid-1", "New York", "CoVax", "naïve", "新冠"], True),
    **dict.fromkeys(["C++", "a.b", "##qq"], True),
    **{"[E1]": False, "Ünï": False},
}
# Recorded from tokenizers 0.23.3 (BertTokenizer of transformers 5.23.0): text, and its
# tokens lower-cased and not. Only the library's own special tokens are left out.
RECORDED = [
    ("the covid", "the|covid", "the|covid"),
    (
        "COVIDs precovid-1ing covid-",
        "covid|s|p|##r|##e|covid-1|i|##n|##g|covid|-",
        "[UNK]|p|##r|##e|covid-1|i|##n|##g|covid|-",
    ),
    (
        "New York NEW\tYORK new  york newyork",
        "New York|New York|n|##e|##w|y|##o|##r|##k|n|##e|##w|##y|##o|##r|##k",
        "New York|[UNK]|[UNK]|n|##e|##w|y|##o|##r|##k|n|##e|##w|##y|##o|##r|##k",
    ),
    ("[E1] [e1] x[E1]y", "[E1]|[|[UNK]|]|x|[E1]|y", "[E1]|[|[UNK]|]|x|[E1]|y"),
    ("covax COVAX CoVax", "CoVax|CoVax|CoVax", "c|##o|##v|##a|##x|[UNK]|CoVax"),
    ("NAÏVE naive naïve", "naïve|naïve|naïve", "[UNK]|n|##a|##i|##v|##e|[UNK]"),
    ("a新冠b 新 冠", "a|新冠|b|新|冠", "a|新冠|b|新|冠"),
    ("C++c++ c+", "C++|C++|c|+", "C++|c|+|+|c|+"),
    ("a.b a-b axb", "a.b|a|-|b|a|##x|##b", "a.b|a|-|b|a|##x|##b"),
    ("a##qq ##QQ", "a|##qq|##qq", "a|##qq|[UNK]|[UNK]|[UNK]"),
    ("Ünï ünï uni", "Ünï|u|##n|##i|u|##n|##i", "Ünï|[UNK]|u|##n|##i"),
    ("", "", ""),
    ("covidcovid[E1][E1]", "covid|covid|[E1]|[E1]", "covid|covid|[E1]|[E1]"),
    ("co\u200bvid co\x00vid co\x01vid", "covid|covid|covid", "covid|covid|covid"),
    ("the", "the", "the"),
]


@functools.cache
def tokenizer(lower=True):
    return wordpiece.BertTokenizer([*BASE, *ADDED], lower, ADDED)


def tokens(texts, lower=True, tokenize=None):
    ids = (tokenize or tokenizer(lower).tokenize)(
        tf.constant(texts, tf.string)
    ).to_list()
    return ["|".join(tokenizer(lower).ids_to_tokens(row)) for row in ids]


@pytest.mark.parametrize("lower", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_added_tokens_are_found_as_hugging_face_finds_them(lower):
    texts = [row[0] for row in RECORDED]
    wanted = [row[1 if lower else 2] for row in RECORDED]
    assert tokens(texts, lower) == wanted
    as_graph = tf.function(
        tokenizer(lower).tokenize,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    assert tokens(texts, lower, as_graph) == wanted
    assert tokens([], lower) == []
    encoded = tokenizer(lower).library().encode_batch(texts, add_special_tokens=False)
    rows = [tokenizer(lower).ids_to_tokens(row.ids) for row in encoded]
    assert ["|".join(row) for row in rows] == wanted
    # Without them the same texts are spelled otherwise.
    bare = wordpiece.BertTokenizer([*BASE, *ADDED], lower)
    changed = [
        text
        for text, row in zip(texts, tokens(texts, lower, bare.tokenize), strict=True)
        if row != wanted[texts.index(text)]
    ]
    assert len(changed) >= 8


def test_words_and_offsets_know_added_tokens():
    context = "a covids-x CoVax, the"
    actual = offsets_lib.tokenize(tf.constant([context]), tokenizer())
    points = "".join(map(chr, actual.points.numpy()))
    spans = zip(actual.begins.numpy(), actual.ends.numpy(), strict=True)
    texts = [points[begin:end] for begin, end in spans]
    assert texts == ["a", "covid", "s", "-", "x", "CoVax", ",", "the"]
    words = context.split()
    parts = choice.split_all(words, tokenizer())
    assert parts["covids-x"] == ["covid", "s", "-", "x"]
    assert parts["CoVax,"] == ["covax", ","]
    offsets = word_offsets.Offsets(parts, True)
    assert offsets.text(words[1:2], 1, 1) == "s"
    assert offsets.text(words[1:3], 3, 0) == "x CoVax"
    plain = choice.split_all(words, wordpiece.BertTokenizer(BASE))
    assert plain["covids-x"] == ["covids", "-", "x"]


def write(folder, **files):
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{t}\n" for t in BASE), "utf-8")
    return tmp_path


def opened(folder):
    return wordpiece.BertTokenizer.from_file(str(folder / "vocab.txt"))


SIZE = len(BASE)


def test_file_beside_the_vocabulary_is_read(folder):
    assert opened(folder).added_tokens == {}
    write(
        folder,
        added_tokens={"<y>": SIZE + 1, "[MASK]": 4, "the": SIZE - 2, "<X>": SIZE},
    )
    actual = opened(folder)
    assert actual.vocab == [*BASE, "<X>", "<y>"]
    # [MASK] in a text is four letters in brackets, as in the original.
    assert actual.added_tokens == {"<y>": True, "the": True, "<X>": True}
    ids = actual.tokenize("a<x>[MASK]Xthe").numpy().tolist()
    assert actual.ids_to_tokens(ids)[:4] == ["a", "<X>", "[", "m"]
    assert actual.ids_to_tokens(ids)[-2:] == ["x", "the"]


AS_WRITTEN = {"content": "<X>", "normalized": False}


@pytest.mark.parametrize(
    "files",
    [
        {"special_tokens_map": {"additional_special_tokens": ["<X>"]}},
        {"special_tokens_map": {"additional_special_tokens": [AS_WRITTEN]}},
        {  # the newest counts
            "special_tokens_map": {"additional_special_tokens": []},
            "tokenizer": {"added_tokens": [AS_WRITTEN | {"normalized": True}]},
            "tokenizer_config": {"added_tokens_decoder": {"9": AS_WRITTEN}},
        },
    ],
)
def test_special_tokens_are_found_as_they_are_written(folder, files):
    write(folder, added_tokens={"<X>": SIZE})
    assert opened(folder).added_tokens == {"<X>": True}
    write(folder, **files)
    actual = opened(folder)
    assert actual.added_tokens == {"<X>": False}
    assert actual.tokenize("<X>").numpy().tolist() == [SIZE]
    assert SIZE not in actual.tokenize("<x>").numpy()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"<x>": SIZE + 1}, "the ids of its 1 tokens are not 70, 71, ...; correct t"),
        ({"<x>": -1}, "the ids of its 1 tokens are not 70, 71, ..."),
        ({"<x>": SIZE, "<y>": SIZE}, "the ids of its 2 tokens are not 70, 71, ..."),
        ({"the": SIZE}, "['the'] cannot be added with these ids, because"),
        ({" ": SIZE}, "[' '] cannot be added with these ids, because they are empty"),
        ([], "the file holds no JSON object; copy it again"),
    ],
)
def test_wrong_added_tokens_are_named(folder, content, message):
    assert SIZE == 70
    write(folder, added_tokens=content)
    with pytest.raises(ValueError) as caught:
        opened(folder)
    assert str(caught.value).startswith(f"{folder}/added_tokens.json: {message}")


def test_wrong_settings_are_named(folder):
    write(folder, added_tokens={"<x>": SIZE})
    write(folder, tokenizer={"added_tokens": [{"content": "<x>", "single_word": True}]})
    with pytest.raises(ValueError, match="'<x>' is to match whole words alone"):
        opened(folder)
    entry = {"content": "[MASK]", "lstrip": True}  # no text becomes it here
    write(folder, added_tokens={"<x>": SIZE, "[MASK]": 4})
    write(folder, tokenizer={"added_tokens": [entry]})
    assert opened(folder).added_tokens == {"<x>": True}
    write(folder, tokenizer={"added_tokens": [{**entry, "content": "<x>"}]})
    with pytest.raises(ValueError, match=r"'<x>' is to match.*set lstrip to false"):
        opened(folder)
    for wrong in (["x"], 3):
        write(folder, tokenizer={"added_tokens": wrong})
        with pytest.raises(ValueError, match=r"tokenizer\.json: does not describe tok"):
            opened(folder)


def test_files_give_the_tokenizer_again(tmp_path):
    for name, text in tokenizer().files().items():
        (tmp_path / name).write_text(text, "utf-8")
    again = wordpiece.BertTokenizer.from_file(f"{tmp_path}/vocab.txt")
    assert again.definition() == tokenizer().definition()
    entries = tokenizer().settings()["added_tokens_decoder"]
    assert len(entries) == len(ADDED)
    for token, is_normalized in ADDED.items():
        entry = entries[str(tokenizer().vocab.index(token))]
        assert entry == {
            "content": token,
            "normalized": is_normalized,
            "special": not is_normalized,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
        }
    plain = wordpiece.BertTokenizer(BASE).settings()
    assert plain == {"do_lower_case": True}


def test_rows_are_decoded_with_spaces_between_words():
    ids = tokenizer().tokenize(["The covid-1ing walk", "a b"])
    texts = tokenizer().decode_rows(ids).numpy().tolist()
    assert texts == [b"the covid-1 ing walk", b"a b"]
