"""ModernBERT: recorded outputs and slopes of transformers, its windows, and its config.

The recorded weights have a deviation of 0.4, so that outputs are of order 1; 1e-5 is
the rounding of float32, and a change that must be seen is 0.01 or more. Texts of 110
tokens are longer than three blocks of queries, so local layers compute in blocks.
"""

import dataclasses
import functools
import json
import pathlib

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
from modeling.networks.modernbert import config as modernbert
from tasks import conversion as conversion_task
from tests import family_weights, read_model
from training import layer_rates

RECORDED = pathlib.Path(__file__).parents[2] / "golden" / "modernbert.npz"
ROUNDING, VISIBLE = 1e-5, 1e-2
SIZES = {
    "vocab_size": 40,
    "hidden_size": 8,
    "intermediate_size": 6,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "local_attention": 9,
    "max_position_embeddings": 128,
    "initializer_range": 0.4,
}


@functools.cache
def recorded():
    with np.load(RECORDED) as file:
        return dict(file)


def write_case(name, directory):
    """Writes config.json and model.safetensors of a recorded case."""
    described = json.loads(bytes(recorded()[f"{name}/case"]))
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(described["config"]))
    weights = family_weights.draw(described["shapes"])
    safetensors.numpy.save_file(
        weights, directory / "model.safetensors", {"format": "pt"}
    )
    return directory, model_directory.read_config(directory / "config.json")


def features(name="masked_lm"):
    ids, mask = (recorded()[key].astype(np.int32) for key in ("ids", "mask"))
    given = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}
    if name == "masked_lm":
        given["masked_lm_positions"] = recorded()["at"].astype(np.int32)
    return {key: tf.constant(value) for key, value in given.items()}


def make(head="none", classes=None, **changes):
    keras.utils.set_random_seed(3)
    config = modernbert.ModernBertConfig(**{**SIZES, **changes})
    return pretrainers.build(head, classes, config)


def sequence(model, given, positions=None):
    return np.asarray(model.encode(given, None, positions)["sequence_output"])


def loss_of(name, outputs):
    if name == "classifier":
        labels, logits = [2, 0], outputs["logits"]
    else:
        at = recorded()["at"].astype(int)
        labels = np.take_along_axis(recorded()["labels"].astype(int), at, 1)
        logits = outputs["masked_lm_logits"]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(losses), logits


@pytest.mark.parametrize("name", ["masked_lm", "classifier"])
def test_outputs_and_slopes_are_those_of_transformers(name, tmp_path):
    directory, config = write_case(name, tmp_path / name)
    read = read_model.read(directory, config)
    assert not read.report.unused + read.report.missing + read.report.prefixes
    model, values = read.model, recorded()
    at = values["at"].astype(int)
    encoded = model.encode(features(name), None)
    states = np.stack([encoded["embedding_output"], *encoded["layer_outputs"]])
    states = np.take_along_axis(states, at[None, ..., None], 2)
    np.testing.assert_allclose(states, values[f"{name}/hidden"], atol=ROUNDING)
    with tf.GradientTape() as tape:
        loss, logits = loss_of(name, model(features(name)))
    np.testing.assert_allclose(logits, values[f"{name}/logits"], atol=ROUNDING)
    np.testing.assert_allclose(loss, values[f"{name}/loss"], rtol=1e-5)
    # Of each variable the slope in a direction that was drawn.
    rows = sorted(names.named_variables(model), key=lambda row: row[0].hugging_face)
    slopes = tape.gradient(loss, [variable.value for _, variable in rows])
    slopes = [tf.convert_to_tensor(slope).numpy() for slope in slopes]
    sums = []
    for (row, _), slope in zip(rows, slopes, strict=True):
        slope = row.to_hugging_face(slope)
        key = row.hugging_face
        (drawn,) = family_weights.draw({key: slope.shape}, seed=1).values()
        sums.append(np.sum(drawn * slope))
    np.testing.assert_allclose(sums, values[f"{name}/slopes"], atol=ROUNDING)


