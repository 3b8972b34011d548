"""Tests of data_pipeline/embedding/hard_negatives.py, against a plain loop."""

import numpy as np
import pytest

from contract import errors
from data_pipeline.embedding import hard_negatives, search


def drawn(seed, rows=30, width=8, kinds=20):
    """Pairs of which texts come several times, and vectors, equal where texts are."""
    rng = np.random.default_rng(seed)
    names = [f"text {n}" for n in range(kinds)]
    table = search.normalize(rng.normal(size=(kinds, width)) + 0.8)
    places = rng.integers(kinds, size=(rows, 2))
    places = np.array([(a, b if a != b else (b + 1) % kinds) for a, b in places])
    return [(names[a], names[b]) for a, b in places], table[places]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("margin", [0.0, 0.05, 0.5])
def test_the_nearest_allowed_texts_are_taken(seed, margin):
    texts, vectors = drawn(seed)
    settings = {"margin": margin, "seed": 1}
    actual, by_chance = hard_negatives.mine(texts, vectors, 3, **settings)
    vector_of = {b: v for (_, b), (_, v) in zip(texts, vectors, strict=True)}
    lacking = 0
    for (a, b), (anchor, positive), found in zip(texts, vectors, actual, strict=True):
        own = {a, *(y for x, y in texts if x == a)}
        cosines = {t: anchor @ v for t, v in vector_of.items() if t not in own}
        limit = (1 - margin) * (anchor @ positive)
        near = sorted((t for t in cosines if cosines[t] <= limit), key=cosines.get)
        expected = near[::-1][:3]
        assert list(found[: len(expected)]) == expected
        assert len({*found}) == 3 and own.isdisjoint(found), b
        lacking += 3 - len(expected)
    assert by_chance == lacking
    if margin == 0.5:
        assert lacking > 0  # some are drawn
        others = hard_negatives.mine(texts, vectors, 3, margin=margin, seed=2)[0]
        assert others != actual
    again = hard_negatives.mine(texts, vectors, 3, **settings)
    assert again == (actual, by_chance)


def test_a_margin_keeps_copies_of_the_right_text_out():
    """Another wording of the right text is nearly as near, and no negative."""
    texts = [("a", "right"), ("b", "same in other words"), ("c", "wrong"), ("d", "far")]
    angles = np.array([[0.0, 0.10], [2.0, 0.11], [2.5, 0.8], [1.5, 2.0]])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)
    for margin, expected in ((0.0, "same in other words"), (0.05, "wrong")):
        found, _ = hard_negatives.mine(texts, vectors, 1, margin=margin, seed=1)
        assert found[0] == (expected,)


def test_too_few_texts_are_refused():
    texts, vectors = [("a", "b"), ("a", "c"), ("d", "e")], np.ones([3, 2, 2]) / 2**0.5
    found, _ = hard_negatives.mine(texts, vectors, 1, margin=0.0, seed=1)
    assert found[0] == found[1] == ("e",) and found[2] in (("b",), ("c",))
    with pytest.raises(errors.InputError, match="=2, and there are 1 other texts"):
        hard_negatives.mine(texts, vectors, 2, margin=0.0, seed=1)
