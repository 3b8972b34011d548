import numpy as np
import pytest
import tensorflow as tf

from contract import features
from data_pipeline.batches import packing
from data_pipeline.seq2seq import graph
from data_pipeline.text import wordpiece

TOKENS = features.DecoderTokens(start=2, end=3)


def decode(tokenizer, rows, tokens=TOKENS):
    texts = graph.decode(tokenizer, tokens, tf.constant(rows, tf.int32))
    return [text.decode() for text in texts.numpy()]


def spell(tokenizer, *texts):
    return [text.decode() for text in graph.spell(tokenizer, list(texts)).numpy()]


def test_pieces_are_joined_to_words(tokenizer):
    rows = [[9, 11, 12, 8, 10], [4, 13, 6, 5, 6], [1, 12, 1, 11, 3]]
    assert decode(tokenizer, rows) == ["26 - 10", "oneonety twoty", "[UNK] - [UNK]6"]


def test_a_text_ends_at_its_end_token(tokenizer):
    rows = [[8, 3, 9, 9], [3, 8, 8, 8], [8, 9, -1, -1], [-1, 8, 8, 8]]
    assert decode(tokenizer, rows) == ["1", "", "1 2", ""]
    # and no other token ends it
    other = features.DecoderTokens(start=2, end=9, padding=8)
    assert decode(tokenizer, [[4, 8, 3, 4, 9, 4]], other) == ["one [SEP] one"]
    assert decode(tokenizer, [[2, 8, 0, 2, 9, 0]]) == ["1 2"]
    assert decode(tokenizer, [[10, 11, 8]]) == ["06 1"]  # a piece comes first
    assert decode(tokenizer, np.zeros([2, 0])) == ["", ""]


@pytest.mark.parametrize(
    "text", [" ONE  Two\ttwoty", "one-one\n2one 1", "1-\u200d-2", "É 2"]
)
def test_texts_are_spelled_as_they_are_decoded(tokenizer, text):
    wide = wordpiece.BertTokenizer([*tokenizer.vocab, "e"])
    ids = wide.tokenize([text]).to_tensor()
    assert wide.unk_id not in ids.numpy()
    assert decode(wide, ids) == spell(wide, text) != [text]


def test_unknown_words_are_spelled_as_they_are(tokenizer):
    assert spell(tokenizer, "Xyz, one!", "é", "") == ["xyz , one !", "e", ""]
    ids = tokenizer.tokenize(["Xyz one"]).to_tensor()
    assert decode(tokenizer, ids) == ["[UNK] one"] != spell(tokenizer, "Xyz one")


def test_encoding_is_that_of_training(load, tokenizer):
    sources = ["one two two-six", "twenty", "one"]
    text = "".join(f"{source}\t1\n" for source in sources)
    examples = load({"train": text}, lengths=(5, 8))["train"].examples()
    (wanted,) = examples.batches(np.array([[0, 1, 2]], np.int32), None)
    encoded = packing.encode(tokenizer, tf.constant(sources), 5)
    assert set(encoded) == {"input_ids", "input_mask", "segment_ids"}
    for name, value in encoded.items():
        np.testing.assert_array_equal(value, wanted[name])
    assert encoded["input_ids"].numpy()[0].tolist() == [2, 4, 5, 5, 3]
