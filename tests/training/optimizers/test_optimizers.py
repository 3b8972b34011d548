"""Tests of training/optimizers.

optimizer.npz was recorded from the original's optimizer; see tests/golden/README.md.
Over 12 steps of rate 2e-3 float32 rounding grows to about 1e-5 in losses of 10 and in
weights of 0.2; a missing decay, clipping or warm-up step moves them by 1e-3 and more.
"""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses, models, pretrainers
from modeling.checkpoints import names
from modeling.networks.elmo import objective
from tests import elmo_streams
from tests.training import steps
from training import carried_states, gradients_tf, schedule
from training.distribution import devices
from training.optimizers import adagrad, bert_adam, muon, warmup

# optimization.py: exclude_from_weight_decay.
ORIGINAL_EXCLUDED = re.compile("LayerNorm|layer_norm|bias")
# Softmax ignores what is added to all keys alike, so a key's bias has no gradient but
# rounding (norm 5e-9), of which Adam without warm start makes steps of full size.
NO_GRADIENT = re.compile("attention/self/key/bias$")


def weights(model):
    return {
        name.google: np.asarray(variable)
        for name, variable in names.named_variables(model)
    }


def features_of(record):
    names = ("input_ids", "input_mask", "segment_ids", "next_sentence_labels")
    masked = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
    return {name: record[name] for name in (*names, *masked)}


def recorded_rates(record):
    names = ("learning_rate", "num_train_steps", "num_warmup_steps")
    rate = schedule.linear_with_warmup(*(record[name].item() for name in names))
    return [rate(step) for step in range(12)]


def largest_difference(final, record):
    differences = []
    for name, value in final.items():
        if not NO_GRADIENT.search(name):
            expected = record[f"final/{name}"]
            differences.append(np.abs(value[: len(expected)] - expected).max())
    assert len(differences) == 62 - 3
    return max(differences)


@pytest.fixture(scope="module")
def recorded_run(make_pretrainer, forward_record, optimizer_record):
    model = make_pretrainer()
    adam = bert_adam.BertAdam()
    run = steps.make(model, losses.pretraining(), adam)
    rates = recorded_rates(optimizer_record)
    batches = steps.repeat(features_of(forward_record))
    state = [v for slot in adam.slots() for v in slot]
    before = [np.asarray(v).copy() for v in state]
    results = []
    for step in range(12):
        shifted = [*rates[step:], *rates[:step]]
        results.append(steps.call(run, batches, shifted, step=step, count=1)[0])
    one_by_one = weights(model)
    for variable, value in zip(state, before, strict=True):
        variable.assign(value)
    at_once_results, _ = steps.call(run, batches, rates)
    return {
        "results": results,
        "one_by_one": one_by_one,
        "at_once": weights(model),
        "at_once_results": at_once_results,
    }


def test_twelve_steps_equal_the_originals(
    recorded_run, forward_record, optimizer_record
):
    results = recorded_run["results"]
    np.testing.assert_allclose(
        [result["loss"] for result in results], optimizer_record["losses"], atol=1e-3
    )
    assert largest_difference(recorded_run["one_by_one"], optimizer_record) < 1e-4
    first = results[0]
    assert first["gradient_norm"] == pytest.approx(
        float(forward_record["global_norm"]), rel=1e-5
    )
    assert first["masked_lm_loss"] + first["next_sentence_loss"] == pytest.approx(
        first["loss"], rel=1e-6
    )
    assert first["examples"] == 8
    assert first["tokens"] == forward_record["input_mask"].sum()


def test_one_call_equals_twelve(recorded_run, optimizer_record):
    assert largest_difference(recorded_run["at_once"], optimizer_record) < 1e-4
    result = recorded_run["at_once_results"]
    mean = optimizer_record["losses"].mean()
    assert result["loss"] == pytest.approx(mean, abs=1e-3)
    assert result["examples"] == 12 * 8


def test_what_decays_is_what_decayed_in_the_original(tiny_config):
    for model in (
        models.BertTagger(tiny_config, 3),
        models.BertSpanPredictor(tiny_config),
        pretrainers.BertPretrainer(tiny_config),
    ):
        model.build()
        decayed = set()
        for name, variable in names.named_variables(model):
            is_decayed = bert_adam.is_decayed(variable.path)
            assert is_decayed == (not ORIGINAL_EXCLUDED.search(name.google)), name
            decayed.add(is_decayed)
        assert decayed == {True, False}


