"""hugging_face.py: the forms that its files have, and what is written."""

import dataclasses
import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from modeling import pretrainers
from modeling.checkpoints import checkpoint, hugging_face, places
from tests.modeling.random_weights import assert_equal, configs, random_model, values

DECODER = "cls.predictions.decoder"
TABLE = "bert.embeddings.word_embeddings.weight"


@pytest.fixture
def saved(tiny_config, tmp_path):
    model = random_model(tiny_config, "pretraining")
    hugging_face.save(tmp_path, model)
    path = tmp_path / "model.safetensors"
    return tmp_path, model, safetensors.numpy.load_file(path)


def rewrite(folder, tensors):
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def assert_loads(folder, model, dtype=np.float32, missing=(), unused=()):
    again = random_model(model.config, "pretraining", seed=2)
    before = values(again)
    report = checkpoint.load(again, folder)
    assert (report.missing, report.unused) == (missing, unused)
    wanted = {k: v.astype(dtype).astype(np.float32) for k, v in values(model).items()}
    assert_equal(values(again), {**wanted, **{name: before[name] for name in missing}})


def test_bare_encoder_with_old_names_and_buffers_loads(saved):
    folder, model, tensors = saved
    bare = {k.removeprefix("bert."): v for k, v in tensors.items() if k[:5] == "bert."}
    for new, old in (("weight", "gamma"), ("bias", "beta")):
        bare = {k.replace(f"Norm.{new}", f"Norm.{old}"): v for k, v in bare.items()}
    assert "embeddings.LayerNorm.gamma" in bare
    bare["embeddings.position_ids"] = np.arange(32)[None]
    bare["dropout.scale"] = np.zeros(1, np.float32)
    rewrite(folder, bare)
    heads = tuple(name for name in values(model) if name.startswith("cls/"))
    assert_loads(folder, model, missing=heads, unused=("dropout.scale",))


@pytest.mark.parametrize(
    "prefixes",
    [("module.",), ("_orig_mod.module.",), ("model.",), ("0.auto_model.", "model.0.")],
)
def test_prefixes_of_wrappers_are_taken_off_and_named(saved, prefixes):
    folder, model, tensors = saved
    first, *others = prefixes
    wrapped = {first + key: value for key, value in tensors.items()}
    wrapped |= {f"{other}loss": np.zeros(1, np.float32) for other in others}
    rewrite(folder, wrapped)
    assert_loads(folder, model, unused=("0.loss",) * len(others))
    report = checkpoint.load(random_model(model.config, "pretraining"), folder)
    named = [first, *(["model."] if others else [])]
    assert f"prefixes taken off: {', '.join(named)}" in str(report)
    rewrite(folder, {"bert.own.weight": np.zeros(1, np.float32), **tensors})
    assert "prefixes taken" not in str(checkpoint.load(model, folder))


def test_two_models_in_a_file_are_refused(saved):
    folder, model, tensors = saved
    rewrite(folder, {**tensors, f"module.{TABLE}": tensors[TABLE].copy()})
    with pytest.raises(ValueError, match=r"names both with and without module\."):
        checkpoint.load(model, folder)


TIED = {  # network: head, and pairs of a copy and its original
    "bert": (
        "pretraining",
        (f"{DECODER}.weight", TABLE),
        (f"{DECODER}.bias", "cls.predictions.bias"),
    ),
    "gpt": ("language_model", ("lm_head.weight", "transformer.tokens_embed.weight")),
    "gpt2": ("language_model", ("lm_head.weight", "transformer.wte.weight")),
    "pair": (
        "seq2seq",
        (f"decoder.{DECODER}.weight", f"decoder.{TABLE}"),
        (f"decoder.{DECODER}.bias", "decoder.cls.predictions.bias"),
    ),
}


@pytest.mark.parametrize("network", TIED)
def test_either_of_two_tied_arrays_is_enough(tiny_config, tmp_path, network):
    head, *pairs = TIED[network]
    config = configs(tiny_config)[network]
    model, again = (random_model(config, head, seed=seed) for seed in (1, 2))
    hugging_face.save(tmp_path, model)
    tensors = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    both = {**tensors, **{copy: tensors[name].copy() for copy, name in pairs}}
    copies = dict(pairs)
    alone = {k: v for k, v in both.items() if k not in copies.values()}
    for held in (both, alone):
        rewrite(tmp_path, held)
        report = checkpoint.load(again, tmp_path)
        assert report.missing == report.unused == ()
        assert_equal(values(again), values(model))
    for copy, original in pairs:
        rewrite(tmp_path, {**both, copy: both[copy] + 1})
        with pytest.raises(ValueError, match=f"{copy} differs from {original}"):
            checkpoint.load(again, tmp_path)
    if network == "bert":  # other models have no such head
        assert checkpoint.load(random_model(config, "none"), tmp_path).assigned


