"""Tests of data_pipeline/pretraining/cloze_table.py, by the text that comes out."""

import numpy as np
import pytest

from data_pipeline.pretraining import cloze_table

PIECES = "the cat play ##ed ##ing a|b sat on mat"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES.split()]
IDS = {token: i for i, token in enumerate(VOCAB)}


def ids(text, length=10):
    found = [IDS[token] for token in text.split()]
    return found + [0] * (length - len(found))


@pytest.fixture
def features():
    return {
        "input_ids": np.array(
            [
                ids("[CLS] the [MASK] sat on the [MASK] [SEP]"),
                ids("[CLS] the cat play [MASK] [SEP] a|b [SEP]"),
                ids("[CLS] the cat sat [SEP]"),  # predicted, but not hidden
            ]
        ),
        "masked_lm_positions": np.array([[2, 6, 0], [4, 0, 0], [2, 0, 0]]),
        "masked_lm_ids": np.array(
            [[IDS["cat"], IDS["mat"], 0], [IDS["##ed"], 0, 0], [IDS["cat"], 0, 0]]
        ),
        "masked_lm_weights": np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0]], np.float32),
    }


@pytest.fixture
def predicted():
    """Two predictions at each place: the one with the id of the place, and `mat`."""
    best = np.zeros((3, 3, 2), np.int32)
    best[..., 0] = IDS["##ing"]
    best[..., 1] = IDS["mat"]
    best[1, 0, 1] = IDS["##ed"]
    return {"ids": best, "probabilities": np.tile([0.756, 0.043], (3, 3, 1))}


def test_table_shows_context_truth_and_predictions(features, predicted):
    assert cloze_table.table(features, predicted, VOCAB).splitlines() == [
        "| text | hidden | predicted |",
        "|---|---|---|",
        r"| the \[MASK\] sat on the \[\_\_\_\_\] \[SEP\] | mat "
        r"| \#\#ing 76 %, **mat 4 %** |",
        r"| the cat play\[\_\_\_\_\] \[SEP\] a\|b \[SEP\] | \#\#ed "
        r"| \#\#ing 76 %, **\#\#ed 4 %** |",
    ]


def test_table_has_at_most_so_many_rows(features, predicted):
    text = cloze_table.table(features, predicted, VOCAB, limit=1)
    assert len(text.splitlines()) == 3
    # And none where the vocabulary knows no mask.
    others = [token.replace("[MASK]", "[HIDE]") for token in VOCAB]
    assert len(cloze_table.table(features, predicted, others).splitlines()) == 2


def test_rows_of_the_table_beyond_the_vocabulary_are_numbers(features, predicted):
    predicted["ids"][0, 1, 0] = 40
    assert r"\[40\] 76 %" in cloze_table.table(features, predicted, VOCAB)


def test_choice_is_the_middle_hidden_token(features):
    chosen = cloze_table.choose(features, IDS["[MASK]"])
    assert chosen == [(0, 1), (1, 0)]
    features["masked_lm_weights"][0, 1] = 0.0
    chosen = cloze_table.choose(features, IDS["[MASK]"])
    assert chosen == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("[CLS] the cat play ##ed on", 4, "the cat play[____] on"),
        ("[CLS] the cat play ##ed on", 3, "the cat [____]ed on"),
        ("[CLS] the cat play ##ed on", 1, "[____] cat played ..."),
        ("[CLS] the cat sat on the mat [SEP] [PAD]", 5, "... sat on [____] mat [SEP]"),
        ("[CLS] the cat sat on the mat [SEP] [PAD]", 1, "[____] cat sat ..."),
    ],
)
def test_context_is_words_on_both_sides(text, position, expected):
    assert cloze_table.context(text.split(), position, 2) == expected