def reference(p, g, m, v, *, kind, rate, decay, step, correct):
    """One update in float64: optimization.py, algorithm 2 of You et al., or opt.py."""
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g**2
    scale = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1)) if correct else 1
    if kind is bert_adam.GptAdam:
        rate, scale = rate * scale, 1
    epsilon = 1e-8 if kind is bert_adam.GptAdam else 1e-6
    update = scale * m / (np.sqrt(v) + epsilon) + decay * p
    if kind is bert_adam.BertLamb and decay:
        rate *= np.linalg.norm(p) / np.linalg.norm(update)
    return p - rate * update, m, v


def variable_of(values, name):
    return keras.Variable(np.asarray(values, np.float32), name=name)


@pytest.mark.parametrize(
    ("kind", "correct", "clip_norm"),
    [
        (bert_adam.BertAdam, False, 1.0),
        (bert_adam.BertAdam, True, 0.0),
        (bert_adam.BertLamb, False, 0.0),
        (bert_adam.BertLamb, True, 1.0),
        (bert_adam.GptAdam, True, 1.0),
    ],
)
def test_update_is_the_formula(kind, correct, clip_norm):
    rng = np.random.default_rng(1)
    variables = [
        variable_of(rng.normal(size=(4, 3)), "kernel"),
        variable_of(rng.normal(size=(3,)), "bias"),
    ]
    made = kind(bias_correction=correct, clip_norm=clip_norm)
    made.build(variables)
    state = [(np.asarray(v, np.float64), 0.0, 0.0) for v in variables]
    for step, rate in enumerate([0.1, 0.05, 0.2]):
        gradients = [rng.normal(size=v.shape) for v in variables]
        norm = np.sqrt(sum((g**2).sum() for g in gradients))
        reported = made.apply_reduced(
            [tf.constant(g, tf.float32) for g in gradients], rate, step
        )
        assert float(reported) == pytest.approx(norm, rel=1e-5)
        assert norm > 1  # so that clipping does something
        scale = clip_norm / norm if clip_norm else 1.0
        state = [
            reference(
                *(p, g * scale, m, v),
                kind=kind,
                rate=rate,
                decay=decay,
                step=step,
                correct=correct,
            )
            for (p, m, v), g, decay in zip(state, gradients, (0.01, 0.0), strict=True)
        ]
        for variable, (p, _, _) in zip(variables, state, strict=True):
            np.testing.assert_allclose(variable, p, atol=1e-5)
    for (_, mean, square), (_, m, v) in zip(made.slots(), state, strict=True):
        np.testing.assert_allclose(mean, m, atol=1e-6)
        np.testing.assert_allclose(square, v, atol=1e-6)


def test_small_gradients_are_not_scaled_up():
    variable = variable_of([1.0, 2.0], "bias")
    adam = bert_adam.BertAdam(clip_norm=1.0)
    adam.build([variable])
    adam.apply_reduced([tf.constant([0.3, 0.4])], 0.1, 0)
    np.testing.assert_allclose(adam.slots()[0][1], [0.03, 0.04], rtol=1e-6)


def test_trust_ratio_is_1_where_a_norm_is_0():
    for gradient in (np.zeros((4, 3)), np.ones((4, 3))):
        moved = []
        for made in (bert_adam.BertLamb(), bert_adam.BertAdam()):
            kernel = variable_of(np.zeros((4, 3)), "kernel")
            made.build([kernel])
            made.apply_reduced([tf.constant(gradient, tf.float32)], 0.1, 0)
            moved.append(np.asarray(kernel))
        np.testing.assert_allclose(*moved, atol=3e-5)
        assert np.all((np.abs(moved[0]) > 0.01) == (gradient > 0))


def test_variable_without_a_gradient_is_left_alone():
    for kind in (bert_adam.BertLamb, bert_adam.BertAdam):
        kernel, other = (variable_of(np.ones((4, 3)), "kernel") for _ in range(2))
        made = kind()
        made.build([kernel, other])
        made.apply_reduced([None, tf.ones((4, 3))], 0.1, 0)
        np.testing.assert_array_equal(kernel, np.ones((4, 3)))
        assert np.abs(np.asarray(other) - 1).min() > 1e-4
        assert not np.any(np.asarray(made.slots()[0][1]))


# Row 1 of a table [4, 2] twice, row 2 once, the others never.
SLICES = tf.IndexedSlices(
    tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    tf.constant([1, 2, 1]),
    tf.constant([4, 2]),
)
SQUARES_OF_SLICES = 1 + 4 + 9 + 16 + 25 + 36
SQUARES_OF_SUMS = 6**2 + 8**2 + 3**2 + 4**2
BIAS = tf.constant([3.0, 0.0])


