"""What other programs leave beside weights, or in their place, through every door."""

import json
import shutil
import types

import numpy as np
import pytest
import safetensors.numpy

import bert_reborn as bert
from loading import model_directory
from modeling.checkpoints import checkpoint, conversion, google, places
from modeling.networks.encoder_decoder import warm_start
from serving import reranking, search_encoders
from tests import tiny
from tests.refusals import refused

WEIGHTS = "model.safetensors"
QUERY = "bert.encoder.layer.1.attention.self.query"
MERGE = "is not read (it is of an adapter of PEFT", "merge_and_unload(), and save the "


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A classifier of two classes as Hugging Face has it."""
    path = tmp_path_factory.mktemp("models")
    tiny.write_model(path / "google", num_hidden_layers=2)
    model = bert.load(path / "google", labels=["a", "b"], max_seq_length=16)
    model.save(path / "hf", "hugging_face")
    return path / "hf"


@pytest.fixture
def folder(source, tmp_path):
    tiny.write_tables(tmp_path, test=2)
    return shutil.copytree(source, tmp_path / "model")


def script(name, flags):
    def run(path):
        line = tiny.refuse(name, flags.format(path=path, out=path.parent / "out"))
        raise ValueError(line.removeprefix("error: "))

    return run


CLASSIFY = "--do_predict --test_file={path}/../test.tsv --output_dir={out} "
CLASSIFY += "--max_seq_length=16 "
DOORS = {
    "load": bert.load,
    "classifier": bert.classifier,
    "locate": model_directory.locate,
    "find": places.find,
    "find_file": lambda path: places.find(path / WEIGHTS),
    "is_there": places.is_there,
    "reranker": lambda path: reranking.open_source(str(path), None),
    "encoder": lambda path: search_encoders.open_source(
        search_encoders.Source(str(path))
    ),
    "convert": script(
        "convert_checkpoint", "--input={path} --to=google --output_dir={out}"
    ),
    "pretrained": script("run_classifier", CLASSIFY + "--pretrained={path}"),
    "init_checkpoint": script(
        "run_classifier",
        CLASSIFY + "--bert_config_file={path}/config.json "
        "--vocab_file={path}/vocab.txt --init_checkpoint={path}",
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_adapter_beside_its_model_is_refused(folder, door):
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    with refused(f"{folder}/adapter_config.json", *MERGE):
        DOORS[door](folder)


def test_adapter_in_the_folder_of_a_transformer_is_refused(folder):
    modules = [{"type": "sentence_transformers.models.Transformer", "path": "inner"}]
    inner = shutil.copytree(folder, folder / "inner")
    (folder / "modules.json").write_text(json.dumps(modules))
    (inner / "adapter_model.safetensors").touch()
    for door in ("load", "encoder", "convert"):
        with refused(f"{inner}/adapter_model.safetensors", *MERGE):
            DOORS[door](folder)


def empty(folder, *held, kept=("config.json", "vocab.txt")):
    """A directory of these files and folders, and of those that are kept."""
    for path in folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in held:
        if "." in name:
            (folder / name).touch()
        else:
            (folder / name).mkdir()


ALONE = {
    "adapter": (["adapter_config.json", "adapter_model.bin"], MERGE),
    "zero": (
        ["zero_to_fp32.py", "optimizer.pt"],
        ("zero_to_fp32.py is not read", "parts of DeepSpeed; run it"),
    ),
    "onnx": (
        ["model.onnx", "training_args.bin"],
        ("model.onnx is not read", "give the model from which it was made"),
    ),
    "onnx_folder": (["onnx"], ("/onnx is not read", "from which it was made")),
    "openvino": (
        ["openvino_model.bin", "openvino_model.xml"],
        ("openvino_model.bin is not read", "from which it was made"),
    ),
    "bert4keras": (
        ["best_model.weights"],
        ("best_model.weights is not read", 'weights_as_checkpoint("bert_model.ckpt")'),
    ),
    "bert4keras_h5": (
        ["best_model.h5"],
        ("best_model.h5 is not read", "save_weights_as_checkpoint"),
    ),
}


@pytest.mark.parametrize("door", ["load", "find", "is_there", "convert", "pretrained"])
@pytest.mark.parametrize("kind", ALONE)
def test_what_lies_alone_is_named(folder, kind, door):
    held, parts = ALONE[kind]
    empty(folder, *held)
    with refused(*parts):
        DOORS[door](folder)
    if (folder / held[0]).is_file():
        with refused(f"{folder}/{held[0]} is not read"):
            places.find(folder / held[0])
    empty(folder, *held, kept=())  # without its config, too
    with refused(*parts):
        model_directory.locate(folder)


@pytest.mark.parametrize("place", ["", "checkpoint-1000"])
def test_checkpoints_of_a_trainer_are_named(source, folder, place):
    empty(folder, "training_args.bin", "checkpoint-500", "checkpoint-1000")
    parts = f"{folder} holds no weights", "checkpoint-500, checkpoint-1000; give "
    with refused(*parts, "the directory of one of them"):
        bert.load(folder)
    state = folder / place / "trainer_state.json"
    for best in ("/gone/out/checkpoint-500", r"out\checkpoint-500"):
        state.write_text(json.dumps({"best_model_checkpoint": best}))
        for door in ("load", "find", "convert", "pretrained"):
            with refused(*parts, f"checkpoint-500, the best one by {state}"):
                DOORS[door](folder)
    for best in (None, "out/checkpoint-7"):
        state.write_text(json.dumps({"best_model_checkpoint": best}))
        with refused(*parts, "the directory of one of them"):
            places.find(folder)


@pytest.mark.parametrize("door", ["load", "find", "convert", "pretrained"])
def test_folders_of_adapters_are_named(folder, door):
    empty(folder, "README.md")
    for name in ("german", "french"):
        (folder / name).mkdir()
        (folder / name / "adapter_config.json").touch()
    with refused(f"{folder} holds no weights but those of adapters in french, german"):
        DOORS[door](folder)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("peft", ("base_model.model.bert.", *MERGE)),
        ("base_layer", (f"{QUERY}.base_layer.weight", *MERGE)),
        ("lora", (f"{QUERY}.lora_A.weight", *MERGE)),
        ("parametrized", (".parametrizations.weight.", "remove_parametrizations")),
        ("adapter", ("bert.encoder.layer.0.output.adapters.x", "of no variable")),
        ("pruned", (f"{QUERY}.mask_scores in the layers", "merge them into the wei")),
        ("empty", ("bert.encoder.layer.0.", "DeepSpeed's ZeRO-3 leaves it empty")),
    ],
)
def test_tensors_of_another_model_are_refused(folder, kind, parts):
    path = folder / WEIGHTS
    arrays, small = safetensors.numpy.load_file(path), np.ones((2, 32), np.float32)
    query = arrays[f"{QUERY}.weight"]
    without = {key: v for key, v in arrays.items() if key != f"{QUERY}.weight"}
    arrays = {
        "peft": {f"base_model.model.{key}": v for key, v in arrays.items()},
        "base_layer": {**without, f"{QUERY}.base_layer.weight": query},
        "lora": {**arrays, f"{QUERY}.lora_A.weight": small},
        "parametrized": {**without, f"{QUERY}.parametrizations.weight.0": query},
        "adapter": {**arrays, "bert.encoder.layer.0.output.adapters.x.weight": small},
        "pruned": {**arrays, f"{QUERY}.mask_scores": query},
        "empty": {
            key: v if v.ndim == 1 else np.zeros(0, np.float32)
            for key, v in arrays.items()
        },
    }[kind]
    safetensors.numpy.save_file(arrays, path, {"format": "pt"})
    doors = ["load", "convert", "pretrained", "init_checkpoint"]
    for door in doors if kind in ("peft", "pruned") else doors[:1]:
        with refused(f"{path}: ", *parts):
            DOORS[door](folder)


def test_slots_of_tensorflow_are_not_added_to_a_layer(folder):
    model = bert.load(folder, max_seq_length=16).model
    layer, value = "bert/encoder/layer_0/attention/", np.ones((32, 32), np.float32)
    slots = ("self/query/kernel/Momentum", "self/query/kernel/lamb_m")
    variables = google.variables(model) | {layer + name: value for name in slots}
    google.write(folder / "slots.ckpt", variables)
    report = checkpoint.load(model, folder / "slots.ckpt")
    assert not report.unused
    below = {f"{layer}self/query/kernel/lora_a": value[:2]}
    for adapter in ({f"{layer}output/feedforward_Adapter/kernel": value}, below):
        google.write(folder / "adapter.ckpt", {**variables, **adapter})
        (name,) = adapter
        message = f"{folder}/adapter.ckpt: {name} in the layers are of no var"
        for allows in (None, True):
            with refused(message):
                checkpoint.load(model, folder / "adapter.ckpt", allows_missing=allows)
    side = types.SimpleNamespace(config=types.SimpleNamespace(encoder=model.config))
    with refused(message):  # before one side of an encoder-decoder is filled
        warm_start.load(side, folder / "adapter.ckpt")


def test_what_lies_beside_good_weights_is_left_alone(folder):
    """Exports, moments and states of a training, and the head of another task."""
    expected = conversion.digest(bert.load(folder, max_seq_length=16).model)
    for name in ("onnx", "openvino", "checkpoint-7"):
        (folder / name).mkdir()
    names = """model.onnx openvino_model.bin openvino_model.xml optimizer.pt
        trainer_state.json training_args.bin flax_model.msgpack zero_to_fp32.py
        pytorch_model.bin best_model.h5 best_model.weights onnx/model.onnx"""
    for name in names.split():
        (folder / name).touch()
    arrays = safetensors.numpy.load_file(folder / WEIGHTS)
    cross = "bert.encoder.layer.0.crossattention.self.query.weight"
    arrays |= {  # of other parts, numbered or not, and without an effect in a decoder
        cross: np.ones((32, 32), np.float32),
        "old_head.0.adapter.weight": np.ones((2, 2), np.float32),
        "generator.layer.0.adapter.weight": np.ones((2, 2), np.float32),
        "scale": np.zeros(0, np.float32),
    }
    safetensors.numpy.save_file(arrays, folder / WEIGHTS, {"format": "pt"})
    model = bert.load(folder, max_seq_length=16)
    assert conversion.digest(model.model) == expected
    for name in (
        cross,
        "old_head.0.adapter.weight",
        "generator.layer.0.adapter.weight",
    ):
        assert name in model.source.partition("in the file but not used: ")[2]
    path = shutil.copytree(folder, folder.parent / "bert-onnx")  # a name alone
    assert places.find(path) == str(path)
