"""Muon is the formula, on every network, resumed, and beside Keras' own.

Rounding of float32 reaches 1e-7 here; a momentum of 0.9, Jordan's scale, no Nesterov or
one step of Newton and Schulz less moves weights by 1e-4 and more.
"""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from modeling import losses, models
from modeling.checkpoints import google, names
from modeling.networks.encoder_decoder import config as pair_config
from modeling.networks.encoder_decoder import decoding
from modeling.networks.gpt import config as gpt_config
from tests.training import steps
from training import checkpoints
from training.optimizers import bert_adam, muon

RATES = [0.01, 0.02, 0.005, 0.01, 0.03]
# Paths, and shapes: wide, tall, three in one, and those of Adam.
SHAPES = {
    "block_0/ffn_in/kernel": (4, 9),
    "block_0/ffn_out/kernel": (9, 4),
    "block_1/attention/query_key_value/kernel": (1, 4, 12),
    "block_1/ffn_out/bias": (4,),
    "embeddings/word_embeddings": (7, 4),
    "classifier/logits/kernel": (4, 3),
}


def new_variables(seed=3):
    rng = np.random.default_rng(seed)
    made = []
    for path, shape in SHAPES.items():
        *scopes, name = ("model", "bert", *path.split("/"))
        value = rng.normal(size=shape).astype(np.float32)
        with contextlib.ExitStack() as entered:
            for scope in scopes:
                entered.enter_context(keras.name_scope(scope))
            made.append(keras.Variable(value, name=name))
    return made


def gradients_of(step):
    rng = np.random.default_rng([5, step])
    return [rng.normal(size=shape) for shape in SHAPES.values()]


def trained(made, variables):
    made.build(variables)
    for step, rate in enumerate(RATES):
        gradients = [tf.constant(g, tf.float32) for g in gradients_of(step)]
        made.apply_reduced(gradients, rate, step)
    return [np.asarray(each) for each in variables]


def newton_schulz(x, num_steps=5):
    if x.shape[0] > x.shape[1]:
        return newton_schulz(x.T, num_steps).T
    x = x / (np.sqrt(np.sum(x**2)) + 1e-7)
    for _ in range(num_steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def independent(*, momentum=0.95, nesterov=True, jordan=False, num_steps=5):
    """Weights after the steps, in float64, matrix by matrix."""
    values = [np.asarray(each, np.float64) for each in new_variables()]
    first, second = ([np.zeros_like(v) for v in values] for _ in range(2))
    for step, rate in enumerate(RATES):
        gradients = gradients_of(step)
        norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
        assert norm > 1
        for i, (path, gradient) in enumerate(zip(SHAPES, gradients, strict=True)):
            g = gradient / norm
            decay = 0.0 if path.endswith("bias") else 0.01
            if "block" in path and path.endswith("kernel"):
                first[i] = momentum * first[i] + (1 - momentum) * g
                look = (
                    momentum * first[i] + (1 - momentum) * g if nesterov else first[i]
                )
                update = np.zeros_like(g)
                width = 4 if "query_key_value" in path else g.shape[-1]
                for start in range(0, g.shape[-1], width):
                    part = look[..., start : start + width].reshape(-1, width)
                    rows, columns = part.shape
                    scale = 0.2 * np.sqrt(max(rows, columns))
                    if jordan:
                        scale = np.sqrt(max(1, rows / columns))
                    moved = scale * newton_schulz(part, num_steps)
                    update[..., start : start + width] = moved
            else:
                first[i] = 0.9 * first[i] + 0.1 * g
                second[i] = 0.999 * second[i] + 0.001 * g**2
                update = first[i] / (np.sqrt(second[i]) + 1e-6)
            values[i] = values[i] - rate * (update + decay * values[i])
    return values


def largest_difference(actual, expected):
    pairs = zip(actual, expected, strict=True)
    return max(np.abs(a - b).max() for a, b in pairs)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_steps_are_those_of_an_independent_loop(is_compiled, monkeypatch):
    made = muon.Muon()
    if is_compiled:  # as in the loop of training
        apply = tf.function(made.apply_reduced, autograph=False)
        monkeypatch.setattr(made, "apply_reduced", apply)
    actual = trained(made, new_variables())
    assert largest_difference(actual, independent()) < 1e-6
    for other in (
        {"momentum": 0.9},
        {"nesterov": False},
        {"jordan": True},
        {"num_steps": 4},
    ):
        assert largest_difference(actual[:3], independent(**other)[:3]) > 1e-4, other


def test_steps_of_a_kernel_are_those_of_keras():
    """Whose momentum is 20 times ours, which makes no difference to a direction."""
    theirs = keras.optimizers.Muon(weight_decay=None, adam_weight_decay=None)
    ours = muon.Muon(weight_decay_rate=0.0, clip_norm=0.0)
    pairs = new_variables()[:2], new_variables()[:2]
    ours.build(pairs[0])
    for step, rate in enumerate(RATES):
        gradients = [tf.constant(g, tf.float32) for g in gradients_of(step)[:2]]
        ours.apply_reduced(gradients, rate, step)
        theirs.learning_rate = rate
        theirs.apply(gradients, pairs[1])
    for mine, other in zip(*pairs, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-6)
    assert np.abs(np.asarray(pairs[0][0]) - new_variables()[0]).max() > 1e-3


def test_updates_are_near_orthogonal():
    x = np.random.default_rng(1).normal(size=(2, 6, 3)).astype(np.float32)
    for matrices in (x, x.swapaxes(1, 2)):
        values = np.linalg.svd(muon.orthogonal(tf.constant(matrices)), compute_uv=False)
        assert 0.6 < values.min() < values.max() < 1.3
    before = np.linalg.svd(x, compute_uv=False)
    assert before.max() / before.min() > 2
    np.testing.assert_array_equal(muon.orthogonal(tf.zeros([3, 4])), np.zeros([3, 4]))


SIZES = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}