def shard(folder, tensors, number=3):
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


def test_shards_are_read_if_they_are_whole(saved):
    folder, model, tensors = saved
    weight_map = shard(folder, tensors)
    index = folder / hugging_face.INDEX_FILE
    assert places.find(folder) == places.find(index) == str(folder)
    assert_loads(folder, model)
    moved = {**weight_map, TABLE: weight_map["cls.predictions.bias"]}
    assert moved != weight_map
    index.write_text(json.dumps({"weight_map": moved}))
    with pytest.raises(ValueError, match=f"lacks {TABLE} of model.safetensors.ind"):
        checkpoint.load(model, folder)
    for away in ("../model-1.safetensors", "/etc/model-1.safetensors"):
        index.write_text(json.dumps({"weight_map": {**weight_map, TABLE: away}}))
        with pytest.raises(ValueError, match=f"names '{away}'; put all shards"):
            checkpoint.load(model, str(folder))
    index.write_text(json.dumps({"weight_map": weight_map}))
    (folder / weight_map[TABLE]).unlink()
    with pytest.raises(
        ValueError, match=f"{weight_map[TABLE]}: not a readable safetensors file"
    ):
        checkpoint.load(model, folder)
    for text in ("{", "{}", '{"weight_map": {"a": 3}}'):
        index.write_text(text)
        with pytest.raises(ValueError, match=r"index\.json: .*copy it again"):
            checkpoint.load(model, folder)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_widened(saved, dtype):
    folder, model, tensors = saved
    rewrite(folder, {key: value.astype(dtype) for key, value in tensors.items()})
    assert_loads(folder, model, dtype)


@pytest.mark.parametrize("kind", ["U8", "F8_E4M3"])
def test_quantized_weights_are_refused(saved, kind):
    folder, model, tensors = saved
    key = "bert.encoder.layer.0.output.dense.weight"
    rewrite(folder, {**tensors, key: tensors[key].astype(np.uint8)})
    path = folder / "model.safetensors"
    # NumPy has no such floats, so the header is changed, which begins with its length.
    before, after = b'"U8"', json.dumps(kind).encode()
    content = path.read_bytes().replace(before, after)
    length = int.from_bytes(content[:8], "little") + len(after) - len(before)
    path.write_bytes(length.to_bytes(8, "little") + content[8:])
    with pytest.raises(ValueError, match=f"{key} is of type {kind}, and not of F64"):
        checkpoint.load(model, folder)


CLASSIFIER = {"architectures": ["BertForSequenceClassification"]}
CHOICE = {"architectures": ["BertForMultipleChoice"]}
MULTI_LABEL = {"problem_type": "multi_label_classification"}
OLD = {"dtype": "float16", "id2label": {"0": "a"}, "note": 1, "architectures": ["X"]}


@pytest.mark.parametrize(
    ("head", "extra", "problem_type", "expected"),
    [
        ("none", OLD, "", {"note": 1, "architectures": ["BertModel"]}),
        ("classifier", MULTI_LABEL, "", {**MULTI_LABEL, **CLASSIFIER}),
        ("classifier", MULTI_LABEL, "choice", CLASSIFIER),
        ("tagger", MULTI_LABEL, "", {"architectures": ["BertForTokenClassification"]}),
        ("classifier", CHOICE, "", CHOICE),
        ("classifier", CHOICE, "regression", CLASSIFIER),
    ],
)
def test_config_describes_the_model(
    tiny_config, tmp_path, head, extra, problem_type, expected
):
    config = dataclasses.replace(tiny_config, extra=extra)
    model = pretrainers.build(head, 2, config)
    assert hugging_face.describe(model, problem_type=problem_type).extra == expected
    hugging_face.save(tmp_path, model, problem_type=problem_type)
    raw = json.loads((tmp_path / "config.json").read_text())
    is_choice = problem_type == "choice" or expected == CHOICE
    assert raw["architectures"] == (CHOICE if is_choice else expected)["architectures"]
    assert ("id2label" in raw) == (head != "none" and not is_choice)
    stated = problem_type if problem_type == "regression" else None
    assert raw.get("problem_type") == expected.get("problem_type", stated)
