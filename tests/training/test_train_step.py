"""Tests of training/steps.py with a model of one table, whose gradients are known.

Values recorded from the original are in test_optimizer.py, two replicas in
test_two_replicas.py, and whole steps under XLA in test_compiled_steps.py.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from training import loop, optimizers, train_step

STRATEGY = tf.distribute.get_strategy()
# Times the first scale the square of the one overflows, the other itself; alone the
# loss and the gradients of both are finite, and of the first their norm, too.
LARGE, LARGEST = 1e15, 1e36


class Table(keras.Model):
    """Rows of a table, times a kernel."""

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
    """The model, its optimizer and the function that trains it."""

    def __init__(self, **options):
        self.model, self.adam = Table(), optimizers.BertAdam()
        self.model.build()
        self.adam.build(self.model.trainable_variables)
        self.run = train_step.TrainStep(
            *(self.model, self.adam, OBJECTIVE, STRATEGY),
            seed=1,
            jit_compile=False,
            **options,
        )

    def __call__(self, iterator, count, scaling=None, step=0):
        results, scaling = self.run(
            iterator,
            tf.fill([8], 0.01),
            tf.constant(count),
            tf.constant(step, tf.int64),
            scaling or train_step.Scaling.from_state({}),
        )
        results = {name: float(value) for name, value in results.items()}
        return results, scaling.to_state()

    def state(self):
        """Weights and moments, a copy."""
        return [np.array(part) for slot in self.adam.slots() for part in slot]


def same(first, second):
    return [np.array_equal(a, b) for a, b in zip(first, second, strict=True)]


@pytest.fixture(scope="module")
def shared():
    """Two trainers that are traced once, with the state of their beginning."""
    return {scales: Trainer(scales_loss=scales) for scales in (False, True)}


@pytest.fixture
def trainer(shared):
    """A function that gives one of them as new."""
    untouched = {scales: found.state() for scales, found in shared.items()}

    yield shared.__getitem__

    for scales, values in untouched.items():
        slots = [part for slot in shared[scales].adam.slots() for part in slot]
        for variable, value in zip(slots, values, strict=True):
            variable.assign(value)


def test_results_are_means_and_sums_of_the_steps(trainer):
    results, scaling = trainer(False)(iter(batches(1, 2, 3)), 3)
    # Two rows of 2 ones, halved, times the factor; the weights move by a hundredth.
    assert results["loss"] == pytest.approx((2 + 4 + 6) / 3, rel=0.1)
    assert results["loss"] == results["loss_of_rows"]
    assert results["ones"] == 0.5
    expected = {"steps": 3, "examples": 6, "tokens": 18, "skipped": 0, "stop": 0}
    assert {name: results[name] for name in expected} == expected
    assert scaling == train_step.Scaling.from_state({}).to_state()  # as it was


def test_calls_of_other_lengths_are_not_traced_again(trainer):
    trainer(False)(iter(batches(1)), 1)
    trainer(False)(iter(batches(1, 2, 3)), 3)
    assert trainer(False).run.compiled.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("factor", [LARGE, LARGEST])
def test_step_whose_gradient_overflows_changes_nothing(trainer, factor):
    scaled = trainer(True)
    before = scaled.state()
    results, scaling = scaled(iter(batches(factor)), 1)
    assert all(same(scaled.state(), before))
    assert results["skipped"] == 1 and results["steps"] == 1
    assert scaling == {"loss_scale": 2.0**14, "good_steps": 0}
    assert results["loss"] == results["gradient_norm"] == 0.0  # of no step


def test_same_step_without_scaling_changes_the_weights(trainer):
    """The twin: only the scale makes this gradient overflow."""
    plain = trainer(False)
    before = plain.state()
    results, _ = plain(iter(batches(LARGE)), 1)
    assert not any(same(plain.state(), before)) and results["skipped"] == 0
    assert results["loss"] == pytest.approx(2 * LARGE)


def test_steps_after_an_overflow_go_on(trainer):
    """As if the bad batch had not been there, but for the number of the step."""
    scaled = trainer(True)
    before = scaled.state()
    results, scaling = scaled(iter(batches(1, LARGEST, 2, 3)), 4)
    after = scaled.state()
    assert (results["steps"], results["skipped"]) == (4, 1)
    assert scaling == {"loss_scale": 2.0**14, "good_steps": 2}
    assert results["examples"] == 8

    for part, value in zip(
        (p for slot in scaled.adam.slots() for p in slot), before, strict=True
    ):
        part.assign(value)
    others, scaling = scaled(iter(batches(1, 2, 3)), 3)
    assert all(same(scaled.state(), after)) and not any(same(after, before))
    assert scaling == {"loss_scale": 2.0**15, "good_steps": 3}
    for name in ("loss", "loss_of_rows", "gradient_norm"):
        assert results[name] == pytest.approx(others[name], rel=1e-6), name


def test_scale_grows_within_a_call(trainer):
    start = {"loss_scale": 4.0, "good_steps": train_step.GROWTH_STEPS - 1}
    _, scaling = trainer(True)(
        iter(batches(1, 1, 1)), 3, train_step.Scaling.from_state(start)
    )
    assert scaling == {"loss_scale": 8.0, "good_steps": 2}


@pytest.mark.parametrize("scale", [2.0**-8, 2.0**15, 2.0**30])
def test_scale_moves_no_bit_of_the_result(trainer, scale):
    """A power of 2 multiplies and divides without rounding."""
    plain, scaled = trainer(False), trainer(True)
    factors = (1.1, -0.3, 0.7)
    expected, _ = plain(iter(batches(*factors)), 3)
    start = train_step.Scaling.from_state({"loss_scale": scale})
    results, _ = scaled(iter(batches(*factors)), 3, start)
    assert all(same(plain.state(), scaled.state())) and results == expected


def test_scaled_network_trains_to_the_same_bits(build_classifier, classifier_batch):
    """All the operations of the network, too; with dropout."""
    found = []
    for scales in (False, True):
        model, adam = build_classifier(), optimizers.BertAdam()
        before = [np.array(v) for v in model.trainable_variables]
        adam.build(model.trainable_variables)
        run = train_step.TrainStep(
            *(model, adam, losses.classifier("classification"), STRATEGY),
            seed=1,
            jit_compile=False,
            scales_loss=scales,
        )
        batches_of_one = tf.data.Dataset.from_tensors(classifier_batch).repeat()
        step = tf.constant(0, tf.int64)
        rates, count = tf.fill([3], 0.01), tf.constant(3)
        run(iter(batches_of_one), rates, count, step, train_step.Scaling.from_state({}))
        found.append([np.array(part) for slot in adam.slots() for part in slot])
    assert all(same(*found)) and not any(same(found[0][::3], before))


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


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("at", [1, 2, 5])
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


class Nowhere:
    """Checkpoints and reporter that keep nothing."""

    def save(self, step, state):
        return f"model.ckpt-{step}"

    def train(self, step, results, learning_rate):
        pass


def test_loop_says_which_step_was_not_finite(trainer):
    factors = [1.0] * 8
    factors[5] = float("nan")
    plan = loop.Plan(
        num_train_steps=8,
        learning_rate=lambda step: 0.01,
        save_steps=4,
        log_steps=8,
    )
    whole = loop.Loop(
        train_steps=trainer(False).run,
        plan=plan,
        checkpoints=Nowhere(),
        reporter=Nowhere(),
        name_batch=lambda step: f"with factor {factors[step]}",
    )
    with pytest.raises(FloatingPointError) as caught:
        whole.train(batches(*factors), 0, {})
    assert str(caught.value).startswith(
        "the loss is nan at step 6, of the batch with factor nan; the last checkpoint "
        "is of step 4: "
    )
