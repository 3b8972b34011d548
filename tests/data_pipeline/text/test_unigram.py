"""XLM-RoBERTa's, CamemBERT's, ALBERT's tokens against ids of transformers 5.24.

The vocabularies are made here. Their map of characters has two rules: "Ａ" is "A", and
a no-break space is a space.
"""

import base64
import itertools
import json
import math
import struct

import numpy as np
import pytest
import tensorflow as tf
import tokenizers

from contract import atomic_files, errors
from data_pipeline.batches import packing
from data_pipeline.pretraining import cloze, masking
from data_pipeline.text import offsets, opening, unigram
from loading import model_directory
from modeling.networks import roberta
from tests import daily
from tests.serving import exported_ops

PIECES = [
    "▁the",
    "▁",
    "▁sea",
    "s",
    "e",
    "a",
    "▁is",
    "is",
    "A",
    "B",
    '"',
    "(",
    ",",
    "9,",
]
PIECES += ["▁a", "i", "t", "h", "9", "i\u0307", "σ", "▁▁"]
SCORED = [(piece, -1.0 - n / 8) for n, piece in enumerate(PIECES)]
XLM_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
ALBERT_SPECIAL = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]


def darts(rules):
    """A map of characters as SentencePiece has it: a double array, and what it means.

    A unit of the array is 32 bits: a label and how far its children are, or a place in
    the texts. Here the children of each have 256 units for themselves.
    """
    units, texts = [0] * 256, b""

    def children(node):
        if not units[node] >> 10:
            units[node] |= (len(units) ^ node) << 10
            units.extend([0] * 256)
        return units[node] >> 10 ^ node

    for key, value in rules.items():
        node = 0
        for byte in key.encode():
            node = children(node) + byte
            units[node] |= byte
        units[node] |= 1 << 8  # ends here
        units[children(node)] = len(texts) | 1 << 31
        texts += value.encode() + b"\0"
    array = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(array)) + array + texts


CHARSMAP = darts({"Ａ": "A", "\xa0": " "})


def write_model(path, kind, charsmap=CHARSMAP):
    """A file of SentencePiece, as it trains one."""
    first = ALBERT_SPECIAL if kind == "albert" else ["<unk>", "<s>", "</s>"]
    model = unigram._Model()
    for piece, score in [*((piece, 0.0) for piece in first), *SCORED]:
        types = {**dict.fromkeys(first, 3), "<unk>": 2, "(": 4}
        model.pieces.add(piece=piece, score=score, type=types.get(piece, 1))
    model.normalization.charsmap = charsmap
    path.write_bytes(model.SerializeToString())
    return str(path)


def write_json(path, kind, charsmap=CHARSMAP):
    """A tokenizer.json as transformers 5 writes it; of ALBERT, as its settings are."""
    scored = [[piece, score] for piece, score in SCORED]
    if kind == "albert":
        vocab = [*([piece, 0.0] for piece in ALBERT_SPECIAL), *scored]
    else:
        vocab = [*([piece, 0.0] for piece in XLM_SPECIAL), *scored, ["<mask>", 0.0]]
    encoded = base64.b64encode(charsmap).decode()
    steps = [{"type": "Precompiled", "precompiled_charsmap": encoded}]
    if kind == "albert" and not (path.parent / "tokenizer_config.json").exists():
        steps = [{"type": t} for t in ("NFKD", "StripAccents", "Lowercase")] + steps
    if kind == "albert":
        quotes = ({"String": "``"}, {"String": "''"})
        quotes = ({"type": "Replace", "pattern": q, "content": '"'} for q in quotes)
        steps = [*quotes, *steps]
    cls, sep = (2, 3) if kind == "albert" else (0, 2)
    ends = {"cls": [vocab[cls][0], cls], "sep": [vocab[sep][0], sep]}
    post = {"type": "BertProcessing", **ends}
    if kind != "albert":
        post |= {"type": "RobertaProcessing", "trim_offsets": True}
        post["add_prefix_space"] = True
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    space["split"] = True
    raw = {
        "version": "1.0",
        "added_tokens": [{"id": 1, "content": vocab[1][0]}],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, space],
        },
        "post_processor": post,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab},
    }
    path.write_text(json.dumps(raw), encoding="utf-8")
    return str(path)


