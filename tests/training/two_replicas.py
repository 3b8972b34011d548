"""What test_two_replicas.py runs in a process of its own, with two virtual CPUs.

Prints one JSON object: for each number of replicas, what came out of it.
"""

import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import keras
import numpy as np
import tensorflow as tf

from data_pipeline import batching, packing, pretraining
from modeling import checkpoint, config, losses, models
from tests import tiny
from training import devices, evaluation, optimizer, schedule, steps

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


def pretrained_weights(strategy, micro_batches=1):
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = models.BertPretrainer(CONFIG)
        model.build()
        adam = optimizer.BertAdam()
        adam.build(model.trainable_variables)
    run = steps.train_function(
        *(model, adam, losses.pretraining(), strategy),
        seed=1,
        jit_compile=False,
        micro_batches=micro_batches,
    )
    batches = strategy.experimental_distribute_dataset(pretraining_batches())
    rate = schedule.linear_with_warmup(0.01, NUM_STEPS, 1)
    rates = tf.constant([rate(step) for step in range(NUM_STEPS)], tf.float32)
    count = tf.constant(NUM_STEPS)
    results = run(iter(batches), rates, count, tf.constant(0, tf.int64))
    weights = checkpoint.google_variables(model)
    return (
        {name: np.ravel(weights[name]).tolist() for name in sorted(weights)},
        {name: float(value) for name, value in results.items()},
    )


def scores_of_records(strategy, directory):
    """Records read as run_pretraining.py does: sums of training, scores of held-out."""
    path = tiny.write_records(directory / "a.tfrecord", tiny.records(21))
    source = pretraining.open_records(
        [str(path)], max_seq_length=16, max_predictions_per_seq=3, vocab_size=30
    )
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = models.BertPretrainer(CONFIG)
        model.build()

    @tf.function
    def sum_of_ids(features):
        found = strategy.run(tf.reduce_sum, args=(features["input_ids"],))
        return strategy.reduce(steps.SUM, found, axis=None)

    order = {"batch_size": 6, "seed": 1, "start_step": 1, "num_steps": 5}
    batches = pretraining.training_batches(source, **order)
    batches = strategy.experimental_distribute_dataset(batches)
    scores = evaluation.objective_scores(
        steps.evaluate_function(
            model, losses.pretraining(), strategy, jit_compile=False
        ),
        pretraining.evaluation_batches(source, batch_size=4, num_batches=6),
        6,
        strategy,
    )
    features, outputs = evaluation.first_batch(
        steps.predict_function(model, strategy, jit_compile=False),
        pretraining.evaluation_batches(source, batch_size=4, num_batches=1),
        strategy,
    )
    return {
        "first_ids": features["input_ids"].tolist(),
        "first_logits": outputs["next_sentence_logits"].tolist(),
        "sums": [int(sum_of_ids(features)) for features in batches],
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
    with strategy.scope():
        model = SeedModel()
        model.build()
        adam = optimizer.BertAdam()
        adam.build(model.trainable_variables)
    objective = losses.Objective(
        counts=lambda features: {"replica": tf.constant(0.5), "step": tf.constant(0.5)},
        totals=lambda features, outputs: {"replica": outputs[0], "step": outputs[1]},
    )
    run = steps.train_function(
        model, adam, objective, strategy, seed=7, jit_compile=False
    )
    features = {"input_mask": np.ones((BATCH_SIZE, 2), np.int32)}
    batches = tf.data.Dataset.from_tensors(features).repeat()
    batches = strategy.experimental_distribute_dataset(batches)
    step = tf.constant(40, tf.int64)
    results = run(iter(batches), tf.zeros(1), tf.constant(1), step)
    # Divided by the count over all replicas.
    counts = 0.5 * strategy.num_replicas_in_sync
    return [float(results[name]) * counts for name in ("replica", "step")]


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
    cpu = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    found = {}
    for strategy in (
        tf.distribute.get_strategy(),
        tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    ):
        weights, results = pretrained_weights(strategy)
        parts_weights, _ = pretrained_weights(strategy, micro_batches=2)
        with tempfile.TemporaryDirectory() as directory:
            records = scores_of_records(strategy, pathlib.Path(directory))
        size, logits = predicted_logits(strategy)
        found[strategy.num_replicas_in_sync] = {
            "weights": weights,
            "results": results,
            "weights_by_parts": parts_weights,
            "records": records,
            "seeds": dropout_seeds(strategy),
            "batch_size": size,
            "logits": logits,
            "describe": devices.describe(strategy),
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
