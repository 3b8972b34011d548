"""Tests of training/schedule.py; `fit` of Keras does what our loop does."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import heads, losses
from training import optimizers, schedule, train_step

RATES = {"learning_rate": 0.05, "num_train_steps": 6, "num_warmup_steps": 2}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


NO_GRADIENT = "key/bias"  # but rounding: softmax ignores what all keys have alike


def weights(model):
    return [
        np.asarray(variable)
        for variable in model.trainable_variables
        if not variable.path.endswith(NO_GRADIENT)
    ]


def furthest(first, second):
    return max(np.abs(a - b).max() for a, b in zip(first, second, strict=True))


def by_loop(model, dataset, num_steps):
    """The weights after some steps of the loop of this project."""
    adam = optimizers.BertAdam()
    adam.build(model.trainable_variables)
    run = train_step.TrainStep(
        *(model, adam, losses.classifier("classification")),
        *(tf.distribute.get_strategy(),),
        seed=1,
        jit_compile=False,
    )
    rate = schedule.linear_with_warmup(**RATES)
    rates = tf.constant([rate(step) for step in range(num_steps)], tf.float32)
    start = tf.constant(0, tf.int64)
    run(
        iter(dataset),
        rates,
        tf.constant(num_steps),
        start,
        train_step.Scaling.from_state({}),
    )
    return weights(model)


def compiled(model):
    model.compile(
        optimizer=optimizers.BertAdam(optimizers.LinearWithWarmup(**RATES)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


@pytest.mark.slow
def test_fit_saved_in_between_equals_the_loop(
    build_classifier, classifier_batch, tmp_path, monkeypatch
):
    monkeypatch.setattr(heads, "HEAD_DROPOUT", 0.0)  # whatever the config says
    order = np.random.default_rng(4).integers(0, 8, (6, 4))
    rows = {name: value[order] for name, value in classifier_batch.items()}
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    pairs = dataset.map(lambda batch: (batch, batch["label_ids"]))
    wanted = by_loop(build_classifier(**STILL), dataset, 6)

    model = compiled(build_classifier(**STILL))
    model.fit(pairs.take(3), shuffle=False, verbose=0)
    halfway = weights(model)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.05 * (1 - 3 / 6))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again.optimizer, optimizers.BertAdam)
    again.fit(pairs.skip(3), shuffle=False, verbose=0)
    assert furthest(weights(again), wanted) < 1e-6
    assert furthest(halfway, wanted) > 1e-2  # so the last three steps count
    assert int(again.optimizer.iterations) == 6
    assert float(again.optimizer.learning_rate) == 0.0


@pytest.mark.parametrize("num_warmup_steps", [0, 3])
def test_schedule_has_the_rates_of_the_loop(num_warmup_steps):
    arguments = {**RATES, "num_warmup_steps": num_warmup_steps}
    made = optimizers.LinearWithWarmup(**arguments)
    made = type(made).from_config(made.get_config())
    rate = schedule.linear_with_warmup(**arguments)
    found = [float(made(tf.constant(step, tf.int64))) for step in range(9)]
    assert found == [float(np.float32(rate(step))) for step in range(9)]
    assert len(set(found)) > 3 and found[6:] == [0.0, 0.0, 0.0]


def test_schedule_refuses_more_warm_up_than_steps():
    with pytest.raises(ValueError, match="num_train_steps=3, num_warmup_steps=4"):
        optimizers.LinearWithWarmup(1.0, 3, 4)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_fit_learns_in_mixed_precision(build_classifier, classifier_batch, policy):
    keras.config.set_dtype_policy(policy)
    try:
        model = build_classifier(**STILL)
        model.compile(
            optimizer=optimizers.BertAdam(0.01),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        labels = classifier_batch["label_ids"]
        found = model.fit(classifier_batch, labels, epochs=20, verbose=0).history
    finally:
        keras.config.set_dtype_policy("float32")
    assert found["loss"][-1] < 0.7 * found["loss"][0]
    assert all(v.dtype == "float32" for v in model.trainable_variables)


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


def opt_py(name, step, num_train_steps, warmup):
    """The functions of openai/finetune-transformer-lm's opt.py, by their formulas."""
    x = (step + 1) / num_train_steps
    s = float(x <= warmup)
    rises = s * (x / warmup)
    return {
        "gpt_cosine": rises + (1 - s) * 0.5 * (1 + math.cos(math.pi * x)),
        "gpt_constant": rises + (1 - s),
        "gpt_linear": (rises + (1 - s)) * (1 - x),
    }[name]


@pytest.mark.parametrize("name", ["gpt_linear", "gpt_cosine", "gpt_constant"])
@pytest.mark.parametrize(("steps", "warmup"), [(20, 0.25), (20, 0.13), (7, 0.002)])
def test_schedule_is_that_of_opt_py(name, steps, warmup):
    rate = schedule.SCHEDULES[name](2.0, steps, warmup * steps)
    for step in range(steps):
        expected = 2.0 * opt_py(name, step, steps, warmup)
        assert rate(step) == pytest.approx(expected, abs=1e-12)
    assert rate(steps + 3) == rate(steps - 1)  # never below 0, nor up again


def test_schedule_without_warmup_begins_at_its_function():
    assert schedule.SCHEDULES["gpt_constant"](0.5, 10, 0)(0) == 0.5
    assert schedule.SCHEDULES["gpt_linear"](0.5, 10, 0)(0) == pytest.approx(0.45)
