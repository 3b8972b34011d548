"""The losses of ELMo's pretraining; recorded values are in tests/golden/elmo."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.networks.elmo import objective as bidirectional_lm
from tests import elmo_streams

ROUNDING = 1e-5


@pytest.fixture(scope="module")
def record():
    return elmo_streams.record()


@pytest.fixture(scope="module")
def model(record):
    return elmo_streams.model(record)


def zero_states(model, rows=2):
    shapes = model.states.items()
    return {name: np.zeros((rows, *shape), np.float32) for name, shape in shapes}


def losses(outputs):
    features = {"input_mask": np.ones((2, 6), np.int32)}
    objective = bidirectional_lm.objective()
    (total,), (count,) = (
        objective.totals(features, outputs).values(),
        objective.counts(features).values(),
    )
    parts = objective.metrics(features, outputs)
    pairs = (parts[f"{name}_loss"] for name in bidirectional_lm.DIRECTIONS)
    return [float(total / count), *(float(a / b) for a, b in pairs)]


def test_losses_are_the_originals_with_carried_states(model, record):
    states = zero_states(model)
    for number, expected in enumerate(record["eval/losses"]):
        outputs = model({**elmo_streams.batch(record, number), **states})
        states = {name: outputs[name] for name in model.states}
        np.testing.assert_allclose(losses(outputs), expected, atol=ROUNDING)


@pytest.fixture(scope="module")
def recorded_candidates(record):
    actual = []
    for name in bidirectional_lm.DIRECTIONS:
        ids = record[f"sampled/{name}_candidates"].astype(np.int32)
        share = np.asarray(bidirectional_lm.probabilities(ids, 25), np.float64)
        counts = record[f"sampled/{name}_sampled_expected_count"]
        tries = np.log1p(-counts.astype(np.float64)) / np.log1p(-share)
        assert np.ptp(tries) < 1e-4 and abs(tries[0] - round(tries[0])) < 1e-4
        actual.append(bidirectional_lm.Candidates(ids, np.float32(round(tries[0]))))
    return actual


def test_sampled_losses_are_the_originals(model, record, recorded_candidates):
    features = {**elmo_streams.batch(record, 0), **zero_states(model)}
    model._candidates = lambda *_: recorded_candidates
    outputs = model(features)
    del model._candidates
    total, *each = losses(outputs)
    np.testing.assert_allclose(each, record["sampled/individual_losses"], atol=1e-6)
    assert total == pytest.approx(float(record["sampled/total_loss"]), abs=1e-6)


@pytest.fixture(scope="module")
def draw():
    """`bidirectional_lm.draw` of 40 of 1000 classes, traced once."""
    traced = tf.function(lambda seed: bidirectional_lm.draw(seed, 40, 1000))
    return lambda *seed: traced(tf.constant(seed))


@pytest.mark.slow
def test_candidates_are_distinct_and_follow_from_the_seed(draw):
    first, again, other = draw(1, 7), draw(1, 7), draw(1, 8)
    for actual in (first, other):
        assert len(set(np.asarray(actual.ids))) == 40
        assert np.min(actual.ids) >= 0 and np.max(actual.ids) < 1000
        assert float(actual.tries) >= 40
    np.testing.assert_array_equal(first.ids, again.ids)
    both = bidirectional_lm.draw_both(tf.constant([1, 7]), 40, 1000)
    for one, two in ((first, other), both):
        assert set(np.asarray(one.ids)) != set(np.asarray(two.ids))
    compiled = tf.function(bidirectional_lm.draw, jit_compile=True)
    actual = compiled(tf.constant([1, 7]), 40, 1000)
    np.testing.assert_array_equal(actual.ids, first.ids)
    assert actual.tries == first.tries


def test_classes_are_drawn_as_often_as_expected(draw):
    """Mean over 400 draws; classes that are as likely as others would be off by 0.8."""
    actual = np.zeros(1000)
    expected = np.zeros(1000)
    for step in range(400):
        candidates = draw(3, step)
        actual[np.asarray(candidates.ids)] += 1 / 400
        every = np.arange(1000, dtype=np.int32)
        counts = bidirectional_lm.expected_counts(every, candidates.tries, 1000)
        expected += np.asarray(counts) / 400
    assert np.abs(actual - expected).max() < 0.1  # 4 standard deviations
    assert expected[0] > 0.98 and expected[999] < 0.01
    assert expected.sum() == pytest.approx(40, rel=0.01)
