"""Tests of data_pipeline/pretraining/denoising_batches.py."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from data_pipeline.pretraining import denoising_batches

ROOT = pathlib.Path(__file__).resolve().parents[3]
RECORDED = json.loads((ROOT / "tests/golden/seq2seq/t5_corruption.json").read_text())
MASK, FIRST_WORD = 4, 200
ENTRIES = denoising_batches.NoiseTokens(MASK, np.arange(199, 99, -1, dtype=np.int32))
WIDTH = 40


def texts_of(lengths, width=WIDTH):
    """Texts of words that tell their place; no two are equal."""
    lengths = np.asarray(lengths)
    ids = FIRST_WORD + np.arange(lengths.size * width).reshape(-1, width) % 800
    return denoising_batches.Texts(ids.astype(np.int32), lengths)


def corrupted(name, texts, seed=0, **settings):
    rule = denoising_batches.rule(name, **settings)
    random = np.random.default_rng(seed)
    drawn = random.random((len(texts.ids), 2, texts.ids.shape[1]))
    return denoising_batches.corrupt(texts, rule, ENTRIES, drawn)


def rows(texts):
    return [
        row[:length].tolist()
        for row, length in zip(texts.ids, texts.lengths, strict=True)
    ]


@pytest.fixture(scope="module")
def texts():
    return texts_of(np.arange(300) % (WIDTH + 1))


def test_infilling_has_a_mask_for_each_span(texts):
    source, target = corrupted("infilling", texts)
    masks = [row.count(MASK) for row in rows(source)]
    for row, text in zip(rows(source), rows(target), strict=True):
        words = [word for word in row if word != MASK]
        assert words == [word for word in text if word in set(words)]
        assert (
            len(text) - len(words)
            == denoising_batches.span_counts(len(text), 0.3, 3.0)[0]
        )
    assert max(masks) > 5


@pytest.mark.parametrize("name", denoising_batches.NOISE_DENSITY)
@pytest.mark.parametrize("density", [0.15, 0.8])
def test_no_text_is_larger_than_the_sizes_say(name, density):
    for width in (1, 2, 9, WIDTH):
        texts = texts_of([*range(width + 1), *[width] * 200], width)
        source, target = corrupted(name, texts, noise_density=density)
        most = denoising_batches.max_lengths(
            width, denoising_batches.rule(name, density)
        )
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


@pytest.mark.parametrize("density", [0.15, 0.8])
def test_rolled_spans_have_one_run_more(density):
    for width in (1, 2, 9, WIDTH):
        texts = texts_of([*range(width + 1), *[width] * 200], width)
        settings = {"noise_density": density, "roll_noise": True}
        both = corrupted("random_spans", texts, **settings)
        rule = denoising_batches.rule("random_spans", **settings)
        source, target, sentinels = denoising_batches.max_lengths(width, rule)
        still = denoising_batches.max_lengths(
            width, dataclasses.replace(rule, roll_noise=False)
        )
        for rolled, most in zip(both, (source, target), strict=True):
            assert rolled.lengths.max() <= most
            assert rolled.lengths.max() == most or width < WIDTH
        assert sentinels == still.sentinels + (width > 1)


def test_full_inputs_are_those_of_t5():
    others = 0
    for known in RECORDED["span_lengths_for_full_inputs"]:
        rule = denoising_batches.rule(
            "random_spans", known["density"], known["mean_span"]
        )
        around = {
            "around_source": known["extra_inputs"],
            "after_target": known["extra_targets"],
        }
        actual = denoising_batches.longest_text(known["inputs_length"], rule, **around)
        target = (
            denoising_batches.max_lengths(actual, rule).target + known["extra_targets"]
        )
        if (actual, target) == (known["tokens_length"], known["targets_length"]):
            continue
        assert actual == known["tokens_length"] - 1
        there = denoising_batches.max_lengths(known["tokens_length"], rule)
        assert there.source + known["extra_inputs"] == known["inputs_length"] + 1
        assert there.sentinels == 1
        others += 1
    assert others == 4


@pytest.mark.parametrize("name", denoising_batches.NOISE_DENSITY)
def test_longest_text_fits_and_a_longer_one_does_not(name):
    rule = denoising_batches.rule(name)
    for most in (8, 64, 512):
        longest = denoising_batches.longest_text(most, rule)
        fits = [
            actual.source + 2 <= most and actual.target + 1 <= most
            for actual in (
                denoising_batches.max_lengths(longest + i, rule) for i in (0, 1)
            )
        ]
        assert fits == [True, False]
    assert longest == (567 if name == "random_spans" else 510)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("random_spans", 0.0), "--noise_density=0.0 makes noise of nothing or of all"),
        (("infilling", 1.0), "give a share such as 0.3"),
        (
            ("infilling", None, None, True),
            "--roll_noise is for --corruption=random_spans",
        ),
        (("random_spans", 0.1, 0.5), "--mean_noise_span_length=0.5 is below 1 token"),
    ],
)
def test_rule_that_cannot_be_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        denoising_batches.rule(*given)
    rule = denoising_batches.Rule
    assert denoising_batches.rule("infilling") == rule("infilling", 0.3, 3.0)
    assert denoising_batches.rule("random_spans", 0.5, 10.0) == rule(
        "random_spans", 0.5, 10
    )
    assert denoising_batches.rule("random_spans") == rule("random_spans", 0.15, 3.0)
