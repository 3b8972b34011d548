"""Tests of training/optimization/accumulation.py: a batch in parts is the batch.

Sums are made in another order, which moves float32 values of order 1 by about 1e-7; a
loss divided by the count of its part moves them by 1e-3 and more.
"""

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from training import steps
from training.optimization import accumulation, gradients, loss_scale, optimizer

STRATEGY = tf.distribute.get_strategy()


def train(model, objective, features, micro_batches, num_steps=3):
    """(results, weights) after some steps on one batch."""
    adam = optimizer.BertAdam()
    adam.build(model.trainable_variables)
    run = steps.train_function(
        *(model, adam, objective, STRATEGY),
        seed=1,
        jit_compile=False,
        micro_batches=micro_batches,
    )
    results, _ = run(
        iter(tf.data.Dataset.from_tensors(features).repeat()),
        tf.fill([num_steps], 0.01),
        tf.constant(num_steps),
        tf.constant(0, tf.int64),
        loss_scale.of({}),
    )
    weights = {
        v.path.split("/", 1)[1]: np.asarray(v) for v in model.trainable_variables
    }
    return {name: float(value) for name, value in results.items()}, weights


@pytest.fixture(scope="module")
def pretraining_features(make_pretraining_features):
    return make_pretraining_features(8, 4)


def assert_equal_runs(run, other):
    results, weights = run
    others, other_weights = other
    assert results.keys() == others.keys() and weights.keys() == other_weights.keys()
    for name, value in results.items():
        assert others[name] == pytest.approx(value, rel=1e-5), name
    for path, value in weights.items():
        # What has no gradient but rounding is moved by Adam all the same.
        if not path.endswith("key/bias"):
            np.testing.assert_allclose(
                other_weights[path], value, atol=1e-5, err_msg=path
            )


@pytest.fixture(scope="module")
def whole(build_pretrainer, pretraining_features):
    model = build_pretrainer()
    return train(model, losses.pretraining(), pretraining_features, 1)


@pytest.mark.parametrize(
    "micro_batches",
    [
        pytest.param(2, marks=pytest.mark.slow),
        4,
        pytest.param(8, marks=pytest.mark.slow),
    ],
)
def test_parts_of_a_batch_are_the_batch(
    build_pretrainer, pretraining_features, whole, micro_batches
):
    parts = train(
        build_pretrainer(),
        losses.pretraining(),
        pretraining_features,
        micro_batches,
    )
    assert_equal_runs(whole, parts)
    assert parts[0]["examples"] == 3 * 8 and parts[0]["tokens"] == 3 * 48


@pytest.mark.slow
def test_first_step_is_equal_to_rounding(build_pretrainer, pretraining_features):
    """Before Adam, which divides by small roots, has made anything larger."""
    (one, _), (four, _) = (
        train(build_pretrainer(), losses.pretraining(), pretraining_features, k, 1)
        for k in (1, 4)
    )
    for name, value in one.items():
        assert four[name] == pytest.approx(value, rel=1e-6), name


@pytest.mark.slow
def test_losses_divided_by_the_count_of_a_part_are_told_apart(
    build_pretrainer, pretraining_features, whole
):
    """The twin: what many implementations of accumulation do."""
    objective = losses.pretraining()

    def mean_of_means(features, outputs):
        counts = objective.counts(features)
        totals = objective.totals(features, outputs)
        weights = tf.reduce_sum(pretraining_features["masked_lm_weights"]) / 4
        shares = {"masked_lm_loss": weights, "next_sentence_loss": 2.0}
        return {name: totals[name] / counts[name] * shares[name] for name in totals}

    wrong = losses.Objective(objective.counts, mean_of_means, objective.metrics)
    results, weights = train(build_pretrainer(), wrong, pretraining_features, 4)
    assert abs(results["masked_lm_loss"] - whole[0]["masked_lm_loss"]) > 1e-2
    moved = [np.abs(weights[path] - value).max() for path, value in whole[1].items()]
    assert max(moved) > 1e-3


