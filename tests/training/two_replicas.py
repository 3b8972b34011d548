"""What test_two_replicas.py runs in a process of its own, with two virtual CPUs.

Prints one JSON object: for each number of replicas, what came out of it.
"""

import functools
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import keras
import numpy as np
import tensorflow as tf

from data_pipeline.batches import batching, packing
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import source as source_lib
from modeling import heads, losses, models, pretrainers
from modeling.checkpoints import google
from modeling.configs import config
from tests import tiny
from training import steps
from training.distribution import devices
from training.optimization import loss_scale, optimizer, schedule
from training.results import evaluation

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
        adam = optimizer.BertAdam()
        adam.build(model.trainable_variables)
    run = steps.train_function(
        *(model, adam, objective, strategy),
        jit_compile=False,
        **{"seed": 1, **options},
    )
    results, scaling = run(
        iter(devices.distributed(strategy, batches)),
        tf.constant(rates, tf.float32),
        tf.constant(len(rates)),
        tf.constant(step, tf.int64),
        loss_scale.of({}),
    )
    results = {name: float(value) for name, value in results.items()}
    return model, adam.slots(), results, loss_scale.to_state(scaling)


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


class TaskModel(keras.Model):
    """What the heads of the three tasks give, from a table and a kernel."""

    def build(self, input_shape=None):
        self.embeddings = self.add_weight(
            shape=(30, 8), initializer="normal", name="embeddings"
        )
        self.kernel = self.add_weight(shape=(8, 3), initializer="normal", name="kernel")

    def call(self, features, training=False, seed=None):
        hidden = tf.gather(self.embeddings, features["input_ids"])  # [B, S, D]
        logits = tf.einsum("bsd,dc->bsc", hidden, tf.convert_to_tensor(self.kernel))
        return {
            "classifier": {"logits": tf.reduce_sum(logits, axis=1)},
            "span": {"start_logits": logits[..., 0], "end_logits": logits[..., 1]},
            "tagger": {"logits": logits},
        }


