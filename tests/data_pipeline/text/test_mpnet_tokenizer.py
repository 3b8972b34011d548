"""MPNet's vocabulary, ids of transformers 5.24, and how it is told from BERT's."""

import json

import pytest

from contract import atomic_files, errors
from data_pipeline.batches import packing
from data_pipeline.pretraining import cloze, masking
from data_pipeline.text import opening, wordpiece

OWN = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sea", "##s", "<", "s"]
WORDS += [">", "[", "]", "mask", "unk"]
VOCAB = [*OWN, *WORDS, "<mask>"]
# Recorded, but for the special tokens, which are characters of a text here.
RECORDED = {
    "The SEA seas": [9, 10, 10, 11],
    "sea moon": [10, 5],
    "[UNK] [MASK]": [15, 18, 16, 15, 17, 16],  # there: 5, 15, 17, 16
    "<s> <mask>": [12, 13, 14, 12, 17, 14],  # there: 0, 19
}
PAIR = [0, 9, 10, 2, 2, 10, 11, 2]  # of "the sea", "seas"


def added(token, place):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": place, "content": token, **flags, "special": True}


def write(directory, is_json):
    directory.mkdir(exist_ok=True)
    settings = {"do_lower_case": True, "tokenizer_class": "MPNetTokenizer"}
    settings |= {"unk_token": "[UNK]", "cls_token": "<s>", "pad_token": "<pad>"}
    settings |= {"sep_token": "</s>", "mask_token": "<mask>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    if not is_json:
        (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCAB))
        return str(directory / "vocab.txt")
    special = [*enumerate(OWN), (5, "[UNK]"), (19, "<mask>")]
    tokens = [added(token, place) for place, token in special]
    tokens[-1]["lstrip"] = True
    post = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 100}
    model["continuing_subword_prefix"] = "##"
    clean = {"clean_text": True, "handle_chinese_chars": True, "lowercase": True}
    raw = {
        "version": "1.0",
        "added_tokens": tokens,
        "normalizer": {"type": "BertNormalizer", "strip_accents": None, **clean},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {**post, "trim_offsets": True, "add_prefix_space": False},
        "model": {**model, "vocab": {token: i for i, token in enumerate(VOCAB)}},
    }
    (directory / "tokenizer.json").write_text(json.dumps(raw))
    return str(directory / "tokenizer.json")


def packed(tokenizer, *texts):
    ids = (tokenizer.tokenize([text]) for text in texts)
    (row,), _ = packing.pack(*ids, special=tokenizer, max_seq_length=20)
    return row.numpy().tolist()


@pytest.mark.parametrize("is_json", [False, True])
def test_ids_are_those_of_transformers(tmp_path, is_json):
    tokenizer = opening.open_vocabulary(write(tmp_path, is_json))
    assert type(tokenizer) is wordpiece.MPNetTokenizer
    assert tokenizer.tokenize(list(RECORDED)).to_list() == [*RECORDED.values()]
    assert (tokenizer.unk_id, tokenizer.mask_id, tokenizer.mask_token) == (
        *(5, 19),
        "<mask>",
    )
    assert tokenizer.special_ids == (0, 1, 2, 5, 19)
    assert packed(tokenizer, "the sea", "seas") == PAIR
    clozes = cloze.encoder(tokenizer, 16, 2)(["the <mask>"])
    assert clozes.features["input_ids"].numpy().tolist() == [[0, 9, 19, 2]]
    vocab = masking.MaskingVocab.from_tokenizer(tokenizer)
    assert vocab.special_ids == (0, 1, 2, 5, 19)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, text in tokenizer.files().items():
        atomic_files.write_text(str(copy / name), text)
    again = opening.open_vocabulary(str(copy / "vocab.txt"))
    assert again.settings() == tokenizer.settings()
    assert again.settings()["tokenizer_class"] == "MPNetTokenizer"
    assert packed(again, "the sea", "seas") == PAIR


def test_added_tokens_and_appended_ones_keep_the_kind(tmp_path):
    path = write(tmp_path, is_json=False)
    (tmp_path / "added_tokens.json").write_text('{"<mask>": 19, "moonlit": 20}')
    tokenizer = opening.open_vocabulary(path)
    assert tokenizer.tokenize(["sea moonlit"]).to_list() == [[10, 20]]
    (tmp_path / "more.txt").write_text("moon\n")
    longer, odd = opening.add_tokens(tokenizer, str(tmp_path / "more.txt"))
    assert type(longer) is wordpiece.MPNetTokenizer and not odd
    assert packed(longer, "sea", "moon") == [0, 10, 2, 2, 21, 2]


def test_berts_vocabulary_with_such_tokens_elsewhere_is_berts(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{t}\n" for t in [*WORDS, *OWN]))
    tokenizer = opening.open_vocabulary(str(tmp_path / "vocab.txt"))
    assert type(tokenizer) is wordpiece.BertTokenizer
    assert packed(tokenizer, "the sea", "seas") == [2, 5, 6, 3, 6, 7, 3]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("unk_token", "<unk>", 'unk_token is "<unk>", and only "\\[UNK\\]" is done'),
        ("cls_token", "[CLS]", 'cls_token is "\\[CLS\\]", and only "<s>" is done'),
        ("tokenizer_class", "MPNetTokenizerOther", "which may cut texts otherwise"),
    ],
)
def test_other_settings_are_refused(tmp_path, key, value, message):
    path = write(tmp_path, is_json=False)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings[key] = value
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(errors.InputError, match=message):
        opening.open_vocabulary(path)
