"""The noise of data_pipeline/pretraining/denoising_batches.py."""

import itertools
import json
import math
import pathlib

import numpy as np
import pytest

from data_pipeline.pretraining import denoising_batches as noise

ROOT = pathlib.Path(__file__).resolve().parents[3]
RECORDED = json.loads((ROOT / "tests/golden/seq2seq/t5_corruption.json").read_text())
ROWS = 20_000


def chance(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


def runs(mask):
    """How many runs of True there are in each row."""
    return (np.diff(np.pad(mask, [(0, 0), (1, 0)]).astype(int), axis=1) == 1).sum(1)


def assert_equally_likely(actual, possible):
    """Rows are the possible ones, each about as often: chi squared, of fixed draws."""
    counts = dict.fromkeys(map(tuple, possible), 0)
    for row in np.asarray(actual).tolist():
        counts[tuple(row)] += 1  # KeyError: one that is not possible
    expected = len(actual) / len(counts)
    squares = sum((count - expected) ** 2 for count in counts.values()) / expected
    freedom = len(counts) - 1
    assert squares < freedom + 5 * math.sqrt(2 * freedom), counts


# Spans.


def test_counts_of_spans_are_those_of_t5():
    for known in RECORDED["random_span_counts"]:
        given = known["density"], known["mean_span"]
        actual = noise.span_counts(np.array([known["length"]]), *given)
        wanted = known["noise_tokens"], known["noise_spans"]
        assert tuple(int(count[0]) for count in actual) == wanted, known


@pytest.mark.parametrize("density", [0.15, 0.5, 0.9])
@pytest.mark.parametrize("mean_length", [1.0, 3.0, 10.0])
def test_random_spans_have_their_counts(density, mean_length):
    lengths = np.arange(60)
    mask = noise.random_spans(lengths, density, mean_length, chance(60, 2, 60))
    tokens, spans = noise.span_counts(lengths, density, mean_length)
    assert mask.sum(axis=1).tolist() == tokens.tolist()
    assert runs(mask).tolist() == spans.tolist()
    for row, length in zip(mask[2:], lengths[2:], strict=True):
        assert not row[0] and row[length - 1] and not row[length:].any()
    assert not mask[:2].any()


def test_random_spans_are_equally_likely():
    possible = []
    for text, hidden in itertools.product(range(1, 5), range(1, 4)):
        lengths = [text, hidden, 5 - text, 4 - hidden]
        possible.append(np.repeat([0, 1, 0, 1], lengths).tolist())
    counts = noise.span_counts(np.array([9]), 0.45, 2.0)
    assert [int(count[0]) for count in counts] == [4, 2]
    mask = noise.random_spans(np.full(ROWS, 9), 0.45, 2.0, chance(ROWS, 2, 9))
    assert_equally_likely(mask.astype(int), possible)
    with pytest.raises(AssertionError):  # the same numbers twice cut both at once
        same = np.repeat(chance(ROWS, 1, 9), 2, axis=1)
        same = noise.random_spans(np.full(ROWS, 9), 0.45, 2.0, same)
        assert_equally_likely(same.astype(int), possible)


def test_row_of_noise_follows_from_its_own_numbers():
    lengths, drawn = np.array([30, 7, 22]), chance(3, 2, 30)
    for make in (noise.random_spans, lambda *a: noise.infilling(*a)[0]):
        whole = make(lengths, 0.3, 3.0, drawn)
        assert np.array_equal(make(lengths[1:], 0.3, 3.0, drawn[1:]), whole[1:])
        assert not np.array_equal(make(lengths[1:], 0.3, 3.0, drawn[:2]), whole[1:])


# Text infilling.


def test_poisson_numbers_have_their_shares():
    evenly = (np.arange(100_000) + 0.5) / 100_000
    for mean in (1.0, 3.0, 100.0):
        shares = np.bincount(noise._poisson(mean, evenly), minlength=200) / 100_000
        for number in range(200):
            log = number * math.log(mean) - mean - math.lgamma(number + 1)
            assert abs(shares[number] - math.exp(log)) < 2e-5


def infilled(length, hidden, lengths, keys):
    """One text after BART's rule, step by step: tokens, and -1 for spans."""
    spans, left = [], hidden
    while left:
        is_last = len(spans) == hidden - 1
        spans.append(left if is_last else min(lengths[len(spans)], left))
        left -= spans[-1]
    places = length - sum(spans) + len(spans)
    is_span = [False] * places
    for place in sorted(range(places), key=lambda i: keys[i])[: len(spans)]:
        is_span[place] = True
    actual, token = [], 0
    for span in is_span:
        actual.append(-1 if span else token)
        token += spans.pop(0) if span else 1
    assert token == length and not spans
    return actual


@pytest.mark.parametrize("mean_length", [1.0, 3.0])
def test_infilling_is_what_is_written_out(mean_length):
    lengths, drawn = np.arange(200) % 41, chance(200, 2, 40)
    tokens, counts = noise.infilling(lengths, 0.3, mean_length, drawn)
    hidden, _ = noise.span_counts(lengths, 0.3, mean_length)
    numbers = noise._poisson(mean_length, drawn[:, 0])
    for row, length in enumerate(lengths):
        wanted = infilled(length, hidden[row], numbers[row], drawn[row, 1])
        assert tokens[row, : counts[row]].tolist() == wanted
    assert (counts <= lengths).all()  # though spans without a token are among them
    assert (numbers[:, :3] == 0).any()


# What replaces noise, by T5's values.

TRANSFORMS = RECORDED["transforms"]
FIRST = RECORDED["first_sentinel"]
UNIQUE = np.arange(FIRST, FIRST - 20, -1)
SAME = np.full(20, FIRST)

# By their names in t5/data/preprocessors.py, of texts and their noise.
NAMED = {
    "noise_span_to_sentinel": lambda t, n: noise.replace_spans(t, n, SAME),
    "nonnoise_span_to_sentinel": lambda t, n: noise.replace_spans(t, ~n, SAME),
    "noise_span_to_unique_sentinel": lambda t, n: noise.replace_spans(t, n, UNIQUE),
    "nonnoise_span_to_unique_sentinel": lambda t, n: noise.replace_spans(t, ~n, UNIQUE),
    "drop_noise_tokens": lambda t, n: noise.keep(t.ids, t.is_real & ~n),
    "drop_nonnoise_tokens": lambda t, n: noise.keep(t.ids, t.is_real & n),
}


def batch(rows, dtype, filling):
    """Rows of several lengths in one array, with something else beyond them."""
    width = max(map(len, rows)) + 2
    actual = [[*row, *[filling] * (width - len(row))] for row in rows]
    return np.array(actual, dtype)


@pytest.fixture(scope="module")
def recorded():
    ids = batch([known["tokens"] for known in TRANSFORMS], np.int32, 7)
    lengths = np.array([len(known["tokens"]) for known in TRANSFORMS])
    is_noise = batch([known["noise"] for known in TRANSFORMS], bool, True)
    return noise.Texts(ids, lengths), is_noise


def rows(texts):
    return [
        row[:length].tolist()
        for row, length in zip(texts.ids, texts.lengths, strict=True)
    ]


@pytest.mark.parametrize("name", NAMED)
def test_transformation_is_that_of_t5(recorded, name):
    actual = NAMED[name](*recorded)
    assert rows(actual) == [known[name] for known in TRANSFORMS]
    assert actual.ids.dtype == np.int32


MASK, FIRST_WORD = 4, 200
ENTRIES = noise.NoiseTokens(MASK, np.arange(199, 99, -1, dtype=np.int32))
WIDTH = 40


def texts_of(lengths, width=WIDTH):
    """Texts of words that tell their place; no two are equal."""
    lengths = np.asarray(lengths)
    ids = FIRST_WORD + np.arange(lengths.size * width).reshape(-1, width) % 800
    return noise.Texts(ids.astype(np.int32), lengths)


def corrupted(name, texts, seed=0, **settings):
    rule = noise.rule(name, **settings)
    random = np.random.default_rng(seed)
    drawn = random.random((len(texts.ids), 2, texts.ids.shape[1]))
    return noise.corrupt(texts, rule, ENTRIES, drawn)


@pytest.fixture(scope="module")
def texts():
    return texts_of(np.arange(300) % (WIDTH + 1))


def test_infilling_has_a_mask_for_each_span(texts):
    source, target = corrupted("infilling", texts)
    masks = [row.count(MASK) for row in rows(source)]
    for row, text in zip(rows(source), rows(target), strict=True):
        words = [word for word in row if word != MASK]
        assert words == [word for word in text if word in set(words)]
        assert len(text) - len(words) == noise.span_counts(len(text), 0.3, 3.0)[0]
    assert max(masks) > 5


@pytest.mark.parametrize("name", noise.NOISE_DENSITY)
@pytest.mark.parametrize("density", [0.15, 0.8])
def test_no_text_is_larger_than_the_sizes_say(name, density):
    for width in (1, 2, 9, WIDTH):
        texts = texts_of([*range(width + 1), *[width] * 200], width)
        source, target = corrupted(name, texts, noise_density=density)
        most = noise.max_lengths(width, noise.rule(name, density))
        assert source.lengths.max() <= most.source
        assert target.lengths.max() <= most.target
        sentinels = [
            sum(100 <= token < FIRST_WORD for token in row)
            for row in (*rows(source), *rows(target))
        ]
        assert max(sentinels) <= most.sentinels
        if name == "random_spans":  # always as many
            assert source.lengths.max() == most.source
            assert target.lengths.max() == most.target
            assert max(sentinels) == most.sentinels


def test_full_inputs_are_those_of_t5():
    others = 0
    for known in RECORDED["span_lengths_for_full_inputs"]:
        rule = noise.rule("random_spans", known["density"], known["mean_span"])
        around = {
            "around_source": known["extra_inputs"],
            "after_target": known["extra_targets"],
        }
        actual = noise.longest_text(known["inputs_length"], rule, **around)
        target = noise.max_lengths(actual, rule).target + known["extra_targets"]
        if (actual, target) == (known["tokens_length"], known["targets_length"]):
            continue
        assert actual == known["tokens_length"] - 1
        there = noise.max_lengths(known["tokens_length"], rule)
        assert there.source + known["extra_inputs"] == known["inputs_length"] + 1
        assert there.sentinels == 1
        others += 1
    assert others == 4


@pytest.mark.parametrize("name", noise.NOISE_DENSITY)
def test_longest_text_fits_and_a_longer_one_does_not(name):
    rule = noise.rule(name)
    for most in (8, 64, 512):
        longest = noise.longest_text(most, rule)
        fits = [
            actual.source + 2 <= most and actual.target + 1 <= most
            for actual in (noise.max_lengths(longest + i, rule) for i in (0, 1))
        ]
        assert fits == [True, False]
    assert longest == (567 if name == "random_spans" else 510)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("random_spans", 0.0), "--noise_density=0.0 makes noise of nothing or of all"),
        (("infilling", 1.0), "give a share such as 0.3"),
        (("random_spans", 0.1, 0.5), "--mean_noise_span_length=0.5 is below 1 token"),
    ],
)
def test_rule_that_cannot_be_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        noise.rule(*given)
    rule = noise.Rule
    assert noise.rule("infilling") == rule("infilling", 0.3, 3.0)
    assert noise.rule("random_spans", 0.5, 10.0) == rule("random_spans", 0.5, 10)
    assert noise.rule("random_spans") == rule("random_spans", 0.15, 3.0)
