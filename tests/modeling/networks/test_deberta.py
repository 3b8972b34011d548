"""DeBERTa-v2 and v3 against what transformers computes; see tests/golden/README.md."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from contract import errors, features
from data_pipeline.batches import sharing
from loading import model_directory
from modeling import models, pretrainers, sequences
from modeling.checkpoints import adapters, conversion, google, names
from modeling.features import attention_maps
from modeling.networks import catalogue
from modeling.networks.deberta import config as deberta_config
from modeling.networks.deberta import network
from tests import family_weights, read_model
from training import layer_rates

RECORDED = family_weights.RECORDED.with_name("deberta.npz")
CASES = family_weights.read_cases(RECORDED)
# Float32 rounding of numbers up to 5, and what an option that is ignored changes.
ROUNDING, VISIBLE = 1e-5, 1e-2
LOGITS = "logits", "masked_lm_logits"
TRAINED = "deberta-v2-ForSequenceClassification"
SIZES = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 16,
    "max_position_embeddings": 20,
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "share_att_key": True,
    "position_buckets": 6,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "initializer_range": 0.3,
}


def open_case(name, directory, **changes):
    """The Converted of a case, with changes of its config."""
    case = CASES[name]
    case.write(directory)
    config = model_directory.read_config(directory / "config.json")
    return read_model.read(directory, dataclasses.replace(config, **changes))


def make(head="none", num_classes=None, **changes):
    keras.utils.set_random_seed(5)
    config = deberta_config.DebertaConfig(**{**SIZES, **changes})
    return pretrainers.build(head, num_classes, config)


def batch(lengths=(9, 4, 7, 2, 5), vocab_size=31):
    rng, longest = np.random.default_rng(5), max(lengths)
    mask = (np.arange(longest) < np.array(lengths)[:, None]).astype(np.int32)
    ids = rng.integers(1, vocab_size, mask.shape, np.int32) * mask
    return {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * mask}


def difference(model, case):
    """The largest difference of outputs at real tokens."""
    feed = {key: tf.constant(value) for key, value in case.features().items()}
    rows = sequences.as_rows(feed) if feed["input_ids"].ndim == 3 else feed
    outputs = model.encode(rows, None) if type(model) is models.BertModel else None
    outputs = outputs or model(feed)
    mask, worst = case.inputs["attention_mask"], []
    for key, theirs in case.outputs.items():
        if key == "hidden_states":
            ours = np.stack(outputs["layer_outputs"])
        else:
            ours = outputs[next(k for k in (key, *LOGITS) if k in outputs)].numpy()
        by_token = ours.ndim > 2 or key.startswith(("start", "end"))
        at = mask.reshape(mask.shape + (1,) * (theirs.ndim - 2 - (key[0] == "h")))
        worst.append(np.abs((ours - theirs) * (at if by_token else 1)).max())
    return max(worst)


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_transformers(name, tmp_path):
    read = open_case(name, tmp_path)
    assert not read.report.missing and not read.report.unused
    assert difference(read.model, CASES[name]) < ROUNDING
    conversion.write(tmp_path / "again", read.model, "hugging_face")
    first, again = (
        safetensors.numpy.load_file(directory / "model.safetensors")
        for directory in (tmp_path, tmp_path / "again")
    )
    if name.endswith("Model"):  # which has no prefix
        first = {f"deberta.{key}": value for key, value in first.items()}
    assert first.keys() == again.keys()
    assert all(np.array_equal(first[key], again[key]) for key in first)
    config = model_directory.read_config(tmp_path / "again" / "config.json")
    assert config.network_alone() == read.model.config.network_alone()
    count = sum(
        int(np.prod(variable.shape))
        for row, variable in names.named_variables(read.model)
        if not config.spec.is_head(row.path)
    )
    assert config.num_weights() == count


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Model", {"pos_att_type": "c2p"}),
        ("Model", {"max_relative_positions": 12}),
        ("ForMaskedLM", {"hidden_act": "relu"}),
        ("ForSequenceClassification", {"pooler_hidden_act": "relu"}),
        ("ForSequenceClassification", {"layer_norm_epsilon": 0.1}),
        ("ForTokenClassification", {"conv_act": "tanh"}),
        ("ForQuestionAnswering", {"pos_att_type": "p2c"}),  # which counts the scale
    ],
)
def test_a_setting_that_is_changed_changes_outputs(name, changes, tmp_path):
    read = open_case(f"deberta-v2-{name}", tmp_path, **changes)
    assert difference(read.model, CASES[f"deberta-v2-{name}"]) > VISIBLE


@pytest.mark.slow
@pytest.mark.parametrize("recompute", [False, True])
def test_losses_of_training_are_those_of_a_loop_of_pytorch(recompute, tmp_path):
    case = CASES[TRAINED]
    case.write(tmp_path)
    config = model_directory.read_config(tmp_path / "config.json")
    changes = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0)
    config = dataclasses.replace(config, **changes, cls_dropout=0.0)
    model = read_model.read(tmp_path, config, recompute=recompute).model
    feed = {key: tf.constant(value) for key, value in case.features().items()}
    labels = tf.constant(case.labels["labels"], tf.int32)
    seed = tf.constant([1, 2], tf.int64)
    variables = [each.value for each in model.trainable_variables]

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            logits = model(feed, seed=seed)["logits"]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        for variable, each in zip(
            variables, tape.gradient(loss, variables), strict=True
        ):
            variable.assign_sub(0.02 * tf.convert_to_tensor(each))
        return loss

    losses = [step().numpy() for _ in case.loss]
    np.testing.assert_allclose(losses, case.loss, atol=ROUNDING)
    assert losses[-1] < losses[0] - VISIBLE


@pytest.mark.parametrize("buckets", [0, 6, 2])
def test_distances_have_the_rows_of_their_logarithms(buckets):
    """The rows of the definition, token by token, of which far ones share some."""
    farthest = 20
    rows = network.rows_by_distance(20, buckets, farthest)
    span, near = buckets or farthest, buckets // 2

    def row(distance):
        if buckets and abs(distance) > near:
            share = np.log(abs(distance) / near) / np.log((farthest - 1) / near)
            distance = np.sign(distance) * (near + np.ceil(share * (near - 1)))
        return int(min(max(distance + span, 0), 2 * span - 1))

    assert rows.tolist() == [row(distance) for distance in range(19, -21, -1)]
    assert len({*rows.tolist()}) == (2 * span if buckets else 40) - (buckets == 2)


@pytest.mark.slow
def test_some_positions_have_the_outputs_of_all():
    """Of the last block, as classifiers and masked words read them; traced as well."""
    model, feed = make(num_hidden_layers=5), batch()
    inputs = [tf.constant(feed[name]) for name in features.ENCODER_INPUTS]
    whole = model.network(*inputs)["sequence_output"].numpy()
    positions = np.array([[8, 0], [3, 1], [0, 6], [1, 1], [4, 2]], np.int32)
    expected = np.take_along_axis(whole, positions[..., None], axis=1)
    some = tf.function(model.network)(*inputs, positions)["sequence_output"]
    np.testing.assert_allclose(some, expected, atol=ROUNDING)
    moved = model.network(*inputs, 1 + 0 * positions)["sequence_output"]
    assert np.abs(moved - expected).max() > VISIBLE


def test_padding_changes_nothing_also_beside_a_convolution():
    model, feed = make(conv_kernel_size=5), batch()
    whole = model(feed)["sequence_output"].numpy()
    for row, length in enumerate([9, 4]):
        alone = {key: value[row : row + 1, :length] for key, value in feed.items()}
        hidden = model(alone)["sequence_output"][0]
        np.testing.assert_allclose(hidden, whole[row, :length], atol=ROUNDING)
    feed["input_ids"][1, 5] = 3  # behind the text
    np.testing.assert_allclose(model(feed)["sequence_output"][1, :4], whole[1, :4])
    feed["input_ids"][1, 2] += 1
    changed = model(feed)["sequence_output"][1, :4]
    assert np.abs(changed - whole[1, :4]).max() > VISIBLE


def test_rows_that_share_places_have_the_outputs_of_rows_apart():
    model, apart = make(position_biased_input=True), batch()
    batches = tf.data.Dataset.from_tensors(apart)
    (shared,) = sharing.share_rows(batches, shares=1)
    assert shared[features.PACKED_SOURCES].shape[0] < len(apart["input_ids"])
    hidden = (model(each)["sequence_output"] for each in (apart, shared))
    expected, actual = (np.asarray(x) * apart["input_mask"][..., None] for x in hidden)
    np.testing.assert_allclose(actual, expected, atol=ROUNDING)
    with pytest.raises(errors.InputError, match="conv_kernel_size=3: the convolution"):
        make(conv_kernel_size=3)(shared)


def test_attention_maps_are_those_by_which_values_are_mixed():
    model, feed = make(), batch()
    outputs = model.encode(feed, None)
    maps = attention_maps.compute(model.network, outputs, feed["input_mask"])
    block, hidden = model.network.blocks[0], outputs["embedding_output"]
    *_, value = block.attention.project(hidden, hidden)
    mixed = tf.transpose(tf.matmul(maps[:, 0], value), (0, 2, 1, 3))
    read = block.attention.output_projection(tf.reshape(mixed, hidden.shape))
    x = block.attention_norm(hidden + read)
    inner = block.ffn_out(keras.activations.gelu(block.ffn_in(x), approximate=False))
    ours = block.ffn_norm(x + inner) * feed["input_mask"][..., None]
    expected = outputs["layer_outputs"][0] * feed["input_mask"][..., None]
    np.testing.assert_allclose(ours, expected, atol=ROUNDING)
    turned = maps[:, 0, :, ::-1]
    assert np.abs(turned - maps[:, 0]).max() > VISIBLE


def test_rates_follow_its_layers():
    model = make("classifier", 3, conv_kernel_size=3, num_hidden_layers=5)
    paths = [row.path for row, _ in names.named_variables(model)]
    factors = layer_rates.LayerRates(model.config.spec.depth, 0.5).factors(paths)
    rates = dict(zip(paths, factors, strict=True))
    lowest = {rate for path, rate in rates.items() if "block" not in path}
    assert rates["bert/relative/table"] == rates["bert/convolution/kernel"] == 0.5**7
    assert lowest == {0.5**7, 1.0} and rates["bert/block_1/ffn_in/bias"] == 0.5**5


@pytest.mark.slow
def test_dropout_follows_the_seed_in_layers_and_their_tables():
    """Also where blocks are traced once."""
    changes = {"hidden_dropout_prob": 0.4, "attention_probs_dropout_prob": 0.0}
    model, feed = make(**changes, num_hidden_layers=5), batch()
    first, same, other = (
        model(feed, seed=tf.constant([1, step], tf.int64))["sequence_output"]
        for step in (2, 2, 3)
    )
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > VISIBLE
    block, hidden = model.network.blocks[1], model(feed)["embedding_output"]
    query, key, _ = block.attention.project(hidden, hidden)
    table = model.network.relative.vectors()
    scores = [
        block.attention.position_scores(query, key, table, seed=seed)
        for seed in (None, tf.constant([1, 2], tf.int64))
    ]
    assert np.abs(scores[0] - scores[1]).max() > VISIBLE


@pytest.mark.slow
def test_half_precision_stays_near():
    feed, model = batch(), make()
    expected = model(feed)["sequence_output"]
    keras.utils.set_random_seed(5)
    half = models.BertModel(model.config, dtype="mixed_bfloat16")
    half.build()
    actual = half(feed)["sequence_output"]
    distance = np.abs((actual - expected) * feed["input_mask"][..., None]).max()
    assert 1e-4 < distance < 0.3  # 8 bits of numbers up to 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pos_att_type": "c2p|p2p"}, "pos_att_type is 'c2p|p2p', and p2p is none of"),
        ({"norm_rel_ebd": "batch"}, "norm_rel_ebd='batch' is not one of"),
        ({"attention_head_size": 3}, "attention_head_size is 3, and hidden_size=12"),
        ({"pooler_hidden_size": 8}, "pooler_hidden_size is 8, and hidden_size=12"),
        ({"conv_kernel_size": 4}, "conv_kernel_size=4 is even"),
        ({"conv_kernel_size": 3, "conv_groups": 2}, "conv_groups is 2, and only 1"),
        ({"talking_head": True}, "talking_head is True, and only False"),
        ({"z_steps": 2}, "z_steps is 2, and only 0"),
        ({"position_buckets": 60}, "position_buckets=60 is 1, or not below twice the"),
        ({"max_relative_positions": -3}, "max_relative_positions=-3 is not"),
        ({"legacy": False, "embedding_size": 6}, "legacy=False with embedding_size=6"),
        ({"legacy": False, "tie_word_embeddings": False}, "tie_word_embeddings=False"),
        (
            {"pooler_hidden_act": "sin"},
            "Unsupported activation: sin; pooler_hidden_act",
        ),
        ({"cls_dropout": 2}, "cls_dropout=2 is not a number"),
    ],
)
def test_a_config_that_means_another_network_is_refused(changes, message, tmp_path):
    raw = {**CASES["deberta-v2-Model"].config, **changes}
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(errors.InputError) as refused:
        model_directory.read_config(tmp_path / "config.json")
    assert message in str(refused.value)


def test_terms_are_written_and_read_in_any_form():
    config = CASES["deberta-v2-Model"].config
    kind = catalogue.of_model_type("deberta-v2").config
    for value, wanted in (
        ("P2C | c2p", "c2p|p2c"),
        (["p2c"], "p2c"),
        ("", ""),
        (None, ""),
    ):
        read = kind.from_dict({**config, "pos_att_type": value})
        assert read.pos_att_type == wanted
        assert kind.from_dict(read.to_dict()) == read
    assert read.to_dict()["pos_att_type"] is None
    assert read.to_dict()["max_relative_positions"] == -1


def test_heads_of_released_files_are_named(tmp_path):
    """A v3 holds a head of masked words, and one that finds replaced ones."""
    name = "deberta-v2-ForMaskedLM-new"
    CASES[name].write(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors, width = safetensors.numpy.load_file(path), np.zeros(12, np.float32)
    more = {
        "mask_predictions.LayerNorm.weight": width,
        "mask_predictions.classifier.bias": width[:1],
        "deberta.embeddings.position_embeddings.weight": np.zeros((24, 12), np.float32),
        "deberta.embeddings.position_ids": np.arange(24)[None],
    }
    safetensors.numpy.save_file({**tensors, **more}, path)
    config = model_directory.read_config(tmp_path / "config.json")
    read = read_model.read(tmp_path, config)
    assert read.head == "pretraining" and read.states
    assert {*read.report.unused} == {*list(more)[:3]}
    assert difference(read.model, CASES[name]) < ROUNDING
    # Without `legacy` the head has the names of BERT's, which this file lacks.
    legacy = read_model.read(tmp_path, dataclasses.replace(config, legacy=True))
    assert legacy.head == "none"
    assert "lm_predictions.lm_head.bias" in legacy.report.unused


def test_a_network_alone_has_no_prefix(tmp_path):
    name = "deberta-v2-Model"
    CASES[name].write(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    assert not any(key.startswith("deberta.") for key in tensors)
    prefixed = {f"deberta.{key}": value for key, value in tensors.items()}
    safetensors.numpy.save_file(prefixed, path)
    config = model_directory.read_config(tmp_path / "config.json")
    read = read_model.read(tmp_path, config)
    assert difference(read.model, CASES[name]) < ROUNDING


@pytest.mark.slow
def test_names_in_checkpoints_are_its_own(tmp_path):
    model = make("classifier", 3, share_att_key=False, num_hidden_layers=5)
    google.save(tmp_path / "model.ckpt-1", model)
    stored = google.variables(model)
    assert "deberta/encoder/rel_embeddings" in stored
    assert "deberta/encoder/layer_4/attention/self/pos_key_proj/kernel" in stored
    (tmp_path / "config.json").write_text(model.config.to_json_string())
    again = read_model.read(tmp_path, model.config).model
    feed = batch()
    np.testing.assert_array_equal(again(feed)["logits"], model(feed)["logits"])


def test_adapters_are_of_its_linear_layers():
    """As PEFT has them for its layers; a convolution is none."""
    config = make(conv_kernel_size=3, share_att_key=False, embedding_size=8).config
    usual = adapters.find_targets(config, ())
    assert {path.split("/")[-2] for path in usual} == {"query", "value"}
    every = adapters.find_targets(config, [adapters.ALL_LINEAR])
    assert len(every) == 1 + 8 * config.num_hidden_layers
    assert not any("convolution" in path for path in every)