def after_a_step(made, gradients):
    variables = [
        variable_of(np.linspace(-1, 1, 8).reshape(4, 2), "table"),
        variable_of([0.5, -0.5], "bias"),
    ]
    made.build(variables)
    norm = made.apply_reduced(gradients, 0.2, tf.constant(0))
    return [np.array(part) for slot in made.slots() for part in slot], float(norm)


def test_rows_of_a_table_move_as_by_the_whole_gradient_and_count_each_in_the_norm():
    """tf.clip_by_global_norm of the original sees rows as gathered, not summed."""
    results = []
    for gradient in (SLICES, tf.convert_to_tensor(SLICES)):
        made = bert_adam.BertAdam(clip_norm=0.0)
        results.append(after_a_step(made, [gradient, BIAS]))
    (rows, norm), (whole, norm_of_sums) = results
    for one, other in zip(rows, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert norm == pytest.approx((SQUARES_OF_SLICES + 9) ** 0.5, rel=1e-6)
    assert norm_of_sums == pytest.approx((SQUARES_OF_SUMS + 9) ** 0.5, rel=1e-6)
    # Rows without a gradient decay, as in the original.
    assert np.all(np.abs(rows[0][[0, 3]] - np.linspace(-1, 1, 8).reshape(4, 2)[[0, 3]]))


def test_multiplied_gradients_have_the_multiplied_norm():
    rows = bert_adam.BertAdam().prepare_for_sum(SLICES)
    multiplied = [
        gradients_tf.multiply(each, 0.25) for each in (rows, SLICES, None, BIAS)
    ]
    assert multiplied[2] is None
    np.testing.assert_array_equal(multiplied[3], [0.75, 0.0])
    for gradient, total in (
        (multiplied[0], multiplied[0].total),
        (multiplied[1], multiplied[1]),
    ):
        expected = tf.convert_to_tensor(SLICES) / 4
        np.testing.assert_array_equal(tf.convert_to_tensor(total), expected)
        norm = float(gradients_tf.global_norm([gradient, None, multiplied[3]]))
        assert norm == pytest.approx((SQUARES_OF_SLICES + 9) ** 0.5 / 4, rel=1e-6)


def test_apply_equals_apply_reduced_on_one_device():
    rng = np.random.default_rng(1)
    start = rng.normal(size=(4, 3))
    first, second = (variable_of(start, "kernel") for _ in range(2))
    by_fit, by_loop = bert_adam.BertAdam(0.1), bert_adam.BertAdam()
    by_loop.build([second])
    for step in range(3):
        gradient = tf.constant(rng.normal(size=(4, 3)), tf.float32)
        by_fit.apply([gradient], [first])
        by_loop.apply_reduced([gradient], 0.1, step)
    np.testing.assert_array_equal(np.asarray(first), np.asarray(second))
    assert int(by_fit.iterations) == 3


MADE = [
    bert_adam.BertAdam(
        warmup.LinearWithWarmup(0.05, 6, 2),
        weight_decay_rate=0.1,
        beta_1=0.8,
        beta_2=0.9,
        epsilon=0.25,
        clip_norm=2.0,
        bias_correction=True,
        name="other",
    ),
    bert_adam.BertLamb(warmup.LinearWithWarmup(0.05, 6, 2), weight_decay_rate=0.3),
    bert_adam.GptAdam(0.1, beta_2=0.99),
    adagrad.Adagrad(0.1, clip_norm=3.0, gradient_factor=20.0),
    muon.Muon(0.1, momentum=0.9),
]


@pytest.mark.parametrize("made", MADE, ids=lambda made: type(made).__name__)
def test_optimizer_is_made_again_from_its_config(made):
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(made)
    )
    assert type(again) is type(made)
    assert str(again.get_config()) == str(made.get_config())
    assert str(again.get_config()) != str(type(made)().get_config())
    for optimizer in (made, again):
        optimizer.iterations.assign(1)
    assert float(again.learning_rate) == float(made.learning_rate) > 0


def test_defaults_are_those_of_the_papers():
    rates = [
        pytest.approx(made.get_config()["learning_rate"])
        for made in (bert_adam.BertAdam(), bert_adam.BertLamb(), bert_adam.GptAdam())
    ]
    assert rates == [5e-5, 5e-5, 6.25e-5]
    usual = bert_adam.BertAdam()
    assert (usual.weight_decay_rate, usual.epsilon, usual.max_norm) == (0.01, 1e-6, 1.0)
    assert (usual.beta_1, usual.beta_2, usual.bias_correction) == (0.9, 0.999, False)
    assert (bert_adam.GptAdam().epsilon, bert_adam.GptAdam().beta_2) == (1e-8, 0.999)
    one_step = warmup.LinearWithWarmup(0.5, 1)
    assert [float(one_step(step)) for step in (0, 1, 9)] == [0.5, 0.0, 0.0]


