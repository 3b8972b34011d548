"""What test_two_replicas.py runs in a process of its own, with two virtual CPUs.

Prints one JSON object: for each number of replicas, what came out of it.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import keras
import numpy as np
import tensorflow as tf

from modeling import losses
from tests.training import steps
from training import optimizers
from training.distribution import devices

BATCH_SIZE = 4


def train(strategy, build, objective, batches, rates, step=0, **options):
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model, adam = build(), optimizers.BertAdam()
        model.build()
        run = steps.make(model, objective, adam, strategy, **options)
    batches = devices.distributed(strategy, batches)
    return adam.slots(), *steps.call(run, batches, rates, step=step)


class FactorModel(keras.Model):
    def build(self, input_shape=None):
        self.kernel = self.add_weight(shape=(), initializer="ones", name="kernel")

    def call(self, features, training=False, seed=None):
        return features["factors"] * self.kernel


def steps_with_an_overflow(strategy):
    factors = np.ones((3, BATCH_SIZE), np.float32)
    factors[1, -1] = 1e36
    features = {"factors": factors, "input_mask": np.ones((3, BATCH_SIZE, 2), np.int32)}
    slots, results, scaling = train(
        strategy,
        FactorModel,
        losses.Objective(
            counts=lambda features: {
                "mean": tf.cast(tf.size(features["factors"]), tf.float32)
            },
            totals=lambda features, outputs: {"mean": tf.reduce_sum(outputs)},
        ),
        tf.data.Dataset.from_tensor_slices(features),
        [0.01] * 3,
        scales_loss=True,
    )
    return {
        "state": [float(np.asarray(part)) for part in slots[0]],
        "results": results,
        "scaling": scaling,
    }


class SeedModel(keras.Model):
    def build(self, input_shape=None):
        self.kernel = self.add_weight(shape=(), initializer="ones", name="kernel")

    def call(self, features, training=False, seed=None):
        return tf.cast(seed, tf.float32) * self.kernel


def dropout_seeds(strategy):
    """Sums over replicas of (run and replica) and of step, as the model gets them."""
    objective = losses.Objective(
        counts=lambda features: {"replica": tf.constant(0.5), "step": tf.constant(0.5)},
        totals=lambda features, outputs: {"replica": outputs[0], "step": outputs[1]},
    )
    features = {"input_mask": np.ones((BATCH_SIZE, 2), np.int32)}
    batches = tf.data.Dataset.from_tensors(features).repeat()
    _, results, _ = train(
        strategy, SeedModel, objective, batches, [0.0], step=40, seed=7
    )
    # Divided by the count over all replicas.
    counts = 0.5 * strategy.num_replicas_in_sync
    return [float(results[name]) * counts for name in ("replica", "step")]


def main():
    devices.split_cpu(2)
    actual = {}
    for kind in ("one_device", "mirrored"):
        strategy = devices.strategy_for(kind)
        actual[strategy.num_replicas_in_sync] = {
            "seeds": dropout_seeds(strategy),
            "overflow": steps_with_an_overflow(strategy),
            "describe": devices.describe(strategy),
        }
    json.dump(actual, sys.stdout)


if __name__ == "__main__":
    main()
