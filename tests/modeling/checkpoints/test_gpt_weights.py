"""Weights of GPT and GPT-2: releases, Hugging Face's directories, and our own."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy

from modeling import pretrainers
from modeling.checkpoints import checkpoint, conversion, google, names, pretrained
from modeling.gpt import config as gpt_config
from tests.modeling import left_to_right
from tests.modeling.random_weights import assert_equal, random_model, values

RELEASED = {**left_to_right.GPT_SHAPE, "vocab_size": 61, "joined_table": True}
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def gpt_record(shared_file):
    with np.load(shared_file("golden/gpt/tiny_gpt.npz")) as record:
        return dict(record)


@pytest.fixture
def released(shared_file, tmp_path):
    """GPT as released, and a config that says how many heads it has."""
    source = shared_file("golden/gpt/tiny_model/params_shapes.json").parent
    for file in source.iterdir():
        shutil.copyfile(file, tmp_path / file.name)
    config = gpt_config.GptConfig(**RELEASED)
    (tmp_path / "config.json").write_text(config.to_json_string())
    return tmp_path


@pytest.fixture(scope="module")
def hugging_face_dir(shared_file):
    """A function from gpt or gpt2 to its directory."""
    return lambda name: shared_file(f"golden/{name}/hugging_face/config.json").parent


def opened(directory, head="auto"):
    found = pretrained.look_in(directory)
    config = pretrained.read_config(found.config_file)
    return conversion.read(checkpoint.find(found.checkpoint), config, head)


class Files:
    """What open_config reads of a cli.opening.ModelFiles."""

    allows_missing = False

    def __init__(self, directory):
        found = pretrained.look_in(directory)
        self.config_file, self.vocab_file = found.config_file, found.vocab_file
        self.init_checkpoint = checkpoint.find(found.checkpoint)


def test_released_gpt_has_every_weight_of_the_original(released, gpt_record):
    read = opened(released)
    assert (read.format, read.head) == ("google", "language_model")
    assert read.report.missing == read.report.unused == ()
    for name, variable in left_to_right.named(read.model).items():
        expected = gpt_record[f"param/{name}"]
        if name == "model/we":  # special tokens are no part of the release
            expected = np.concatenate([expected[:61], expected[64:]])
        np.testing.assert_array_equal(variable, expected, err_msg=name)


def test_special_tokens_get_new_rows_before_positions(released, gpt_record):
    files = Files(released)
    config = pretrained.open_config(files, 64, 24)
    assert config.vocab_size == 64 and config.num_table_rows == 88
    first, second = (pretrainers.build("classifier", 2, config) for _ in range(2))
    for model in (first, second):
        report = checkpoint.load(model, files.init_checkpoint)
        assert report.missing == ("model/clf/w", "model/clf/b")
    expected = gpt_record["param/model/we"]
    table, other = (
        np.asarray(model.network.embeddings.word_embeddings)
        for model in (first, second)
    )
    np.testing.assert_array_equal(table[:61], expected[:61])
    np.testing.assert_array_equal(table[64:], expected[64:])
    new = table[61:64]
    assert 0.01 < new.std() < 0.03 and np.abs(new - other[61:64]).max() > 0
    # A vocabulary that is longer by more is another one.
    with pytest.raises(ValueError, match=r"has 65 entries, but .* vocab_size=61"):
        pretrained.open_config(files, 65, 24)


def test_gpt_2_grows_by_special_tokens_too(shared_file):
    directory = shared_file("golden/gpt2/tiny_model/hparams.json").parent
    files = Files(directory)
    config = pretrained.open_config(files, 420, 24)
    assert (config.vocab_size, config.max_position_embeddings) == (420, 64)
    model = pretrainers.build("language_model", None, config)
    checkpoint.load(model, files.init_checkpoint)
    small = opened(directory).model
    table, known = (
        np.asarray(m.network.embeddings.word_embeddings) for m in (model, small)
    )
    np.testing.assert_array_equal(table[:417], known)
    assert 0.01 < table[417:].std() < 0.03


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
    found = model.logits(left_to_right.features(ids))
    np.testing.assert_allclose(found, logits, atol=ROUNDING, rtol=0)
    if name == "gpt":  # its old classifier of choices
        assert read.head == "classifier"
        ids = record["input_ids"].reshape(8, 24)
        ends = record["mc_token_ids"].reshape(8, 1)
        mask = np.arange(24) <= ends
        choice = read.model(left_to_right.features(ids, mask))["logits"]
        expected = record["mc_logits"].reshape(8, 1)
        np.testing.assert_allclose(choice, expected, atol=ROUNDING, rtol=0)


def test_trained_network_is_hugging_faces(shared_file):
    """Really trained weights, without buffers and without the tied head."""
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


def rewritten(source, target, change):
    """A copy of a Hugging Face directory whose tensors `change` has changed."""
    target.mkdir()
    tensors = safetensors.numpy.load_file(source / "model.safetensors")
    change(tensors)
    safetensors.numpy.save_file(tensors, target / "model.safetensors")
    shutil.copyfile(source / "config.json", target / "config.json")
    return target


def test_old_and_bare_directories_are_read(hugging_face_dir, tmp_path):
    source = hugging_face_dir("gpt2")

    def make_old(tensors):
        for key in list(tensors):
            tensors[key.removeprefix("transformer.")] = tensors.pop(key)
        for i in range(3):
            tensors[f"h.{i}.attn.bias"] = np.tril(np.ones((1, 1, 64, 64), np.uint8))
            tensors[f"h.{i}.attn.masked_bias"] = np.float32(-1e4)[None]
        tensors["lm_head.weight"] = tensors["wte.weight"].copy()

    old = opened(rewritten(source, tmp_path / "old", make_old))
    assert old.report.missing == old.report.unused == ()
    assert_equal(values(old.model), values(opened(source).model))

    def untie(tensors):
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"] + 1

    with pytest.raises(ValueError, match=r"lm_head\.weight differs from transformer"):
        opened(rewritten(source, tmp_path / "untied", untie))

    def keep_the_head_alone(tensors):
        tensors["lm_head.weight"] = tensors.pop("transformer.wte.weight")

    alone = opened(rewritten(source, tmp_path / "alone", keep_the_head_alone))
    assert_equal(values(alone.model), values(old.model))


@pytest.mark.parametrize(
    ("head", "norm_first"),
    [
        *(("language_model", False), ("classifier", True)),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in (
                *(("language_model", True), ("classifier", False)),
                *(("tagger", False), ("tagger", True)),
            )
        ),
    ],
)
def test_round_trip_through_all_formats_is_exact(tmp_path, head, norm_first):
    shape = {**RELEASED, "joined_table": not norm_first, "norm_first": norm_first}
    config = gpt_config.GptConfig(**{**shape, "num_hidden_layers": 1})
    model = random_model(config, head)
    wanted = values(model)
    for number, target in enumerate(("google", "hugging_face", "keras", "google")):
        folder = tmp_path / str(number)
        folder.mkdir()
        conversion.write_directory(folder, model, target)
        read = opened(folder, "auto" if target != "keras" else head)
        assert (read.format, read.head) == (target, head)
        assert read.report.missing == read.report.unused == ()
        assert_equal(values(read.model), wanted)
        assert conversion.compare(model, read.model) == 0
        model = read.model
    written = google.GoogleFile(f"{tmp_path}/3/model.ckpt").shapes
    assert written["model/h0/attn/c_attn/w"] == (1, 32, 96)  # as the original's
    assert (tmp_path / "3" / "hparams.json").exists() == norm_first
    assert (tmp_path / "3" / "config.json").exists() != norm_first


def test_gpt_2_is_written_as_released(shared_file, tmp_path):
    directory = shared_file("golden/gpt2/tiny_model/hparams.json").parent
    read = opened(directory)
    conversion.write_directory(tmp_path, read.model, "google")
    ours = google.GoogleFile(f"{tmp_path}/model.ckpt")
    theirs = google.GoogleFile(f"{directory}/model.ckpt")
    assert ours.shapes == theirs.shapes
    for row, _ in names.named_variables(read.model):
        np.testing.assert_array_equal(ours.read(row), theirs.read(row))
    hparams = json.loads((tmp_path / "hparams.json").read_text())
    assert hparams == json.loads((directory / "hparams.json").read_text())


def test_config_that_hparams_cannot_say_lies_beside_them(tmp_path):
    shape = {**RELEASED, "joined_table": False, "norm_first": True}
    config = gpt_config.GptConfig(**shape, hidden_dropout_prob=0.3)
    model = random_model(config, "language_model")
    conversion.write_directory(tmp_path, model, "google")
    assert opened(tmp_path).model.config.hidden_dropout_prob == 0.3


def test_rows_are_added_before_positions(released):
    model = opened(released).model
    grown = conversion.grow(model, 70)
    table, longer = (
        np.asarray(m.network.embeddings.word_embeddings) for m in (model, grown)
    )
    np.testing.assert_array_equal(longer[:61], table[:61])
    np.testing.assert_array_equal(longer[70:], table[61:])
    mean = np.tile(table[:61].mean(0), (9, 1))
    np.testing.assert_allclose(longer[61:70], mean, atol=1e-6)
    assert conversion.compare(model, grown) < ROUNDING


def test_network_of_another_kind_is_refused(released, hugging_face_dir, golden_dir):
    gpt_2 = pretrained.read_config(hugging_face_dir("gpt2") / "config.json")
    gpt = pretrained.read_config(released / "config.json")
    bert = pretrained.read_config(golden_dir / "bert_config.json")
    for config, path, kinds in (
        (gpt_2, released / "params_shapes.json", ("GPT", "GPT-2")),
        (gpt, hugging_face_dir("gpt2"), ("GPT-2", "GPT")),
        (gpt_2, golden_dir, ("BERT", "GPT-2")),
        (bert, hugging_face_dir("gpt"), ("GPT", "BERT")),
    ):
        message = "has weights of {}, but the config is of {};".format(*kinds)
        with pytest.raises(ValueError, match=message):
            checkpoint.check(config, path)


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("best_params.jl", "save its arrays as params_0.npy"),
        ("model.pkl", "save its arrays as params_0.npy"),
        ("pytorch_model.bin", "save as model.safetensors first"),
        ("weights.pt", "save as model.safetensors first"),
    ],
)
def test_pickled_files_are_refused_with_the_remedy(tmp_path, file, remedy):
    (tmp_path / file).write_bytes(b"x")
    for path in (tmp_path, tmp_path / file):
        with pytest.raises(ValueError, match=f"{file} is not read.*{remedy}"):
            checkpoint.find(path)


def test_damaged_releases_say_what_is_wrong(released):
    with open(released / "params_9.npy", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(ValueError, match=r"params_9\.npy: not a readable NumPy file"):
        opened(released)
    (released / "params_9.npy").unlink()
    with pytest.raises(ValueError, match=r"describes 40832 numbers, and .* 36749"):
        opened(released)
    for file in released.glob("params_*.npy"):
        file.unlink()
    with pytest.raises(ValueError, match=r"no params_0\.npy beside params_shapes"):
        opened(released)
    (released / "params_shapes.json").write_text("[[1, 2]]")
    with pytest.raises(ValueError, match="has 1 shapes, and GPT has positions"):
        opened(released)
