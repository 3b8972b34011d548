"""data_pipeline/text/elmo.py, and how opening.py opens it.

tests/golden/elmo holds character ids that the original's batcher made of the sentences
beside them.
"""

import json
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from contract import file_names
from data_pipeline.batches import packing
from data_pipeline.text import elmo, normalization, opening

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "elmo"
BATCHES = json.loads((GOLDEN / "sentences.json").read_text("utf-8"))
VOCAB = elmo.read_vocab(str(GOLDEN / "vocab.txt"))
# As the original has them, with one more: after padding come bytes, then these.
BEGIN_SENTENCE, END_SENTENCE, BEGIN, END, FILLING = range(257, 262)
CHARACTERS = {"char_cnn": {"n_characters": 262}, "lstm": {}}


def by_the_rules(word, codes=None):
    """UnicodeCharsVocabulary, one word at a time."""
    codes = [byte + 1 for byte in word.encode()[:48]] if codes is None else codes
    row = [BEGIN, *codes, END]
    return row + [FILLING] * (50 - len(row))


@pytest.fixture(scope="module")
def tokenizer():
    return elmo.ElmoTokenizer(VOCAB)


@pytest.mark.parametrize("network", ["skip", "plain"])
@pytest.mark.parametrize("batch", range(len(BATCHES)))
def test_characters_are_the_originals(tokenizer, network, batch):
    texts = [" ".join(words) for words in BATCHES[batch]]
    packed = packing.pack(
        tokenizer.tokenize(texts), None, special=tokenizer, max_seq_length=40
    )
    inputs = packing.pad(*packed)
    with np.load(GOLDEN / f"{network}.npz") as golden:
        wanted = golden[f"batch{batch}/char_ids"]
        lengths = golden[f"batch{batch}/lengths"]
    assert inputs["input_ids"].dtype == tf.int32
    np.testing.assert_array_equal(inputs["input_ids"], wanted)
    np.testing.assert_array_equal(inputs["input_mask"].numpy().sum(1), lengths + 2)


def test_pair_stands_between_ends_of_sentences(tokenizer):
    ids = [tokenizer.tokenize([text]) for text in ("The sea", "a b c d")]
    tokens, first = packing.pack(*ids, special=tokenizer, max_seq_length=8)
    words = tokenizer.ids_to_tokens(tokens[0].numpy())
    assert words == ["<S>", "The", "sea", "</S>", "a", "b", "c", "</S>"]
    assert first.numpy().tolist() == [4]
    packed = packing.unpad(tokens, first)
    assert packed.tokens.dtype == np.int16 and packed.tokens.shape == (8, 50)
    twice = packing.concatenate([packed, packed])
    assert twice.splits.tolist() == [0, 8, 16]
    assert packing.digest(twice) != packing.digest(packed)
    # Examples of several sequences get one axis more.
    rows = tf.RaggedTensor.from_row_splits(twice.tokens, twice.splits)
    pair = packing.pad(rows, twice.first_lengths, 9, num_sequences=2)
    assert pair["input_ids"].shape == (1, 2, 9, 50)
    assert pair["input_mask"].shape == (1, 2, 9)
    np.testing.assert_array_equal(pair["input_ids"][0, 1, :8], packed.tokens)
    assert not pair["input_ids"].numpy()[:, :, 8].any()


def test_word_is_its_bytes(tokenizer):
    words = ["café", "😀" * 12, "x" * 49, "é" * 30, "\x00a", "[UNK]"]
    ids = tokenizer.tokenize_words(words)
    assert ids.row_lengths().numpy().tolist() == [1] * 6
    assert ids.values.numpy().tolist() == list(map(by_the_rules, words))
    cut = [word.encode()[:48].decode("utf-8", "ignore") for word in words]
    assert tokenizer.ids_to_tokens(ids.values.numpy()) == cut


def test_words_of_a_text_are_those_of_str_split(tokenizer):
    text = " A\tb\xa0c\u3000d\x1ce\u200bf\x85 g\r\n  "
    assert tokenizer.decode(tokenizer.tokenize(text).numpy()) == " ".join(text.split())
    assert tokenizer.tokenize(["", " \t", "\u2028"]).values.shape == (0, 50)


def test_text_that_is_not_tokenised_is_split_at_punctuation(tokenizer):
    text = "It's RED, caf\u00e9! " + "x" * 300
    split = elmo.ElmoTokenizer(VOCAB, "punctuation")
    words = split.ids_to_tokens(split.tokenize(text).numpy())
    assert words == ["It", "'", "s", "RED", ",", "café", "!", "x" * 48]
    assert tokenizer.tokenize(text).shape[0] == 4  # without it
    with pytest.raises(ValueError, match="split_words='no' is unknown; choose one of"):
        elmo.ElmoTokenizer(VOCAB, "no")


