"""Weights of GPT and GPT-2: releases, Hugging Face's directories, and our own."""

import json
import shutil
import types

import numpy as np
import pytest
import safetensors.numpy

from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import (
    checkpoint,
    comparison,
    conversion,
    google,
    names,
    places,
)
from modeling.networks.gpt import config as gpt_config
from tests import read_model
from tests.modeling import left_to_right
from tests.modeling.random_weights import assert_equal, random_model, values

RELEASED = {**left_to_right.GPT_SHAPE, "vocab_size": 61, "joined_table": True}
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def gpt_record(shared_file):
    with np.load(shared_file("golden/gpt/tiny_gpt.npz")) as record:
        return dict(record)


@pytest.fixture
def released(gpt_record, tmp_path):
    """A checkpoint of the original's weights, whose table lacks the special tokens."""
    tensors = {
        name.removeprefix("param/"): array
        for name, array in gpt_record.items()
        if name.startswith("param/model/") and "/clf/" not in name
    }
    table = tensors["model/we"]
    tensors["model/we"] = np.concatenate([table[:61], table[64:]])
    google.write(tmp_path / "model.ckpt", tensors)
    config = gpt_config.GptConfig(**RELEASED)
    (tmp_path / "config.json").write_text(config.to_json_string())
    (tmp_path / "vocab.json").write_text('{"<unk>": 0}')
    return tmp_path


@pytest.fixture(scope="module")
def hugging_face_dir(shared_file):
    return lambda name: shared_file(f"golden/{name}/hugging_face/config.json").parent


def opened(directory, head="auto"):
    files = model_directory.locate(directory, needs_all=False)
    config = model_directory.read_config(files.config_file)
    return read_model.read(places.find(files.init_checkpoint), config, head)


def open_grown(directory, vocab_size, head, num_classes=None):
    files = model_directory.locate(directory)
    files = types.SimpleNamespace(
        config_file=files.config_file,
        vocab_file=files.vocab_file,
        init_checkpoint=files.init_checkpoint,
        allows_missing=False,
    )
    config = model_directory.read_config(files.config_file)
    config, _ = model_directory.open_weights(files, config, vocab_size, 24)
    model = pretrainers.build(head, num_classes, config)
    return model, checkpoint.load(model, files.init_checkpoint)


def word_table(model):
    return np.asarray(model.network.embeddings.word_embeddings)


def test_released_gpt_has_every_weight_of_the_original(released, gpt_record):
    read = opened(released)
    assert (read.format, read.head) == ("google", "language_model")
    assert read.report.missing == read.report.unused == ()
    for name, variable in left_to_right.named(read.model).items():
        expected = gpt_record[f"param/{name}"]
        if name == "model/we":
            expected = np.concatenate([expected[:61], expected[64:]])
        np.testing.assert_array_equal(variable, expected, err_msg=name)


def test_special_tokens_get_new_rows_before_positions(released, gpt_record):
    first, report = open_grown(released, 64, "classifier", 2)
    second, _ = open_grown(released, 64, "classifier", 2)
    assert first.config.vocab_size == 64 and first.config.num_table_rows == 88
    assert report.missing == ("model/clf/w", "model/clf/b")
    expected, table = gpt_record["param/model/we"], word_table(first)
    np.testing.assert_array_equal(table[:61], expected[:61])
    np.testing.assert_array_equal(table[64:], expected[64:])
    assert 0.01 < table[61:64].std() < 0.03
    assert np.abs(table[61:64] - word_table(second)[61:64]).max() > 0
    # A vocabulary that is longer by more is another one.
    with pytest.raises(ValueError, match=r"has 65 entries, .* vocab_size=61"):
        open_grown(released, 65, "none")
    model = opened(released).model
    grown = conversion.grow(model, 70)
    table, longer = word_table(model), word_table(grown)
    np.testing.assert_array_equal(longer[:61], table[:61])
    np.testing.assert_array_equal(longer[70:], table[61:])
    mean = np.tile(table[:61].mean(0), (9, 1))
    np.testing.assert_allclose(longer[61:70], mean, atol=1e-6)
    assert comparison.compare(model, grown) < ROUNDING


