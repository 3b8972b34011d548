"""Files of Hugging Face beside a vocabulary, as text/opening.py reads them."""

import json

import pytest
import tensorflow as tf
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from data_pipeline.text import normalization, offsets, opening

LETTERS = "abcdefghijklmnopqrstuvwxyzäé東京.-ÄÉACG\u0301"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS]
VOCAB += [*(f"##{letter}" for letter in LETTERS), "acg", "a-b", "[7]"]
TEXT = "Ära ÉA\u0301 東京a a-b [7] acg"
BERT = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
PIECES = pre_tokenizers.BertPreTokenizer()
FRAME = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))


def library(pieces=PIECES, post_processor=FRAME, model=None, **settings):
    ids = {token: index for index, token in enumerate(VOCAB)}
    made = tokenizers.Tokenizer(
        models.WordPiece(ids, **{"unk_token": "[UNK]", **(model or {})})
    )
    made.normalizer = normalizers.BertNormalizer(**settings)
    made.pre_tokenizer = pieces
    if post_processor:
        made.post_processor = post_processor
    return made


def write(folder, config=None, made=None, network=None):
    """A directory; returns the path of its vocab.txt."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{t}\n" for t in VOCAB), "utf-8")
    for name, raw in (("tokenizer_config", config), ("config", network)):
        if raw is not None:
            (folder / f"{name}.json").write_text(json.dumps(raw))
    if made is not None:
        made.save(str(folder / "tokenizer.json"))
    return str(folder / "vocab.txt")


def pieces(tokenizer, text=TEXT):
    """The tokens by the operations, which `to_ids` returns, too."""
    (ids,) = tokenizer.tokenize([text]).to_list()
    assert tokenizer.to_ids([text]) == [ids]
    return tokenizer.ids_to_tokens(ids)


USUAL = "a ##r ##a e ##a 東 京 a a - b [UNK] [UNK] [UNK] acg"
FOLLOWED = {  # {settings of tokenizer_config.json: (of tokenizer.json, tokens)}
    "{}": ({}, USUAL),
    '{"strip_accents": false}': (
        {"strip_accents": False},
        "ä ##r ##a é ##a ##\u0301 東 京 a a - b [UNK] [UNK] [UNK] acg",
    ),
    '{"tokenize_chinese_chars": false}': (
        {"handle_chinese_chars": False},
        "a ##r ##a e ##a 東 ##京 ##a a - b [UNK] [UNK] [UNK] acg",
    ),
    '{"do_lower_case": false, "strip_accents": true}': (
        {"lowercase": False, "strip_accents": True},
        "A ##r ##a [UNK] 東 京 a a - b [UNK] [UNK] [UNK] acg",
    ),
}


@pytest.mark.parametrize("given", FOLLOWED)
def test_settings_of_both_files_are_followed(tmp_path, given):
    config, (settings, expected) = json.loads(given), FOLLOWED[given]
    lowers = config.get("do_lower_case", True)
    made = library(**{"lowercase": lowers, **settings})
    theirs = made.encode(TEXT, add_special_tokens=False).tokens
    for name, files in (
        ("config", {"config": {**BERT, **config}}),
        ("json", {"made": made}),
        ("both", {"config": {**BERT, **config}, "made": made}),
    ):
        tokenizer = opening.open_vocabulary(write(tmp_path / name, **files), lowers)
        assert pieces(tokenizer) == theirs, name
    assert theirs == expected.split()
    assert (theirs == USUAL.split()) == (given == "{}")
    for name, text in tokenizer.files().items():
        (tmp_path / "again").mkdir(exist_ok=True)
        (tmp_path / "again" / name).write_text(text, "utf-8")
    again = opening.open_vocabulary(str(tmp_path / "again" / "vocab.txt"), lowers)
    assert again.definition() == tokenizer.definition()
    assert (again.definition() == VOCAB) == (given == "{}")


def test_words_end_at_whitespace_alone(tmp_path):
    made = library(pre_tokenizers.WhitespaceSplit(), handle_chinese_chars=False)
    expected = ["a", "##r", "##a", "e", "##a", "東", "##京", "##a", "a-b", "[7]", "acg"]
    assert made.encode(TEXT, add_special_tokens=False).tokens == expected
    whole = {"tokenizer_class": "PreTrainedTokenizerFast"}
    path = write(tmp_path / "json", whole, made)
    assert pieces(opening.open_vocabulary(path)) == expected
    flagged = opening.open_vocabulary(
        write(tmp_path / "flag", BERT), split_words="whitespace"
    )
    assert pieces(flagged) == expected
    # Words of too many characters are unknown, whatever is in them.
    assert pieces(flagged, "a" * 200 + " " + "a-" * 101 + " a")[200:] == ["[UNK]", "a"]
    for text in ("[ 7]", "[MASK] [SEP]", "[ 4]", "[4]"):  # nor become special tokens
        assert pieces(flagged, text) == ["[UNK]"] * len(text.split())
    (tmp_path / "again").mkdir()
    for name, text in flagged.files().items():
        (tmp_path / "again" / name).write_text(text, "utf-8")
    for name in ("vocab.txt", "tokenizer.json"):
        again = opening.open_vocabulary(str(tmp_path / "again" / name))
        assert again.rules == normalization.WordRules(True, True, False, False)
        assert again.definition() == flagged.definition()
    kept = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())
    special = {key: kept[key] for key in kept if key.endswith("_token")}
    kinds = ("pad", "unk", "cls", "sep", "mask")
    assert special == {f"{kind}_token": f"[{kind.upper()}]" for kind in kinds}
    read = tokenizers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))
    assert read.encode(TEXT).tokens == ["[CLS]", *expected, "[SEP]"]
    for length in (200, 201):
        assert ("[UNK]" in read.encode("a" * length).tokens) == (length == 201)
    # The flag goes before the file.
    marks = opening.open_vocabulary(path, split_words="punctuation")
    assert pieces(marks, "a-b") == ["a", "-", "b"]


def test_offsets_and_exports_follow_the_rules(tmp_path):
    path = write(tmp_path / "model", {**BERT, "strip_accents": False})
    tokenizer = opening.open_vocabulary(path, split_words="whitespace")
    places = offsets.tokenize(tf.constant(["Äa 東京 a-b"]), tokenizer)
    spans = [*zip(places.begins.numpy(), places.ends.numpy(), strict=True)]
    assert spans == [(0, 2), (0, 2), (3, 5), (3, 5), (6, 9)]
    module = tf.Module()
    module.cut = tf.function(
        lambda texts: tokenizer.tokenize(texts).to_tensor(-1),
        [tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path / "export"))
    loaded = tf.saved_model.load(str(tmp_path / "export"))
    assert loaded.cut([TEXT]).numpy().tolist() == tokenizer.to_ids([TEXT])


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class is 'BertJap"),
        ({"tokenizer_class": "HerbertTokenizerFast"}, "tokenizer_class is 'Herbert"),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, "tokenizer_class is 'PreTr"),
        ({"tokenizer_class": ["a"]}, "tokenizer_class is"),
        ({**BERT, "do_basic_tokenize": False}, "do_basic_tokenize is false"),
        ({**BERT, "never_split": ["東京"]}, "never_split is"),
        ({**BERT, "unk_token": "<unk>"}, 'unk_token is "<unk>", and only "[UNK]"'),
        ({**BERT, "cls_token": {"content": "<s>"}}, 'cls_token is "<s>"'),
        ({**BERT, "truncation_side": "left"}, "truncation_side is"),
        ({**BERT, "wordpieces_prefix": "@@"}, "wordpieces_prefix is"),
    ],
)
def test_other_settings_are_refused(tmp_path, config, problem):
    path = write(tmp_path / "model", config)
    with pytest.raises(ValueError) as caught:
        opening.open_vocabulary(path)
    assert problem in str(caught.value) and "--nocheck_tokenizer" in str(caught.value)
    assert str(tmp_path / "model") in str(caught.value)
    assert pieces(opening.open_vocabulary(path, checks=False)) == USUAL.split()


def test_usual_settings_are_accepted(tmp_path):
    usual = {
        **BERT,
        "do_basic_tokenize": True,
        "never_split": ["[UNK]", "[MASK]"],
        "unk_token": {"content": "[UNK]", "lstrip": False},
        "strip_accents": None,
        "truncation_side": "right",
        "clean_up_tokenization_spaces": True,
    }
    made = library(lowercase=True)
    made.enable_truncation(128)
    made.enable_padding(length=128)
    made.add_special_tokens(VOCAB[:5])
    path = write(tmp_path / "model", usual, made, {"tokenizer_class": "Phobert"})
    assert pieces(opening.open_vocabulary(path)) == USUAL.split()
    # Where the first file is silent, the config of the network counts.
    del usual["tokenizer_class"]
    path = write(tmp_path / "model", usual, made, {"tokenizer_class": "Phobert"})
    with pytest.raises(ValueError, match="tokenizer_class is 'Phobert'"):
        opening.open_vocabulary(path)


def truncates_left(made):
    made.enable_truncation(128, direction="left")
    return made


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: library(clean_text=False), "normalizer.clean_text is false"),
        (lambda: library(pre_tokenizers.Whitespace()), "pre_tokenizer.type is"),
        (lambda: library(None), "pre_tokenizer.type is null"),
        (lambda: library(post_processor=None), "post_processor puts other special"),
        (
            lambda: library(
                post_processor=processors.BertProcessing(("a", 5), ("b", 6))
            ),
            "post_processor puts other special tokens",
        ),
        (lambda: library(model={"max_input_chars_per_word": 20}), "model.max_input_ch"),
        (lambda: truncates_left(library()), "truncation.direction is"),
    ],
)
def test_other_parts_of_a_tokenizer_json_are_refused(tmp_path, make, problem):
    path = write(tmp_path / "model", BERT, make())
    with pytest.raises(ValueError) as caught:
        opening.open_vocabulary(path)
    assert f"tokenizer.json: {problem}" in str(caught.value)
    assert "--nocheck_tokenizer" in str(caught.value)
    opening.open_vocabulary(path, checks=False)


def test_added_tokens_of_a_tokenizer_json_are_not_dropped(tmp_path):
    made = library()
    made.add_special_tokens(["[MASK]"])
    path = write(tmp_path / "model", BERT, made)
    opening.open_vocabulary(path)
    made.add_tokens(["<new>"])
    path = write(tmp_path / "model", BERT, made)
    with pytest.raises(ValueError, match=r"'<new>'.*--vocab_file=.*tokenizer\.json"):
        opening.open_vocabulary(path)
    whole = opening.open_vocabulary(path.replace("vocab.txt", "tokenizer.json"))
    assert pieces(whole, "a<new>") == ["a", "<new>"]


def change(path, section, **values):
    path = path.parent / "tokenizer.json"
    raw = json.loads(path.read_text())
    raw[section] = {**(raw[section] or {}), **values}
    path.write_text(json.dumps(raw))


@pytest.mark.parametrize(
    ("section", "values", "problem"),
    [
        ("normalizer", {"type": "NFC"}, "normalizer.type is"),
        ("model", {"continuing_subword_prefix": "@@"}, "model.continuing_subword_pre"),
        ("model", {"unk_token": "<unk>"}, "model.unk_token is"),
        ("pre_tokenizer", {"type": "Odd"}, "pre_tokenizer.type is"),
    ],
)
def test_edited_files_are_refused(tmp_path, section, values, problem):
    path = write(tmp_path / "model", BERT, library())
    opening.open_vocabulary(path)
    change(tmp_path / "model" / "x", section, **values)
    with pytest.raises(ValueError, match=problem):
        opening.open_vocabulary(path)


def test_two_files_that_contradict_each_other_are_refused(tmp_path):
    config = {**BERT, "tokenize_chinese_chars": False}
    path = write(tmp_path / "model", config, library(lowercase=True))
    with pytest.raises(
        ValueError, match=r"finds other words, such as '东' where '东京"
    ):
        opening.open_vocabulary(path)
    # --do_lower_case contradicts nothing, and --split_words is meant.
    path = write(tmp_path / "other", BERT, library(lowercase=True))
    assert "A" in pieces(opening.open_vocabulary(path, False), "A")
    assert opening.open_vocabulary(path, split_words="whitespace")


def test_values_that_are_no_switches_are_named(tmp_path):
    for key in ("strip_accents", "tokenize_chinese_chars", "split_words"):
        path = write(tmp_path / key, {**BERT, key: "odd"})
        with pytest.raises(ValueError, match=f"{key} is 'odd'; correct it to"):
            opening.open_vocabulary(path)


def test_odd_entries_of_a_vocabulary_are_named(tmp_path, caplog):
    path = write(tmp_path / "model")
    opening.open_vocabulary(path)
    assert not caplog.records
    with open(path, "a", encoding="utf-8") as file:
        file.write("\u2028\n")  # as a released one has
    opening.open_vocabulary(path)
    assert not caplog.records
    with open(path, "a", encoding="utf-8") as file:
        file.write("\nacg\n")
    tokenizer = opening.open_vocabulary(path)
    assert tokenizer.tokenize("acg").numpy().tolist() == [tokenizer.vocab_size - 1]
    blank, twice = (record.getMessage() for record in caplog.records)
    assert blank.endswith(
        f"vocab.txt:{len(VOCAB) + 2}: the line is blank, and has an id"
    )
    assert twice.endswith("google-research/bert: ['acg', '']")
    with open(path, "a", encoding="utf-8") as file:
        file.write("".join(f"▁{letter}\n" for letter in LETTERS))
    with pytest.raises(ValueError, match=r"SentencePiece .*--nocheck_tokenizer"):
        opening.open_vocabulary(path)
    opening.open_vocabulary(path, checks=False)


@pytest.mark.parametrize("name", ["uncased", "chinese", "cased", "multilingual-cased"])
def test_released_vocabularies_are_quiet(shared_file, name, caplog):
    path = str(shared_file(f"data/vocab/bert-base-{name}-vocab.txt"))
    tokenizer = opening.open_vocabulary(path, name in ("uncased", "chinese"))
    assert not caplog.records
    assert tokenizer.definition() == tokenizer.vocab
    assert tokenizer.settings() == {"do_lower_case": name in ("uncased", "chinese")}


def test_vocabularies_that_differ_are_a_warning(tmp_path, caplog):
    path = write(tmp_path / "model", BERT, library())
    opening.open_vocabulary(path)
    assert not caplog.records
    text = (tmp_path / "model" / "vocab.txt").read_text("utf-8")
    swapped = text.replace("\nb\nc\n", "\nc\nb\n")  # tokens have other ids
    for odd in (swapped, "\n".join(text.split("\n")[:-3])):
        (tmp_path / "model" / "vocab.txt").write_text(odd, "utf-8")
        caplog.clear()
        opening.open_vocabulary(path)
        assert f"{tmp_path}/model/tokenizer.json: 2 tokens of the" in caplog.text
    opening.open_vocabulary(str(tmp_path / "model" / "tokenizer.json"))
    assert len(caplog.records) == 1
