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

from modeling import heads, losses, models, pretrainers
from modeling.checkpoints import google
from modeling.configs import config
from training import optimizers, schedule, train_step
from training.distribution import devices

CONFIG = config.BertConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    hidden_act="relu",
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=16,
    type_vocab_size=2,
    initializer_range=0.5,
)
BATCH_SIZE, NUM_STEPS = 4, 5


def pretraining_batches():
    """Batches whose two halves have different numbers of masked words."""
    rng = np.random.default_rng(3)
    shape = (NUM_STEPS, BATCH_SIZE)
    weights = np.ones((*shape, 3), np.float32)
    weights[:, : BATCH_SIZE // 2, 1:] = 0.0
    features = {
        "input_ids": rng.integers(1, 30, (*shape, 6)).astype(np.int32),
        "input_mask": np.ones((*shape, 6), np.int32),
        "segment_ids": np.zeros((*shape, 6), np.int32),
        "masked_lm_positions": rng.integers(0, 6, (*shape, 3)).astype(np.int32),
        "masked_lm_ids": rng.integers(1, 30, (*shape, 3)).astype(np.int32),
        "masked_lm_weights": weights,
        "next_sentence_labels": rng.integers(0, 2, shape).astype(np.int32),
    }
    return tf.data.Dataset.from_tensor_slices(features)


def trained(strategy, build, objective, batches, rates, step=0, **options):
    """The model, the slots of its optimizer, results and scaling after some steps."""
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = build()
        model.build()
        adam = optimizers.BertAdam()
        adam.build(model.trainable_variables)
    run = train_step.TrainStep(
        *(model, adam, objective, strategy),
        jit_compile=False,
        **{"seed": 1, **options},
    )
    results, scaling = run(
        iter(devices.distributed(strategy, batches)),
        tf.constant(rates, tf.float32),
        tf.constant(len(rates)),
        tf.constant(step, tf.int64),
        train_step.Scaling.from_state({}),
    )
    results = {name: float(value) for name, value in results.items()}
    return model, adam.slots(), results, scaling.to_state()


def pretrained_weights(strategy):
    """Weights and results; on several replicas in micro-batches of one example."""
    replicas = strategy.num_replicas_in_sync
    rate = schedule.linear_with_warmup(0.01, NUM_STEPS, 1)
    model, _, results, _ = trained(
        strategy,
        lambda: pretrainers.BertPretrainer(CONFIG),
        losses.pretraining(),
        pretraining_batches(),
        [rate(step) for step in range(NUM_STEPS)],
        micro_batches=1 if replicas == 1 else BATCH_SIZE // replicas,
    )
    weights = google.variables(model)
    return {name: np.ravel(weights[name]).tolist() for name in sorted(weights)}, results


class FactorModel(keras.Model):
    """Its output is one feature, times a weight of 1."""

    def build(self, input_shape=None):
        self.kernel = self.add_weight(shape=(), initializer="ones", name="kernel")

    def call(self, features, training=False, seed=None):
        return features["factors"] * self.kernel


def steps_with_an_overflow(strategy):
    """Three scaled steps; in the second one example of the last half overflows."""
    factors = np.ones((3, BATCH_SIZE), np.float32)
    factors[1, -1] = 1e36
    features = {
        "factors": factors,
        "input_mask": np.ones((3, BATCH_SIZE, 2), np.int32),
    }
    _, slots, results, scaling = trained(
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
    """Its one output is the seed it is given, times a weight of 1."""

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
    _, _, results, _ = trained(
        strategy, SeedModel, objective, batches, [0.0], step=40, seed=7
    )
    # Divided by the count over all replicas.
    counts = 0.5 * strategy.num_replicas_in_sync
    return [float(results[name]) * counts for name in ("replica", "step")]


def fitted_weights(strategy):
    """Of a classifier that Keras' `fit` trains, in the order of its variables."""
    heads.HEAD_DROPOUT = 0.0  # whatever the config says; of this process alone
    rng = np.random.default_rng(5)
    shape = (3, BATCH_SIZE, 6)
    features = {
        "input_ids": rng.integers(1, 30, shape).astype(np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
    }
    batches = (features, rng.integers(0, 3, shape[:2]).astype(np.int32))
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = models.BertClassifier(CONFIG, 3)
        model.build()
        model.compile(
            optimizer=optimizers.BertAdam(0.01),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    before = [np.asarray(variable) for variable in model.trainable_variables]
    batches = tf.data.Dataset.from_tensor_slices(batches)
    model.fit(batches, shuffle=False, verbose=0)
    after = [np.asarray(variable) for variable in model.trainable_variables]
    moved = max(np.abs(a - b).max() for a, b in zip(after, before, strict=True))
    return {
        "names": [variable.path for variable in model.trainable_variables],
        "weights": [value.tolist() for value in after],
        "moved": float(moved),
    }


def main():
    devices.split_cpu(2)
    found = {}
    for kind in ("one_device", "mirrored"):
        strategy = devices.strategy_for(kind)
        weights, results = pretrained_weights(strategy)
        found[strategy.num_replicas_in_sync] = {
            "weights": weights,
            "results": results,
            "seeds": dropout_seeds(strategy),
            "overflow": steps_with_an_overflow(strategy),
            "fitted": fitted_weights(strategy),
            "describe": devices.describe(strategy),
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