@pytest.mark.parametrize("name", ["masked_lm", "classifier"])
@pytest.mark.parametrize("target", ["hugging_face", "google"])
def test_files_hold_the_same(name, target, tmp_path):
    directory, config = write_case(name, tmp_path / name)
    model = read_model.read(directory, config).model
    conversion.write_directory(tmp_path / target, model, target)
    again = conversion_task.read_again(tmp_path / target, "auto")
    assert type(again) is type(model)
    assert again.config.network_alone() == config.network_alone()
    assert comparison.compare(model, again) == 0
    if target == "hugging_face":
        before, after = (
            safetensors.numpy.load_file(folder / "model.safetensors")
            for folder in (directory, tmp_path / target)
        )
        assert before.keys() == after.keys()
        raw = json.loads((tmp_path / target / "config.json").read_text())
        ignored = {"dtype", "transformers_version"}
        described = json.loads(bytes(recorded()[f"{name}/case"]))["config"]
        assert all(raw.get(k) == described[k] for k in described.keys() - ignored)


@pytest.mark.slow
def test_heads_are_known_by_their_class_and_start_from_that_of_words(tmp_path):
    directory, config = write_case("masked_lm", tmp_path / "words")
    words = read_model.read(directory, config).model
    classifier = make("classifier", 3)
    report = conversion.checkpoint.load(classifier, directory, allows_missing=True)
    assert sorted(report.missing) == ["output_bias", "output_weights"]
    dense = np.asarray(classifier.classifier.dense.kernel)
    np.testing.assert_array_equal(dense, words.masked_lm.dense.kernel)
    for head, classes in (("span", None), ("tagger", 2), ("classifier", 2)):
        conversion.write(tmp_path / head, make(head, classes), "hugging_face")
        read = model_directory.read_config(tmp_path / head / "config.json")
        assert read_model.read(tmp_path / head, read).head == head
    # One of words that has no bias, too.
    bare = make("pretraining", decoder_bias=False, tie_word_embeddings=False)
    conversion.write(tmp_path / "bare", bare, "hugging_face")
    read = model_directory.read_config(tmp_path / "bare" / "config.json")
    again = read_model.read(tmp_path / "bare", read)
    assert again.head == "pretraining" and not again.report.missing
    assert comparison.compare(bare, again.model) == 0


def test_tokens_are_read_as_far_as_windows_reach():
    local, reach = make(layer_types=["sliding_attention"] * 4), 4
    given = features()
    ids = given["input_ids"].numpy()
    ids[0, 50] += 1
    moved = sequence(local, {**given, "input_ids": ids}) - sequence(local, given)
    moved = np.abs(moved[0]).max(-1)
    assert len(moved) == 110
    seen = np.abs(np.arange(len(moved)) - 50) <= 4 * reach
    assert moved[~seen].max() == 0 and moved[seen].min() > 0
    assert moved[50 - reach : 51 + reach].min() > 1e-3


@pytest.mark.parametrize("length", [pytest.param(None, marks=pytest.mark.slow), 110])
def test_blocks_of_any_length_compute_the_same(length):
    model, given = make(), features("classifier")
    spec = {key: tf.TensorSpec([None, length], tf.int32) for key in given}

    @tf.function(input_signature=[spec])
    def compute(batch):
        return model.encode(batch, None)["sequence_output"]

    actual = compute(given)
    expected, is_real = sequence(model, given), given["input_mask"].numpy() == 1
    np.testing.assert_allclose(actual[is_real], expected[is_real], atol=ROUNDING)
    if length is None:  # shorter ones are one block
        short = {key: value[1:, :73] for key, value in given.items()}
        actual = compute(short)
        np.testing.assert_allclose(actual[0], expected[1, :73], atol=ROUNDING)
        # Positions are read.
        turned = {**short, "input_ids": short["input_ids"][:, ::-1]}
        turned = compute(turned)[0, ::-1]
        assert np.abs(turned - expected[1, :73]).max() > VISIBLE


def test_chosen_positions_have_the_outputs_of_all():
    positions = tf.constant([[0, 100, 3], [7, 70, 1]])
    for layers in (3, 4):  # the last one is local, or sees all
        model = make(num_hidden_layers=layers)
        every = sequence(model, features())
        picked = np.take_along_axis(every, positions.numpy()[..., None], axis=1)
        actual = sequence(model, features(), positions)
        np.testing.assert_allclose(actual, picked, atol=ROUNDING)