@pytest.mark.slow
def test_dropout_follows_from_the_step(build_classifier, classifier_batch):
    model, adam = build_classifier(), bert_adam.BertAdam()
    run = steps.make(model, losses.classifier("classification"), adam)
    state = [v for slot in adam.slots() for v in slot]
    start = [np.asarray(v).copy() for v in state]

    def trained(first_step):
        for variable, value in zip(state, start, strict=True):
            variable.assign(value)
        steps.call(run, steps.repeat(classifier_batch), [0.01] * 3, step=first_step)
        return np.concatenate([np.ravel(v) for v in state])

    first = trained(0)
    np.testing.assert_array_equal(trained(0), first)
    assert np.abs(trained(3) - first).max() > 1e-3


def test_step_of_adagrad_is_that_of_the_formula():
    (table, squares, bias, _), norm = after_a_step(
        adagrad.Adagrad(clip_norm=5.0, gradient_factor=2.0), [SLICES, BIAS]
    )
    # Row 1 has two slices, which count as their sum.
    assert norm == pytest.approx(2 * np.sqrt(SQUARES_OF_SUMS + 9), rel=1e-6)
    gradient = np.array([[0, 0], [6, 8], [3, 4], [0, 0]]) * 2 * 5 / norm
    np.testing.assert_allclose(squares, 1 + gradient**2, rtol=1e-6)
    start = np.linspace(-1, 1, 8).reshape(4, 2)
    moved = start - 0.2 * gradient / np.sqrt(1 + gradient**2)
    np.testing.assert_allclose(table, moved, rtol=1e-6)
    np.testing.assert_array_equal(table[[0, 3]], start[[0, 3]].astype(np.float32))
    bias_gradient = 3 * 2 * 5 / norm
    expected = 0.5 - 0.2 * bias_gradient / np.sqrt(1 + bias_gradient**2)
    np.testing.assert_allclose(bias, [expected, -0.5], rtol=1e-6)


@pytest.mark.slow
def test_three_steps_of_elmo_are_the_originals():
    record, strategy = elmo_streams.record(), tf.distribute.get_strategy()
    model = elmo_streams.model(record)
    optimizer = adagrad.Adagrad(clip_norm=1.0, gradient_factor=6.0)
    optimizer.build(model.trainable_variables)
    run = carried_states.CarryingTrainStep(
        carried_states.CarriedStates.make(model.states, 2, strategy),
        steps.plan(strategy=strategy),
        *(model, optimizer, objective.objective()),
    )
    for step, numbers in enumerate(record["train/losses_and_norms"]):
        data = tf.data.Dataset.from_tensors(elmo_streams.batch(record, step))
        batches = devices.distributed(strategy, data)
        results, _ = steps.call(run, batches, [0.2], step=step)
        pair = results["loss"], results["gradient_norm"]
        np.testing.assert_allclose(pair, numbers, rtol=1e-5)
        if step in (0, 2):
            assert len(model.trainable_variables) == 31
            for variable in model.trainable_variables:
                name = elmo_streams.original_name(variable)
                expected = record[f"train/after_{step + 1}/{name}"]
                np.testing.assert_allclose(variable, expected, atol=1e-5, err_msg=name)


def test_blocks_updated_by_one_function_are_updated_as_others(monkeypatch):
    """For all blocks but the one whose gradient is None."""

    def updated():
        variables = []
        for i in range(5):
            with keras.name_scope("model"), keras.name_scope(f"block_{i}"):
                for name in ("kernel", "bias"):
                    value = np.full([2, 3], 0.5, np.float32)
                    variables.append(keras.Variable(value, name=name))
        adam = bert_adam.BertAdam(clip_norm=0.0)
        adam.build(variables)
        gradients = [tf.fill([2, 3], 0.1 * i) for i in range(len(variables))]
        gradients[3] = None

        @tf.function
        def step():
            adam.apply_reduced(gradients, 0.1, tf.constant(0, tf.int64))

        step()
        types = [
            each.type for each in step.get_concrete_function().graph.get_operations()
        ]
        return np.stack([v.numpy() for v in variables]), types

    values, types = updated()
    monkeypatch.setattr(gradients_tf, "_FEW_BLOCKS", 9)
    expected, others = updated()
    np.testing.assert_array_equal(values, expected)
    assert types.count("AssignVariableOp") == 0 < others.count("AssignVariableOp")
    assert np.all(values[3] == 0.5) and np.all(values[4] != 0.5)
    assert not np.array_equal(values[4], values[5])  # of which one decays