def task_weights(strategy):
    """Classifier, span and tagger at once: weights and results."""
    tasks = {
        "classifier": losses.classifier("classification"),
        "span": losses.span(),
        "tagger": losses.tagger(),
    }

    def parts(features, outputs=None):
        found = {}
        for name, task in tasks.items():
            own = {**features, "label_ids": features.get(f"{name}_ids")}
            part = task.totals(own, outputs[name]) if outputs else task.counts(own)
            found |= part
        return found

    rng = np.random.default_rng(5)
    shape = (NUM_STEPS, BATCH_SIZE)
    tags = rng.integers(0, 3, (*shape, 6)).astype(np.int32)
    tags[:, BATCH_SIZE // 2 :, 1:] = -1  # so the halves have different counts
    features = {
        "input_ids": rng.integers(1, 30, (*shape, 6)).astype(np.int32),
        "input_mask": np.ones((*shape, 6), np.int32),
        "classifier_ids": rng.integers(0, 3, shape).astype(np.int32),
        "start_positions": rng.integers(0, 6, shape).astype(np.int32),
        "end_positions": rng.integers(0, 6, shape).astype(np.int32),
        "tagger_ids": tags,
    }
    model, _, results, _ = trained(
        strategy,
        TaskModel,
        losses.Objective(parts, parts),
        tf.data.Dataset.from_tensor_slices(features),
        [0.01] * NUM_STEPS,
    )
    weights = [np.ravel(v).tolist() for v in model.trainable_variables]
    return {"weights": weights, "results": results}


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


def shares(strategy):
    """What each replica gets of batches of four, by batch and replica."""
    numbers = tf.data.Dataset.from_tensor_slices({"x": np.arange(12).reshape(3, 4)})
    return [
        [
            value.numpy().tolist()
            for value in strategy.experimental_local_results(batch["x"])
        ]
        for batch in devices.distributed(strategy, numbers)
    ]


def scores_of_records(strategy, directory):
    """Records read as run_pretraining.py does: sums of training, scores of held-out."""
    limits = {"max_seq_length": 16, "max_predictions_per_seq": 3, "vocab_size": 30}
    source, unmasked = (
        source_lib.check_records(
            [str(tiny.write_records(directory / f"{is_masked}", records))], **limits
        )
        for is_masked in (True, False)
        for records in [tiny.records(21, is_masked=is_masked)]
    )
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = pretrainers.BertPretrainer(CONFIG)
        model.build()

    def mask(ids, lengths, rows, batch_size, rng):
        """Draws what takes the place of each word; where it stands does not matter."""
        shape = (batch_size, ids.shape[1])
        drawn = rng.integers(5, 30, shape).astype(np.int32)[rows]
        return {
            "input_ids": np.where(ids > 0, drawn, ids),
            "masked_lm_positions": np.zeros((len(ids), 3), np.int32),
            "masked_lm_ids": ids[:, :3],
            "masked_lm_weights": np.ones((len(ids), 3), np.float32),
        }

    @tf.function
    def sum_of_ids(features):
        found = strategy.run(tf.reduce_sum, args=(features["input_ids"],))
        return strategy.reduce(steps.SUM, found, axis=None)

    order = (6, 1, 1, 5)  # batch size, seed, first step and the one after the last
    batches, masked_batches = (
        devices.distributed(
            strategy,
            functools.partial(
                record_batches.RecordSets(records, records, mask).training_batches,
                *order,
            ),
        )
        for records in (source, unmasked)
    )
    held_out = record_batches.RecordSets(source, source, None)
    scores = evaluation.objective_scores(
        steps.evaluate_function(
            model, losses.pretraining(), strategy, jit_compile=False
        ),
        functools.partial(held_out.evaluation_batches, 4, 6),
        6,
        strategy,
    )
    features, outputs = evaluation.first_batch(
        steps.predict_function(model, strategy, jit_compile=False),
        functools.partial(held_out.evaluation_batches, 4, 1),
        strategy,
    )
    return {
        "first_ids": features["input_ids"].tolist(),
        "first_logits": outputs["next_sentence_logits"].tolist(),
        "sums": [int(sum_of_ids(features)) for features in batches],
        "masked_sums": [int(sum_of_ids(features)) for features in masked_batches],
        "scores": {name: float(score) for name, score in scores.items()},
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
            optimizer=optimizer.BertAdam(0.01),
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


def predicted_logits(strategy):
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 9, 7)
    packed = packing.Packed(
        tokens=rng.integers(1, 30, lengths.sum()).astype(np.int32),
        splits=np.concatenate([[0], np.cumsum(lengths)]),
        first_lengths=lengths.astype(np.int32),
    )
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = models.BertClassifier(CONFIG, 3)
        model.build()
    size = devices.fitting_batch_size(3, strategy)
    order = batching.evaluation_order(packed.lengths, size)
    outputs = evaluation.predict(
        steps.predict_function(model, strategy, jit_compile=False),
        batching.batches(packed, order),
        order,
        strategy,
    )
    return size, outputs["logits"].tolist()


def main():
    devices.split_cpu(2)
    found = {}
    for kind in ("one_device", "mirrored"):
        strategy = devices.strategy_for(kind)
        weights, results = pretrained_weights(strategy)
        with tempfile.TemporaryDirectory() as directory:
            records = scores_of_records(strategy, pathlib.Path(directory))
        size, logits = predicted_logits(strategy)
        found[strategy.num_replicas_in_sync] = {
            "weights": weights,
            "results": results,
            "records": records,
            "seeds": dropout_seeds(strategy),
            "tasks": task_weights(strategy),
            "overflow": steps_with_an_overflow(strategy),
            "shares": shares(strategy),
            "fitted": fitted_weights(strategy),
            "batch_size": size,
            "logits": logits,
            "describe": devices.describe(strategy),
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
