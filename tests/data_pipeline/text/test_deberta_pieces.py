"""DeBERTa's tokenizer against ids recorded from transformers 5.24 and tokenizers 0.22.

The pieces and the map of characters are those of test_unigram.py.
"""

import base64
import json

import keras
import pytest
import tensorflow as tf
import tokenizers

from contract import atomic_files, errors
from data_pipeline.batches import packing
from data_pipeline.pretraining import cloze
from data_pipeline.text import opening, unigram
from loading import model_directory
from tests.data_pipeline.text import test_unigram

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
# {text: (ids of spm.model alone, of it with both settings, of transformers 4's file)}.
RECORDED = {
    "the sea is": ([4, 6, 10], [4, 6, 10], [4, 6, 10]),
    "": ([], [], []),
    " \t\u3000": ([], [], []),
    "The  SEA\xa0s\n": (
        [5, 3, 21, 8, 5, 3, 12, 3, 7],
        [4, 6, 3, 7],
        [5, 3, 21, 8, 5, 3, 12, 5, 7],
    ),
    "ＡB  ☃☃ ☃x": ([5, 3, 13, 5, 3, 5, 3], [5, 3, 5, 3, 5, 3], [5, 12, 13, 5, 3, 5, 3]),
    "▁a ▁ ▁▁s▁": ([18, 5, 5, 5, 5, 5, 7, 5],) * 3,
    "a\x00s\x01 \x85sea": (
        [18, 3, 7, 3, 6],
        [18, 3, 7, 3, 6],
        [18, 3, 7, 3, 5, 3, 7, 8, 9],
    ),
    "9,sea (9, 9,": (
        [5, 17, 7, 8, 9, 5, 15, 17, 5, 17],
        [5, 22, 5, 16, 6, 5, 5, 15, 5, 22, 5, 16, 5, 22, 5, 16],
        [5, 17, 7, 8, 9, 5, 15, 17, 5, 17],
    ),
    "e\u0301 \u212b\u3000s": ([5, 3, 5, 3, 7], [5, 3, 5, 3, 7], [5, 8, 3, 5, 3, 7]),
}
KINDS = "spm", "both", "four"


def write_model(path):
    """spm.model, whose pieces are those of test_unigram without special ones."""
    model = unigram._Model()
    for piece, score in [*((piece, 0.0) for piece in SPECIAL), *test_unigram.SCORED]:
        types = {**dict.fromkeys(SPECIAL, 3), "[UNK]": 2}
        model.pieces.add(piece=piece, score=score, type=types.get(piece, 1))
    model.normalization.charsmap = test_unigram.CHARSMAP
    path.write_bytes(model.SerializeToString())
    return str(path)


def write_json(path):
    """A tokenizer.json as transformers 4 has written it."""
    encoded = base64.b64encode(test_unigram.CHARSMAP).decode()
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    pieces = [*((piece, 0.0) for piece in SPECIAL), *test_unigram.SCORED]
    each = {"special": True, "normalized": False, "lstrip": False, "rstrip": False}
    each["single_word"] = False
    raw = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": token, **each}
            for i, token in [*enumerate(SPECIAL), (len(pieces), "[MASK]")]
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Strip", "strip_left": True, "strip_right": True},
                {"type": "Precompiled", "precompiled_charsmap": encoded},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            ],
        },
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{**space, "split": True}],
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
            ],
            "special_tokens": {
                token: {"id": token, "ids": [i], "tokens": [token]}
                for i, token in ((1, "[CLS]"), (2, "[SEP]"))
            },
        },
        "model": {"type": "Unigram", "unk_id": 3, "vocab": pieces},
    }
    path.write_text(json.dumps(raw), encoding="utf-8")
    return str(path)


