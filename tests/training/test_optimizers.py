"""Tests of training/optimizers.py.

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
from modeling.elmo import objective
from tests import elmo_streams
from training import carried_states, optimizers, schedule, train_step
from training.distribution import devices

# optimization.py: exclude_from_weight_decay.
ORIGINAL_EXCLUDED = re.compile("LayerNorm|layer_norm|bias")
# Softmax ignores what is added to all keys alike, so a key's bias has no gradient but
# rounding (norm 5e-9), of which Adam without warm start makes steps of full size.
NO_GRADIENT = re.compile("attention/self/key/bias$")

STRATEGY = tf.distribute.get_strategy()


def repeated(features):
    return iter(tf.data.Dataset.from_tensors(features).repeat())


def train_function(model, adam, objective, seed=1):
    adam.build(model.trainable_variables)
    return train_step.TrainStep(
        model,
        adam,
        objective,
        tf.distribute.get_strategy(),
        seed=seed,
        jit_compile=False,
    )


def call(run, batches, rates, step=0, count=None):
    """Does some steps; `rates` may be longer than their count."""
    results, _ = run(
        batches,
        tf.constant(rates, tf.float32),
        tf.constant(len(rates) if count is None else count),
        tf.constant(step, tf.int64),
        train_step.Scaling.from_state({}),
    )
    return {name: float(value) for name, value in results.items()}


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
    rate = schedule.linear_with_warmup(
        float(record["learning_rate"]),
        int(record["num_train_steps"]),
        int(record["num_warmup_steps"]),
    )
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
    """The recorded 12 steps, each in a call of its own, and then all in one call."""
    model = make_pretrainer()
    adam = optimizers.BertAdam()
    run = train_function(model, adam, losses.pretraining())
    rates = recorded_rates(optimizer_record)
    iterator = repeated(features_of(forward_record))
    state = [v for slot in adam.slots() for v in slot]
    before = [np.asarray(v).copy() for v in state]
    results = []
    for step in range(12):
        shifted = [*rates[step:], *rates[:step]]
        results.append(call(run, iterator, shifted, step, count=1))
        if step == 0:
            first_means = [np.asarray(mean, np.float64) for _, mean, _ in adam.slots()]
            first_weights = weights(model)
    one_by_one = weights(model)
    for variable, value in zip(state, before, strict=True):
        variable.assign(value)
    at_once_results = call(run, iterator, rates)
    return {
        "results": results,
        "first_means": dict(zip(one_by_one, first_means, strict=True)),
        "first_weights": first_weights,
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


def train_eagerly(model, adam, features, rates):
    """The same steps without compiling anything."""
    adam.build(model.trainable_variables)
    objective = losses.pretraining()
    counts = objective.counts(features)
    for step, rate in enumerate(rates):
        with tf.GradientTape() as tape:
            totals = objective.totals(features, model(features))
            loss = tf.add_n([totals[name] / counts[name] for name in totals])
        variables = [variable.value for variable in model.trainable_variables]
        adam.apply_reduced(tape.gradient(loss, variables), rate, step)


@pytest.mark.slow  # every day test_update_is_the_formula tells both apart
def test_bias_correction_is_told_apart(
    make_pretrainer, forward_record, optimizer_record
):
    """The twin of the two tests above."""
    model, adam = make_pretrainer(), optimizers.BertAdam(bias_correction=True)
    rates = recorded_rates(optimizer_record)
    train_eagerly(model, adam, features_of(forward_record), rates)
    assert largest_difference(weights(model), optimizer_record) > 1e-2


def test_first_gradients_equal_the_originals(
    recorded_run, make_pretrainer, optimizer_record
):
    """After one step m is (1 - beta_1) * g, clipped; its rate of 0 moves no weight."""
    scale = 0.1 / recorded_run["results"][0]["gradient_norm"]
    for name, mean in recorded_run["first_means"].items():
        norm = np.linalg.norm(mean) / scale
        expected = float(optimizer_record[f"gradient_norm/{name}"])
        # Norms of up to 1.3, sums of up to a million terms.
        assert norm == pytest.approx(expected, abs=1e-4), name
    for name, value in weights(make_pretrainer()).items():
        np.testing.assert_array_equal(recorded_run["first_weights"][name], value)


@pytest.mark.parametrize(
    "build",
    [
        lambda config: models.BertClassifier(config, 3),
        lambda config: models.BertTagger(config, 3),
        models.BertSpanPredictor,
        pretrainers.BertPretrainer,
    ],
    ids=["classifier", "tagger", "span", "pretrainer"],
)
def test_what_decays_is_what_decayed_in_the_original(tiny_config, build):
    model = build(tiny_config)
    model.build()
    decayed = set()
    for name, variable in names.named_variables(model):
        is_decayed = optimizers.is_decayed(variable.path)
        assert is_decayed == (not ORIGINAL_EXCLUDED.search(name.google)), name
        decayed.add(is_decayed)
    assert decayed == {True, False}


def reference(p, g, m, v, *, kind, rate, decay, step, correct):
    """One update in float64: optimization.py, algorithm 2 of You et al., or opt.py."""
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g**2
    scale = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1)) if correct else 1
    if kind is optimizers.GptAdam:
        rate, scale = rate * scale, 1
    epsilon = 1e-8 if kind is optimizers.GptAdam else 1e-6
    update = scale * m / (np.sqrt(v) + epsilon) + decay * p
    if kind is optimizers.BertLamb and decay:
        rate *= np.linalg.norm(p) / np.linalg.norm(update)
    return p - rate * update, m, v


def variable_of(values, name):
    return keras.Variable(np.asarray(values, np.float32), name=name)


@pytest.mark.parametrize(
    ("kind", "correct"),
    [
        (optimizers.BertAdam, False),
        (optimizers.BertAdam, True),
        (optimizers.BertLamb, False),
        (optimizers.BertLamb, True),
        (optimizers.GptAdam, True),
    ],
)
@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
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


def first_step(kind, values, gradients, **settings):
    """A kernel and a bias after one update of rate 0.1."""
    variables = [variable_of(values[0], "kernel"), variable_of(values[1], "bias")]
    made = kind(**settings)
    made.build(variables)
    made.apply_reduced([tf.constant(g, tf.float32) for g in gradients], 0.1, 0)
    return [np.asarray(variable) for variable in variables]


def test_step_of_lamb_is_a_share_of_the_weights_norm_whatever_the_gradients():
    rng = np.random.default_rng(1)
    values, gradients = rng.normal(size=(2, 4, 3))
    for scale in (1e-3, 1e3):
        pair = [gradients * scale, np.ones(3)]
        kernel, _ = first_step(
            optimizers.BertLamb, [values, np.ones(3)], pair, clip_norm=0.0
        )
        moved = np.linalg.norm(kernel - values)
        assert moved == pytest.approx(0.1 * np.linalg.norm(values), rel=1e-5)


def test_trust_ratio_is_1_where_a_norm_is_0():
    zeros, ones = [np.zeros((4, 3)), np.zeros(3)], [np.ones((4, 3)), np.ones(3)]
    kernel, _ = first_step(optimizers.BertLamb, zeros, ones)
    adam, _ = first_step(optimizers.BertAdam, zeros, ones)
    np.testing.assert_allclose(kernel, adam, atol=3e-5)
    assert np.abs(kernel).min() > 0.01
    for weights in first_step(optimizers.BertLamb, zeros, zeros):
        np.testing.assert_array_equal(weights, 0.0)


def test_small_gradients_are_not_scaled_up():
    variable = variable_of([1.0, 2.0], "bias")
    adam = optimizers.BertAdam(clip_norm=1.0)
    adam.build([variable])
    adam.apply_reduced([tf.constant([0.3, 0.4])], 0.1, 0)
    np.testing.assert_allclose(adam.slots()[0][1], [0.03, 0.04], rtol=1e-6)


def test_variable_without_a_gradient_is_left_alone():
    for kind in (optimizers.BertLamb, optimizers.BertAdam):
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
    """Values and slots of a table and a bias; the norm before clipping."""
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
        made = optimizers.BertAdam(clip_norm=0.0)
        results.append(after_a_step(made, [gradient, BIAS]))
    (rows, norm), (whole, norm_of_sums) = results
    for one, other in zip(rows, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert norm == pytest.approx((SQUARES_OF_SLICES + 9) ** 0.5, rel=1e-6)
    assert norm_of_sums == pytest.approx((SQUARES_OF_SUMS + 9) ** 0.5, rel=1e-6)
    # Rows without a gradient decay, as in the original.
    assert np.all(np.abs(rows[0][[0, 3]] - np.linspace(-1, 1, 8).reshape(4, 2)[[0, 3]]))


def test_divided_gradients_have_the_divided_norm():
    rows = optimizers.BertAdam().prepare_for_sum(SLICES)
    divided = [optimizers.divide(each, 4.0) for each in (rows, SLICES, None, BIAS)]
    assert divided[2] is None
    np.testing.assert_array_equal(divided[3], [0.75, 0.0])
    for gradient, total in ((divided[0], divided[0].total), (divided[1], divided[1])):
        expected = tf.convert_to_tensor(SLICES) / 4
        np.testing.assert_array_equal(tf.convert_to_tensor(total), expected)
        norm = float(optimizers.global_norm([gradient, None, divided[3]]))
        assert norm == pytest.approx((SQUARES_OF_SLICES + 9) ** 0.5 / 4, rel=1e-6)


def test_apply_equals_apply_reduced_on_one_device():
    rng = np.random.default_rng(1)
    start = rng.normal(size=(4, 3))
    first, second = (variable_of(start, "kernel") for _ in range(2))
    by_fit, by_loop = optimizers.BertAdam(0.1), optimizers.BertAdam()
    by_loop.build([second])
    for step in range(3):
        gradient = tf.constant(rng.normal(size=(4, 3)), tf.float32)
        by_fit.apply([gradient], [first])
        by_loop.apply_reduced([gradient], 0.1, step)
    np.testing.assert_array_equal(np.asarray(first), np.asarray(second))
    assert int(by_fit.iterations) == 3


@pytest.mark.slow
def test_fit_trains_with_it(build_classifier, classifier_batch):
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = build_classifier(**still)
    before = {v.path: np.asarray(v).copy() for v in model.trainable_variables}
    features = {k: v for k, v in classifier_batch.items() if k != "label_ids"}
    model.compile(
        optimizer=optimizers.BertAdam(0.01),
        loss={"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
    )
    labels = {"logits": classifier_batch["label_ids"]}
    history = model.fit(features, labels, epochs=20, batch_size=4, verbose=0).history
    assert history["loss"][-1] < 0.9 * history["loss"][0]
    unmoved = {
        v.path.split("/", 1)[1]
        for v in model.trainable_variables
        if np.array_equal(np.asarray(v), before[v.path])
    }
    assert unmoved == set()
    assert int(model.optimizer.iterations) == 40


MADE = [
    optimizers.BertAdam(
        optimizers.LinearWithWarmup(0.05, 6, 2),
        weight_decay_rate=0.1,
        beta_1=0.8,
        beta_2=0.9,
        epsilon=0.25,
        clip_norm=2.0,
        bias_correction=True,
        name="other",
    ),
    optimizers.BertLamb(optimizers.LinearWithWarmup(0.05, 6, 2), weight_decay_rate=0.3),
    optimizers.GptAdam(0.1, beta_2=0.99),
    optimizers.Adagrad(0.1, clip_norm=3.0, gradient_factor=20.0),
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


def test_gpt_adam_without_correction_is_refused():
    with pytest.raises(ValueError, match="GPT's Adam corrects the bias"):
        optimizers.GptAdam(bias_correction=False)


def test_dropout_follows_from_the_step(build_classifier, classifier_batch):
    """And from the seed and the replica: test_two_replicas.py."""
    model, adam = build_classifier(), optimizers.BertAdam()
    run = train_function(model, adam, losses.classifier("classification"))
    state = [v for slot in adam.slots() for v in slot]
    start = [np.asarray(v).copy() for v in state]

    def trained(first_step):
        for variable, value in zip(state, start, strict=True):
            variable.assign(value)
        call(run, repeated(classifier_batch), [0.01] * 3, first_step)
        return np.concatenate([np.ravel(v) for v in state])

    first = trained(0)
    np.testing.assert_array_equal(trained(0), first)
    assert np.abs(trained(3) - first).max() > 1e-3


ADAGRAD = {"clip_norm": 5.0, "gradient_factor": 2.0}


def test_slices_do_to_adagrad_what_the_whole_gradient_does():
    """Row 1 has two slices, which count as their sum."""
    (rows, norm), (whole, norm_of_whole) = (
        after_a_step(optimizers.Adagrad(**ADAGRAD), [gradient, BIAS])
        for gradient in (SLICES, tf.convert_to_tensor(SLICES))
    )
    for one, other in zip(rows, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert norm == pytest.approx(2 * np.sqrt(SQUARES_OF_SUMS + 9), rel=1e-6)
    assert norm_of_whole == pytest.approx(norm, rel=1e-6)


def test_step_of_adagrad_is_that_of_the_formula():
    (table, squares, bias, _), norm = after_a_step(
        optimizers.Adagrad(**ADAGRAD), [SLICES, BIAS]
    )
    gradient = np.array([[0, 0], [6, 8], [3, 4], [0, 0]]) * 2 * 5 / norm
    np.testing.assert_allclose(squares, 1 + gradient**2, rtol=1e-6)
    start = np.linspace(-1, 1, 8).reshape(4, 2)
    moved = start - 0.2 * gradient / np.sqrt(1 + gradient**2)
    np.testing.assert_allclose(table, moved, rtol=1e-6)
    np.testing.assert_array_equal(table[[0, 3]], start[[0, 3]].astype(np.float32))
    of_bias = 3 * 2 * 5 / norm
    expected = 0.5 - 0.2 * of_bias / np.sqrt(1 + of_bias**2)
    np.testing.assert_allclose(bias, [expected, -0.5], rtol=1e-6)


def test_limit_that_no_norm_reaches_is_none():
    free, wide, tight = (
        after_a_step(optimizers.Adagrad(clip_norm=norm), [SLICES, BIAS])[0]
        for norm in (0.0, 100.0, 1.0)
    )
    for one, other in zip(free, wide, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.abs(tight[0] - free[0]).max() > 1e-2


class ElmoTrainer:
    """The recorded network, trained as it was recorded."""

    def __init__(self, record, *, micro_batches=1, **changes):
        self.model = elmo_streams.model(record, **changes)
        self.optimizer = optimizers.Adagrad(clip_norm=1.0, gradient_factor=6.0)
        self.optimizer.build(self.model.trainable_variables)
        self.run = carried_states.CarryingTrainStep(
            carried_states.CarriedStates.make(self.model.states, 2, STRATEGY),
            *(self.model, self.optimizer, objective.objective(), STRATEGY),
            seed=1,
            jit_compile=False,
            micro_batches=micro_batches,
        )

    def __call__(self, batches, first_step=0):
        """Losses and norms of steps, one a call."""
        found = []
        for step, features in enumerate(batches, first_step):
            data = tf.data.Dataset.from_tensors(features)
            results, _ = self.run(
                iter(devices.distributed(STRATEGY, data)),
                tf.constant([0.2]),
                tf.constant(1),
                tf.constant(step, tf.int64),
                train_step.Scaling.from_state({}),
            )
            found.append((float(results["loss"]), float(results["gradient_norm"])))
        return found

    def weights(self):
        return {
            elmo_streams.original_name(v): np.array(v)
            for v in self.model.trainable_variables
        }


@pytest.fixture(scope="module")
def elmo_record():
    return elmo_streams.record()


def assert_recorded(weights, record, step):
    assert len(weights) == 31
    for name, value in weights.items():
        expected = record[f"train/after_{step}/{name}"]
        np.testing.assert_allclose(value, expected, atol=1e-5, err_msg=name)


def in_parts(features, parts):
    """The batch with words for each part, of which the pipeline makes a table each."""
    table = np.concatenate([features["distinct_words"]] * parts)
    return features | {"distinct_words": table}


@pytest.mark.parametrize("parts", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_three_steps_of_elmo_are_the_originals(elmo_record, parts):
    """Weights, losses, norms before clipping; also of rows one after another."""
    trainer = ElmoTrainer(elmo_record, micro_batches=parts)
    batches = [in_parts(elmo_streams.batch(elmo_record, n), parts) for n in range(3)]
    found = trainer(batches[:1])
    assert_recorded(trainer.weights(), elmo_record, 1)
    found += trainer(batches[1:], 1)
    assert_recorded(trainer.weights(), elmo_record, 3)
    np.testing.assert_allclose(found, elmo_record["train/losses_and_norms"], rtol=1e-5)