@pytest.mark.parametrize("width", [16, 120])
def test_sequences_that_share_rows_are_as_apart(width):
    model, given = make(), features("classifier")
    lengths = np.array([5, 3, 7, 6]) * width // 16
    mask = (np.arange(width) < lengths[:, None]).astype(np.int32)
    ids = np.random.default_rng(5).integers(1, 40, mask.shape, np.int32) * mask
    given = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * mask}
    (packed,) = sharing.share_rows(tf.data.Dataset.from_tensors(given), 1, None)
    assert packed["packed_sources"].shape[0] < 4
    expected, actual = (sequence(model, each)[mask == 1] for each in (given, packed))
    np.testing.assert_allclose(actual, expected, atol=ROUNDING)
    starts = packed["packed_sources"] + 1  # positions that do not begin anew
    moved = sequence(model, {**packed, "packed_sources": starts})[mask == 1]
    assert np.abs(moved - expected).max() > VISIBLE


def test_attention_maps_are_zero_outside_of_windows():
    model, given = make(), features()
    mask, outputs = given["input_mask"], model.encode(given, None)
    maps = np.asarray(attention_maps.compute(model.network, outputs, mask))
    is_real = mask.numpy() == 1
    expected = np.broadcast_to(is_real[:, None, None], maps.shape[:4])
    np.testing.assert_allclose(maps.sum(-1), expected, atol=ROUNDING)
    places = np.arange(110)
    is_far = np.abs(places[:, None] - places) > 4
    assert (maps[:, 1:3, :, is_far] == 0).all()  # layers 0 and 3 see all tokens
    assert (maps[0, [0, 3]][..., is_far] > 0).all()
    views = model.network.bias(mask)
    inputs = [outputs["embedding_output"], *outputs["layer_outputs"]]
    for number, block in enumerate(model.network.blocks):
        hidden = block.attention_input(inputs[number], training=False)
        attention = block.attention
        *_, value = attention.project(hidden, views[0].rotation)
        mixed = tf.transpose(tf.matmul(maps[:, number], value), (0, 2, 1, 3))
        mixed = attention.output_projection(tf.reshape(mixed, hidden.shape))
        actual = attention(hidden, views[block.is_local])
        np.testing.assert_allclose(mixed[is_real], actual[is_real], atol=ROUNDING)


def train(model, step, **rates):
    with tf.GradientTape() as tape:
        outputs = model(
            features(), training=True, seed=tf.constant([1, step], tf.int64)
        )
        total = tf.reduce_sum(tf.sin(outputs["masked_lm_logits"]) ** 2)
    values = tape.gradient(total, [v.value for v in model.trainable_variables])
    return np.concatenate([tf.reshape(tf.convert_to_tensor(v), [-1]) for v in values])


@pytest.mark.slow
def test_dropout_follows_seed_and_step_also_where_blocks_are_recomputed():
    rates = {"attention_probs_dropout_prob": 0.2, "mlp_dropout": 0.3}
    rates["embedding_dropout"] = 0.1
    model = make("pretraining", num_hidden_layers=6, **rates)
    first, second = train(model, 1), train(model, 2)
    size = np.abs(first).max()
    assert np.abs(train(model, 1) - first).max() < ROUNDING * size
    assert np.abs(second - first).max() > VISIBLE * size
    model.network.recompute = True
    assert np.abs(train(model, 1) - first).max() < ROUNDING * size
    for name, rate in rates.items():
        alone = make("pretraining", num_hidden_layers=6, **{name: rate})
        assert np.abs(train(alone, 1) - train(alone, 2)).max() > VISIBLE


@pytest.mark.slow
def test_kernels_of_training_have_the_gradients_of_plain_operations():
    model = make("pretraining", num_hidden_layers=6, norm_bias=True, mlp_bias=True)
    fused = train(model, 1)
    with tf.GradientTape() as tape:
        logits = model(features())["masked_lm_logits"]
        total = tf.reduce_sum(tf.sin(logits) ** 2)
    values = tape.gradient(total, [v.value for v in model.trainable_variables])
    plain = [tf.reshape(tf.convert_to_tensor(v), [-1]) for v in values]
    plain = np.concatenate(plain)
    np.testing.assert_allclose(fused, plain, atol=ROUNDING * np.abs(plain).max())


