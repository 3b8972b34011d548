"""Temperature, top-k and top-p against GPT-2's own sampler, and draws by their seed."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.generation import sampling

Sampling = sampling.Sampling


@pytest.fixture(scope="module")
def recorded(shared_file):
    with np.load(shared_file("golden/gpt2/tiny_gpt2.npz")) as actual:
        wanted = ("logits", "top_", "temperature")
        return {name: actual[name] for name in actual if name.startswith(wanted)}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *((f"top_k_{k}", Sampling(top_k=k)) for k in (1, 5, 40)),
        *(
            (f"top_p_{p}", Sampling(top_p=p, released_top_p=True))
            for p in (0.3, 0.7, 0.9, 1.0)
        ),
        (
            "temperature_0.7_top_k_40_top_p_0.9",
            Sampling(temperature=0.7, top_k=40, top_p=0.9, released_top_p=True),
        ),
    ],
)
def test_filters_are_the_releases(recorded, name, wanted):
    actual = sampling.filtered(tf.constant(recorded["logits"][:, -1]), wanted)
    np.testing.assert_array_equal(actual == sampling.REMOVED, recorded[name] <= -1e10)
    np.testing.assert_allclose(actual, recorded[name], rtol=1e-6, atol=1e-6)
    if f"{name}_probabilities" in recorded:
        shares = tf.nn.softmax(actual).numpy()
        np.testing.assert_allclose(shares, recorded[f"{name}_probabilities"], atol=1e-6)


def kept(shares, **values):
    logits = tf.math.log(tf.constant([shares], tf.float32))
    actual = sampling.filtered(logits, Sampling(**values))
    return np.flatnonzero(actual[0] > -1e9).tolist()


def test_usual_top_p_keeps_the_token_that_reaches_it():
    shares = [0.1, 0.5, 0.15, 0.25]
    assert kept(shares, top_p=0.7) == [1, 3]
    assert kept(shares, top_p=0.7, released_top_p=True) == [1]
    assert kept(shares, top_p=0.8) == [1, 2, 3]
    assert kept(shares, top_p=1e-6) == [1]
    assert kept(shares, top_p=1.0) == [0, 1, 2, 3]
    # After top-k, 0.5 is two thirds.
    assert kept(shares, top_p=0.66, top_k=2) == [1]
    assert kept(shares, top_p=0.66) == [1, 3]


def test_rows_have_filters_of_their_own():
    rng = np.random.default_rng(3)
    logits = tf.constant(rng.normal(size=(3, 20)), tf.float32)
    values = [(0.5, 0, 0.4), (1.0, 5, 1.0), (2.0, 3, 0.9)]
    columns = map(tf.constant, map(list, zip(*values, strict=True)))
    together = sampling.filtered(logits, Sampling(*columns))
    for row, row_values in enumerate(values):
        alone = sampling.filtered(logits[row : row + 1], Sampling(*row_values))
        np.testing.assert_allclose(together[row], alone[0], rtol=1e-6)


def drawn(logits, rows, *, seed=7, step=0, samples=None, **values):
    streams = sampling.make_streams(
        tf.fill([len(rows)], tf.constant(seed, tf.int64)),
        tf.constant(rows, tf.int64),
        tf.constant(samples or [0] * len(rows), tf.int64),
    )
    logits = tf.constant(logits, tf.float32)
    step = tf.constant(step, tf.int64)
    actual = sampling.next_tokens(logits, Sampling(**values), streams, step)
    assert actual.dtype == tf.int32
    return actual.numpy().tolist()


def test_seeds_and_steps_draw_apart():
    """Also seeds beyond 32 bits, which once were those of a later step."""
    logits, rows = np.zeros((64, 50)), list(range(64))
    draws = {
        tuple(drawn(logits, rows, seed=seed, step=step))
        for seed in (1, 2, 2**31 + 1, 2**32 - 1)
        for step in (0, 1)
    }
    assert len(draws) == 8
    assert drawn(logits, rows, seed=1 + 2**32) == drawn(logits, rows, seed=1)


def test_a_draw_follows_from_seed_row_and_step_alone():
    logits = np.random.default_rng(1).normal(size=(64, 50))
    rows = list(range(64))
    whole = drawn(logits, rows)
    assert drawn(logits[40:43], rows[40:43]) == whole[40:43]
    assert drawn(logits[::-1], rows[::-1]) == whole[::-1]
    same = np.repeat(logits[:1], 64, axis=0)
    assert len(set(drawn(same, rows))) > 10
    assert drawn(logits, rows, seed=8) != whole
    assert drawn(logits, rows, step=1) != whole
    assert drawn(logits, rows, samples=[1] * 64) != whole
    assert drawn(logits, [row + 1 for row in rows]) != whole


def test_draws_have_the_shares_of_the_tokens():
    shares = np.array([0.05, 0.2, 0.0, 0.75])
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(shares), sampling.REMOVED)
    rows = list(range(400))
    actual = drawn(np.tile(logits, (400, 1)), rows)
    counts = np.bincount(actual, minlength=4) / len(rows)
    np.testing.assert_allclose(counts, shares, atol=0.07)
    assert counts[2] == 0


def test_temperature_0_takes_the_likeliest_whatever_the_seed():
    logits = np.random.default_rng(2).normal(size=(5, 30))
    likeliest = logits.argmax(axis=1).tolist()
    assert drawn(logits, range(5), temperature=0) == likeliest
    assert drawn(logits, range(5), temperature=0.0, seed=8) == likeliest
    assert drawn(logits, range(5), top_k=1) == likeliest
    some = drawn(logits, range(5), temperature=tf.constant([0.0, 0, 9, 9, 0]))
    assert some != likeliest and [some[i] for i in (0, 1, 4)] == [
        likeliest[i] for i in (0, 1, 4)
    ]
