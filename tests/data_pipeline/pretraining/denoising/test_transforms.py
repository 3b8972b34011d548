"""Tests of data_pipeline/pretraining/denoising/transforms.py, by T5's values."""

import json
import pathlib

import numpy as np
import pytest

from data_pipeline.pretraining.denoising import noise

ROOT = pathlib.Path(__file__).resolve().parents[4]
RECORDED = json.loads((ROOT / "tests/golden/seq2seq/t5_corruption.json").read_text())
KNOWN = RECORDED["transforms"]
FIRST = RECORDED["first_sentinel"]
UNIQUE = np.arange(FIRST, FIRST - 20, -1)
SAME = np.full(20, FIRST)

# By their names in t5/data/preprocessors.py, of texts and their noise.
NAMED = {
    "noise_token_to_sentinel": lambda t, n: noise.replace(t, n, FIRST),
    "noise_span_to_sentinel": lambda t, n: noise.replace_spans(t, n, SAME),
    "nonnoise_span_to_sentinel": lambda t, n: noise.replace_spans(t, ~n, SAME),
    "noise_span_to_unique_sentinel": lambda t, n: noise.replace_spans(t, n, UNIQUE),
    "nonnoise_span_to_unique_sentinel": lambda t, n: noise.replace_spans(t, ~n, UNIQUE),
    "drop_noise_tokens": noise.drop_noise,
    "drop_nonnoise_tokens": lambda t, n: noise.drop_noise(t, ~n),
}


def batch(rows, dtype, filling):
    """Rows of several lengths in one array, with something else beyond them."""
    width = max(map(len, rows)) + 2
    found = [[*row, *[filling] * (width - len(row))] for row in rows]
    return np.array(found, dtype)


@pytest.fixture(scope="module")
def recorded():
    ids = batch([known["tokens"] for known in KNOWN], np.int32, 7)
    lengths = np.array([len(known["tokens"]) for known in KNOWN])
    is_noise = batch([known["noise"] for known in KNOWN], bool, True)
    return noise.Texts(ids, lengths), is_noise


def rows(texts):
    return [
        row[:length].tolist()
        for row, length in zip(texts.ids, texts.lengths, strict=True)
    ]


@pytest.mark.parametrize("name", NAMED)
def test_transformation_is_that_of_t5(recorded, name):
    found = NAMED[name](*recorded)
    assert rows(found) == [known[name] for known in KNOWN]
    assert found.ids.dtype == np.int32


def test_transformations_differ(recorded):
    """So none of them passes for another one."""
    found = [str(rows(make(*recorded))) for make in NAMED.values()]
    assert len(set(found)) == len(NAMED)


def test_transformation_leaves_its_texts_alone(recorded):
    texts, is_noise = recorded
    ids, mask = texts.ids.copy(), is_noise.copy()
    for make in NAMED.values():
        make(texts, is_noise)
    assert np.array_equal(texts.ids, ids) and np.array_equal(is_noise, mask)


def test_too_few_sentinels_are_an_error(recorded):
    with pytest.raises(IndexError):
        noise.replace_spans(*recorded, UNIQUE[:1])
