"""RoBERTa's tokenizer against ids recorded from transformers 5.24, and its packing."""

import json

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import packing
from data_pipeline.classification import encoding, predictions
from data_pipeline.extraction import lines
from data_pipeline.pretraining import cloze, masking
from data_pipeline.pretraining.creation import blocks
from data_pipeline.squad import files as squad_files
from data_pipeline.squad import graph, windows
from data_pipeline.tagging import windows as sentence_windows
from data_pipeline.text import byte_pairs, offsets, opening
from serving import export, plain_texts
from tests import tokenizer_files

PAIRS = "Ġ t,h e,Ġt he,Ġ s,e a,Ġs ea,Ã ©,i s,Ġ is,Ġ Ġ"
MERGES = [pair.split() for pair in PAIRS.split(",")]
VOCAB = ["<s>", "<pad>", "</s>", "<unk>", *byte_pairs.BYTE_CHARS]
VOCAB += [*("".join(pair) for pair in MERGES), "<mask>"]
MASK = VOCAB.index("<mask>")
# {text: (ids, ids with add_prefix_space)}, of RobertaTokenizer on these files
RECORDED = {
    "the sea": ([120, 261, 265], [262, 265]),
    "The  sea is": ([88, 261, 36, 265, 268], [36, 88, 261, 36, 265, 268]),
    "": ([], []),
    " the": ([262], [262]),
    "the\n\nsea's été": (
        [120, 261, 14, 14, 119, 264, 43, 119, 36, 266, 120, 266],
        [262, 14, 14, 119, 264, 43, 119, 36, 266, 120, 266],
    ),
    "\ufffd é▁": (
        [243, 195, 193, 36, 266, 230, 154, 133],
        [36, 243, 195, 193, 36, 266, 230, 154, 133],
    ),
}
PAIR = [0, 120, 261, 265, 2, 2, 267, 262, 2]  # of "the sea" and "is the"


def make(adds_space=False):
    return byte_pairs.RobertaTokenizer(
        VOCAB, [tuple(pair) for pair in MERGES], adds_space
    )


@pytest.fixture(scope="module")
def tokenizer():
    return make()