def opened(directory, kind):
    if kind == "four":
        return opening.open_vocabulary(write_json(directory / "tokenizer.json"))
    both = dict.fromkeys(("do_lower_case", "split_by_punct"), kind == "both")
    (directory / "tokenizer_config.json").write_text(json.dumps(both))
    return opening.open_vocabulary(write_model(directory / "spm.model"))


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_transformers(tmp_path, kind):
    tokenizer = opened(tmp_path, kind)
    expected = [ids[KINDS.index(kind)] for ids in RECORDED.values()]
    texts = tf.constant(list(RECORDED))
    assert tokenizer.tokenize(texts).to_list() == expected
    spec = tf.TensorSpec([None], tf.string)
    assert tf.function(tokenizer.tokenize, [spec])(texts).to_list() == expected
    # The parts of a marked word, and what is no character, are unknown alone.
    assert tokenizer.tokenize("\ufffe").numpy().tolist() == [5, 3]


def test_special_tokens_frame_texts_and_are_not_recognised_in_them(tmp_path):
    tokenizer = opened(tmp_path, "spm")
    assert tokenizer.vocab == [*SPECIAL, *test_unigram.PIECES, "[MASK]"]
    assert (tokenizer.start_id, tokenizer.end_id, tokenizer.unk_id) == (1, 2, 3)
    assert (tokenizer.mask_id, tokenizer.special_ids) == (26, (0, 1, 2, 3, 26))
    assert tokenizer.tokenize("the [SEP]").numpy().tolist() == [4, 5, 3]
    ids = (tokenizer.tokenize([text]) for text in ("the sea", "the sea is"))
    tokens, _ = packing.pack(*ids, special=tokenizer, max_seq_length=20)
    assert tokens.to_list() == [[1, 4, 6, 2, 4, 6, 10, 2]]  # recorded, too


def test_masks_are_filled_with_words(tmp_path):
    tokenizer = opened(tmp_path, "spm")
    clozes = cloze.encoder(tokenizer, 16, 2)(tf.constant(["the [MASK] is"]))
    assert clozes.features["input_ids"].numpy().tolist() == [[1, 4, 26, 10, 2]]
    logits = tf.one_hot([[6]], tokenizer.vocab_size, 9.0)
    chosen = cloze.chooser(tokenizer, 1)(clozes, logits)
    assert chosen["filled"].numpy().tolist() == [[[b"the sea is"]]]


@pytest.mark.parametrize("kind", KINDS)
def test_files_give_the_same_tokenizer(tmp_path, kind):
    tokenizer, copy = opened(tmp_path, kind), tmp_path / "copy"
    copy.mkdir()
    (copy / "config.json").write_text("{}")
    for name, text in tokenizer.files().items():
        atomic_files.write_text(str(copy / name), text)
    files = model_directory.locate(copy, needs_all=False)
    assert files.vocab_file.endswith("spm.model") == (kind != "four")
    for path in (files.vocab_file, str(copy / "tokenizer.json")):
        read = opening.open_vocabulary(path)
        assert read.definition() == tokenizer.definition()
        assert read.settings() == tokenizer.settings()
    library = tokenizers.Tokenizer.from_file(str(copy / "tokenizer.json"))
    encoded = library.encode_batch(list(RECORDED), add_special_tokens=False)
    assert [each.ids for each in encoded] == tokenizer.tokenize(
        list(RECORDED)
    ).to_list()


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"added_tokens.json": {"[MASK]": 27}}, "IndexError"),
        ({"added_tokens.json": {"sea": 6}}, "'sea' is no piece"),
        ({"tokenizer_config.json": {"add_prefix_space": False}}, "add_prefix_space"),
        (
            {"tokenizer.json": {"normalizer": {"type": "NFD"}, "model": {}}},
            "finds other",
        ),
    ],
)
def test_what_is_not_done_is_refused(tmp_path, files, problem):
    path = write_model(tmp_path / "spm.model")
    assert opening.open_vocabulary(path).vocab_size == 27
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(errors.InputError) as refused:
        opening.open_vocabulary(path)
    assert problem in str(refused.value)


def test_a_cleared_session_of_keras_leaves_a_tokenizer_as_it_was(tmp_path):
    tokenizer = opened(tmp_path, "four")
    before = tokenizer.tokenize(list(RECORDED)).to_list()
    keras.utils.clear_session(free_memory=True)
    assert tokenizer.tokenize(list(RECORDED)).to_list() == before