@pytest.mark.slow
def test_gathered_rows_stay_those_of_the_batch(build_classifier, classifier_batch):
    """The norm counts rows of the table, which are not summed (test_optimizer.py)."""
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    objective = losses.classifier("classification")
    # The head's dropout does not follow the config.
    runs = []
    for micro_batches in (1, 4):
        model = build_classifier(**still)
        model.classifier.call = lambda x, logits=model.classifier.logits, **_: logits(x)
        runs.append(train(model, objective, classifier_batch, micro_batches))
    assert_equal_runs(*runs)


@pytest.mark.slow
def test_each_part_draws_its_own_dropout(build_classifier, classifier_batch):
    rows = {name: value[:1] for name, value in classifier_batch.items()}
    twice = {name: np.concatenate([v, v]) for name, v in rows.items()}
    seen = []

    def record(features, outputs):
        tf.py_function(lambda x: seen.append(x.numpy()), [outputs["logits"]], [])
        return {"classifier_loss": tf.reduce_sum(outputs["logits"])}

    objective = losses.classifier("classification")._replace(totals=record)
    train(build_classifier(), objective, twice, 2, num_steps=1)
    assert len(seen) == 2 and np.abs(seen[0] - seen[1]).max() > 1e-3


def test_sums_of_every_kind():
    features = {"x": tf.reshape(tf.range(12.0), [6, 2])}

    def function(number, part):
        first = part["x"][:, 0]  # [2]
        slices = tf.IndexedSlices(
            part["x"], tf.cast(first, tf.int32) // 8, tf.constant([3, 2])
        )
        return {"sum": tf.reduce_sum(first), "none": None}, [
            gradients.summed(slices),
            number,
        ]

    @tf.function
    def add():
        return accumulation.sum_of_parts(function, features, 3)

    sums, (rows, numbers) = add()
    assert float(sums["sum"]) == 0 + 2 + 4 + 6 + 8 + 10 and sums["none"] is None
    assert int(numbers) == 0 + 1 + 2
    assert isinstance(rows, gradients.Rows)
    # Rows 0 to 3 of x belong to row 0 of the table, 4 and 5 to row 1.
    np.testing.assert_array_equal(rows.total, [[12, 16], [18, 20], [0, 0]])
    assert float(rows.squares) == sum(i**2 for i in range(12))


def test_parts_are_consecutive_and_keep_what_is_known_of_shapes():
    value = tf.reshape(tf.range(24), [6, 2, 2])
    np.testing.assert_array_equal(
        accumulation.cut(value, 3), np.arange(24).reshape(3, 2, 2, 2)
    )

    def shape_of(*shape):
        specification = tf.TensorSpec(shape, tf.int32)
        cut = tf.function(lambda value: accumulation.cut(value, 3))
        return cut.get_concrete_function(specification).outputs[0].shape.as_list()

    assert shape_of(6, 2) == [3, 2, 2]
    assert shape_of(6, None) == [3, 2, None]
    assert shape_of(None, 5) == [3, None, 5]
    assert shape_of(6) == [3, 2]


@pytest.mark.parametrize(
    ("batch_size", "micro_batches", "replicas", "multiple"),
    [(36, 4, 2, 8), (6, 4, 1, 4), (7, 1, 2, 2)],
)
def test_batch_must_be_cut_equally(batch_size, micro_batches, replicas, multiple):
    """By the parts, by the devices alone, and by both together."""
    accumulation.check_batch_size(3 * multiple, micro_batches, replicas)
    with pytest.raises(ValueError) as caught:
        accumulation.check_batch_size(batch_size, micro_batches, replicas)
    assert str(caught.value) == (
        f"--train_batch_size={batch_size} is the whole batch of one update and cannot "
        f"be cut into --gradient_accumulation_steps={micro_batches} equal parts on "
        f"each of {replicas} replica{'s' * (replicas > 1)}; choose a multiple of "
        f"{multiple}"
    )