def make(directory, kind, lowers=True, name="m.model"):
    return opening.open_vocabulary(write_model(directory / name, kind), lowers)


# {text: (ids of XLM-RoBERTa, of ALBERT, of ALBERT that keeps case and accents)}
RECORDED = {
    "the sea is": ([4, 6, 10], [5, 7, 11], [5, 7, 11]),
    "": ([], [], []),
    " \t\u3000": ([], [], []),
    "The  SEA\xa0s": (
        [5, 3, 21, 8, 5, 3, 12, 5, 7],
        [5, 7, 6, 8],
        [6, 1, 22, 9, 6, 1, 13, 6, 8],
    ),
    "ＡB  ☃☃ ☃x": (
        [5, 12, 13, 5, 3, 5, 3],
        [19, 1, 6, 1, 6, 1],
        [6, 13, 14, 6, 1, 6, 1],
    ),
    "▁a ▁ ▁▁s▁": ([18, 5, 5, 5, 7, 5], [19, 6, 6, 6, 8, 6], [19, 6, 6, 6, 8, 6]),
    "a\x00s \x85sea": ([18, 3, 7, 6], [19, 1, 8, 7], [19, 1, 8, 7]),
    "``sea'' (9, 9,": (
        [5, 3, 7, 8, 9, 3, 5, 15, 17, 5, 17],
        [6, 15, 8, 9, 10, 15, 6, 16, 18, 6, 18],
        [6, 15, 8, 9, 10, 15, 6, 16, 18, 6, 18],
    ),
    "séa İΣ ΑΣ": (
        [5, 7, 3, 9, 5, 3, 5, 3],
        [7, 6, 20, 25, 6, 1, 25],
        [6, 8, 1, 10, 6, 1, 6, 1],
    ),
}
KINDS = {"xlm": True, "albert": True, "cased": False}


