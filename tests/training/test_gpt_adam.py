"""GPT's optimizer against twelve updates of the original.

tiny_gpt_steps.npz was recorded from the graph of openai/finetune-transformer-lm: 12
updates of all weights on one batch, with losses before each. 1e-5 is what float32
leaves; without decay weights differ by 5e-5, with steps of other rates by more.
"""

import numpy as np
import pytest
import tensorflow as tf

from modeling import token_heads
from tests.modeling import left_to_right
from training import schedule
from training.optimizers import bert_adam

WIDTH, LM_WEIGHT = 32, 0.5
# Adam's first step has full length however small the gradient, so entries whose first
# gradient is a millionth (the norm of all is 4) follow the rounding of sums.
TINY, LOOSER = 2e-6, 2
# Variables whose true gradient is 0, so that Adam follows rounding: golden/gpt/README.
KEY_BIAS, CLASSIFIER_BIAS = "attn/c_attn/b", "clf/b"


def forward_losses(model, record):
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
    actual = token_heads.predict_tokens(head, hidden, table, labels)
    sums = tf.reduce_sum(actual["next_token_losses"] * weights, axis=1)
    language = tf.reduce_mean(sums / tf.reduce_sum(weights, axis=1))
    return choice, language, choice + LM_WEIGHT * language


@pytest.fixture(scope="module")
def recordings(shared_file):
    first, *others = (
        dict(np.load(shared_file(f"golden/gpt/tiny_gpt{end}.npz")))
        for end in ("", "_steps", "_gradients")
    )
    return first, others[0] | others[1]


def trained(record, made, rate_of):
    model = left_to_right.gpt(record, left_to_right.choice)
    variables = left_to_right.named(model)
    made.build(model.trainable_variables)

    @tf.function
    def update(rate, step):
        with tf.GradientTape() as tape:
            actual = forward_losses(model, record)
        gradients = tape.gradient(actual[-1], [v.value for v in variables.values()])
        made.apply_reduced(gradients, rate, step)
        return tf.stack(actual)

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


@pytest.mark.slow
def test_twelve_updates_are_those_of_the_original(recordings):
    record, recorded = recordings
    losses, after = trained(record, bert_adam.GptAdam(), RATE)
    np.testing.assert_allclose(losses, recorded["step_losses"], atol=1e-5)
    assert largest_difference(after, recorded) < 1e-5
