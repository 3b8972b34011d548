"""The losses of ELMo's pretraining; recorded values are in tests/golden/elmo."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.objectives import bidirectional_lm
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
    """Total, forward and backward, as the objective gives them."""
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


def test_states_that_are_not_carried_give_other_losses(model, record):
    features = {**elmo_streams.batch(record, 1), **zero_states(model)}
    assert abs(losses(model(features))[0] - record["eval/losses"][1, 0]) > 1e-3


def test_gradients_are_the_originals(model, record):
    features = {**elmo_streams.batch(record, 0), **zero_states(model)}
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        outputs = model(features, training=True)
        both = outputs["forward_losses"] + outputs["backward_losses"]
        loss = 6 * tf.reduce_mean(both) / 2
    found = tape.gradient(loss, [variable.value for variable in variables])
    for variable, gradient in zip(variables, found, strict=True):
        name = elmo_streams.original_name(variable)
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient),
            record[f"train/grad/{name}"],
            atol=ROUNDING,
            err_msg=name,
        )


@pytest.fixture(scope="module")
def recorded_candidates(record):
    """Those that were drawn, with the tries that their expected counts tell."""
    found = []
    for name in bidirectional_lm.DIRECTIONS:
        ids = record[f"sampled/{name}_candidates"].astype(np.int32)
        share = np.asarray(bidirectional_lm.probabilities(ids, 25), np.float64)
        counts = record[f"sampled/{name}_sampled_expected_count"]
        tries = np.log1p(-counts.astype(np.float64)) / np.log1p(-share)
        assert np.ptp(tries) < 1e-4 and abs(tries[0] - round(tries[0])) < 1e-4
        found.append(bidirectional_lm.Candidates(ids, np.float32(round(tries[0]))))
    return found


def test_sampled_losses_are_the_originals(model, record, recorded_candidates):
    features = {**elmo_streams.batch(record, 0), **zero_states(model)}
    model._candidates = lambda *_: recorded_candidates
    outputs = model(features)
    del model._candidates
    total, *each = losses(outputs)
    np.testing.assert_allclose(each, record["sampled/individual_losses"], atol=1e-6)
    assert total == pytest.approx(float(record["sampled/total_loss"]), abs=1e-6)


def test_expected_counts_are_the_originals(record, recorded_candidates):
    for name, found in zip(
        bidirectional_lm.DIRECTIONS, recorded_candidates, strict=True
    ):
        targets = elmo_streams.batch(record, 0)[f"{name}_targets"].ravel()
        expected = record[f"sampled/{name}_true_expected_count"][:, 0]
        counts = bidirectional_lm.expected_counts(targets, found.tries, 25)
        np.testing.assert_allclose(counts, expected, rtol=1e-6)
