"""A network of one file does all that its record says, and refuses the rest by name.

tests/rotary_network.py has it. Nothing else in the project names it.
"""

import dataclasses
import itertools
import json

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import bert_reborn as bert
from contract import errors, features
from data_pipeline.batches import sharing
from loading import model_directory
from modeling import models, pretrainers
from modeling.checkpoints import conversion, google, names
from modeling.configs import config_files
from modeling.features import attention_maps
from modeling.networks import catalogue
from serving import predictor
from tests import read_model, rotary_network, tiny, whole_runs
from training import layer_rates

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 48,
    "initializer_range": 0.2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LENGTHS = np.array([9, 3, 5, 4, 7, 2])
# Float32 rounding; two graphs multiply matrices of different padding.
ROUNDING = 1e-5


@pytest.fixture(autouse=True)
def listed():
    with rotary_network.listed() as network:
        yield network


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Texts of whole_runs, and the network as transformers would write it beside."""
    data = tmp_path_factory.mktemp("rotary")
    whole_runs.write_texts(data)
    vocab = [*tiny.OWN_WORDS, *"abcdefghijklmnopqrstuvwxyz.,"]
    (data / "model").mkdir()
    (data / "model" / "vocab.txt").write_text("".join(f"{word}\n" for word in vocab))
    config = rotary_network.RotaryConfig(vocab_size=len(vocab), **SIZES)
    with rotary_network.listed():
        keras.utils.set_random_seed(7)
        model = pretrainers.build("pretraining", None, config)
        conversion.write(data / "model", model, "hugging_face")
    return data


@pytest.fixture
def config(directory):
    return config_files.read(directory / "model" / "config.json")


def network_of(config, head="none"):
    keras.utils.set_random_seed(3)
    return pretrainers.build(head, None, config)


def batch(vocab_size):
    rng, width = np.random.default_rng(5), LENGTHS.max()
    mask = (np.arange(width) < LENGTHS[:, None]).astype(np.int32)
    return {
        "input_ids": rng.integers(1, vocab_size, mask.shape, np.int32) * mask,
        "input_mask": mask,
        "segment_ids": 0 * mask,
    }


def test_config_and_weights_are_known_by_their_names(directory, config):
    assert config.kind == "Rotary" and config.num_hidden_layers == 3
    raw = json.loads((directory / "model" / "config.json").read_text())
    assert raw["architectures"] == ["RotaryForMaskedLM"] and raw["depth"] == 3
    stored = safetensors.numpy.load_file(directory / "model" / "model.safetensors")
    assert "rotary.2.attn.wq.weight" in stored
    read = read_model.read(directory / "model", config)
    assert read.head == "pretraining" and not read.report.missing + read.report.unused


def test_an_unlisted_network_is_refused_by_name(directory, config):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "NETWORKS", catalogue.NETWORKS[:-1])
        with pytest.raises(errors.InputError, match="model_type is 'rotary'"):
            config_files.read(directory / "model" / "config.json")
        with pytest.raises(errors.InputError, match="model_type is 'rotary'"):
            config_files.from_values(dataclasses.asdict(config))
        with pytest.raises(errors.InputError, match="RotaryConfig: no network of this"):
            models.BertModel(config)


def test_names_go_there_and_back(directory, config, tmp_path):
    paths = [directory / "model", tmp_path / "google", tmp_path / "theirs"]
    for source, path in itertools.pairwise(paths):
        target = "google" if path.name == "google" else "hugging_face"
        arguments = f"--input={source} --to={target} --output_dir={path}"
        tiny.succeed("convert_checkpoint", arguments)
    first, last = (
        safetensors.numpy.load_file(path / "model.safetensors")
        for path in (paths[0], paths[2])
    )
    assert first.keys() == last.keys()
    assert all(np.array_equal(first[key], last[key]) for key in first)
    again = model_directory.read_config(str(tmp_path / "theirs" / "config.json"))
    assert again.network_alone() == config.network_alone()


def test_rows_that_share_places_have_the_outputs_of_rows_apart(config):
    model, apart = network_of(config), batch(config.vocab_size)
    batches = tf.data.Dataset.from_tensors(apart)
    (shared,) = sharing.share_rows(batches, shares=1)
    assert shared[features.PACKED_SOURCES].shape[0] < len(LENGTHS)
    hidden = (model(each)["sequence_output"] for each in (apart, shared))
    mask = apart["input_mask"][..., None]
    expected, actual = (np.asarray(each) * mask for each in hidden)
    np.testing.assert_allclose(actual, expected, atol=ROUNDING)
    # A text in reverse has the reversed vectors only where positions say nothing.
    whole = {name: values[:1] for name, values in apart.items()}
    turned = {**whole, "input_ids": whole["input_ids"][:, ::-1]}
    turned = np.asarray(model(turned)["sequence_output"])
    assert np.abs(turned[0, ::-1] - expected[0]).max() > 0.05


def test_attention_maps_are_those_by_which_values_are_mixed(config):
    model, feed = network_of(config), batch(config.vocab_size)
    outputs = model.encode(feed, None)
    maps = attention_maps.compute(model.network, outputs, feed["input_mask"])
    block, mask = model.network.blocks[0], feed["input_mask"][..., None]
    normed = block.norm(outputs["embedding_output"])
    *_, value = block.attention.project(normed, normed)

    def after(weights):
        mixed = tf.transpose(tf.matmul(weights, value), (0, 2, 1, 3))
        read = block.attention.output_projection(tf.reshape(mixed, normed.shape))
        inner = block.ffn_out(tf.nn.relu(block.ffn_in(normed)))
        return (outputs["embedding_output"] + read + inner) * mask

    expected = outputs["layer_outputs"][0] * mask
    np.testing.assert_allclose(after(maps[:, 0]), expected, atol=ROUNDING)
    even = feed["input_mask"][:, None, None] / LENGTHS[:, None, None, None]
    even = np.broadcast_to(even.astype(np.float32), maps[:, 0].shape)
    assert np.abs(after(even) - expected).max() > 0.01


def test_rates_follow_its_layers(config):
    paths = [row.path for row, _ in names.named_variables(network_of(config))]
    rates = layer_rates.LayerRates(config.spec.depth, 0.5).factors(paths)
    expected = {"embeddings": 0.5**5, "final_norm": 1.0}
    expected |= {f"block_{i}": 0.5 ** (4 - i) for i in range(3)}
    assert rates == [expected[path.split("/")[1]] for path in paths]


def test_what_its_record_leaves_out_is_refused_by_name(config):
    model, feed = network_of(config), batch(config.vocab_size)
    outputs = model.encode(feed, None)
    with (
        rotary_network.listed(attention_weights=None),
        pytest.raises(errors.InputError, match="a network of Rotary has none to show"),
    ):
        attention_maps.compute(model.network, outputs, feed["input_mask"])
    paths = [row.path for row, _ in names.named_variables(model)]
    with (
        rotary_network.listed(inputs=None),
        pytest.raises(errors.InputError, match="a network of Rotary has no order"),
    ):
        layer_rates.LayerRates(config.spec.depth, 0.5).factors(paths)
    with (
        rotary_network.listed(above=()),
        pytest.raises(KeyError, match="rotary/final_norm/gamma of Rotary is neit"),
    ):
        layer_rates.LayerRates(config.spec.depth, 0.5).factors(paths)
    with (
        rotary_network.listed(heads=frozenset(["none"])),
        pytest.raises(errors.InputError, match="Rotary has no head 'pretraining'"),
    ):
        network_of(config, "pretraining")


@pytest.mark.parametrize(
    ("run", "flags", "message"),
    [
        (
            "classification",
            "--do_export --export_format=onnx",
            "Rotary is not written as ONNX",
        ),
        ("classification", "--explain=3", "--explain=3 weighs the words of BERT's"),
        ("vectors", "", "this network is Rotary"),
        ("pairs", "", "a Rotary cannot read and write"),
        (
            "masking",
            "--objective=replaced_tokens",
            "--objective=replaced_tokens is not for Rotary, which",
        ),
    ],
)
def test_commands_refuse_it_by_name(run, flags, message, directory, tmp_path):
    arguments = *whole_runs.arguments(run, directory), f"--output_dir={tmp_path / 'a'}"
    assert message in tiny.refuse(whole_runs.SCRIPTS[run], *arguments, flags)


def test_rows_that_may_not_share_places_are_refused(directory, tmp_path):
    flags = whole_runs.arguments("tagging", directory)  # with --pack_sequences
    with rotary_network.listed(packs_rows=False):
        line = tiny.refuse("run_tagger", *flags, f"--output_dir={tmp_path / 'out'}")
    assert "--pack_sequences is for BERT and GPT, and this network is Rotary" in line


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classification", "masking"])
def test_scripts_train_and_export_it(name, directory, config, tmp_path):
    flags = whole_runs.arguments(name, directory, steps=6)
    more = "--layerwise_lr_decay=0.8" if name == "classification" else ""
    tiny.succeed(
        whole_runs.SCRIPTS[name], *flags, f"--output_dir={tmp_path} --do_export", more
    )
    model = read_model.read(directory / "model", config).model
    first = google.variables(model)
    trained = whole_runs.variables(tmp_path, 6)
    assert len(first.keys() & trained.keys()) >= 46
    for key in first.keys() & trained.keys():
        # All keys of a text get the same from their bias, which softmax ignores.
        assert np.any(first[key] != trained[key]) or "bias" in key
    export = predictor.Predictor(str(tmp_path / "export"))
    if name == "classification":
        rows = tiny.predictions(tmp_path)
        texts = [row["text_a"] for row in rows]
        loaded = bert.load(tmp_path)
        for answers in (loaded.predict(texts), export.predict(texts)):
            for row, answer in zip(rows, answers, strict=True):
                assert answer["probabilities"] == pytest.approx(
                    row["probabilities"], abs=ROUNDING
                )
