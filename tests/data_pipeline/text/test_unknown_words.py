"""Unknown words of a text, as data_pipeline/text/base.py counts them."""

import numpy as np
import pytest

from data_pipeline.text import byte_pairs, wordpiece

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)


def test_special_tokens_are_no_words():
    ids = np.array([2, 4, 1, 3, 2, 4, 3, 4, 3], np.int32)
    assert TOKENIZER.count_unknown(ids) == (1, 4)
    assert TOKENIZER.count_unknown(()) == (0, 0)
    spells_all = byte_pairs.Gpt2Tokenizer([*byte_pairs.BYTE_CHARS], [])
    assert spells_all.count_unknown(ids) == (0, 0)


def describe(unknown, total, **attributes):
    tokenizer = wordpiece.BertTokenizer(VOCAB)
    for name, value in attributes.items():
        setattr(tokenizer, name, value)
    return tokenizer.describe_unknown("dev.tsv", (unknown, total))


@pytest.mark.parametrize(
    ("unknown", "total", "text", "is_warned"),
    [
        (0, 1000, "", False),
        (1, 1000, ", 0.1 % [UNK]", False),
        (50, 1000, ", 5 % [UNK]", False),
        (51, 1000, ", 5.1 % [UNK]", True),
        (500, 1000, ", 50 % [UNK]", True),
        (99, 99, ", 100 % [UNK]", False),
    ],
)
def test_shares_are_printed_or_warned_of(caplog, unknown, total, text, is_warned):
    assert describe(unknown, total) == text
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == is_warned
    assert all(f"dev.tsv: {unknown / total:.0%} of {total}" in text for text in warned)


def test_mostly_unknown_texts_are_refused():
    with pytest.raises(ValueError, match=r"dev.tsv: 86% of 1000 .*--nocheck_tokenizer"):
        describe(860, 1000)
    assert describe(860, 1000, refuses_unknown=False) == ", 86 % [UNK]"
