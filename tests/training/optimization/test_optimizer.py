"""Tests of optimizer.py, steps.py and schedule.py.

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
from training import steps
from training.optimization import loss_scale, optimizer, schedule

# optimization.py: exclude_from_weight_decay.
ORIGINAL_EXCLUDED = re.compile("LayerNorm|layer_norm|bias")
# Softmax ignores what is added to all keys alike, so a key's bias has no gradient but
# rounding (norm 5e-9), of which Adam without warm start makes steps of full size.
NO_GRADIENT = re.compile("attention/self/key/bias$")


def repeated(features):
    return iter(tf.data.Dataset.from_tensors(features).repeat())


def train_function(model, adam, objective, seed=1):
    adam.build(model.trainable_variables)
    return steps.train_function(
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
        loss_scale.of({}),
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
    adam = optimizer.BertAdam()
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
    model, adam = make_pretrainer(), optimizer.BertAdam(bias_correction=True)
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
        is_decayed = optimizer.is_decayed(variable.path)
        assert is_decayed == (not ORIGINAL_EXCLUDED.search(name.google)), name
        decayed.add(is_decayed)
    assert decayed == {True, False}


def reference(p, g, m, v, *, rate, decay, step, correct):
    """optimization.py in float64; with Kingma and Ba's correction if asked for."""
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g**2
    scale = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1)) if correct else 1
    return p - rate * (scale * m / (np.sqrt(v) + 1e-6) + decay * p), m, v


def variable_of(values, name):
    return keras.Variable(np.asarray(values, np.float32), name=name)


@pytest.mark.parametrize("correct", [False, True])
@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
def test_update_is_the_formula(correct, clip_norm):
    rng = np.random.default_rng(1)
    variables = [
        variable_of(rng.normal(size=(4, 3)), "kernel"),
        variable_of(rng.normal(size=(3,)), "bias"),
    ]
    adam = optimizer.BertAdam(bias_correction=correct, clip_norm=clip_norm)
    adam.build(variables)
    state = [(np.asarray(v, np.float64), 0.0, 0.0) for v in variables]
    for step, rate in enumerate([0.1, 0.05, 0.2]):
        gradients = [rng.normal(size=v.shape) for v in variables]
        norm = np.sqrt(sum((g**2).sum() for g in gradients))
        reported = adam.apply_reduced(
            [tf.constant(g, tf.float32) for g in gradients], rate, step
        )
        assert float(reported) == pytest.approx(norm, rel=1e-5)
        assert norm > 1  # so that clipping does something
        scale = clip_norm / norm if clip_norm else 1.0
        state = [
            reference(
                *(p, g * scale, m, v),
                rate=rate,
                decay=decay,
                step=step,
                correct=correct,
            )
            for (p, m, v), g, decay in zip(state, gradients, (0.01, 0.0), strict=True)
        ]
        for variable, (p, _, _) in zip(variables, state, strict=True):
            np.testing.assert_allclose(variable, p, atol=1e-5)
    for (_, mean, square), (_, m, v) in zip(adam.slots(), state, strict=True):
        np.testing.assert_allclose(mean, m, atol=1e-6)
        np.testing.assert_allclose(square, v, atol=1e-6)


def test_small_gradients_are_not_scaled_up():
    variable = variable_of([1.0, 2.0], "bias")
    adam = optimizer.BertAdam(clip_norm=1.0)
    adam.build([variable])
    adam.apply_reduced([tf.constant([0.3, 0.4])], 0.1, 0)
    np.testing.assert_allclose(adam.slots()[0][1], [0.03, 0.04], rtol=1e-6)


