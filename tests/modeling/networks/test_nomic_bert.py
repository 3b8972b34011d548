"""NomicBERT: recorded outputs and gradients of transformers, and its configs.

The recorded weights have a deviation of 0.4, so that outputs are of order 1; 1e-5 is
the rounding of float32, and a change that must be seen is 0.01 or more.
"""

import json

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from contract import errors
from data_pipeline.batches import sharing
from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import comparison, conversion, names
from modeling.features import attention_maps
from modeling.networks import nomic_bert
from tasks import conversion as conversion_task
from tests import daily, family_weights, read_model
from training import layer_rates

ROUNDING, VISIBLE = 1e-5, 1e-2
CASES = family_weights.read_cases(family_weights.RECORDED.with_name("nomic_bert.npz"))
RELEASED, CLASSIFIER = "nomic_bert-Model", "nomic_bert-ForSequenceClassification"
UNTIED = "nomic_bert-ForMaskedLM-untied"


def read_case(name, directory):
    CASES[name].write(directory)
    config = model_directory.read_config(directory / "config.json")
    return read_model.read(directory, config)


def features(name=RELEASED):
    given = CASES[name].features()
    if "MaskedLM" not in name:
        del given["masked_lm_positions"]
    return {key: tf.constant(value) for key, value in given.items()}


def make(head="none", classes=None, **changes):
    keras.utils.set_random_seed(3)
    sizes = CASES[CLASSIFIER].config | {"rope_parameters": {"rope_theta": 100.0}}
    config = nomic_bert.NomicBertConfig.from_dict({**sizes, **changes})
    return pretrainers.build(head, classes, config)


def sequence(model, given, positions=None):
    return np.asarray(model.encode(given, None, positions)["sequence_output"])


@pytest.mark.parametrize(
    "name", daily.params(sorted(CASES), lambda name: "Token" not in name)
)
def test_outputs_and_gradients_are_those_of_transformers(name, tmp_path):
    read, case = read_case(name, tmp_path), CASES[name]
    assert not read.report.unused and not read.report.prefixes
    assert all("/pooler/" in key for key in read.report.missing)
    model, given = read.model, features(name)
    is_real, expected = given["input_mask"].numpy() == 1, case.outputs
    if "hidden_states" in expected:
        outputs = model.encode(given, None)
        states = np.stack([outputs["embedding_output"], *outputs["layer_outputs"]])
        expected = expected["hidden_states"]
        assert np.abs(states - expected)[:, is_real].max() < ROUNDING
        return
    with tf.GradientTape() as tape:
        outputs = model(given)
        logits = outputs.get("logits", outputs.get("masked_lm_logits"))
        if name == CLASSIFIER:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                case.labels["labels"], logits
            )
            loss = tf.reduce_mean(losses)
    distance = np.abs(logits - expected["logits"])
    distance = distance if name == CLASSIFIER else distance[is_real]
    assert distance.max() < ROUNDING
    if name == CLASSIFIER:
        np.testing.assert_allclose(loss, case.loss, rtol=1e-5)
        rows = names.named_variables(model)
        slopes = tape.gradient(loss, [variable.value for _, variable in rows])
        for (row, _), slope in zip(rows, slopes, strict=True):
            slope = row.to_hugging_face(tf.convert_to_tensor(slope).numpy())
            wanted = case.gradients[row.hugging_face]
            np.testing.assert_allclose(slope, wanted, atol=ROUNDING)
            assert np.abs(wanted).max() > 1e-3, row.path


@pytest.mark.parametrize("target", ["hugging_face", "google"])
@pytest.mark.parametrize(
    "name",
    daily.params(sorted(CASES), lambda name: name == UNTIED),
)
def test_files_hold_the_same(name, target, tmp_path):
    model = read_case(name, tmp_path / "a").model
    conversion.write_directory(tmp_path / target, model, target)
    again = conversion_task.read_again(tmp_path / target, "auto")
    assert type(again) is type(model)
    assert again.config.network_alone() == model.config.network_alone()
    assert comparison.compare(model, again) == 0
    if target == "hugging_face":
        written = safetensors.numpy.load_file(tmp_path / target / "model.safetensors")
        prefix = "nomic_bert." if name == RELEASED else ""
        kept = {key.removeprefix(prefix) for key in written}
        # The head's own bias stands beside that of its product; poolers are random.
        kept -= {"cls.predictions.bias"} if name == UNTIED else set()
        shapes = CASES[name].shapes.keys()
        shapes -= {"cls.predictions.bias"} if name == UNTIED else set()
        assert {key for key in kept if "pooler" not in key} == {
            key for key in shapes if "pooler" not in key
        }
        raw = json.loads((tmp_path / target / "config.json").read_text())
        expected = {"rope_type": "default", "rope_theta": 100.0}
        assert raw["rope_parameters"] == expected and raw["hidden_size"] == 8
        assert raw["architectures"] == CASES[name].config["architectures"]


