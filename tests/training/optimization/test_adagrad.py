"""Adagrad and carried states, against three steps of the original graph."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling.elmo import objective
from tests import elmo_streams
from training import steps
from training.distribution import carried_states, devices
from training.optimization import adagrad, loss_scale

STRATEGY = tf.distribute.get_strategy()
ROUNDING = 1e-5


class Trainer:
    """The recorded network, trained as it was recorded."""

    def __init__(self, record, *, micro_batches=1, **changes):
        self.model = elmo_streams.model(record, **changes)
        self.optimizer = adagrad.Adagrad(clip_norm=1.0, gradient_factor=6.0)
        self.optimizer.build(self.model.trainable_variables)
        self.carried = carried_states.make(self.model.states, 2, STRATEGY)
        self.run = steps.train_function(
            *(self.model, self.optimizer, objective.objective(), STRATEGY),
            seed=1,
            jit_compile=False,
            micro_batches=micro_batches,
            carried=self.carried,
        )

    def __call__(self, batches, first_step=0):
        """Losses and norms of steps, one a call."""
        found = []
        for step, features in enumerate(batches, first_step):
            data = tf.data.Dataset.from_tensors(features)
            results, _ = self.run(
                iter(devices.distributed(STRATEGY, data)),
                tf.constant([0.2]),
                tf.constant(1),
                tf.constant(step, tf.int64),
                loss_scale.of({}),
            )
            found.append((float(results["loss"]), float(results["gradient_norm"])))
        return found

    def weights(self):
        return {
            elmo_streams.original_name(v): np.array(v)
            for v in self.model.trainable_variables
        }


@pytest.fixture(scope="module")
def record():
    return elmo_streams.record()


def assert_recorded(weights, record, step):
    assert len(weights) == 31
    for name, value in weights.items():
        expected = record[f"train/after_{step}/{name}"]
        np.testing.assert_allclose(value, expected, atol=ROUNDING, err_msg=name)


def in_parts(features, parts):
    """The batch with words for each part, of which the pipeline makes a table each."""
    table = np.concatenate([features["distinct_words"]] * parts)
    return features | {"distinct_words": table}


@pytest.mark.parametrize("parts", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_three_steps_are_the_originals(record, parts):
    """Weights, losses, norms before clipping; also of rows one after another."""
    trainer = Trainer(record, micro_batches=parts)
    batches = [in_parts(elmo_streams.batch(record, n), parts) for n in range(3)]
    found = trainer(batches[:1])
    assert_recorded(trainer.weights(), record, 1)
    found += trainer(batches[1:], 1)
    assert_recorded(trainer.weights(), record, 3)
    np.testing.assert_allclose(found, record["train/losses_and_norms"], rtol=1e-5)


def after_a_step(gradients, **settings):
    """Values and accumulators of a table and a bias; the norm before clipping."""
    made = adagrad.Adagrad(**settings)
    variables = [
        keras.Variable(
            np.linspace(-1, 1, 8).reshape(4, 2), dtype="float32", name="table"
        ),
        keras.Variable([0.5, -0.5], dtype="float32", name="bias"),
    ]
    made.build(variables)
    norm = made.apply_reduced(gradients, 0.2, tf.constant(0))
    return [np.array(part) for slot in made.slots() for part in slot], float(norm)


SLICES = tf.IndexedSlices(
    tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    tf.constant([1, 2, 1]),
    tf.constant([4, 2]),
)
BIAS = tf.constant([3.0, 0.0])


def test_slices_do_what_the_whole_gradient_does():
    """Row 1 has two slices, which count as their sum."""
    rows, norm = after_a_step([SLICES, BIAS], clip_norm=5.0, gradient_factor=2.0)
    whole = [tf.convert_to_tensor(SLICES), BIAS]
    expected, of_whole = after_a_step(whole, clip_norm=5.0, gradient_factor=2.0)
    for one, other in zip(rows, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    total = 2 * np.sqrt(6**2 + 8**2 + 3**2 + 4**2 + 3**2)
    assert norm == pytest.approx(total, rel=1e-6)
    assert of_whole == pytest.approx(total, rel=1e-6)


def test_step_is_that_of_the_formula():
    (table, squares, bias, _), norm = after_a_step(
        [SLICES, BIAS], clip_norm=5.0, gradient_factor=2.0
    )
    gradient = np.array([[0, 0], [6, 8], [3, 4], [0, 0]]) * 2 * 5 / norm
    np.testing.assert_allclose(squares, 1 + gradient**2, rtol=1e-6)
    start = np.linspace(-1, 1, 8).reshape(4, 2)
    moved = start - 0.2 * gradient / np.sqrt(1 + gradient**2)
    np.testing.assert_allclose(table, moved, rtol=1e-6)
    np.testing.assert_array_equal(table[[0, 3]], start[[0, 3]].astype(np.float32))
    of_bias = 3 * 2 * 5 / norm
    expected = 0.5 - 0.2 * of_bias / np.sqrt(1 + of_bias**2)
    np.testing.assert_allclose(bias, [expected, -0.5], rtol=1e-6)


def test_norm_below_the_limit_changes_nothing():
    """Nor does a limit of 0, which is none."""
    free, wide, tight = (
        after_a_step([SLICES, BIAS], clip_norm=norm)[0] for norm in (0.0, 100.0, 1.0)
    )
    for one, other in zip(free, wide, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.abs(tight[0] - free[0]).max() > 1e-2


def test_optimizer_is_made_again_from_its_config():
    made = adagrad.Adagrad(0.1, clip_norm=3.0, gradient_factor=20.0)
    again = adagrad.Adagrad.from_config(made.get_config())
    assert again.get_config() == made.get_config()
    assert (again.max_norm, again.gradient_factor) == (3.0, 20.0)