@pytest.mark.slow
def test_bfloat16_gives_nearly_the_same(set_policy):
    expected = make("classifier", 3)(features("classifier"))["logits"]
    set_policy("mixed_bfloat16")
    actual = make("classifier", 3)(features("classifier"))["logits"]
    assert actual.dtype == tf.float32
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    assert 0.02 < error / 2.0**-8 < 10


def test_rates_follow_layers():
    paths = [row.path for row, _ in names.named_variables(make())]
    rates = layer_rates.LayerRates(make().config.spec.depth, 0.5).factors(paths)
    expected = {"embeddings": 0.5**6, "final_norm": 1.0}
    expected |= {f"block_{i}": 0.5 ** (5 - i) for i in range(4)}
    assert rates == [expected[path.split("/")[1]] for path in paths]


def read(**raw):
    return modernbert.ModernBertConfig.from_dict({"model_type": "modernbert", **raw})


def test_both_forms_of_a_config_are_the_same():
    bases = {"global_rope_theta": 500.0, "local_rope_theta": 40.0}
    old = read(vocab_size=9, num_hidden_layers=5, global_attn_every_n_layers=2, **bases)
    kinds = "full_attention", "sliding_attention"
    rotations = {
        kind: {"rope_type": "default", "rope_theta": bases[base]}
        for kind, base in zip(kinds, bases, strict=True)
    }
    types = [kinds[i % 2] for i in range(5)]
    new = read(
        vocab_size=9, num_hidden_layers=5, layer_types=types, rope_parameters=rotations
    )
    assert old == new and old.types_of_layers() == tuple(types)
    written = new.to_dict()
    assert written["layer_types"] == types and written["rope_parameters"] == rotations
    assert {key: written[key] for key in bases} == bases
    odd = read(vocab_size=9, num_hidden_layers=5, layer_types=[kinds[1]] * 5)
    assert odd.layer_types == (kinds[1],) * 5
    assert read(**odd.to_dict()) == odd
    values = json.loads(json.dumps(dataclasses.asdict(odd)))
    assert modernbert.ModernBertConfig.from_values(values) == odd


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling is .'type': 'linear'"),
        ({"rope_parameters": {"rope_theta": 1.0}}, "rope_parameters=.'rope_theta'"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "rope_parameters=.*yarn.* is supported",
        ),
        ({"layer_types": ["full_attention"]}, "layer_types=.*num_hidden_layers=22"),
        ({"layer_types": ["sparse"] * 22}, "layer_types="),
        ({"classifier_pooling": "max"}, "classifier_pooling='max'"),
        ({"classifier_activation": "glu"}, "glu; classifier_activation must be"),
        ({"hidden_size": 36}, "hidden_size=36 is an odd number for each of"),
        ({"local_rope_theta": None}, "local_rope_theta=None is not a number"),
        ({"head_dim": 32}, "head_dim is 32"),
        ({"is_causal": True}, "is_causal is True"),
        ({"initializer_cutoff_factor": 3.0}, "initializer_cutoff_factor is 3.0"),
        ({"local_attention": 0}, "local_attention=0 is not a whole number"),
        ({"mlp_bias": 1}, "mlp_bias=1 is not true or false"),
    ],
)
def test_what_is_not_done_is_refused_by_key_and_value(raw, message):
    with pytest.raises(errors.InputError, match=message):
        read(**{"vocab_size": 9, **raw})


@pytest.mark.slow
def test_mean_and_first_token_are_pooled():
    given = features("classifier")
    mask = given["input_mask"].numpy()[..., None]
    for pooling in ("mean", "cls"):
        model = make("classifier", 3, classifier_pooling=pooling)
        hidden = sequence(model, given)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        expected = mean if pooling == "mean" else hidden[:, 0]
        np.testing.assert_allclose(model.pool(given), expected, atol=ROUNDING)
        assert np.abs(mean - hidden[:, 0]).max() > VISIBLE


def test_small_vocabulary_has_no_padding_id_of_the_large_one():
    """The library's, 50283, would be no row of its embeddings, and it ends there."""
    small = modernbert.ModernBertConfig(vocab_size=100)
    assert small.to_hugging_face()["pad_token_id"] is None
    kept = dataclasses.replace(small, extra={"pad_token_id": 3})
    assert kept.to_hugging_face()["pad_token_id"] == 3
