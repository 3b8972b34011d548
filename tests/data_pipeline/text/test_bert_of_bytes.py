"""Byte pairs with BERT's special tokens, as ModernBERT's: ids are the library's."""

import json
import unicodedata

import pytest
import tensorflow as tf
import tokenizers

from contract import errors
from data_pipeline.text import byte_pairs, opening

MERGES = [pair.split() for pair in ("Ġ t", "h e", "Ġt he", "s e", "se a", "Ġ sea")]
SPACES = ["    ", "   ", "  "]
TEXTS = [
    "the sea  the    sea     a\n\n  sea\t\tthe ",
    unicodedata.normalize("NFD", "café Å 한국어 Tiếng Việt"),
    "ﬁ \u212b \u0344 e\u0301\u0323 don't I'LL 42",
    "mail|||EMAIL|||the sea<|padding|>the [unused1] [unused9]",
    "",
    "🙂👨‍👩‍👧 \u00a0\u3000\u2028x",
]


def write(directory, **changes):
    """A tokenizer.json as ModernBERT's; `changes` are of the object."""
    tokens = [*byte_pairs.BYTE_CHARS, *map("".join, MERGES)]
    plain = ["|||EMAIL|||", *SPACES, "[unused0]", "[unused1]"]
    special = ["<|padding|>", "<|endoftext|>", *byte_pairs.OF_BERT]
    ids = {token: i for i, token in enumerate([*tokens, *plain, *special])}
    none = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    added = [
        {
            **none,
            "id": ids[token],
            "content": token,
            "normalized": token in plain,
            "special": token in special,
            "lstrip": token == "[MASK]",
        }
        for token in (*plain, *special)
    ]
    ends = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}
    first, last = ({"SpecialToken": {"id": end, "type_id": 0}} for end in ends)
    a, b = ({"Sequence": {"id": side, "type_id": 0}} for side in "AB")
    raw = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, a, last],
            "pair": [first, a, last, b, last],
            "special_tokens": ends,
        },
        "decoder": None,
        "model": {
            "type": "BPE",
            "vocab": {token: i for token, i in ids.items() if token in tokens},
            "merges": MERGES,
        },
        **changes,
    }
    path = directory / "tokenizer.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "mask_token": "[MASK]"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return str(path)


def expected(path):
    library = tokenizers.Tokenizer.from_file(path)
    rows = library.encode_batch(TEXTS, add_special_tokens=False)
    return [row.ids for row in rows]


@pytest.mark.slow
def test_ids_are_those_of_the_library_in_graphs_and_eagerly(tmp_path):
    path = write(tmp_path)
    tokenizer = opening.open_vocabulary(path)
    assert tokenizer.to_ids(TEXTS) == expected(path)
    graph = tf.function(tokenizer.tokenize, [tf.TensorSpec([None], tf.string)])
    assert graph(tf.constant(TEXTS)).to_list() == expected(path)
    assert tokenizer.tokenize(TEXTS[1:2]).to_list() == expected(path)[1:2]
    # Without its normalizer ids differ.
    plain = tmp_path / "plain"
    plain.mkdir()
    plain = write(plain, normalizer=None)
    assert opening.open_vocabulary(plain).to_ids(TEXTS) == expected(plain)
    assert expected(plain)[1] != expected(path)[1]


def test_special_tokens_frame_texts_and_come_from_none(tmp_path):
    tokenizer = opening.open_vocabulary(write(tmp_path))
    tokens = tokenizer.ids_to_tokens(
        [tokenizer.cls_id, *tokenizer.delimiter_ids, tokenizer.end_id]
    )
    assert tokens == ["[CLS]", "[SEP]", "[SEP]"]
    assert tokenizer.mask_takes_space and tokenizer.vocab[tokenizer.mask_id] == "[MASK]"
    text = "a[SEP] [MASK]<|endoftext|>"
    (ids,) = tokenizer.to_ids([text])
    assert max(ids) < 256 and tokenizer.decode(ids) == text


def test_files_open_to_the_same_tokenizer(tmp_path):
    first = opening.open_vocabulary(write(tmp_path))
    directory = tmp_path / "again"
    directory.mkdir()
    for name, text in first.files().items():
        (directory / name).write_text(text, encoding="utf-8")
    path = str(directory / "tokenizer.json")
    again = opening.open_vocabulary(path)
    assert type(again) is byte_pairs.BertOfBytesTokenizer
    assert again.definition() == first.definition() and again.mask_takes_space
    assert again.to_ids(TEXTS) == expected(path) == first.to_ids(TEXTS)
    library = tokenizers.Tokenizer.from_file(path)
    ids = [first.cls_id, *first.to_ids(["the sea"])[0], first.end_id]
    assert library.encode("the sea").ids == ids
    mask = library.encode("a [MASK]", add_special_tokens=False).ids
    assert mask == [*first.to_ids(["a"])[0], first.mask_id]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": {"type": "NFKC"}}, "normalizer is 'NFKC'"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "pre_tokenizer.type is 'Metaspace'"),
    ],
)
def test_other_settings_are_refused(changes, message, tmp_path):
    with pytest.raises(errors.InputError, match=message):
        opening.open_vocabulary(write(tmp_path, **changes))
