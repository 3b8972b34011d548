"""Steps of losses over a whole batch: in parts, and on two replicas."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from modeling import contrastive, text_encoder
from modeling.configs import config
from tests.training import steps
from training import contrastive_step, train_step

BERT = config.BertConfig(
    vocab_size=61,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
    initializer_range=0.3,
    hidden_act="relu",  # nothing to compile
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)


def batch():
    rng = np.random.default_rng(4)
    lengths = rng.integers(3, 9, (8, 2, 1))
    mask = (np.arange(8) < lengths).astype(np.int32)
    return {
        "input_ids": rng.integers(1, 61, mask.shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": np.zeros_like(mask),
        "text_ids": np.arange(16, dtype=np.int32).reshape(8, 2),
    }


def make(kind, *, micro_batches=1, **changes):
    """A step, from the same weights each time."""
    tf.keras.utils.set_random_seed(3)
    model = text_encoder.TextEncoder(dataclasses.replace(BERT, **changes))
    model.build()
    objective = contrastive.in_batch_negatives(20.0, scope=contrastive_step.scope())
    run = steps.make(model, objective, kind=kind, micro_batches=micro_batches)
    return model, objective, run


def train(kind, **options):
    """Results and weights after three steps."""
    model, _, run = make(kind, **options)
    results, _ = steps.call(run, steps.repeat(batch()), [1e-3] * 3)
    return results, steps.weights(model)


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.mark.slow
def test_parts_of_a_batch_train_as_the_whole():
    kind = contrastive_step.ContrastiveTrainStep
    whole, weights = train(kind, **NO_DROPOUT)
    parts, others = train(kind, micro_batches=4, **NO_DROPOUT)
    assert parts["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    assert parts["in_batch_accuracy"] == whole["in_batch_accuracy"]
    steps.assert_close(others, weights)
    # Parts that do not see one another have easier negatives.
    alone, _ = train(train_step.TrainStep, micro_batches=4, **NO_DROPOUT)
    assert alone["loss"] < whole["loss"] - 0.1


@pytest.mark.slow
@pytest.mark.parametrize("second_seed", [0, 1])
def test_both_passes_drop_the_same_entries(second_seed):
    """Gradients are those of one pass through all parts, with their seeds."""
    kind = contrastive_step.ContrastiveTrainStep
    model, objective, run = make(kind, micro_batches=2)
    features = {name: tf.constant(value) for name, value in batch().items()}
    first, step = tf.constant(6, tf.int64), tf.constant(9, tf.int64)
    counts = objective.counts(features)
    results = run._replica_gradients(features, counts, first, step, None)
    halves = [{name: v[i : i + 4] for name, v in features.items()} for i in (0, 4)]
    variables = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        vectors = tf.concat(
            [
                model(half, training=True, seed=tf.stack([first + number, step]))[
                    "vectors"
                ]
                for number, half in enumerate(halves, start=second_seed)
            ],
            axis=0,
        )
        (total,) = objective.totals(features, {"vectors": vectors}).values()
        loss = total / 8
    expected = tape.gradient(loss, variables)
    differences = [
        np.abs(tf.convert_to_tensor(a) - tf.convert_to_tensor(getattr(b, "total", b)))
        for a, b in zip(expected, results["gradients"], strict=True)
        if a is not None
    ]
    largest = max(map(np.max, differences))
    assert largest < 1e-5 if second_seed == 0 else largest > 1e-3
