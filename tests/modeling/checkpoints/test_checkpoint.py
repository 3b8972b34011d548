"""Tests of modeling/checkpoints/checkpoint.py."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from contract import wording
from modeling import models, pretrainers
from modeling.checkpoints import checkpoint, google, hugging_face, names
from modeling.configs import config
from tests.modeling.random_weights import assert_equal, random_model, values

HEADS = ("classifier", "tagger", "span", "pretraining")
FIRST = "bert/embeddings/word_embeddings"


def built(model):
    model.build()
    return model


def stored(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


@pytest.fixture(scope="module")
def golden_values(golden_dir):
    return stored(golden_dir / "bert_model.ckpt")


@pytest.mark.parametrize(
    "spelled",
    [
        "bert_model.ckpt",
        "bert_model.ckpt.index",
        "bert_model.ckpt.data-00000-of-00001",
        "",
    ],
)
def test_release_loads_by_prefix_file_or_directory(golden_dir, spelled):
    path = golden_dir / spelled if spelled else golden_dir
    assert checkpoint.find(path) == str(golden_dir / "bert_model.ckpt")


def test_every_variable_of_a_release_is_loaded(
    golden_pretrainer, golden_dir, golden_values
):
    report = checkpoint.load(golden_pretrainer, golden_dir)
    assert len(golden_values) == 62
    assert sorted(report.assigned) == sorted(golden_values)
    assert report.missing == report.unused == ()
    assert report.global_step is None
    assert str(report) == f"{report.source}: 62 of 62 variables assigned"
    assert_equal(values(golden_pretrainer), golden_values)


def test_google_round_trip_is_exact(golden_pretrainer, golden_values, tmp_path):
    prefix = tmp_path / "bert_model.ckpt"
    google.save(prefix, golden_pretrainer)
    assert_equal(stored(prefix), golden_values)
    google.write(
        prefix, {**google.variables(golden_pretrainer), "global_step": np.int64(7)}
    )
    assert stored(prefix)["global_step"] == 7
    assert stored(prefix)["global_step"].dtype == np.int64
    assert checkpoint.load(golden_pretrainer, prefix).global_step == 7


def test_report_accounts_for_every_name(tiny_config, tmp_path):
    pretrainer = random_model(tiny_config, "pretraining")
    google.write(
        tmp_path / "model.ckpt",
        {
            **values(pretrainer),
            f"{FIRST}/adam_m": np.zeros(3, np.float32),
            f"{FIRST}/adam_v_1": np.zeros(3, np.float32),
            "global_step": np.int64(40),
        },
    )
    model = random_model(tiny_config, "classifier", seed=2)
    head = {name: values(model)[name] for name in ("output_weights", "output_bias")}
    report = checkpoint.load(model, tmp_path / "model.ckpt")
    encoder = {k: v for k, v in values(pretrainer).items() if k.startswith("bert/")}
    assert sorted(report.assigned) == sorted(encoder)
    assert report.missing == ("output_weights", "output_bias")
    assert report.unused == tuple(
        sorted(k for k in values(pretrainer) if k.startswith("cls/"))
    )
    assert report.global_step == 40
    assert "newly initialised: output_weights, output_bias" in str(report)
    assert "in the file but not used: cls/predictions/output_bias, " in str(report)
    assert_equal(values(model), {**encoder, **head})


@pytest.mark.parametrize("kind", HEADS)
def test_hugging_face_round_trip_is_exact(tiny_config, tmp_path, kind):
    model = random_model(tiny_config, kind)
    hugging_face.save(tmp_path, model, labels=("a", "b", "c"))
    again = random_model(tiny_config, kind, seed=2)
    report = checkpoint.load(again, tmp_path)
    assert report.missing == report.unused == ()
    assert_equal(values(again), values(model))
    raw = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert raw["id2label"] == {"0": "a", "1": "b", "2": "c"}
    assert raw["label2id"] == {"a": 0, "b": 1, "c": 2}
    read = config.BertConfig.from_json_file(tmp_path / "config.json")
    assert dataclasses.replace(read, extra={}) == tiny_config


def test_hugging_face_file_is_as_pytorch_stores_it(tiny_config, tmp_path):
    """Linear layers are [out, in] there; embeddings and classifiers are not turned."""
    vocab = tmp_path / "words.txt"
    vocab.write_text("[PAD]\n", encoding="utf-8")
    model = random_model(tiny_config)
    hugging_face.save(tmp_path / "new" / "hf", model, vocab_file=vocab)
    folder = tmp_path / "new" / "hf"
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    ours = values(model)
    layer = "bert.encoder.layer.1.intermediate.dense"
    assert tensors[f"{layer}.weight"].shape == (24, 16)
    np.testing.assert_array_equal(
        tensors[f"{layer}.weight"].T,
        ours["bert/encoder/layer_1/intermediate/dense/kernel"],
    )
    np.testing.assert_array_equal(tensors["classifier.weight"], ours["output_weights"])
    np.testing.assert_array_equal(
        tensors["bert.embeddings.LayerNorm.weight"],
        ours["bert/embeddings/LayerNorm/gamma"],
    )
    assert len(tensors) == len(ours)
    assert (folder / "vocab.txt").read_text("utf-8") == "[PAD]\n"


def rewrite(folder, rename):
    """Changes the names in a model.safetensors; a name of None leaves it out."""
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    renamed = {rename(key): value for key, value in tensors.items()}
    renamed.pop(None, None)
    safetensors.numpy.save_file(renamed, path)
    return renamed


def test_bare_encoder_and_old_norm_names_load(tiny_config, tmp_path):
    model = random_model(tiny_config)
    hugging_face.save(tmp_path, model)

    def old(key):
        if not key.startswith("bert."):
            return None
        for new, before in (("weight", "gamma"), ("bias", "beta")):
            key = key.replace(f"LayerNorm.{new}", f"LayerNorm.{before}")
        return key.removeprefix("bert.")

    renamed = rewrite(tmp_path, old)
    assert "embeddings.LayerNorm.gamma" in renamed
    again = random_model(tiny_config, seed=2)
    report = checkpoint.load(again, tmp_path)
    assert report.missing == ("output_weights", "output_bias")
    assert report.unused == ()
    encoder = {k: v for k, v in values(model).items() if k.startswith("bert/")}
    for name, value in encoder.items():
        np.testing.assert_array_equal(values(again)[name], value, err_msg=name)


def test_buffers_and_tied_copies_are_not_reported(tiny_config, tmp_path):
    model = random_model(tiny_config, "pretraining")
    hugging_face.save(tmp_path, model)
    path = tmp_path / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors["bert.embeddings.position_ids"] = np.arange(32)[None]
    tensors["cls.predictions.decoder.weight"] = tensors[
        "bert.embeddings.word_embeddings.weight"
    ]
    tensors["dropout.scale"] = np.zeros(1, np.float32)
    safetensors.numpy.save_file(tensors, path)
    assert checkpoint.load(model, tmp_path).unused == ("dropout.scale",)


def test_half_precision_is_widened(tiny_config, tmp_path):
    model = random_model(tiny_config)
    hugging_face.save(tmp_path, model)
    path = tmp_path / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    halves = {key: value.astype(np.float16) for key, value in tensors.items()}
    safetensors.numpy.save_file(halves, path)
    again = random_model(tiny_config, seed=2)
    checkpoint.load(again, path)
    np.testing.assert_array_equal(
        values(again)[FIRST], values(model)[FIRST].astype(np.float16)
    )
    assert values(again)[FIRST].dtype == np.float32


@pytest.mark.parametrize("form", ["google", "hugging_face"])
def test_other_shapes_are_refused(tiny_config, tmp_path, form):
    model = random_model(tiny_config)
    if form == "google":
        google.save(tmp_path / "model.ckpt", model)
    else:
        hugging_face.save(tmp_path, model)
    larger = dataclasses.replace(tiny_config, vocab_size=61)
    other = random_model(larger, seed=2)
    with pytest.raises(ValueError) as caught:
        checkpoint.load(other, tmp_path)
    assert str(caught.value).endswith(
        ": the config says vocab_size=61 (the file has 60); give the config file of "
        "this checkpoint"
    )


@pytest.mark.parametrize("form", ["google", "hugging_face"])
def test_head_of_other_labels_is_left_out_and_reported(tiny_config, tmp_path, form):
    model = built(models.BertClassifier(tiny_config, 5))
    if form == "google":
        google.save(tmp_path / "model.ckpt", model)
    else:
        hugging_face.save(tmp_path, model)
    other = random_model(tiny_config)
    before = values(other)
    report = checkpoint.load(other, tmp_path)
    assert report.missing == ("output_weights", "output_bias")
    assert report.unused == ()
    after = values(other)
    for name in report.missing:
        np.testing.assert_array_equal(after[name], before[name])
    np.testing.assert_array_equal(after[FIRST], values(model)[FIRST])
    with pytest.raises(ValueError, match="lacks output_weights, output_bias, so it"):
        checkpoint.load_trained(other, tmp_path)


def test_trained_model_must_have_its_head(tiny_config, golden_dir, golden_config):
    model = built(models.BertClassifier(golden_config, 2))
    with pytest.raises(ValueError, match="lacks output_weights, output_bias") as caught:
        checkpoint.load_trained(model, golden_dir)
    assert str(golden_dir) in str(caught.value)
    with pytest.raises(ValueError, match="there is no trained model in --output_dir"):
        checkpoint.load_trained(model, "")
    pretrainer = built(pretrainers.BertPretrainer(golden_config))
    assert checkpoint.load_trained(pretrainer, golden_dir).missing == ()


def test_message_names_the_first_of_what_is_missing(tiny_config, tmp_path):
    """Not all of the hundreds that a deep network may lack."""
    model = random_model(tiny_config, "classifier")
    word = "bert/embeddings/word_embeddings"
    values = {word: np.asarray(google.variables(model)[word])}
    google.write(tmp_path / "a.ckpt", values)
    allowed = {"allows_missing": True}
    missing = checkpoint.load(model, tmp_path / "a.ckpt", **allowed).missing
    with pytest.raises(ValueError) as caught:
        checkpoint.load_trained(model, tmp_path / "a.ckpt", **allowed)
    first = ", ".join(missing[:4])
    others = len(missing) - 4
    assert others > 4
    assert f": lacks {first} and {others} more, so it is not" in str(caught.value)


@pytest.mark.parametrize(
    ("count", "text"), [(1, "0"), (4, "0, 1, 2, 3"), (5, "0, 1, 2, 3 and 1 more")]
)
def test_first_of_names(count, text):
    assert wording.first_of([str(i) for i in range(count)]) == text


@pytest.mark.parametrize(("kind", "is_whole"), [("span", True), ("classifier", False)])
def test_trained_model_needs_the_pooler_only_where_it_reads_it(
    tiny_config, tmp_path, kind, is_whole
):
    """Hugging Face's files of spans and of tags have none."""
    model = random_model(tiny_config, kind)
    pooler = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
    hugging_face.save(tmp_path, model, left_out=pooler)
    again = random_model(tiny_config, kind, seed=2)
    if is_whole:
        assert checkpoint.load_trained(again, tmp_path).missing == pooler
    else:
        with pytest.raises(ValueError, match=r"lacks bert/pooler/dense/kernel, bert"):
            checkpoint.load_trained(again, tmp_path)