def write_json(path, adds_space):
    """What transformers 5 writes."""
    added = [VOCAB[i] for i in (0, 1, 2, 3, MASK)]
    raw = tokenizer_files.of_bytes(VOCAB, MERGES, added, adds_space)
    path.write_text(json.dumps(raw), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("adds_space", [False, True])
@pytest.mark.parametrize("runs", [tf.identity, tf.function])
def test_ids_are_those_of_transformers(adds_space, runs):
    tokenizer = make(adds_space)
    texts = tf.constant([*RECORDED, b"\xff \xc3\xa9\xe2\x96\x81"])
    expected = [ids[adds_space] for ids in RECORDED.values()]
    tokenize = tokenizer.tokenize
    if runs is tf.function:
        tokenize = tf.function(
            tokenize, input_signature=[tf.TensorSpec([None], tf.string)]
        )
    assert tokenize(texts).to_list() == [*expected, expected[-1]]


def test_special_tokens_are_in_the_vocabulary_and_not_in_texts(tokenizer):
    assert (tokenizer.start_id, tokenizer.delimiter_ids, tokenizer.end_id) == (
        0,
        (2, 2),
        2,
    )
    assert (tokenizer.document_end_id, tokenizer.unk_id, tokenizer.mask_id) == (
        2,
        3,
        MASK,
    )
    assert tokenizer.with_special_tokens() is tokenizer
    ids = tokenizer.tokenize("<s><mask></s><pad><unk>").numpy()
    assert len(ids) == 23 and not np.isin(ids, tokenizer.special_ids).any()


@pytest.mark.parametrize("adds_space", [False, True])
def test_files_give_the_same_tokenizer(tmp_path, adds_space):
    for name, text in make(adds_space).files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {
        "vocab.json",
        "merges.txt",
        "tokenizer_config.json",
    }
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config.pop("mask_token")["lstrip"]
    assert config == {
        "tokenizer_class": "RobertaTokenizer",
        "add_prefix_space": adds_space,
    }
    written = opening.open_vocabulary(str(tmp_path / "vocab.json"))
    assert isinstance(written, byte_pairs.RobertaTokenizer)
    assert written.definition() == make(adds_space).definition()
    assert written.definition() != make(not adds_space).definition()
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(ValueError, match=r"merges.txt: there is no such file.*copy it"):
        opening.open_vocabulary(str(tmp_path / "vocab.json"))


@pytest.mark.parametrize("adds_space", [False, True])
def test_tokenizer_json_alone_is_enough(tmp_path, adds_space):
    path = write_json(tmp_path / "tokenizer.json", adds_space)
    opened = opening.open_vocabulary(path)
    assert opened.definition() == make(adds_space).definition()
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    assert opening.open_vocabulary(path).adds_space  # what from_pretrained takes


def test_tags_of_html_make_no_roberta(tmp_path):
    merges = [("<", "s"), ("<s", ">"), ("<", "/"), ("</", "s"), ("</s", ">")]
    html = [*byte_pairs.BYTE_CHARS, *map("".join, merges)]
    for name, text in byte_pairs.Gpt2Tokenizer(html, merges).files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    opened = opening.open_vocabulary(str(tmp_path / "vocab.json"))
    assert type(opened) is byte_pairs.Gpt2Tokenizer


# Packing: two delimiters between two texts.


def pack(tokenizer, first, second, length):
    ids = (tokenizer.tokenize([text]) for text in (first, second))
    tokens, lengths = packing.pack(*ids, special=tokenizer, max_seq_length=length)
    return tokens.to_list()[0], lengths.numpy()[0]


def test_pairs_have_four_special_tokens(tokenizer):
    assert pack(tokenizer, "the sea", "is the", 20) == (PAIR, 6)
    assert pack(tokenizer, "the sea", "is the", 9) == (PAIR, 6)
    assert pack(tokenizer, "the sea", "is the", 8) == (
        [0, 120, 261, 2, 2, 267, 262, 2],
        5,
    )
    assert pack(tokenizer, "the", "sea", 4) == ([0, 2, 2, 2], 3)
    assert packing.num_special(tokenizer, is_pair=True) == 4
    assert packing.num_special(tokenizer, is_pair=False) == 2
    encode = encoding.Encoder(tokenizer, 8, has_pairs=True)
    assert encode.pack(["the sea", "t"], ["is the", "s"]).num_truncated == 1
    packed = lines.pack([("the sea", "is the"), ("the sea", "")], tokenizer, 8)
    assert packed.num_truncated == 1 and packed.tokens[8:].tolist() == [
        0,
        120,
        261,
        265,
        2,
    ]


def test_weights_of_delimiters_are_no_weights_of_words(tokenizer):
    tokens = tokenizer.ids_to_tokens(PAIR)
    words = predictions.word_weights(tokens, np.arange(9.0), second=6)
    assert words == [["t", 1], ["he", 2], ["Ġsea", 3], ["is", 6], ["Ġthe", 7]]


def test_windows_of_contexts_leave_room_for_four(tokenizer):
    limits = {"max_seq_length": 9, "doc_stride": 2, "max_query_length": 2}
    question, context = "the", "the sea is the sea."
    questions = squad_files.Questions(
        path="",
        ids=["q"],
        texts=[question],
        contexts=[context],
        context_index=np.array([0]),
        answer_words=None,
        answer_texts=None,
        answer_starts=None,
        is_version_2=False,
        is_impossible=None,
    )
    made = windows.make_windows(questions, tokenizer, **limits)
    served = graph.encoder(tokenizer, **limits)(
        tf.constant([question]), tf.constant([context])
    )
    rows = [
        [0, 120, 261, 2, 2, 262, 265, 268, 2],
        [0, 120, 261, 2, 2, 268, 262, 265, 2],
        [0, 120, 261, 2, 2, 265, 50, 2],
    ]
    assert np.split(made.packed.tokens, made.packed.splits[1:-1])[2].tolist() == rows[2]
    assert served.features["input_ids"].numpy().tolist() == [*rows[:2], [*rows[2], 0]]
    np.testing.assert_array_equal(made.packed.tokens, np.concatenate(rows))
    assert made.excerpt_lengths.tolist() == [3, 3, 2]
    with pytest.raises(ValueError, match=r"outside 0\.\.4; .*--max_seq_length=9"):
        windows.check_lengths(tokenizer, 9, 2, 5)


def test_tokens_stand_for_parts_of_words(tokenizer):
    places = offsets.tokenize(tf.constant(["the sea's été"]), tokenizer)
    spans = zip(places.begins.numpy(), places.ends.numpy(), strict=True)
    assert [(int(a), int(b)) for a, b in spans] == [
        *((0, 3), (4, 7), (7, 8), (8, 9)),
        *((10, 11), (10, 11), (11, 12), (12, 13)),  # the space belongs to what follows
    ]


def test_a_word_without_tokens_is_unknown(tokenizer):
    pieces = tokenizer.tokenize_words(["sea", ""])[:, :1]
    pieces = tf.concat([pieces[:1], pieces[:0], tf.ragged.constant([[]], tf.int32)], 0)
    cut = sentence_windows.cut(pieces, tf.constant([0, 0], tf.int64), tokenizer, 4, 2)
    assert cut.tokens.numpy().tolist() == [265, 3]


# Pretraining.


def test_masks_hide_whole_words_and_draw_no_special_token(tokenizer):
    vocab = masking.MaskingVocab.from_tokenizer(tokenizer)
    assert (vocab.cls_id, vocab.sep_id, vocab.mask_id) == (0, 2, MASK)
    assert vocab.special_ids == (0, 1, 2, 3, MASK)
    rule = masking.Rule("whole_word", 0.4, 3, (0.0, 1.0, 0.0))
    draws = masking.draw((4000, 8), rule, vocab, np.random.default_rng(1))
    assert set(draws.entries.ravel().tolist()) == {*range(4, MASK)}
    ids = np.array([[0, 120, 261, 265, 36, 119, 264, 2]] * 8, np.int32)  # the sea sea
    chosen = masking.mask(ids, [8] * 8, rule, vocab, draws.take(slice(8)))
    positions = {tuple(row) for row in chosen["masked_lm_positions"].tolist()}
    assert positions == {(1, 2, 3), (4, 5, 6)} or positions <= {
        (1, 2, 3),
        (3, 4, 5),
        (4, 5, 6),
    }


def test_blocks_stand_between_the_ends(tokenizer):
    special = blocks.SpecialTokens.from_tokenizer(tokenizer)
    assert (special.end_id, special.cls_id, special.sep_id) == (2, 0, 2)


def test_masks_take_the_space_before_them(tokenizer):
    encode = cloze.encoder(tokenizer, 16, 2)
    texts = ["the <mask> sea", "<mask> sea", "the<mask>\u2003<mask>", "the"]
    clozes = encode(tf.constant(texts))
    assert clozes.features["input_ids"].numpy().tolist() == [
        [0, 120, 261, MASK, 265, 2],
        [0, MASK, 265, 2, 0, 0],
        [0, 120, 261, MASK, MASK, 2],
        [0, 120, 261, 2, 0, 0],
    ]
    assert clozes.starts.numpy().tolist() == [4, 0, 3, 10]
    logits = np.zeros((4, 2, len(VOCAB)), np.float32)
    logits[..., VOCAB.index("Ġis")], logits[..., VOCAB.index("is")] = 3, 2
    chosen = cloze.chooser(tokenizer, 2)(clozes, tf.constant(logits))
    assert chosen["tokens"].numpy()[0, 0].tolist() == ["Ġis".encode(), b"is"]
    assert chosen["filled"].numpy()[:2, 0].tolist() == [
        [b"the is sea", b"theis sea"],
        [b"is sea", b"is sea"],
    ]
    assert chosen["filled"].numpy()[2, 1].tolist() == [b"the<mask> is", b"the<mask>is"]


# Outside TensorFlow.


@pytest.mark.parametrize("adds_space", [False, True])
def test_the_library_cuts_as_the_graph(tmp_path, adds_space):
    encoder = encoding.Encoder(make(adds_space), 12, has_pairs=True)
    module = export.ServedModel(())
    module.encoder = encoder
    plain_texts.write(module, str(tmp_path))
    plain = plain_texts.PlainTexts(str(tmp_path), ["text_a", "text_b"], None)
    columns = ["the sea", "", " été\n"], ["is the", "sea", "s"]
    arrays = dict(zip(plain._text_names, map(np.array, columns), strict=True))
    actual, expected = plain.encode(arrays), encoder.served(*columns)
    for name, values in expected.items():
        np.testing.assert_array_equal(actual[name], values, err_msg=name)
    if not adds_space:
        assert actual["input_ids"][0].tolist() == [*PAIR, 0]
    long = {"text_a": np.array(["abcdefg"]), "text_b": np.array(["xyz"])}
    assert plain.encode(long) is None


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_file_may_leave_the_space_before_a_mask_alone(tmp_path, is_whole):
    path = write_json(tmp_path / "tokenizer.json", False)
    usual = opening.open_vocabulary(path)
    raw = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    (entry,) = (each for each in raw["added_tokens"] if each["content"] == "<mask>")
    assert usual.mask_takes_space and entry.get("lstrip", True)
    entry["lstrip"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw), "utf-8")
    tokenizer = opening.open_vocabulary(path)
    if not is_whole:  # as a conversion writes it
        for name, text in tokenizer.files().items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        tokenizer = opening.open_vocabulary(str(tmp_path / "vocab.json"))
    assert not tokenizer.mask_takes_space
    assert tokenizer.definition() != usual.definition()
