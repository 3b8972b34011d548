"""Tests of training/train_step.py, mostly with a table whose gradients are known.

Values recorded from the original are in test_optimizers.py, two replicas in
test_two_replicas.py, and whole steps under XLA in test_compiled_steps.py. Sums over
parts of a batch are made in another order, which moves float32 values of order 1 by
about 1e-7; a loss divided by the count of its part moves them by 1e-3 and more.
"""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from tests.training import steps
from training import gradients_tf, train_step
from training.optimizers import bert_adam

# Times the first scale the square of the one overflows, the other itself; alone the
# loss and the gradients of both are finite, and of the first their norm, too.
LARGE, LARGEST = 1e15, 1e36


class Table(keras.Model):
    def build(self, input_shape=None):
        self.embeddings = self.add_weight(
            shape=(4, 2), initializer="ones", name="embeddings"
        )
        self.kernel = self.add_weight(shape=(2,), initializer="ones", name="kernel")

    def call(self, features, training=False, seed=None):
        rows = tf.gather(self.embeddings, features["input_ids"])  # [B, 2]
        return {"values": tf.reduce_sum(rows * self.kernel, axis=1)}


OBJECTIVE = losses.Objective(
    counts=lambda features: {"loss_of_rows": tf.constant(2.0)},
    totals=lambda features, outputs: {
        "loss_of_rows": tf.reduce_sum(features["factors"] * outputs["values"])
    },
    metrics=lambda features, outputs: {"ones": (tf.constant(2.0), tf.constant(4.0))},
)


def batches(*factors):
    """A batch of two rows for each factor of the loss, the same rows each time."""
    count = len(factors)
    return tf.data.Dataset.from_tensor_slices(
        {
            "input_ids": np.tile([1, 3], (count, 1)),
            "input_mask": np.ones((count, 2, 3), np.int32),
            "factors": np.tile(np.array(factors, np.float32)[:, None], (1, 2)),
        }
    )


class Trainer:
    def __init__(self, objective=OBJECTIVE, **options):
        self.model, self.adam = Table(), bert_adam.BertAdam()
        self.model.build()
        self.run = steps.make(self.model, objective, self.adam, **options)

    def __call__(self, iterator, count, scaling=None, step=0):
        options = {"count": count, "scaling": scaling, "step": step}
        return steps.call(self.run, iterator, [0.01] * 8, **options)

    def state(self):
        return [np.array(part) for slot in self.adam.slots() for part in slot]

    def assign(self, values):
        slots = [part for slot in self.adam.slots() for part in slot]
        for variable, value in zip(slots, values, strict=True):
            variable.assign(value)


def same(first, second):
    return [np.array_equal(a, b) for a, b in zip(first, second, strict=True)]


@pytest.fixture(scope="module")
def shared():
    """Two trainers that are traced once, with the state of their beginning."""
    return {scales: Trainer(scales_loss=scales) for scales in (False, True)}


@pytest.fixture
def trainer(shared):
    untouched = {scales: actual.state() for scales, actual in shared.items()}

    yield shared.__getitem__

    for scales, values in untouched.items():
        shared[scales].assign(values)


def test_results_are_means_and_sums_of_the_steps(trainer):
    results, scaling = trainer(False)(iter(batches(1, 2, 3)), 3)
    # Two rows of 2 ones, halved, times the factor; the weights move by a hundredth.
    assert results["loss"] == pytest.approx((2 + 4 + 6) / 3, rel=0.1)
    assert results["loss"] == results["loss_of_rows"]
    assert results["ones"] == 0.5
    expected = {"steps": 3, "examples": 6, "tokens": 18, "skipped": 0, "stop": 0}
    assert {name: results[name] for name in expected} == expected
    assert scaling == train_step.Scaling.from_state({}).to_state()  # as it was
    trainer(False)(iter(batches(1)), 1)  # which is not traced again
    assert trainer(False).run.compiled.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("before", [False, True])
