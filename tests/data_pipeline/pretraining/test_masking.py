"""Hidden tokens: which, how many, and what stands in their place."""

import dataclasses
import itertools
import random
import zlib

import numpy as np
import pytest

from contract import features
from data_pipeline.pretraining import masking
from data_pipeline.text import wordpiece

PAD, UNK, CLS, SEP, MASK = range(5)
# Whole words are 5..99, continuations 100..149.
VOCAB_SIZE = 150
PIECES = masking.MaskingVocab(CLS, SEP, MASK, VOCAB_SIZE, np.arange(VOCAB_SIZE) >= 100)
KINDS = list(masking.GROUP_LENGTHS)


def pair(rng, width, share=0.3):
    """A packed pair of random tokens, some of them continuations; a list."""

    def tokens(count):
        return [
            rng.randrange(100, 150) if rng.random() < share else rng.randrange(5, 100)
            for _ in range(count)
        ]

    first = rng.randint(1, width - 4)
    second = rng.randint(1, width - 3 - first)
    return [CLS, *tokens(first), SEP, *tokens(second), SEP]


def padded(sequences, width=None):
    lengths = np.array([len(sequence) for sequence in sequences])
    input_ids = np.zeros((len(sequences), width or lengths.max()), np.int32)
    for row, sequence in zip(input_ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return input_ids, lengths


def mask(sequences, kind="word_piece", prob=0.15, limit=20, seed=0, width=None):
    """The arrays of `masking.mask`, and the original ids."""
    input_ids, lengths = padded(sequences, width)
    before = input_ids.copy()
    rule = masking.Rule(kind, prob, limit)
    rng = np.random.default_rng(seed)
    draws = masking.draw(input_ids.shape, rule, PIECES, rng)
    actual = masking.mask(input_ids, lengths, rule, PIECES, draws)
    assert np.array_equal(input_ids, before)
    return actual, before


def positions_of(actual):
    """The chosen positions of each row, as lists."""
    weights = actual[features.MASKED_LM_WEIGHTS]
    return [
        row[: int(weight.sum())].tolist()
        for row, weight in zip(
            actual[features.MASKED_LM_POSITIONS], weights, strict=True
        )
    ]


def words_of(sequence):
    """Positions of each word, in the original's way: ## goes with what was before."""
    words = []
    for i, token in enumerate(sequence):
        if token in (CLS, SEP):
            continue
        if PIECES.is_continuation[token] and words:
            words[-1].append(i)
        else:
            words.append([i])
    return words


def number_to_predict(length, prob, limit):
    return min(limit, max(1, round(length * prob)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("prob", "limit"), [(0.15, 20), (0.5, 7), (1.0, 80)])
def test_every_row_follows_the_rules(kind, prob, limit):
    rng = random.Random(1)
    sequences = [pair(rng, rng.choice([5, 9, 30, 64])) for _ in range(400)]
    actual, before = mask(sequences, kind, prob, limit, width=64)
    ids, places = actual[features.MASKED_LM_IDS], actual[features.MASKED_LM_POSITIONS]
    weights, after = actual[features.MASKED_LM_WEIGHTS], actual[features.INPUT_IDS]
    assert {array.dtype.str for array in (ids, places, after)} == {"<i4"}
    assert weights.dtype == np.float32 and weights.shape == (400, limit)
    restored = after.copy()
    for i, (sequence, chosen) in enumerate(
        zip(sequences, positions_of(actual), strict=True)
    ):
        wanted = number_to_predict(len(sequence), prob, limit)
        words, count = words_of(sequence), len(chosen)
        assert count <= wanted
        assert chosen == sorted(set(chosen))
        assert all(before[i, place] not in (PAD, CLS, SEP) for place in chosen)
        assert weights[i].tolist() == [1.0] * count + [0.0] * (limit - count)
        assert not places[i, count:].any() and not ids[i, count:].any()
        assert ids[i, :count].tolist() == before[i, chosen].tolist()
        restored[i, chosen] = ids[i, :count]
        if kind == "word_piece":
            assert count == min(wanted, len(sequence) - 3)
            continue
        is_chosen = [set(word) <= set(chosen) for word in words]
        assert sum(len(w) for w, c in zip(words, is_chosen, strict=True) if c) == count
        # Nothing that would have fitted is left out, not even of a run.
        left = [len(w) for w, c in zip(words, is_chosen, strict=True) if not c]
        assert all(count + size > wanted for size in left)
    assert np.array_equal(restored, before)
    assert not np.array_equal(after, before)  # there was something to restore


# Checksums of masks, drawn one after another as runs have always drawn them: a resumed
# run has to see the masks that it would have seen. Those of span and ngram are recorded
# since runs of words tile a row as a ring: earlier ones hid too few tokens, and the
# ends of a row twice as often as its middle.
RECORDED = {
    "word_piece": 2982464486,
    "whole_word": 370561716,
    "span": 7641151,
    "ngram": 3243456659,
}


@pytest.mark.parametrize("kind", KINDS)
def test_masks_are_those_of_earlier_versions(kind):
    sequences = [pair(random.Random(i), 40) for i in range(20)]

    def checksum(seed):
        actual, _ = mask(sequences, kind, 0.3, 8, seed=seed)
        return zlib.crc32(b"".join(actual[name].tobytes() for name in sorted(actual)))

    assert checksum(5) == RECORDED[kind] != checksum(6)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_of_some_rows_are_those_of_all(kind):
    sequences = [pair(random.Random(i), 40) for i in range(24)]
    input_ids, lengths = padded(sequences)
    rule = masking.Rule(kind, 0.3, 8)
    draws = masking.draw(input_ids.shape, rule, PIECES, np.random.default_rng(5))

    def masked(rows, drawn):
        return masking.mask(
            input_ids[rows], lengths[rows], rule, PIECES, draws.take(drawn)
        )

    whole = masked(slice(None), slice(None))
    for rows in (slice(0, 8), slice(8, 16), slice(16, 24), slice(5, 6)):
        actual = masked(rows, rows)
        assert all(np.array_equal(actual[name], whole[name][rows]) for name in whole)
        others = masked(rows, slice(1, 1 + len(actual["input_ids"])))  # of other rows
        assert not np.array_equal(others["input_ids"], actual["input_ids"])


# Appendix C.2 of the paper tries these, too; here [MASK], any entry, unchanged.
@pytest.mark.parametrize(
    "proportions", [masking.PROPORTIONS, (1, 0, 0), (0.8, 0, 0.2), (0, 1, 0), (0, 0, 1)]
)
def test_proportions_say_what_stands_in_place_of_the_chosen(proportions):
    sequences = [pair(random.Random(i), 60) for i in range(1000)]
    input_ids, lengths = padded(sequences)
    usual = masking.Rule("word_piece", 0.3, 20)
    rule = dataclasses.replace(usual, proportions=proportions)
    draws = masking.draw(input_ids.shape, rule, PIECES, np.random.default_rng(3))
    actual = masking.mask(input_ids, lengths, rule, PIECES, draws)
    same_choice = masking.mask(input_ids, lengths, usual, PIECES, draws)
    for name in {*actual} - {features.INPUT_IDS}:
        np.testing.assert_array_equal(actual[name], same_choice[name])
    chosen = actual[features.MASKED_LM_WEIGHTS] > 0
    places = actual[features.MASKED_LM_POSITIONS]
    now = np.take_along_axis(actual[features.INPUT_IDS], places, 1)[chosen]
    true, drawn = actual[features.MASKED_LM_IDS][chosen], draws.entries[chosen]
    is_mask, is_any, is_same = now == MASK, now == drawn, now == true
    assert np.all(is_mask | is_any | is_same)
    for is_this, share in zip((is_mask, is_any, is_same), proportions, strict=True):
        error = 4 * 0.5 / len(now) ** 0.5
        # Two of them are the same now and then: by chance one in VOCAB_SIZE.
        assert share - error <= is_this.mean() <= share + error + 1 / VOCAB_SIZE
    assert is_mask.all() == (proportions == (1, 0, 0))
    assert is_any.all() == (proportions == (0, 1, 0))
    assert is_same.all() == (proportions == (0, 0, 1))


def test_rounding_gives_no_entry_where_none_is_wanted():
    rule = masking.Rule("word_piece", 1.0, 1, (0.7, 0.0, 0.3))
    fate = np.nextafter(np.float32(1), np.float32(0))
    draws = masking.Draws(
        *(None, np.zeros((1, 3), np.uint32)),
        *(np.full((1, 1), fate), np.full((1, 1), 99, np.int32)),
    )
    actual = masking.mask(np.array([[CLS, 7, SEP]]), [3], rule, PIECES, draws)
    assert actual[features.INPUT_IDS].tolist() == [[CLS, 7, SEP]]
    assert actual[features.MASKED_LM_IDS].tolist() == [[7]]


def test_whole_words_are_drawn_as_the_original_draws_them():
    sequence = [CLS, 7, 8, 101, 9, 102, 103, SEP, 10, 104, 11, SEP]
    wanted, count = 3, 20000
    actual, _ = mask([sequence] * count, "whole_word", 0.25)
    ours = {}
    for chosen in map(tuple, positions_of(actual)):
        ours[chosen] = ours.get(chosen, 0) + 1
    theirs, rng = {}, random.Random(3)
    for _ in range(count):
        words, chosen = words_of(sequence), []
        rng.shuffle(words)
        for word in words:
            if len(chosen) + len(word) <= wanted:
                chosen += word
        chosen = tuple(sorted(chosen))
        theirs[chosen] = theirs.get(chosen, 0) + 1
    assert ours.keys() == theirs.keys() and len(ours) > 5
    for chosen, times in theirs.items():
        assert abs(ours[chosen] - times) < 4 * (2 * times) ** 0.5


def test_word_goes_on_across_a_separator():
    # B begins in the middle of a word: the original counts it to the last one of A.
    sequence = [CLS, 7, 8, SEP, 101, 102, 9, SEP]
    actual, _ = mask([sequence] * 300, "whole_word", 0.375)  # 3 tokens
    chosen = {tuple(row) for row in positions_of(actual)}
    assert chosen == {(2, 4, 5), (1, 6)}
    # A continuation in the beginning is a word of its own.
    actual, _ = mask([[CLS, 101, 102, 7, SEP]] * 300, "whole_word", 0.4)  # 2 tokens
    assert {tuple(row) for row in positions_of(actual)} == {(1, 2), (3,)}


# --- Runs of words.


def test_runs_of_three_words_tile_the_ring_of_words(monkeypatch):
    monkeypatch.setitem(masking.GROUP_LENGTHS, "span", (0.0, 0.0, 1.0))
    sequence = [CLS, 7, 8, 101, 9, 10, SEP, 11, 102, 12, 13, SEP]
    words = [(1,), (2, 3), (4,), (5,), (7, 8), (9,), (10,)]
    expected = set()
    for first in range(7):
        ring = words[first:] + words[:first]
        runs = [ring[:3], ring[3:6], ring[6:]]
        for order in itertools.permutations(runs):
            chosen = []  # of 5 tokens, as long as whole words fit
            for word in itertools.chain(*order):
                chosen += word if len(chosen) + len(word) <= 5 else ()
            expected.add(tuple(sorted(chosen)))
    actual, _ = mask([sequence] * 3000, "span", 0.4)
    assert {tuple(row) for row in positions_of(actual)} == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [32, 128, pytest.param(512, marks=pytest.mark.slow)])
def test_every_place_is_hidden_as_often(kind, width, rows=20000):
    """Shares at the first, a middle and the last word, within a point of the share.

    A share of 20,000 rows has a standard deviation of .25 points.
    """
    sequence = [CLS, *[7] * (width - 2), SEP]
    input_ids, lengths = padded([sequence] * rows)
    limit = number_to_predict(width, 0.15, 100)
    rule = masking.Rule(kind, 0.15, limit)
    draws = masking.draw(input_ids.shape, rule, PIECES, np.random.default_rng(1))

    def shares():
        actual = masking.mask(input_ids, lengths, rule, PIECES, draws)
        assert np.all(actual[features.MASKED_LM_WEIGHTS] == 1)  # all that was asked
        places = actual[features.MASKED_LM_POSITIONS].ravel()
        return np.bincount(places, minlength=width)[[1, 2, width // 2, -3, -2]] / rows

    share = limit / (width - 2)
    np.testing.assert_allclose(shares(), share, atol=0.01)
    if kind != "span" or width > 32:
        return
    draws.run_lengths[:, -1] = 0  # every row's first word begins a run
    assert shares()[0] > share + 0.02


# --- What is known of a vocabulary.


def test_special_entries_are_not_drawn():
    vocab = dataclasses.replace(PIECES, special_ids=(0, 3, VOCAB_SIZE - 1))
    rule = masking.Rule("word_piece", 0.15, 20)
    draws = masking.draw((500, 64), rule, vocab, np.random.default_rng(1))
    assert {*draws.entries.ravel()} == {*range(VOCAB_SIZE)} - {*vocab.special_ids}


def test_characters_for_words_are_warned_of(caplog):
    vocab = ["[UNK]", "[CLS]", "[SEP]", "a", "##京", "京都", "京", "\u3400", "\u9fff"]
    tokenizer = wordpiece.BertTokenizer(vocab)
    masking.warn_of_characters(np.array([3, 4, 5, 6, 7, 8]), tokenizer)  # half of them
    masking.warn_of_characters(np.array([], int), tokenizer)
    assert caplog.text == ""
    masking.warn_of_characters(np.array([3, 6, 7, 8]), tokenizer)
    assert "--masking=whole_word: 75 % of the tokens are Chinese" in caplog.text


def test_pieces_of_a_tokenizer():
    vocab = ["[PAD]", "[CLS]", "a", "##b", "[SEP]", "#", "##", "[UNK]", "[MASK]"]
    pieces = masking.MaskingVocab.from_tokenizer(wordpiece.BertTokenizer(vocab))
    assert (pieces.cls_id, pieces.sep_id, pieces.mask_id) == (1, 4, 8)
    assert pieces.vocab_size == 9
    assert np.flatnonzero(pieces.is_continuation).tolist() == [3, 6]
    with pytest.raises(ValueError, match=r"8 tokens lacks \[MASK\]; give"):
        masking.MaskingVocab.from_tokenizer(wordpiece.BertTokenizer(vocab[:-1]))
