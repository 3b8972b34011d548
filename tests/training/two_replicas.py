"""What test_two_replicas.py runs in a process of its own, with two virtual CPUs.

Prints one JSON object: for each number of replicas, what came out of the PARTS that
are named on the command line.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import keras
import numpy as np
import tensorflow as tf

from modeling import contrastive, heads, losses, models
from modeling.checkpoints import names
from modeling.configs import config
from modeling.networks import catalogue
from tests.training import steps
from training import contrastive_step, layer_rates
from training.distribution import devices
from training.optimizers import bert_adam, muon

BATCH_SIZE = 4
RATES = layer_rates.LayerRates(catalogue.USUAL.depth, 0.5, 1)


def train(
    strategy,
    build,
    objective,
    batches,
    rates,
    step=0,
    layers=None,
    optimizer=bert_adam.BertAdam,
    **options,
):
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model, adam = build(), optimizer()
        if not model.built:
            model.build()
        adam.layers = layers
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


class VectorModel(keras.Model):
    def build(self, input_shape=None):
        self.kernel = self.add_weight(shape=(6,), initializer="ones", name="kernel")

    def call(self, features, training=False, seed=None):
        return {"vectors": features["values"] * self.kernel}


def losses_of_vectors(strategy):
    """Loss, accuracy and norm of gradients of losses that compare all rows."""
    rng = np.random.default_rng(5)
    features = {
        "values": rng.normal(size=(2 * BATCH_SIZE, 2, 6)).astype(np.float32),
        "text_ids": np.arange(4 * BATCH_SIZE, dtype=np.int32).reshape(-1, 2) % 13,
        "input_mask": np.ones((2 * BATCH_SIZE, 2, 1), np.int32),
    }
    scores = {**features, "label_ids": rng.normal(size=8).astype(np.float32)}
    single = {name: value[:, 0] for name, value in features.items()}
    labels = {**single, "label_ids": np.arange(8, dtype=np.int32) % 3}
    every, alone = contrastive_step.scope((6, 2)), contrastive.Scope((6, 2))
    results = {}
    for name, objective, batch in (
        ("pairs", contrastive.in_batch_negatives(5.0, True, scope=every), features),
        ("alone", contrastive.in_batch_negatives(5.0, True, scope=alone), features),
        ("scores", contrastive.cosent(5.0, scope=every), scores),
        ("labels", contrastive.labelled_texts(5.0, scope=every), labels),
    ):
        _, results[name], _ = train(
            strategy,
            VectorModel,
            objective,
            steps.repeat(batch),
            [0.1] * 3,
            kind=contrastive_step.ContrastiveTrainStep,
        )
    return results


def tagger_slots(strategy, depth, num_steps, **options):
    """The slots of a tagger after some steps, and its weights before."""
    widths = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    # XLA, which the gelu of training needs, takes its time.
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    rates |= {"hidden_act": "relu", "initializer_range": 0.5}
    tiny = config.BertConfig(vocab_size=9, num_hidden_layers=depth, **widths, **rates)
    ids = np.arange(6 * BATCH_SIZE, dtype=np.int32).reshape(BATCH_SIZE, 6) % 9
    features = {"input_ids": ids, "input_mask": np.ones_like(ids)}
    features |= {"segment_ids": 0 * ids, "label_ids": ids % 3}
    first = []

    def build():
        model = models.BertTagger(tiny, 3)
        model.build()
        first.extend(np.array(each) for each in model.trainable_variables)
        return model

    batches, rates = steps.repeat(features), [0.01] * num_steps
    slots, *_ = train(strategy, build, losses.tagger(), batches, rates, **options)
    return slots, first


def sizes(strategy, depth, num_steps, **options):
    """{path: sums of sizes of weights and moments} of a tagger."""
    slots, _ = tagger_slots(strategy, depth, num_steps, **options)
    return {
        names.relative_path(variable): [
            float(np.abs(np.asarray(part)).sum()) for part in (variable, *moments)
        ]
        for variable, *moments in slots
    }


def moves(strategy, optimizer, **options):
    """{path: how far a tagger's weights have moved in three steps}."""
    slots, first = tagger_slots(strategy, 4, 3, optimizer=optimizer, **options)
    return {
        names.relative_path(variable): float(np.abs(np.asarray(variable) - start).sum())
        for (variable, *_), start in zip(slots, first, strict=True)
    }


PARTS = {
    "seeds": dropout_seeds,
    "overflow": steps_with_an_overflow,
    "vectors": losses_of_vectors,
    # Blocks, which are traced once, begin one by one; the embeddings never do.
    "layers": lambda strategy: sizes(strategy, 4, 5, layers=RATES),
    "deep": lambda strategy: sizes(strategy, 4, 3),
    "muon": lambda strategy: moves(strategy, muon.Muon),
    "muon_parts": lambda strategy: moves(strategy, muon.Muon, micro_batches=2),
    "adam": lambda strategy: moves(strategy, bert_adam.BertAdam),
    "describe": devices.describe,
}


def main():
    heads.HEAD_DROPOUT = 0.0  # depends on the number of replicas
    devices.split_cpu(2)
    actual = {}
    for kind in ("one_device", "mirrored"):
        strategy = devices.strategy_for(kind)
        actual[strategy.num_replicas_in_sync] = {
            name: PARTS[name](strategy) for name in sys.argv[1:]
        }
    json.dump(actual, sys.stdout)


if __name__ == "__main__":
    main()