def gpt():
    return models.BertClassifier(
        gpt_config.GptConfig.from_dict(
            {"vocab_size": 20, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2}
        ),
        3,
    )


def encoder_decoder(bert):
    made = pair_config.EncoderDecoderConfig.from_berts(
        bert, bert, decoder_start_token_id=1, eos_token_id=2
    )
    return decoding.SequenceToSequence(made)


def test_matrices_of_blocks_have_a_momentum_and_all_else_two_moments(tiny_config):
    for model, count in (
        (models.BertClassifier(tiny_config, 3), 6 * tiny_config.num_hidden_layers),
        (gpt(), 4 * 2),
        (encoder_decoder(tiny_config), (6 + 10) * tiny_config.num_hidden_layers),
    ):
        model.build()
        made = muon.Muon()
        made.build(model.trainable_variables)
        kinds = {tuple(slots) for _, slots in made.named_slots()}
        assert kinds == {("muon_m",), ("adam_m", "adam_v")}
        hidden = [v for v, slots in made.named_slots() if "muon_m" in slots]
        assert len(hidden) == count
        for variable, slots in made.named_slots():
            path = names.relative_path(variable)
            is_matrix = "block_" in path and len(variable.shape) > 1
            assert is_matrix == ("muon_m" in slots), path


def test_run_without_blocks_is_refused():
    muon.Muon.check(new_variables())
    with pytest.raises(errors.InputError, match="this run trains none; choose --optim"):
        muon.Muon.check(new_variables()[4:])


@pytest.mark.slow
def test_run_goes_on_bit_for_bit(build_classifier, classifier_batch, tmp_path):
    model, made = build_classifier(), muon.Muon()
    run = steps.make(model, losses.classifier("classification"), made)
    variables = google.variables(model)
    kept = checkpoints.RunCheckpoints(str(tmp_path), variables, made, max_to_keep=1)

    def trained(step):
        steps.call(run, steps.repeat(classifier_batch), [0.01] * 2, step=step)
        return np.concatenate([np.ravel(v) for v in model.trainable_variables])

    trained(0)
    kept.save(2, {})
    expected = trained(2)
    for row in made.slots():
        for each in row:
            each.assign(np.full(each.shape, 9.0))
    assert kept.restore() == (2, {})
    np.testing.assert_array_equal(trained(2), expected)
    kept.restore()
    for _, slots in made.named_slots():
        if "muon_m" in slots:
            slots["muon_m"].assign(0 * slots["muon_m"])
    assert np.abs(trained(2) - expected).max() > 1e-4
    # A run with another optimizer has other slots.
    other = bert_adam.BertAdam()
    other.build(model.trainable_variables)
    kept = checkpoints.RunCheckpoints(str(tmp_path), variables, other, max_to_keep=1)
    with pytest.raises(ValueError, match=r"kernel/adam_m is missing, this run wants"):
        kept.restore()