@pytest.mark.parametrize("name", ["gpt", "gpt2"])
def test_hugging_faces_directory_computes_what_it_says(
    hugging_face_dir, shared_file, name
):
    directory = hugging_face_dir(name)
    read = opened(directory)
    with np.load(shared_file(f"golden/{name}/hugging_face_outputs.npz")) as record:
        record = dict(record)
    assert read.report.missing == read.report.unused == ()
    model = opened(directory, "language_model").model
    ids = record["lm_input_ids"] if name == "gpt" else record["tokens"]
    logits = record["lm_logits"] if name == "gpt" else record["logits"]
    outputs = model.logits(left_to_right.features(ids))
    np.testing.assert_allclose(outputs, logits, atol=ROUNDING, rtol=0)
    if name == "gpt":  # its old classifier of choices
        assert read.head == "classifier"
        ids = record["input_ids"].reshape(8, 24)
        ends = record["mc_token_ids"].reshape(8, 1)
        mask = np.arange(24) <= ends
        choice = read.model(left_to_right.features(ids, mask))["logits"]
        expected = record["mc_logits"].reshape(8, 1)
        np.testing.assert_allclose(choice, expected, atol=ROUNDING, rtol=0)


def test_trained_network_is_hugging_faces(shared_file):
    directory = shared_file("data/others/tarotble_gpt2/config.json").parent
    with np.load(shared_file("golden/gpt2/trained_small.npz")) as record:
        record = dict(record)
    model = opened(directory).model
    batch = left_to_right.features(record["ids"])
    outputs = model.encode(batch, None)
    hidden = [outputs["embedding_output"], *outputs["layer_outputs"]]
    for number, ours in enumerate(hidden):
        expected = record[f"hidden_{number}"]
        np.testing.assert_allclose(ours, expected, atol=2e-5, rtol=1e-5)
    logits = model.logits(batch)
    np.testing.assert_allclose(logits, record["logits"], atol=5e-5, rtol=1e-5)


def test_old_and_bare_directories_are_read(hugging_face_dir, tmp_path):
    source = hugging_face_dir("gpt2")
    tensors = safetensors.numpy.load_file(source / "model.safetensors")
    tensors = {k.removeprefix("transformer."): v for k, v in tensors.items()}
    for i in range(3):
        tensors[f"h.{i}.attn.bias"] = np.tril(np.ones((1, 1, 64, 64), np.uint8))
        tensors[f"h.{i}.attn.masked_bias"] = np.float32(-1e4)[None]
    tensors["lm_head.weight"] = tensors["wte.weight"].copy()
    safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors")
    shutil.copyfile(source / "config.json", tmp_path / "config.json")
    old = opened(tmp_path)
    assert old.report.missing == old.report.unused == ()
    assert_equal(values(old.model), values(opened(source).model))


def test_networks_are_written_as_released(shared_file, released, tmp_path):
    (tmp_path / "gpt").mkdir()
    conversion.write_directory(tmp_path / "gpt", opened(released).model, "google")
    assert not (tmp_path / "gpt" / "hparams.json").exists()
    written = google.GoogleFile(f"{tmp_path}/gpt/model.ckpt").shapes
    assert written["model/h0/attn/c_attn/w"] == (1, 32, 96)  # as the original's
    directory = shared_file("golden/gpt2/tiny_model/hparams.json").parent
    read = opened(directory)
    (tmp_path / "gpt2").mkdir()
    conversion.write_directory(tmp_path / "gpt2", read.model, "google")
    assert not (tmp_path / "gpt2" / "config.json").exists()
    ours = google.GoogleFile(f"{tmp_path}/gpt2/model.ckpt")
    theirs = google.GoogleFile(f"{directory}/model.ckpt")
    assert ours.shapes == theirs.shapes
    for row, _ in names.named_variables(read.model):
        np.testing.assert_array_equal(ours.read(row), theirs.read(row))
    hparams = json.loads((tmp_path / "gpt2" / "hparams.json").read_text())
    assert hparams == json.loads((directory / "hparams.json").read_text())
    # config.json lies beside hparams.json where that lacks something.
    dropping = {"norm_first": True, "joined_table": False, "hidden_dropout_prob": 0.3}
    config = gpt_config.GptConfig(**{**RELEASED, **dropping})
    (tmp_path / "dropping").mkdir()
    conversion.write_directory(
        tmp_path / "dropping", random_model(config, "language_model"), "google"
    )
    assert opened(tmp_path / "dropping").model.config.hidden_dropout_prob == 0.3


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("best_params.jl", "save it as model.safetensors"),
        ("weights.pt", "save it as model.safetensors"),
        ("params_shapes.json", "openai-gpt"),
    ],
)
def test_files_that_are_not_read_are_refused_with_the_remedy(tmp_path, file, remedy):
    (tmp_path / file).write_bytes(b"x")
    for path in (tmp_path, tmp_path / file):
        with pytest.raises(ValueError, match=f"{file} is not read.*{remedy}"):
            places.find(path)


def test_release_of_2018_is_refused_as_a_directory(tmp_path):
    (tmp_path / "params_shapes.json").write_text("[[8, 4], [9, 4]]")
    with pytest.raises(
        ValueError, match=r"params_shapes\.json is not read.*openai-gpt"
    ):
        model_directory.locate(tmp_path)
