"""Tests of modeling/hugging_face.py: the forms that its files have."""

import dataclasses
import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from modeling import checkpoint, hugging_face, models

DECODER = "cls.predictions.decoder"
TABLE = "bert.embeddings.word_embeddings.weight"


@pytest.fixture
def saved(tiny_config, tmp_path):
    """A directory, the model in it, and its tensors."""
    model = models.build("pretraining", None, tiny_config)
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape).astype(np.float32))
    checkpoint.save_hugging_face(tmp_path, model)
    path = tmp_path / "model.safetensors"
    return tmp_path, model, safetensors.numpy.load_file(path)


def rewrite(folder, tensors):
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def assert_loads(folder, model, dtype=np.float32):
    again = models.build("pretraining", None, model.config)
    report = checkpoint.load(again, folder)
    assert report.missing == report.unused == ()
    pairs = zip(
        checkpoint.named_variables(again),
        checkpoint.named_variables(model),
        strict=True,
    )
    for (name, value), (_, wanted) in pairs:
        wanted = np.asarray(wanted).astype(dtype).astype(np.float32)
        np.testing.assert_array_equal(value, wanted, err_msg=name.path)


def shard(folder, tensors, number=3):
    """Spreads the tensors over files, as save_pretrained does with large models."""
    (folder / "model.safetensors").unlink()
    weight_map = {}
    for i in range(number):
        name = f"model-{i + 1:05}-of-{number:05}.safetensors"
        part = {key: tensors[key] for key in sorted(tensors)[i::number]}
        safetensors.numpy.save_file(part, folder / name)
        weight_map.update(dict.fromkeys(part, name))
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / hugging_face.INDEX_FILE).write_text(json.dumps(index))
    return weight_map


def test_shards_are_read(saved):
    folder, model, tensors = saved
    shard(folder, tensors)
    assert checkpoint.find(folder) == str(folder)
    assert checkpoint.find(folder / hugging_face.INDEX_FILE) == str(folder)
    assert_loads(folder, model)


def test_shards_that_are_not_whole(saved):
    folder, model, tensors = saved
    weight_map = shard(folder, tensors)
    index = folder / hugging_face.INDEX_FILE
    moved = {**weight_map, TABLE: weight_map["cls.predictions.bias"]}
    assert moved != weight_map
    index.write_text(json.dumps({"weight_map": moved}))
    with pytest.raises(ValueError, match=f"lacks {TABLE}, which model.safetensors.ind"):
        checkpoint.load(model, folder)
    index.write_text(json.dumps({"weight_map": weight_map}))
    (folder / weight_map[TABLE]).unlink()
    with pytest.raises(ValueError, match="not a readable safetensors file") as caught:
        checkpoint.load(model, folder)
    assert weight_map[TABLE] in str(caught.value)
    for text in ("{", "[]", "{}"):
        index.write_text(text)
        with pytest.raises(ValueError, match=r"index\.json: .*copy it again"):
            checkpoint.load(model, folder)


def test_either_of_two_tied_arrays_is_enough(saved):
    folder, model, tensors = saved
    tensors[f"{DECODER}.weight"] = tensors.pop(TABLE)
    tensors[f"{DECODER}.bias"] = tensors.pop("cls.predictions.bias")
    rewrite(folder, tensors)
    assert_loads(folder, model)


def test_head_with_a_table_of_its_own_is_refused(saved, tiny_config):
    folder, model, tensors = saved
    rewrite(folder, {**tensors, f"{DECODER}.weight": tensors[TABLE].copy()})
    assert_loads(folder, model)
    rewrite(folder, {**tensors, f"{DECODER}.weight": tensors[TABLE] + 1})
    with pytest.raises(ValueError, match="differs from bert"):
        checkpoint.load(model, folder)
    # Who does not read that head is not concerned.
    assert checkpoint.load(models.build("none", None, tiny_config), folder).assigned


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_widened(saved, dtype):
    folder, model, tensors = saved
    rewrite(folder, {key: value.astype(dtype) for key, value in tensors.items()})
    assert_loads(folder, model, dtype)


def test_config_says_nothing_of_another_file(tiny_config):
    old = {
        "dtype": "float16",
        "id2label": {"0": "a"},
        "note": 1,
        "architectures": ["X"],
    }
    config = dataclasses.replace(tiny_config, extra=old)
    model = models.build("none", None, config)
    rows = [name for name, _ in checkpoint.named_variables(model)]
    described = hugging_face.described(config, rows)
    assert described.extra == {"note": 1, "architectures": ["BertModel"]}


@pytest.mark.parametrize(
    ("extra", "num_classes", "expected"),
    [
        ({}, 3, ("classification", ())),
        ({}, 1, ("regression", ())),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, 2, ("classification", ())),
        ({"id2label": {"1": "b", "0": "a"}}, 2, ("classification", ("a", "b"))),
        ({"id2label": {"0": "a"}}, 1, ("regression", ())),
        (
            {"id2label": {"0": "a"}, "problem_type": "multi_label_classification"},
            1,
            ("multi_label", ("a",)),
        ),
    ],
)
def test_labels_in_a_config(tiny_config, extra, num_classes, expected):
    config = dataclasses.replace(tiny_config, extra=extra)
    assert hugging_face.labels_in(config, num_classes) == expected


@pytest.mark.parametrize("ids", [("0", "1"), ("1", "2", "3")])
def test_labels_of_another_head_are_refused(tiny_config, ids):
    extra = {"id2label": dict.fromkeys(ids, "a")}
    config = dataclasses.replace(tiny_config, extra=extra)
    with pytest.raises(ValueError, match="but the head has 3 classes"):
        hugging_face.labels_in(config, 3)


def tokenizer_json(path, *, kind="WordPiece", added=3):
    raw = {
        "model": {"type": kind, "vocab": {"[PAD]": 0, "b": 2, "a": 1}},
        "added_tokens": [{"id": 0, "content": "[PAD]"}, {"id": added, "content": "c"}],
        "normalizer": {"lowercase": True},
    }
    path.write_text(json.dumps(raw))
    return path


def test_vocabulary_of_a_tokenizer_json(tmp_path):
    path = tokenizer_json(tmp_path / "tokenizer.json")
    found = hugging_face.tokenizer_vocabulary(path)
    assert found == (["[PAD]", "a", "b", "c"], True)
    with pytest.raises(ValueError, match="ids of its 4 tokens are not 0, 1"):
        hugging_face.tokenizer_vocabulary(tokenizer_json(path, added=4))
    with pytest.raises(ValueError, match="not a tokenizer of word pieces"):
        hugging_face.tokenizer_vocabulary(tokenizer_json(path, kind="BPE"))
    path.write_text("{")
    with pytest.raises(ValueError, match="cannot be read"):
        hugging_face.tokenizer_vocabulary(path)
