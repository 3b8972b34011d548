"""Tests of checkpoints/formats/hugging_face.py: the forms that its files have."""

import dataclasses
import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from data_pipeline.text import wordpiece
from modeling import pretrainers
from modeling.checkpoints import checkpoint, hugging_face, names
from modeling.gpt import config as gpt_config
from tests import tiny_gpt
from tests.modeling.random_weights import random_model

DECODER = "cls.predictions.decoder"
TABLE = "bert.embeddings.word_embeddings.weight"


@pytest.fixture
def saved(tiny_config, tmp_path):
    """A directory, the model in it, and its tensors."""
    model = random_model(tiny_config, "pretraining")
    hugging_face.save(tmp_path, model)
    path = tmp_path / "model.safetensors"
    return tmp_path, model, safetensors.numpy.load_file(path)


@pytest.mark.parametrize("network", ["bert", "gpt"])
def test_tokenizer_is_that_of_the_vocabulary(tiny_config, network):
    """Whatever network reads its tokens."""
    config = tiny_config
    if network == "gpt":
        config = gpt_config.GptConfig(norm_first=True, vocab_size=257)
    words = wordpiece.BertTokenizer(["[UNK]", "[CLS]", "[SEP]", "a"])
    found = hugging_face.tokenizer_config(config, words)
    assert (found["tokenizer_class"], found["strip_accents"]) == ("BertTokenizer", None)
    found = hugging_face.tokenizer_config(config, tiny_gpt.tokenizer())
    assert found["tokenizer_class"] == "GPT2Tokenizer"
    assert "strip_accents" not in found
    assert found["model_max_length"] == config.max_position_embeddings


def rewrite(folder, tensors):
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def assert_loads(folder, model, dtype=np.float32):
    again = pretrainers.build("pretraining", None, model.config)
    report = checkpoint.load(again, folder)
    assert report.missing == report.unused == ()
    pairs = zip(
        names.named_variables(again),
        names.named_variables(model),
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
    for text in ("{", "[]", "{}", '{"weight_map": {"a": 3}}'):
        index.write_text(text)
        with pytest.raises(ValueError, match=r"index\.json: .*copy it again"):
            checkpoint.load(model, folder)


@pytest.mark.parametrize(
    "begin", [b"", b"\0" * 7, b"\xff" * 8, (2**62).to_bytes(8, "little"), b"PK\3\4"]
)
def test_damaged_file_is_named(saved, begin):
    """Empty, cut, of a header of 2^62 bytes, or an archive."""
    folder, model, _ = saved
    path = folder / "model.safetensors"
    path.write_bytes(begin + (path.read_bytes()[len(begin) :] if begin[7:] else b""))
    with pytest.raises(ValueError, match="not a readable safetensors file") as caught:
        checkpoint.load(model, folder)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


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
    assert checkpoint.load(
        pretrainers.build("none", None, tiny_config), folder
    ).assigned


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_widened(saved, dtype):
    folder, model, tensors = saved
    rewrite(folder, {key: value.astype(dtype) for key, value in tensors.items()})
    assert_loads(folder, model, dtype)


@pytest.mark.parametrize("kind", ["I8", "U8", "F8_E4M3"])
def test_quantized_weights_are_refused(saved, kind):
    folder, model, tensors = saved
    key = "bert.encoder.layer.0.output.dense.weight"
    rewrite(folder, {**tensors, key: tensors[key].astype(np.uint8)})
    path = folder / "model.safetensors"
    # NumPy has no such floats, so the header is changed, which says its own length.
    before, after = b'"U8"', json.dumps(kind).encode()
    content = path.read_bytes().replace(before, after)
    length = int.from_bytes(content[:8], "little") + len(after) - len(before)
    path.write_bytes(length.to_bytes(8, "little") + content[8:])
    with pytest.raises(ValueError, match=f"{key} is of type {kind}, as in a quantized"):
        checkpoint.load(model, folder)


def test_weights_may_be_read_by_whoever_may_read_the_config(saved):
    folder = saved[0]
    modes = {(folder / n).stat().st_mode for n in ("config.json", "model.safetensors")}
    assert len(modes) == 1


def test_config_says_nothing_of_another_file(tiny_config):
    old = {
        "dtype": "float16",
        "id2label": {"0": "a"},
        "note": 1,
        "architectures": ["X"],
    }
    config = dataclasses.replace(tiny_config, extra=old)
    model = pretrainers.build("none", None, config)
    described = hugging_face.described(model)
    assert described.extra == {"note": 1, "architectures": ["BertModel"]}


def test_config_of_a_classifier_keeps_the_problem_type(tiny_config):
    """Where none is given, as of classes that have no names."""
    multi_label = {"problem_type": "multi_label_classification"}
    config = dataclasses.replace(tiny_config, extra=multi_label)
    model = pretrainers.build("classifier", 2, config)
    usual = {"architectures": ["BertForSequenceClassification"]}
    assert hugging_face.described(model).extra == {**multi_label, **usual}
    assert hugging_face.described(model, problem_type="choice").extra == usual
    tagger = pretrainers.build("tagger", 2, config)
    assert "problem_type" not in hugging_face.described(tagger).extra
    choice = {"architectures": ["BertForMultipleChoice"]}
    config = dataclasses.replace(tiny_config, extra=choice)
    model = pretrainers.build("classifier", 1, config)
    assert hugging_face.described(model).extra == choice
    assert hugging_face.described(model, problem_type="regression").extra == usual


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
    config = dataclasses.replace(tiny_config, extra={"id2label": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="has the keys none, but the head has 3"):
        hugging_face.labels_in(config, 3)
