"""Tests of training/layer_rates.py, and of the updates that it changes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from modeling.checkpoints import names
from modeling.networks import albert, catalogue, electra
from modeling.networks.elmo import config as elmo_config
from modeling.networks.gpt import config as gpt_config
from training import layer_rates
from training.optimizers import bert_adam

SIZES = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
BERTS = {"vocab_size": 30, "max_position_embeddings": 16, **SIZES}
ELECTRA_SMALL = electra.ElectraConfig.from_dict(
    {"model_type": "electra", **BERTS, "embedding_size": 4, "num_hidden_layers": 12}
)
HEAD = ("classifier/dense/kernel", "classifier/out_proj/bias")

DEPTH = catalogue.USUAL.depth


def published(name, decay, num_layers, above=2):
    """google-research/electra: the depth whose key is part of the name of a variable.

    In this rule heads are below task_specific/ and have depth num_layers + 2.
    """
    depths = {"/embeddings/": 0, "/embeddings_project/": 0}
    depths["task_specific/"] = num_layers + above
    depths |= {f"encoder/layer_{i}/": i + 1 for i in range(num_layers)}
    (depth,) = (depth for key, depth in depths.items() if key in name)
    return decay ** (num_layers + above - depth)


def test_rates_of_an_electra_are_the_published_ones():
    rows = [(row.path, row.google) for row in names.network_rows(ELECTRA_SMALL)]
    rows += [(path, f"task_specific/{path}") for path in HEAD]
    assert len(rows) == 12 * 16 + 5 + 2 + 2
    paths, theirs = zip(*rows, strict=True)
    factors = layer_rates.LayerRates(ELECTRA_SMALL.spec.depth, 0.8).factors(paths)
    assert factors == [published(name, 0.8, 12) for name in theirs]
    assert len(set(factors)) == 14
    # A head right above the top layer, as others have it, is another rule.
    assert factors != [published(name, 0.8, 12, above=1) for name in theirs]


ALBERT = albert.AlbertConfig.from_dict(
    {"model_type": "albert", **BERTS, "embedding_size": 4, "num_hidden_layers": 12}
)
GPT2 = gpt_config.GptConfig.from_dict(
    {"model_type": "gpt2", "vocab_size": 30, "n_embd": 8, "n_head": 2, "n_layer": 3}
)
ELMO = elmo_config.ElmoConfig(
    vocab_size=9,
    filters=((1, 4), (2, 4)),
    projection_dim=8,
    lstm_dim=12,
    num_hidden_layers=2,
)


@pytest.mark.parametrize(
    ("config", "depth", "few", "above"),
    [
        (
            ALBERT,  # twelve layers with the weights of one
            1,
            {"bert/block_0/ffn_in/kernel": 2, "bert/embeddings/projection/bias": 3},
            ("bert/pooler/kernel", "classifier/logits/kernel"),
        ),
        (
            GPT2,
            3,
            {"gpt/block_2/ffn_in/bias": 2, "gpt/embeddings/word_embeddings": 5},
            ("gpt/final_norm/gamma", "classifier/logits/kernel"),
        ),
        (
            ELMO,
            2,
            {
                "elmo/forward_1/kernel": 2,
                "elmo/backward_1/kernel": 2,
                "elmo/backward_0/bias": 3,
                "elmo/characters/embedding": 4,
            },
            ("layer_mix/weights", "bilstm/forward_0/kernel", "tagger/logits/kernel"),
        ),
    ],
)
def test_rates_follow_the_layers_of_each_network(config, depth, few, above):
    paths = [*(row.path for row in names.network_rows(config)), *above]
    rates = layer_rates.LayerRates(config.spec.depth, 0.5)
    by_path = dict(zip(paths, rates.factors(paths), strict=True))
    assert {path: by_path[path] for path in few} == {
        path: 0.5**power for path, power in few.items()
    }
    assert all(by_path[path] == 1.0 for path in above)
    below = [by_path[path] for path in paths if catalogue.layer_number(path) is None]
    assert set(below) == {1.0, 0.5 ** (depth + 2)}
    assert len(set(by_path.values())) == depth + 2


def test_a_variable_of_no_known_depth_is_refused():
    """It must not get the rate of a head in silence."""
    rates = layer_rates.LayerRates(DEPTH, 0.5)
    for path in ("bert/final_norm/gamma", "bert/rotations/kernel"):
        with pytest.raises(KeyError, match=f"{path} of BERT is neither"):
            rates.factors([*PATHS, path])
    assert rates.factors(PATHS)[-1] == 1
    pair = catalogue.of_model_type("encoder-decoder")
    with pytest.raises(errors.InputError, match="encoder-decoder has no order of lay"):
        layer_rates.LayerRates(pair.depth, 0.5).factors(PATHS)


PATHS = (
    "bert/embeddings/word_embeddings",
    "bert/block_0/ffn_in/kernel",
    "bert/block_1/ffn_in/kernel",
    "bert/pooler/bias",
    "classifier/logits/kernel",
)


def test_layers_wait_from_the_top_and_a_network_without_a_head_starts_at_once():
    rates = layer_rates.LayerRates(DEPTH, steps_per_layer=2.5)
    assert rates.first_steps(PATHS) == [8, 5, 3, 0, 0]
    assert rates.first_steps(PATHS[:3]) == [5, 3, 0]
    assert rates.first_steps(PATHS[3:]) == [0, 0]
    assert layer_rates.LayerRates(DEPTH, 0.9).first_steps(PATHS) == [0] * 5


@pytest.fixture
def update(build_classifier):
    """Updates of a classifier of two layers by random gradients.

    Returns {path: [weights, moments, ...]} and the norms of the steps.
    """

    def call(layers=None, kind=bert_adam.BertAdam, steps=1, waits=lambda *_: False):
        model, made = build_classifier(num_hidden_layers=2), kind()
        made.layers = layers
        variables = model.trainable_variables
        made.build(variables)
        paths, norms = [*map(names.relative_path, variables)], []
        rng = np.random.default_rng(3)
        for step in range(steps):
            gradients = [
                tf.constant(rng.normal(size=v.shape), tf.float32) for v in variables
            ]
            given = [
                None if waits(path, step) else gradient
                for path, gradient in zip(paths, gradients, strict=True)
            ]
            count = tf.constant(step, tf.int64)
            norms.append(float(made.apply_reduced(given, 0.1, count)))
        slots = [[np.array(value) for value in slot] for slot in made.slots()]
        return dict(zip(paths, slots, strict=True)), norms

    return call


def assert_same(actual, expected):
    for path, values in expected.items():
        for one, other in zip(actual[path], values, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=path)


@pytest.mark.slow
def test_same_rate_everywhere_changes_no_bit(update):
    plain, norms = update(steps=2)
    same, same_norms = update(layer_rates.LayerRates(DEPTH), steps=2)
    assert_same(same, plain)
    assert norms == same_norms


@pytest.mark.parametrize(
    "kind",
    [bert_adam.BertAdam, pytest.param(bert_adam.BertLamb, marks=pytest.mark.slow)],
)
def test_steps_are_as_long_as_the_rates(update, kind):
    start, _ = update(steps=0)
    plain, norms = update(kind=kind)
    slower, same_norms = update(layer_rates.LayerRates(DEPTH, 0.5), kind)
    assert norms == same_norms
    ratios = {}
    for path, (before, *_) in start.items():
        moved, less = plain[path][0] - before, slower[path][0] - before
        np.testing.assert_array_equal(slower[path][1:], plain[path][1:])
        ratios[path] = np.linalg.norm(less) / np.linalg.norm(moved)
    by_depth = {
        "bert/embeddings/word_embeddings": 1 / 16,
        "bert/block_0/ffn_in/kernel": 1 / 8,
        "bert/block_1/attention/query/bias": 1 / 4,
        "bert/pooler/kernel": 1,
        "classifier/logits/bias": 1,
    }
    for path, expected in by_depth.items():
        assert ratios[path] == pytest.approx(expected, rel=1e-4), path


# The second block begins at step 1, the first at 2, embeddings at 3.
FIRST = {"bert/block_1": 1, "bert/block_0": 2, "bert/embeddings": 3}


def waits(path, step):
    return step < FIRST.get("/".join(path.split("/")[:2]), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [bert_adam.BertAdam, pytest.param(bert_adam.BertLamb, marks=pytest.mark.slow)],
)
def test_a_layer_that_waits_is_as_one_without_a_gradient(update, kind):
    """Bit for bit: no step, no weight decay, no moments, no part of the norm.

    Corrections of bias, as GPT's Adam has them, count the steps of each layer, below.
    """
    layers = layer_rates.LayerRates(DEPTH, steps_per_layer=1)
    actual, norms = update(layers, kind, steps=3)
    expected, own_norms = update(None, kind, steps=3, waits=waits)
    assert_same(actual, expected)
    assert norms == pytest.approx(own_norms, rel=1e-6)
    start, (first, *_) = update(steps=0)[0], update(kind=kind)[1]
    assert norms[0] < 0.9 * first  # of all layers
    path = "bert/embeddings/word_embeddings"
    assert_same({path: actual[path]}, {path: start[path]})
    moved, _ = update(layers, kind, steps=4)
    assert np.abs(moved[path][0] - start[path][0]).max() > 1e-4
    sooner, _ = update(
        layer_rates.LayerRates(DEPTH, steps_per_layer=0.5), kind, steps=3
    )
    assert np.abs(sooner[path][0] - start[path][0]).max() > 1e-4


def corrected(kind, gradients, rate):
    """Adam with bias correction of a vector, as PyTorch's, from its first gradient."""
    value, mean, square = 0.0, 0.0, 0.0
    for t, gradient in enumerate(gradients, start=1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        # As published, epsilon stands beside the square of biased moments.
        root = np.sqrt(square) + kind().epsilon
        value -= rate * mean / root * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return value


def small(made, paths, layers):
    """Three zeros at each path, to be updated by layers."""
    variables = [keras.Variable(np.zeros(3, np.float32)) for _ in paths]
    for variable, path in zip(variables, paths, strict=True):
        variable._path = f"model/{path}"
    made.layers = layers
    made.build(variables)
    return variables


@pytest.mark.parametrize(
    ("reached", "turns"),
    [
        (PATHS[:3], [2, 1, 0, None, None]),  # the top layer does not wait for a pooler
        ((*PATHS[:3], PATHS[4]), [3, 2, 1, None, 0]),  # but for a classifier
        (PATHS, [3, 2, 1, 0, 0]),
        (PATHS[:2], [1, 0, None, None, None]),  # of a network that is read further down
    ],
)
def test_what_the_loss_does_not_reach_is_no_head(reached, turns):
    made = bert_adam.BertAdam()
    rates = layer_rates.LayerRates(DEPTH, 0.5, steps_per_layer=1)
    variables = small(made, PATHS, rates)
    gradients = [tf.ones([3]) if path in reached else None for path in PATHS]
    first: list = [None] * len(PATHS)
    for step in range(5):
        made.apply_reduced(list(gradients), 0.1, tf.constant(step, tf.int64))
        for place, variable in enumerate(variables):
            if first[place] is None and np.any(variable):
                first[place] = step
    assert first == turns


@pytest.mark.parametrize("kind", [bert_adam.BertAdam, bert_adam.GptAdam])
@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_bias_is_corrected_by_the_steps_of_each_layer(kind, decay):
    """Biases, which have no decay of weights, of a block that begins at step 3."""
    paths = ("bert/block_0/ffn_in/bias", "classifier/logits/bias")
    made = kind(bias_correction=True, clip_norm=0.0)
    rates = layer_rates.LayerRates(DEPTH, decay, steps_per_layer=3)
    variables = small(made, paths, rates)
    rows = np.random.default_rng(5).normal(size=[7, 3]).astype(np.float32)
    for step, row in enumerate(rows):
        gradients = [tf.constant(row), tf.constant(row)]
        made.apply_reduced(gradients, 0.1, tf.constant(step, tf.int64))
        late = corrected(kind, rows[3 : step + 1], 0.1 * decay**2)
        np.testing.assert_allclose(variables[0], late, rtol=1e-5, err_msg=str(step))
        whole = corrected(kind, rows[: step + 1], 0.1)
        np.testing.assert_allclose(variables[1], whole, rtol=1e-5, atol=1e-7)