def test_chosen_positions_have_the_outputs_of_all():
    model, positions = make(), tf.constant([[0, 8, 3], [5, 1, 1]])
    every = sequence(model, features())
    picked = np.take_along_axis(every, positions.numpy()[..., None], axis=1)
    actual = sequence(model, features(), positions)
    np.testing.assert_allclose(actual, picked, atol=ROUNDING)
    turned = {key: value[:1, ::-1] for key, value in features().items()}
    turned = sequence(model, turned)[0, ::-1]
    assert np.abs(turned - every[0]).max() > VISIBLE  # positions are read


def test_sequences_that_share_rows_are_as_apart():
    model, lengths = make(), np.array([5, 3, 7, 6])
    mask = (np.arange(16) < lengths[:, None]).astype(np.int32)
    ids = np.random.default_rng(5).integers(1, 40, mask.shape, np.int32) * mask
    given = {"input_ids": ids, "input_mask": mask, "segment_ids": mask * (ids % 2)}
    (packed,) = sharing.share_rows(tf.data.Dataset.from_tensors(given), 1, None)
    assert packed["packed_sources"].shape[0] < 4
    expected, actual = (sequence(model, each)[mask == 1] for each in (given, packed))
    np.testing.assert_allclose(actual, expected, atol=ROUNDING)
    segments = {**packed, "segment_ids": 0 * mask}
    moved = sequence(model, segments)[mask == 1]
    assert np.abs(moved - expected).max() > VISIBLE


def test_attention_maps_are_those_by_which_values_are_mixed():
    model, given = make(), features()
    outputs = model.encode(given, None)
    maps = attention_maps.compute(model.network, outputs, given["input_mask"])
    view, is_real = model.network.bias(given["input_mask"]), given["input_mask"] == 1
    hidden, attention = outputs["embedding_output"], model.network.blocks[0].attention
    *_, value = attention.project(hidden, view.rotation)
    mixed = tf.transpose(tf.matmul(maps[:, 0], value), (0, 2, 1, 3))
    mixed = attention.output_projection(tf.reshape(mixed, hidden.shape))
    actual = attention(hidden, view)
    np.testing.assert_allclose(mixed[is_real], actual[is_real], atol=ROUNDING)


def train(model, step):
    with tf.GradientTape() as tape:
        seed = tf.constant([1, step], tf.int64)
        total = tf.reduce_sum(tf.sin(model.encode(features(), seed)["sequence_output"]))
    values = tape.gradient(total, [v.value for v in model.network.trainable_variables])
    values = [v for v in values if v is not None]  # the pooler is not read
    return np.concatenate([tf.reshape(tf.convert_to_tensor(v), [-1]) for v in values])


@pytest.mark.slow
def test_kernels_of_training_have_the_gradients_of_plain_operations():
    model, rates = make(num_hidden_layers=5), {"hidden_dropout_prob": 0.2}
    fused = train(model, 1)
    with tf.GradientTape() as tape:
        states = model.encode(features(), None)["sequence_output"]
        total = tf.reduce_sum(tf.sin(states))
    weights = [v.value for v in model.network.trainable_variables]
    plain = [v for v in tape.gradient(total, weights) if v is not None]
    plain = np.concatenate([tf.reshape(tf.convert_to_tensor(v), [-1]) for v in plain])
    np.testing.assert_allclose(fused, plain, atol=ROUNDING * np.abs(plain).max())
    for name in (*rates, "attention_probs_dropout_prob"):
        dropped = make(num_hidden_layers=5, **{name: 0.2})
        first, size = train(dropped, 1), np.abs(fused).max()
        assert np.abs(train(dropped, 2) - first).max() > VISIBLE * size
        dropped.network.recompute = True
        assert np.abs(train(dropped, 1) - first).max() < ROUNDING * size