def opened(directory, kind, write=write_model):
    if kind == "cased":
        settings = {"keep_accents": True}
        (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    name = "m.model" if write is write_model else "tokenizer.json"
    path = write(directory / name, "xlm" if kind == "xlm" else "albert")
    return opening.open_vocabulary(path, KINDS[kind])


@pytest.mark.parametrize("write", [write_model, write_json])
@pytest.mark.parametrize("kind", daily.params(KINDS, lambda kind: kind == "xlm"))
def test_ids_are_those_of_transformers(tmp_path, kind, write):
    tokenizer = opened(tmp_path, kind, write)
    expected = [ids[list(KINDS).index(kind)] for ids in RECORDED.values()]
    texts = tf.constant(list(RECORDED))
    assert tokenizer.tokenize(texts).to_list() == expected
    spec = tf.TensorSpec([None], tf.string)
    in_graph = tf.function(tokenizer.tokenize, input_signature=[spec])
    assert in_graph(texts).to_list() == expected
    assert tokenizer.do_lower_case == (kind == "albert")
    assert (
        tokenizer.tokenize([b"a\xff s"]).to_list()
        == tokenizer.tokenize(["a\ufffd s"]).to_list()
    )


def test_special_tokens_are_not_recognised_in_texts(tmp_path):
    xlm = make(tmp_path, "xlm")
    assert xlm.vocab == [*XLM_SPECIAL, *PIECES, "<mask>"]
    assert (xlm.start_id, xlm.delimiter_ids, xlm.end_id) == (0, (2, 2), 2)
    assert (xlm.unk_id, xlm.mask_id, xlm.special_ids) == (3, 26, (0, 1, 2, 3, 26))
    assert xlm.tokenize("the sea <s>").numpy().tolist() == [4, 6, 5, 3, 7, 3]
    albert = make(tmp_path, "albert")
    assert albert.vocab == [*ALBERT_SPECIAL, *PIECES]
    assert (albert.start_id, albert.delimiter_ids, albert.end_id) == (2, (3,), 3)
    assert (albert.unk_id, albert.mask_id, albert.mask_token) == (1, 4, "[MASK]")
    for tokenizer, pair in (
        (xlm, [0, 4, 6, 2, 2, 4, 6, 10, 2]),
        (albert, [2, 5, 7, 3, 5, 7, 11, 3]),
    ):
        ids = (tokenizer.tokenize([text]) for text in ("the sea", "the sea is"))
        tokens, _ = packing.pack(*ids, special=tokenizer, max_seq_length=20)
        assert tokens.to_list() == [pair]  # recorded, too


@pytest.mark.parametrize("write", [write_model, write_json])
@pytest.mark.parametrize("kind", daily.params(KINDS, lambda kind: kind == "xlm"))
def test_files_give_the_same_tokenizer(tmp_path, kind, write):
    tokenizer, copy = opened(tmp_path, kind, write), tmp_path / "copy"
    names = {"tokenizer.json", "tokenizer_config.json", "config.json"}
    if write is write_model:
        name = "sentencepiece.bpe.model" if kind == "xlm" else "spiece.model"
        names.add(name)
        assert tokenizer.files()[name] == (tmp_path / "m.model").read_bytes()
    copy.mkdir()
    (copy / "config.json").write_text("{}")
    for name, text in tokenizer.files().items():
        atomic_files.write_text(str(copy / name), text)
    assert {path.name for path in copy.iterdir()} == names
    files = model_directory.locate(copy, needs_all=False)
    assert files.vocab_file.endswith(".model") == (write is write_model)
    assert files.do_lower_case is {"xlm": None, "albert": True, "cased": False}[kind]
    for path in (files.vocab_file, str(copy / "tokenizer.json")):
        read = opening.open_vocabulary(path, KINDS[kind])
        assert read.definition() == tokenizer.definition()
        assert read.settings() == tokenizer.settings()
    library = tokenizers.Tokenizer.from_file(str(copy / "tokenizer.json"))
    texts = ["The sea, \t séa Ａ☃ (9", "", "s"]
    pairs = [tokenizer.tokenize(texts[:2]), tokenizer.tokenize(texts[1:])]
    packed, _ = packing.pack(*pairs, special=tokenizer, max_seq_length=99)
    encoded = library.encode_batch([*itertools.pairwise(texts)])
    assert [each.ids for each in encoded] == packed.to_list()


def test_definitions_tell_vocabularies_apart(tmp_path):
    first = make(tmp_path, "albert").definition()
    path = write_model(tmp_path / "other.model", "albert", darts({"Ｂ": "B"}))
    other = opening.open_vocabulary(path).definition()
    assert first != other and len(first) == len(other)


def test_without_a_map_only_spaces_change(tmp_path):
    path = write_model(tmp_path / "plain.model", "xlm", b"")
    tokenizer = opening.open_vocabulary(path)
    assert tokenizer.tokenize("ＡB\xa0s").numpy().tolist() == [5, 3, 13, 5, 7]


# {text: ids of CamemBERT}; pieces are those of XLM-RoBERTa 3 ids later.
FRENCH = {text: [i + 3 * (i > 3) for i in of[0]] for text, of in RECORDED.items()}


def write_camembert(directory, scored=()):
    """The same file of SentencePiece, and the config by which it is CamemBERT's."""
    path = directory / "sentencepiece.bpe.model"
    (directory / "config.json").write_text('{"model_type": "camembert"}')
    write_model(path, "xlm")
    model = unigram._Model.FromString(path.read_bytes())
    for piece, score in scored:
        model.pieces.add(piece=piece, score=score)
    path.write_bytes(model.SerializeToString())
    return str(path)


def test_camembert_has_four_tokens_of_fairseq_first(tmp_path):
    tokenizer = opening.open_vocabulary(write_camembert(tmp_path))
    first = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"]
    assert tokenizer.vocab == [*first, "<s>", "</s>", *PIECES, "<mask>"]
    assert (tokenizer.start_id, tokenizer.delimiter_ids) == (5, (6, 6))
    assert (tokenizer.unk_id, tokenizer.mask_id) == (3, 29)
    assert tokenizer.special_ids == (*range(7), 29)
    assert tokenizer.tokenize(list(FRENCH)).to_list() == [*FRENCH.values()]
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, text in tokenizer.files().items():
        atomic_files.write_text(str(copy / name), text)
    for name in ("sentencepiece.bpe.model", "tokenizer.json"):
        again = opening.open_vocabulary(str(copy / name))
        assert again.definition() == tokenizer.definition()
        assert again.settings()["tokenizer_class"] == "CamembertTokenizer"
    # Without a word on CamemBERT it is XLM-RoBERTa's.
    (tmp_path / "config.json").write_text("{}")
    other = opening.open_vocabulary(str(tmp_path / "sentencepiece.bpe.model"))
    assert other.vocab == [*XLM_SPECIAL, *PIECES, "<mask>"]


def test_config_that_is_open_already_names_camembert(tmp_path):
    """As a directory is opened, whose config is read once."""
    path = write_camembert(tmp_path)
    files = model_directory.ModelFiles(str(tmp_path / "config.json"), path)
    for model_type, first in (("camembert", 5), ("xlm-roberta", 0)):
        raw = {"model_type": model_type, "vocab_size": 40}
        config = roberta.RobertaConfig.from_dict(raw)
        assert opening.open_tokenizer(files, config).start_id == first


def test_camembert_without_a_normalizer_keeps_characters(tmp_path):
    tokenizer = opening.open_vocabulary(write_camembert(tmp_path))
    raw = json.loads(tokenizer.files()["tokenizer.json"])
    assert raw["normalizer"]
    path = tmp_path / "copy" / "tokenizer.json"
    path.parent.mkdir()
    path.write_text(json.dumps({**raw, "normalizer": None}))
    kept = opening.open_vocabulary(str(path))
    text, ids = "ＡB\xa0s", [8, 3, 16, 8, 10]  # of XLM-RoBERTa without a map, 3 later
    assert kept.tokenize(text).numpy().tolist() == ids
    assert tokenizer.tokenize(text).numpy().tolist() != ids


def test_camembert_avoids_unknown_characters_more(tmp_path):
    """Ids of transformers: its <unk> has 10 less than the -100 of <unk>NOTUSED."""
    pieces = ("x☃y", -10), ("z", -10), ("w", -10), ("x", -0.1), ("yzw", -0.1)
    path = write_camembert(tmp_path, pieces)
    expected = {"camembert": ["▁", "x☃y", "z", "w"], "": ["▁", "x", "<unk>", "yzw"]}
    for name, tokens in expected.items():
        (tmp_path / "config.json").write_text(json.dumps({"model_type": name}))
        tokenizer = opening.open_vocabulary(path)
        ids = tokenizer.tokenize("x☃yzw").numpy()
        assert tokenizer.ids_to_tokens(ids) == tokens


@pytest.mark.parametrize("kind", ["xlm", "albert"])
def test_an_export_has_its_own_operations(tmp_path, kind):
    tokenizer, module = make(tmp_path, kind), tf.Module()
    spec = tf.TensorSpec([None], tf.string)

    @tf.function(input_signature=[spec])
    def answer(texts):
        return {"ids": tokenizer.tokenize(texts).to_tensor(-1)}

    path = str(tmp_path / "export")
    tf.saved_model.save(module, path, {"serving_default": answer})
    loaded = tf.saved_model.load(path).signatures["serving_default"]
    expected = tokenizer.tokenize(list(RECORDED)).to_tensor(-1)
    actual = loaded(tf.constant(list(RECORDED)))["ids"]
    np.testing.assert_array_equal(actual, expected)
    used, compiled = exported_ops.operations(path)
    text_ops = {"SentencepieceOp", "SentencepieceTokenizeOp"}
    text_ops |= {"NormalizeUTF8"} if kind == "albert" else set()
    assert used - exported_ops.ALLOWED == text_ops and not compiled


def test_tokens_stand_for_parts_of_words(tmp_path):
    tokenizer = make(tmp_path, "xlm")
    places = offsets.tokenize(tf.constant(["the 9,☃ seas"]), tokenizer)
    spans = zip(places.begins.numpy(), places.ends.numpy(), strict=True)
    assert tokenizer.ids_to_tokens(places.ids.values.numpy()) == [
        *("▁the", "▁", "9,", "<unk>", "▁sea", "s")
    ]
    assert [(int(a), int(b)) for a, b in spans] == [
        *((0, 3), (4, 6), (4, 6), (6, 7), (8, 11), (11, 12))
    ]
    ids = tokenizer.tokenize(["the 9,s", "s sea"])
    assert tokenizer.decode_rows(ids).numpy().tolist() == [b"the 9,s", b"s sea"]


def test_a_word_begins_with_its_space(tmp_path):
    vocab = masking.MaskingVocab.from_tokenizer(make(tmp_path, "albert"))
    continues = [not piece.startswith("▁") for piece in PIECES]
    assert vocab.is_continuation[5:].tolist() == continues
    assert vocab.special_ids == (0, 1, 2, 3, 4)


def test_masks_are_filled_with_words(tmp_path):
    tokenizer = make(tmp_path, "albert")
    clozes = cloze.encoder(tokenizer, 16, 2)(tf.constant(["the [MASK] is"]))
    assert clozes.features["input_ids"].numpy().tolist() == [[2, 5, 4, 11, 3]]
    logits = tf.one_hot([[7]], tokenizer.vocab_size, 9.0)
    chosen = cloze.chooser(tokenizer, 1)(clozes, logits)
    assert chosen["tokens"].numpy().tolist() == [[["▁sea".encode()]]]
    assert chosen["filled"].numpy().tolist() == [[[b"the sea is"]]]


# Bad input.


def other_type(path):
    model = unigram._Model(pieces=[{"piece": "a"}])
    model.training.model_type = 2
    path.write_bytes(model.SerializeToString())


def other_network(path):
    model = unigram._Model(pieces=[{"piece": piece} for piece in ("<pad>", "</s>")])
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (lambda path: path.write_bytes(b"no model"), "DecodeError"),
        (lambda path: path.write_bytes(b""), "it begins with )"),
        (lambda path: None, "NotFoundError"),
        (other_type, "model_type is 2"),
        (other_network, "it begins with <pad>, </s>"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, write, problem):
    path = tmp_path / "spiece.model"
    write(path)
    with pytest.raises(errors.InputError) as caught:
        opening.open_vocabulary(str(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: is no unigram model of XLM-RoBERTa, CamemBERT")
    assert problem in message and "\n" not in message and "copy it again" in message


@pytest.mark.parametrize(
    "token", [{"id": 1, "content": "new"}, {"id": 99, "content": ""}]
)
def test_added_tokens_that_are_no_pieces_are_refused(tmp_path, token):
    path = write_json(tmp_path / "tokenizer.json", "xlm")
    raw = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    raw["added_tokens"] = [token]
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(errors.InputError, match="is no unigram model"):
        opening.open_vocabulary(path)


# Bytes of a stranger, which SentencePiece takes as they are.


def damaged(charsmap):
    """A map with a child, a text and a size that lie beyond it."""
    size = int.from_bytes(charsmap[:4], "little")
    units = list(struct.unpack_from(f"<{size // 4}I", charsmap, 4))
    texts = charsmap[4 + size :]
    leaf = next(i for i, unit in enumerate(units) if unit >> 31)
    for place, value in ((0, units[0] | 1 << 29), (leaf, len(texts) | 1 << 31)):
        changed = [*units[:place], value, *units[place + 1 :]]
        yield charsmap[:4] + struct.pack(f"<{len(units)}I", *changed) + texts
    yield struct.pack("<I", size + 4) + charsmap[4:]
    yield struct.pack("<I", 1 << 31) + charsmap[4:]
    yield struct.pack("<I", 400) + bytes(range(256)) * 4
    yield b"abc"


@pytest.mark.parametrize("write", [write_model, write_json])
def test_damaged_maps_are_refused_before_they_are_used(tmp_path, write):
    path = tmp_path / ("tokenizer.json" if write is write_json else "m.model")
    for charsmap in damaged(CHARSMAP):
        with pytest.raises(errors.InputError, match="its map is damaged"):
            opening.open_vocabulary(write(path, "xlm", charsmap))
    assert opening.open_vocabulary(write(path, "xlm", CHARSMAP))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda raw: raw["model"]["vocab"][6].__setitem__(1, math.nan), "not finite"),
        (lambda raw: raw["model"]["vocab"][6].__setitem__(0, ""), "a piece is empty"),
        (
            lambda raw: raw["model"]["vocab"][6].__setitem__(0, "s"),
            "a piece is empty, or there twice",
        ),
        (
            lambda raw: raw["normalizer"]["normalizers"][-1].update(
                precompiled_charsmap="!!"
            ),
            "is no unigram model",
        ),
    ],
)
def test_odd_pieces_are_refused(tmp_path, change, problem):
    path = tmp_path / "tokenizer.json"
    write_json(path, "xlm")
    raw = json.loads(path.read_text(encoding="utf-8"))
    change(raw)
    path.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(errors.InputError, match=problem):
        opening.open_vocabulary(str(path))