def test_nothing_in_common_is_refused(tiny_config, tmp_path):
    google.write(tmp_path / "a.ckpt", {"resnet/w": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match="none of its 1 variables belongs to a BERT"):
        checkpoint.load(random_model(tiny_config), tmp_path / "a.ckpt")


def test_no_checkpoint_says_what_was_looked_for(tmp_path):
    absent = tmp_path / "gone" / "bert_model.ckpt"
    with pytest.raises(ValueError, match="no checkpoint there") as caught:
        checkpoint.find(absent)
    assert f"{absent}.index" in str(caught.value)
    with pytest.raises(ValueError, match="no checkpoint in this directory; give a"):
        checkpoint.find(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ValueError, match=r"save as model\.safetensors"):
        checkpoint.find(tmp_path)


def test_two_checkpoints_are_one_too_many(tmp_path):
    for name in ("a.ckpt", "b.ckpt"):
        google.write(tmp_path / name, {"w": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match=r"2 checkpoints there \(.*a\.ckpt, .*b\.ckpt"):
        checkpoint.find(tmp_path)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "b.ckpt"\n', "utf-8")
    assert checkpoint.find(tmp_path) == str(tmp_path / "b.ckpt")


def test_corrupt_files_say_so(golden_dir, golden_pretrainer, tiny_config, tmp_path):
    for path in golden_dir.glob("bert_model.ckpt.*"):
        shutil.copy(path, tmp_path)
    index = tmp_path / "bert_model.ckpt.index"
    index.write_bytes(index.read_bytes()[:700])
    with pytest.raises(ValueError, match="not a readable TensorFlow checkpoint") as e:
        checkpoint.load(golden_pretrainer, tmp_path)
    assert str(tmp_path) in str(e.value) and "\n" not in str(e.value)
    folder = tmp_path / "hf"
    hugging_face.save(folder, random_model(tiny_config))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match="not a readable safetensors file") as e:
        checkpoint.load(random_model(tiny_config), folder)
    assert str(weights) in str(e.value)


@pytest.mark.parametrize("damage", ["cut", "changed", "absent"])
def test_damaged_data_says_so(golden_dir, golden_config, tmp_path, damage):
    for path in golden_dir.glob("bert_model.ckpt.*"):
        shutil.copy(path, tmp_path)
    data = tmp_path / "bert_model.ckpt.data-00000-of-00001"
    content = data.read_bytes()
    if damage == "cut":
        data.write_bytes(content[:1000])
    elif damage == "changed":
        data.write_bytes(content[:-3] + bytes([content[-3] ^ 8]) + content[-2:])
    else:
        data.unlink()
    with pytest.raises(ValueError, match="not a readable TensorFlow checkpoint") as e:
        checkpoint.load(built(pretrainers.BertPretrainer(golden_config)), tmp_path)
    assert str(e.value).startswith(f"{tmp_path}/bert_model.ckpt: ")


@pytest.mark.parametrize("fails_at", [0, 1])
def test_interrupted_writing_leaves_nothing_to_read(tmp_path, monkeypatch, fails_at):
    renamed = []
    rename = tf.io.gfile.rename

    def interrupted(source, target, overwrite):
        if len(renamed) == fails_at:
            raise KeyboardInterrupt
        renamed.append(target)
        rename(source, target, overwrite=overwrite)

    monkeypatch.setattr(tf.io.gfile, "rename", interrupted)
    prefix = tmp_path / "model.ckpt"
    with pytest.raises(KeyboardInterrupt):
        google.write(prefix, {"w": np.zeros(2, np.float32)})
    assert not (tmp_path / "model.ckpt.index").exists()
    with pytest.raises(ValueError, match="no checkpoint"):
        checkpoint.find(prefix)
    monkeypatch.undo()
    google.write(prefix, {"w": np.ones(2, np.float32)})
    np.testing.assert_array_equal(stored(prefix)["w"], [1, 1])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.ckpt.data-00000-of-00001",
        "model.ckpt.index",
    ]


