"""Adagrad and carried states, against three steps of the original graph."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.objectives import bidirectional_lm
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
            *(self.model, self.optimizer, bidirectional_lm.objective(), STRATEGY),
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


@pytest.mark.parametrize("parts", [1, 2])
def test_three_steps_are_the_originals(record, parts):
    """Weights, losses, norms before clipping; also of rows one after another."""
    trainer = Trainer(record, micro_batches=parts)
    batches = [in_parts(elmo_streams.batch(record, n), parts) for n in range(3)]
    found = trainer(batches[:1])
    assert_recorded(trainer.weights(), record, 1)
    found += trainer(batches[1:], 1)
    assert_recorded(trainer.weights(), record, 3)
    np.testing.assert_allclose(found, record["train/losses_and_norms"], rtol=1e-5)
