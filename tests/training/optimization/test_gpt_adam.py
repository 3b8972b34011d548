"""Tests of gpt_adam.py, and of GPT's schedules in schedule.py.

tiny_gpt_steps.npz was recorded from the graph of openai/finetune-transformer-lm: 12
updates of all weights on one batch, with losses before each. 1e-5 is what float32
leaves; without decay weights differ by 5e-5, with steps of other rates by more.
"""

import functools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import token_heads
from tests.modeling import left_to_right
from training.optimization import gpt_adam, optimizer, schedule

WIDTH, LM_WEIGHT = 32, 0.5
# Adam's first step has full length however small the gradient, so entries whose first
# gradient is a millionth (the norm of all is 4) follow the rounding of sums.
TINY, LOOSER = 2e-6, 2
# Variables whose true gradient is 0, so that Adam follows rounding: golden/gpt/README.
KEY_BIAS, CLASSIFIER_BIAS = "attn/c_attn/b", "clf/b"


def forward_losses(model, record):
    """Classification, LM and both together, of the two-answer examples."""
    ids = record["X"].reshape(8, 24, 2)[..., 0]
    features = left_to_right.features(ids, record["M"].reshape(8, 24))
    weights = tf.constant(features["input_mask"][:, 1:], tf.float32)
    table = model.network.embeddings.table()
    place = model.pooled_position(features)
    outputs = model.encode(features, None, table=table)
    pooled = tf.gather(outputs["sequence_output"], place[:, 0], batch_dims=1)
    answers = tf.reshape(model.classifier(pooled), (4, 2))
    choice = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(record["Y"], answers)
    )
    head = token_heads.make_token_head(model.config, "head")
    hidden, labels = outputs["sequence_output"][:, :-1], features["input_ids"][:, 1:]
    found = token_heads.predict_tokens(head, hidden, table, labels)
    sums = tf.reduce_sum(found["next_token_losses"] * weights, axis=1)
    language = tf.reduce_mean(sums / tf.reduce_sum(weights, axis=1))
    return choice, language, choice + LM_WEIGHT * language


@pytest.fixture(scope="module")
def recordings(shared_file):
    """Two dicts of arrays: the first weights with the batch, and what came of them."""
    first, *others = (
        dict(np.load(shared_file(f"golden/gpt/tiny_gpt{end}.npz")))
        for end in ("", "_steps", "_gradients")
    )
    return first, others[0] | others[1]


def trained(record, made, rate_of):
    """Losses before each of 12 updates, and the weights after 1, 2 and 12 of them."""
    model = left_to_right.gpt(record, left_to_right.choice)
    variables = left_to_right.named(model)
    made.build(model.trainable_variables)

    @tf.function
    def update(rate, step):
        with tf.GradientTape() as tape:
            found = forward_losses(model, record)
        gradients = tape.gradient(found[-1], [v.value for v in variables.values()])
        made.apply_reduced(gradients, rate, step)
        return tf.stack(found)

    losses, after = [], {}
    for step in range(12):
        losses.append(update(tf.constant(rate_of(step)), tf.constant(step)).numpy())
        if step + 1 in (1, 2, 12):
            after[step + 1] = {n: np.asarray(v).copy() for n, v in variables.items()}
    return np.stack(losses), after


def largest_difference(after, recorded):
    differences = {}
    for count, weights in after.items():
        for name, value in weights.items():
            expected = recorded[f"after_{count}/{name}"]
            distance = np.abs(value.reshape(expected.shape) - expected)
            is_tiny = np.abs(recorded[f"grad/{name}"]) < TINY
            if name.endswith(KEY_BIAS):
                distance[WIDTH : 2 * WIDTH] = 0
            elif not name.endswith(CLASSIFIER_BIAS):
                assert is_tiny.mean() < 0.01
            distance /= np.where(is_tiny, LOOSER, 1)
            if not name.endswith(CLASSIFIER_BIAS):
                differences[count, name] = distance.max()
    assert len(differences) == 3 * 38
    return max(differences.values())


RATE = schedule.SCHEDULES["gpt_linear"](6.25e-3, 12, 0.25 * 12)


def test_twelve_updates_are_those_of_the_original(recordings):
    record, recorded = recordings
    losses, after = trained(record, gpt_adam.GptAdam(), RATE)
    np.testing.assert_allclose(losses, recorded["step_losses"], atol=1e-5)
    assert largest_difference(after, recorded) < 1e-5


@pytest.mark.parametrize(
    ("made", "rate"),
    [
        pytest.param(
            functools.partial(optimizer.BertAdam, bias_correction=True, epsilon=1e-8),
            RATE,
            id="decay without correction",
        ),
        pytest.param(
            functools.partial(gpt_adam.GptAdam, weight_decay_rate=0.0), RATE, id="decay"
        ),
        pytest.param(
            functools.partial(gpt_adam.GptAdam, clip_norm=0.0), RATE, id="clipping"
        ),
        pytest.param(
            gpt_adam.GptAdam,
            schedule.linear_with_warmup(6.25e-3, 12, 3),
            id="BERT's schedule",
        ),
    ],
)
@pytest.mark.slow
def test_other_updates_are_told_apart(recordings, made, rate):
    record, recorded = recordings
    _, after = trained(record, made(), rate)
    assert largest_difference(after, recorded) > 3e-5


def test_decay_is_scaled_by_the_correction():
    """One number without a gradient's influence: only the decay moves it."""
    moved = {}
    for kind in (gpt_adam.GptAdam, optimizer.BertAdam):
        kernel = keras.Variable(np.ones((1, 1), np.float32), name="kernel")
        bias = keras.Variable(np.ones(1, np.float32), name="bias")
        made = kind(bias_correction=True, weight_decay_rate=0.5)
        made.build([kernel, bias])
        made.apply_reduced([tf.zeros((1, 1)), tf.zeros(1)], 0.1, 0)
        assert float(bias[0]) == 1.0
        moved[kind] = 1.0 - float(kernel[0, 0])
    correction = math.sqrt(1 - 0.999) / (1 - 0.9)
    assert moved[gpt_adam.GptAdam] == pytest.approx(0.05 * correction, rel=1e-4)
    assert moved[optimizer.BertAdam] == pytest.approx(0.05, rel=1e-4)


def test_updates_without_correction_are_refused():
    with pytest.raises(ValueError, match="GPT's Adam corrects the bias"):
        gpt_adam.GptAdam(bias_correction=False)
    made = gpt_adam.GptAdam(0.1, beta_2=0.99)
    assert gpt_adam.GptAdam.from_config(made.get_config()).epsilon == 1e-8
    assert gpt_adam.GptAdam.from_config(made.get_config()).beta_2 == 0.99


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


def test_schedules_differ():
    rates = {n: make(1.0, 10, 3)(5) for n, make in schedule.SCHEDULES.items()}
    assert len(set(rates.values())) == 4
    assert rates["linear"] == pytest.approx(0.5)
    assert rates["gpt_linear"] == pytest.approx(0.4)


def test_schedule_without_warmup_begins_at_its_function():
    assert schedule.SCHEDULES["gpt_constant"](0.5, 10, 0)(0) == 0.5
    assert schedule.SCHEDULES["gpt_linear"](0.5, 10, 0)(0) == pytest.approx(0.45)