def test_fit_state_is_not_saved(tiny_config):
    """The seed of `fit` is no variable of any checkpoint; everything else is."""
    model = random_model(tiny_config)
    left_out = {v.path for v in model.variables} - {
        v.path for _, v in names.named_variables(model)
    }
    assert len(left_out) == 1 and "fit_seed" in left_out.pop()
    model.network.trainable = False
    assert len(names.named_variables(model)) == 2 * 16 + 7 + 2


def test_same_names_whatever_the_model_is_called(tiny_config):
    first, second = (
        built(models.BertClassifier(tiny_config, 3, name=name)) for name in ("a", None)
    )
    assert first.name == "a"
    assert google.variables(first).keys() == values(second).keys()
    assert {names.relative_path(v) for v in first.trainable_variables} == {
        names.relative_path(v) for v in second.trainable_variables
    }


def test_saved_weights_give_the_same_outputs(tiny_config, tiny_features, tmp_path):
    keras.utils.set_random_seed(3)
    model = built(models.BertClassifier(tiny_config, 3))
    google.save(tmp_path / "model.ckpt", model)
    again = built(models.BertClassifier(tiny_config, 3))
    moved = again(tiny_features)["logits"] - model(tiny_features)["logits"]
    assert np.abs(moved).max() > 1e-3
    checkpoint.load(again, tmp_path)
    np.testing.assert_array_equal(
        again(tiny_features)["logits"], model(tiny_features)["logits"]
    )