@pytest.mark.slow
def test_bfloat16_gives_nearly_the_same(set_policy):
    expected = make("classifier", 3)(features())["logits"]
    set_policy("mixed_bfloat16")
    actual = make("classifier", 3)(features())["logits"]
    assert actual.dtype == tf.float32
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    assert 0.02 < error / 2.0**-8 < 10


def test_rates_follow_layers_and_weights_are_counted():
    model = make("classifier", 3)
    rows = [row for row, _ in names.named_variables(model)]
    rates = layer_rates.LayerRates(model.config.spec.depth, 0.5)
    factors = rates.factors([row.path for row in rows])
    expected = {"embeddings": 0.5**4, "block_0": 0.125, "block_1": 0.25}
    assert factors == [expected.get(row.path.split("/")[1], 1.0) for row in rows]
    count = sum(np.prod(v.shape) for v in model.network.trainable_variables)
    assert model.config.num_weights() == count - 8 * 9  # of the pooler


def read(**raw):
    return nomic_bert.NomicBertConfig.from_dict({"model_type": "nomic_bert", **raw})


def test_both_forms_of_a_config_are_the_same():
    released = CASES[RELEASED].config
    old, new = read(**released), read(**CASES[CLASSIFIER].config)
    assert old.network_alone() == new.network_alone()
    assert not old.unknown_keys() and not new.unknown_keys()
    assert read(**old.to_dict()).network_alone() == new.network_alone()
    # As on the hub today: both, and the length of training beside that of texts.
    both = {**CASES[CLASSIFIER].config, **released, "max_position_embeddings": 64}
    assert read(**both).network_alone() == new.network_alone()
    geglu = read(**{**released, "activation_function": "geglu"})
    assert geglu.hidden_act == "gelu_erf" and old.hidden_act == "silu"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {"activation_function": "gelu"},
            "activation_function is 'gelu', and only 'sw",
        ),
        ({"qkv_proj_bias": True}, "qkv_proj_bias is True"),
        ({"rotary_emb_fraction": 0.5}, "rotary_emb_fraction is 0.5"),
        ({"rotary_emb_fraction": None}, "rotary_emb_fraction is None"),
        ({"rotary_scaling_factor": 2.0}, "rotary_scaling_factor is 2.0"),
        ({"rotary_emb_interleaved": True}, "rotary_emb_interleaved is True"),
        ({"num_experts": 8}, "num_experts is 8"),
        ({"prenorm": True}, "prenorm is True"),
        ({"n_head": 3}, "hidden_size=8 is not a multiple of num_attent"),
        ({"n_embd": 6}, "hidden_size=6 is an odd number for each of nu"),
        ({"n_layer": 0}, "num_hidden_layers=0 is not a whole number"),
        ({"type_vocab_size": 0}, "type_vocab_size=0 is not a whole number"),
        ({"head_dim": 8}, "head_dim=8 is not 4"),
        (
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}},
            "rope_parameters=.*dynamic.* are not supported",
        ),
        ({"rope_theta": "x"}, "rope_theta='x' is not a number"),
        ({"rotary_emb_base": 0}, "rope_theta=0 is not a number greater than 0"),
    ],
)
def test_what_is_not_done_is_refused_by_key_and_value(raw, message):
    with pytest.raises(errors.InputError, match=message):
        read(**{**CASES[RELEASED].config, **raw})


def test_a_part_of_the_released_keys_is_refused():
    released = dict(CASES[RELEASED].config)
    del released["n_inner"], released["mlp_fc1_bias"]
    with pytest.raises(errors.InputError, match="n_inner, mlp_fc1_bias missing"):
        read(**released)


@pytest.mark.parametrize("key", ["layer_norm_epsilon", "rotary_emb_fraction"])
def test_a_key_whose_default_is_that_of_the_released_code_is_given(key):
    released = dict(CASES[RELEASED].config)
    del released[key]
    with pytest.raises(errors.InputError, match=f"{key} missing"):
        read(**released)