def test_graphs_are_rewritten_where_the_plan_says_so(before):
    optimizer, option, seen, states = (
        tf.config.optimizer,
        "disable_meta_optimizer",
        [],
        [],
    )

    def metrics(*_):
        seen.append(optimizer.get_experimental_options()[option])
        return {}

    optimizer.set_experimental_options({option: before})
    try:
        objective = OBJECTIVE._replace(metrics=metrics)
        for rewrites in (True, False):
            trainer = Trainer(objective, rewrites_graphs=rewrites)
            trainer(iter(batches(1, 2)), 2)
            states.append(trainer.state())
            assert optimizer.get_experimental_options()[option] == before
    finally:
        optimizer.set_experimental_options({option: False})
    assert seen == [before, True]
    for one, other in zip(*states, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("factor", [LARGE, LARGEST])
def test_step_whose_gradient_overflows_changes_nothing(trainer, factor):
    scaled = trainer(True)
    before = scaled.state()
    results, scaling = scaled(iter(batches(factor)), 1)
    assert all(same(scaled.state(), before))
    assert results["skipped"] == 1 and results["steps"] == 1
    assert scaling == {"loss_scale": 2.0**14, "good_steps": 0}
    assert results["loss"] == results["gradient_norm"] == 0.0  # of no step
    if factor == LARGE:  # the twin: only the scale makes this gradient overflow
        plain = trainer(False)
        before = plain.state()
        results, _ = plain(iter(batches(LARGE)), 1)
        assert not any(same(plain.state(), before)) and results["skipped"] == 0
        assert results["loss"] == pytest.approx(2 * LARGE)


def test_steps_after_an_overflow_go_on(trainer):
    """The bad batch counts for the number of the step alone."""
    scaled = trainer(True)
    before = scaled.state()
    results, scaling = scaled(iter(batches(1, LARGEST, 2, 3)), 4)
    after = scaled.state()
    assert (results["steps"], results["skipped"]) == (4, 1)
    assert scaling == {"loss_scale": 2.0**14, "good_steps": 2}
    assert results["examples"] == 8
    scaled.assign(before)
    others, scaling = scaled(iter(batches(1, 2, 3)), 3)
    assert all(same(scaled.state(), after)) and not any(same(after, before))
    assert scaling == {"loss_scale": 2.0**15, "good_steps": 3}
    for name in ("loss", "loss_of_rows", "gradient_norm"):
        assert results[name] == pytest.approx(others[name], rel=1e-6), name


@pytest.mark.parametrize("scale", [2.0**-8, 2.0**15, 2.0**30])
def test_scale_moves_no_bit_of_the_result(trainer, scale):
    """A power of 2 multiplies and divides without rounding."""
    plain, scaled = trainer(False), trainer(True)
    factors = (1.1, -0.3, 0.7)
    expected, _ = plain(iter(batches(*factors)), 3)
    start = train_step.Scaling.from_state({"loss_scale": scale})
    results, _ = scaled(iter(batches(*factors)), 3, start)
    assert all(same(plain.state(), scaled.state())) and results == expected


def test_wish_to_stop_ends_a_call_after_one_step():
    stop = tf.Variable(0.0)
    trainer = Trainer(stop=stop)
    iterator = iter(batches(*range(1, 9)))
    results, _ = trainer(iterator, 3)
    assert (results["steps"], results["stop"]) == (3, 0)
    stop.assign(1.0)
    results, _ = trainer(iterator, 3, step=3)
    assert (results["steps"], results["stop"], results["examples"]) == (1, 1, 2)
    # Exactly one batch was taken, the one with the factor 4.
    assert float(next(iterator)["factors"][0]) == 5
    stop.assign(0.0)
    assert trainer(iterator, 2, step=4)[0]["steps"] == 2


def test_wish_is_read_at_each_step():
    """In one call: a batch on the way sets it, as another thread would."""
    stop = tf.Variable(0.0)
    trainer = Trainer(stop=stop)

    def wish(number, batch):
        def assign(at):
            if at == 3:
                stop.assign(1.0)

        tf.py_function(assign, [number], [])
        return batch

    options = tf.data.Options()  # no batch is made before its step
    options.experimental_optimization.inject_prefetch = False
    source = batches(*range(1, 9)).enumerate().map(wish).with_options(options)
    results, _ = trainer(iter(source), 8)
    assert results["stop"] == 1
    # The step of the batch numbered 3 may have looked before it took its batch.
    assert results["steps"] in (4, 5)


@pytest.mark.parametrize(("bad", "at"), [(np.nan, 1), (np.inf, 2), (np.nan, 5)])
def test_result_that_is_not_finite_ends_the_call_there(trainer, bad, at):
    factors = [1.0] * 7
    factors[at - 1] = bad
    iterator = iter(batches(*factors))
    results, _ = trainer(False)(iterator, 7)
    assert results["steps"] == at
    assert not np.isfinite(results["loss"]) and not np.isfinite(
        results["gradient_norm"]
    )
    assert len(list(iterator)) == 7 - at  # nothing was taken that was not trained on


def numbers(scaling):
    return float(scaling.scale), int(scaling.good_steps)


ALMOST = train_step.GROWTH_STEPS - 1


@pytest.mark.parametrize(
    ("start", "are_finite", "expected"),
    [
        ((1024.0, 7), [True], (1024.0, 8)),
        ((1024.0, 7), [False, False, True], (256.0, 1)),
        ((8.0, ALMOST - 1), [True], (8.0, ALMOST)),
        ((8.0, ALMOST - 1), [True, True, True], (16.0, 1)),
        # An overflow just before undoes all of them.
        ((8.0, ALMOST - 1), [True, False, True], (4.0, 1)),
        # Else the scale is infinite at last, and infinity halved is infinity.
        ((2.0**24, ALMOST), [True], (2.0**24, 0)),
        ((2.0**24, ALMOST), [True, False], (2.0**23, 0)),
        ((2.0**127, ALMOST), [True], (2.0**24, 0)),
    ],
)
def test_overflows_halve_the_scale_and_many_good_steps_double_it(
    start, are_finite, expected
):
    state = {"loss_scale": start[0], "good_steps": start[1]}
    scaling = train_step.Scaling.from_state(state)
    for is_finite in are_finite:
        scaling = scaling.update(tf.constant(is_finite))
    assert numbers(scaling) == expected
    state = json.loads(json.dumps(scaling.to_state()))
    again = train_step.Scaling.from_state({**state, "best_step": 3})
    assert numbers(again) == expected
    assert numbers(train_step.Scaling.from_state({})) == (32768.0, 0)


@pytest.mark.slow
def test_parts_of_a_batch_are_the_batch(build_pretrainer, make_pretraining_features):
    batches = steps.repeat(make_pretraining_features(8, 4))
    results, weights = [], []
    for parts in (1, 4):
        model = build_pretrainer(hidden_act="relu")  # XLA takes its time
        run = steps.make(model, losses.pretraining(), micro_batches=parts)
        results.append(steps.call(run, batches, [0.01] * 3)[0])
        weights.append(steps.weights(model))
    assert results[0] == pytest.approx(results[1], rel=1e-5)
    assert results[0]["examples"] == 3 * 8 and results[0]["tokens"] == 3 * 48
    steps.assert_close(*weights)


@pytest.mark.slow
def test_each_part_draws_its_own_dropout(build_classifier, classifier_batch):
    rows = {name: value[:1] for name, value in classifier_batch.items()}
    twice = {name: np.concatenate([v, v]) for name, v in rows.items()}
    seen = []

    def record(features, outputs):
        tf.py_function(lambda x: seen.append(x.numpy()), [outputs["logits"]], [])
        return {"classifier_loss": tf.reduce_sum(outputs["logits"])}

    objective = losses.classifier("classification")._replace(totals=record)
    run = steps.make(build_classifier(), objective, micro_batches=2)
    steps.call(run, steps.repeat(twice), [0.01])
    assert len(seen) == 2 and np.abs(seen[0] - seen[1]).max() > 1e-3


def test_sums_of_every_kind():
    features, adam = {"x": tf.reshape(tf.range(12.0), [6, 2])}, bert_adam.BertAdam()

    def function(number, part):
        first = part["x"][:, 0]  # [2]
        slices = tf.IndexedSlices(
            part["x"], tf.cast(first, tf.int32) // 8, tf.constant([3, 2])
        )
        return {"sum": tf.reduce_sum(first), "none": None}, [
            adam.prepare_for_sum(slices),
            number,
        ]

    @tf.function
    def add():
        return train_step.sum_of_parts(function, features, 3)

    sums, (rows, numbers) = add()
    assert float(sums["sum"]) == 0 + 2 + 4 + 6 + 8 + 10 and sums["none"] is None
    assert int(numbers) == 0 + 1 + 2
    assert isinstance(rows, gradients_tf.Rows)
    # Rows 0 to 3 of x belong to row 0 of the table, 4 and 5 to row 1.
    np.testing.assert_array_equal(rows.total, [[12, 16], [18, 20], [0, 0]])
    assert float(rows.squares) == sum(i**2 for i in range(12))