def test_rows_without_a_gradient_move_too():
    """As in the original, where the gradient of a table is made dense."""
    tables = [variable_of(np.ones((4, 2)), "embeddings") for _ in range(2)]
    sparse = tf.IndexedSlices(tf.ones((2, 2)), tf.constant([1, 1]), tf.constant([4, 2]))
    for table, gradient in zip(
        tables, (sparse, tf.convert_to_tensor(sparse)), strict=True
    ):
        adam = optimizer.BertAdam(clip_norm=0.0)
        adam.build([table])
        for step in range(2):
            adam.apply_reduced([gradient], 0.1, step)
    np.testing.assert_array_equal(*map(np.asarray, tables))
    moved = 1 - np.asarray(tables[0])
    assert np.all(moved[1] > 0.1) and np.all(moved[[0, 2, 3]] > 0)


def test_norm_counts_each_row_of_a_gathered_table():
    """tf.clip_by_global_norm of the original sees rows as gathered, not summed."""
    sparse = tf.IndexedSlices(tf.ones((2, 2)), tf.constant([1, 1]), tf.constant([4, 2]))
    norms = []
    for gradient in (sparse, tf.convert_to_tensor(sparse)):
        adam = optimizer.BertAdam()
        adam.build([variable_of(np.ones((4, 2)), "embeddings")])
        norms.append(float(adam.apply_reduced([gradient], 0.1, 0)))
    np.testing.assert_allclose(norms, [2.0, 8.0**0.5], rtol=1e-6)


def test_slots_are_zeros_beside_their_variables(build_classifier):
    model, adam = build_classifier(), optimizer.BertAdam()
    assert adam.slots() == []
    adam.build(model.trainable_variables)
    slots = adam.slots()
    assert [variable for variable, _, _ in slots] == model.trainable_variables
    for variable, mean, square in slots:
        assert mean.shape == square.shape == variable.shape
        assert not np.any(np.asarray(mean)) and not np.any(np.asarray(square))
    assert len({id(part) for slot in slots for part in slot}) == 3 * len(slots)


def test_apply_equals_apply_reduced_on_one_device():
    rng = np.random.default_rng(1)
    start = rng.normal(size=(4, 3))
    first, second = (variable_of(start, "kernel") for _ in range(2))
    by_fit, by_loop = optimizer.BertAdam(0.1), optimizer.BertAdam()
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
        optimizer=optimizer.BertAdam(0.01),
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


def test_config_of_the_optimizer_builds_it_again():
    made = optimizer.BertAdam(
        0.5,
        weight_decay_rate=0.1,
        beta_1=0.8,
        beta_2=0.9,
        epsilon=0.25,
        clip_norm=2.0,
        bias_correction=True,
        name="other",
    )
    again = optimizer.BertAdam.from_config(made.get_config())
    assert again.get_config() == made.get_config()
    assert again.get_config() != optimizer.BertAdam().get_config()


def test_dropout_follows_from_the_step(build_classifier, classifier_batch):
    """And from the seed and the replica: test_two_replicas.py."""
    model, adam = build_classifier(), optimizer.BertAdam()
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


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 0.0),
        (1, 0.5),
        (3, 1.5),
        (4, 2.0 * (1 - 4 / 10)),  # drops: the fall is counted from step 0
        (5, 1.0),
        (9, 2.0 * (1 - 9 / 10)),
        (10, 0.0),
        (11, 0.0),
    ],
)
def test_schedule_warms_up_drops_and_ends_at_zero(step, expected):
    rate = schedule.linear_with_warmup(2.0, num_train_steps=10, num_warmup_steps=4)
    assert rate(step) == pytest.approx(expected, abs=1e-12)


def test_schedule_without_warmup_starts_at_the_peak():
    rate = schedule.linear_with_warmup(2.0, num_train_steps=4, num_warmup_steps=0)
    assert [rate(step) for step in range(5)] == [2.0, 1.5, 1.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("examples", "batch", "epochs", "expected"),
    [(3668, 32, 3.0, 343), (100, 32, 1.0, 3), (10, 32, 3.0, 0), (10, 4, 0.5, 1)],
)
def test_steps_are_counted_as_in_the_original(examples, batch, epochs, expected):
    """run_classifier.py: int(len(train_examples) / train_batch_size * epochs)."""
    assert schedule.count_steps(examples, batch, epochs) == expected