def test_ends_of_sentences_in_a_text_are_those_of_the_vocabulary(tokenizer):
    text = "<S> a </S> <s> <UNK>"
    begin, a, end, small, unknown = tokenizer.tokenize(text).numpy().tolist()
    assert begin == by_the_rules("", [BEGIN_SENTENCE]) == tokenizer.start_id.tolist()
    assert end == by_the_rules("", [END_SENTENCE]) == tokenizer.end_id.tolist()
    assert [a, small, unknown] == [by_the_rules(w) for w in ("a", "<s>", "<UNK>")]
    # The twin: without a vocabulary they are characters.
    without = elmo.ElmoTokenizer()
    begin, _, end, *_ = without.tokenize(text).numpy().tolist()
    assert [begin, end] == [by_the_rules("<S>"), by_the_rules("</S>")]


def files(directory, options=None, vocab=None, **settings):
    """A stand-in for model_directory.ModelFiles."""
    (directory / "options.json").write_text(json.dumps(options))
    if vocab is not None:
        (directory / "words.txt").write_text(vocab, encoding="utf-8")
    return types.SimpleNamespace(
        config_file=str(directory / "options.json"),
        vocab_file="" if vocab is None else str(directory / "words.txt"),
        init_checkpoint="",
        do_lower_case=True,
        beside=None,
        **{"split_words": None, **settings},
    )


def config(options):
    """A stand-in for the config of an ELMo, or, without options, of a BERT."""
    spec = types.SimpleNamespace(reads_characters=options is not None)
    return types.SimpleNamespace(spec=spec, to_dict=lambda: options, extra={})


def opened(*arguments, **settings):
    actual = files(*arguments, **settings)
    return opening.open_tokenizer(actual, config(arguments[1]))


def test_options_say_what_is_read(tmp_path):
    short = {"char_cnn": {"max_characters_per_token": 12}, "lstm": {}}
    assert opened(tmp_path, CHARACTERS).token_shape == (50,)
    assert opened(tmp_path, short).tokenize("a" * 20).shape == (1, 12)
    with pytest.raises(ValueError, match="--vocab_file is missing; set it, or"):
        opened(tmp_path, None)


@pytest.mark.parametrize("split", normalization.SPLITS)
def test_stored_files_open_the_same_tokenizer(tmp_path, split):
    vocab = (GOLDEN / "vocab.txt").read_text("utf-8")
    first = opened(tmp_path, CHARACTERS, vocab, split_words=split)
    again = tmp_path / "again"
    again.mkdir()
    for name, text in first.files().items():
        (again / name).write_text(text, encoding="utf-8")
    actual = files(again, CHARACTERS)
    actual.vocab_file = str(again / file_names.VOCAB)
    second = opening.open_tokenizer(actual, config(CHARACTERS))
    assert second.definition() == first.definition()
    text = "the boat, <S>"
    np.testing.assert_array_equal(second.tokenize(text), first.tokenize(text))
    # A flag overrides what is stored; without a vocabulary that lies by the options.
    actual.split_words = normalization.SPLITS[split == normalization.SPLITS[0]]
    other = opening.open_tokenizer(actual, config(CHARACTERS))
    assert other.definition() != first.definition()


@pytest.mark.parametrize(
    ("vocab", "place"),
    [
        ("the\n<S>\n</S>\n<UNK>\n", "'the', '<S>', '</S>'"),
        ("<S>\n</S>\n</S>\n<UNK>\n", "'<S>', '</S>', '</S>'"),
        ("<S>\n</S>\n", "'<S>', '</S>'"),
    ],
)
def test_vocabulary_that_begins_otherwise_is_refused(tmp_path, vocab, place):
    with pytest.raises(ValueError) as caught:
        opened(tmp_path, CHARACTERS, vocab)
    assert f"words.txt: begins with {place}, and" in str(caught.value)
    assert "<S>, </S> and <UNK>" in str(caught.value)


@pytest.mark.parametrize("value", ["x", -1, 10**9])
def test_odd_numbers_of_characters_are_refused(value, tmp_path):
    odd = {"char_cnn": {"max_characters_per_token": value}, "lstm": {}}
    for options in (odd, {"char_cnn": "x", "lstm": {}}):
        with pytest.raises(
            ValueError, match=r"max_characters_per_token is .*; give 50"
        ):
            opened(tmp_path, options)
