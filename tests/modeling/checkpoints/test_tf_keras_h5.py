"""tf_keras_h5.py: files as transformers 4.49 with TensorFlow 2.18 wrote them.

The names in `NAMES` were read from files of that library.
"""

import json
import re

import h5py
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from modeling.checkpoints import (
    checkpoint,
    conversion,
    hugging_face,
    places,
    tf_keras_h5,
)
from tests.modeling.random_weights import assert_equal, configs, random_model, values
from tests.tf_model_h5 import FILE, by_tensorflow, save_like_theirs

QUERY = "bert/encoder/layer_._1/attention/self/query/kernel:0"
# PyTorch's name, and TensorFlow's, of each kind of weight of BERT's family.
NAMES = {
    "bert.embeddings.word_embeddings.weight": (
        "bert/embeddings/word_embeddings/weight:0"
    ),
    "bert.embeddings.token_type_embeddings.weight": (
        "bert/embeddings/token_type_embeddings/embeddings:0"
    ),
    "bert.embeddings.LayerNorm.bias": "bert/embeddings/LayerNorm/beta:0",
    "bert.encoder.layer.1.attention.self.query.weight": QUERY,
    "bert.encoder.layer.11.output.dense.bias": (
        "bert/encoder/layer_._11/output/dense/bias:0"
    ),
    "cls.predictions.bias": "mlm___cls/predictions/bias:0",
    "cls.predictions.transform.LayerNorm.weight": (
        "mlm___cls/predictions/transform/LayerNorm/gamma:0"
    ),
    "cls.seq_relationship.weight": "nsp___cls/seq_relationship/kernel:0",
    "classifier.weight": "classifier/kernel:0",
    "roberta.embeddings.position_embeddings.weight": (
        "roberta/embeddings/position_embeddings/embeddings:0"
    ),
    "lm_head.layer_norm.weight": "lm_head/layer_norm/gamma:0",
    "lm_head.bias": "lm_head/bias:0",
    "classifier.out_proj.weight": "classifier/out_proj/kernel:0",
    "distilbert.transformer.layer.0.sa_layer_norm.bias": (
        "distilbert/transformer/layer_._0/sa_layer_norm/beta:0"
    ),
    "distilbert.transformer.layer.0.ffn.lin1.weight": (
        "distilbert/transformer/layer_._0/ffn/lin1/kernel:0"
    ),
    "vocab_layer_norm.bias": "vocab_layer_norm/beta:0",
    "electra.embeddings_project.weight": "electra/embeddings_project/kernel:0",
    "discriminator_predictions.dense_prediction.bias": (
        "discriminator_predictions/dense_prediction/bias:0"
    ),
    "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output.weight": (
        "albert/encoder/albert_layer_groups_._0/albert_layers_._0/ffn_output/kernel:0"
    ),
    "albert.encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm.bias": (
        "albert/encoder/albert_layer_groups_._0/albert_layers_._0/"
        "full_layer_layer_norm/beta:0"
    ),
    "predictions.dense.weight": "predictions/dense/kernel:0",
    "sop_classifier.classifier.bias": "sop_classifier/classifier/bias:0",
}


@pytest.fixture
def theirs(tiny_config, tmp_path):
    model = random_model(tiny_config, "pretraining")
    hugging_face.save(tmp_path, model)
    arrays = by_tensorflow(tmp_path)
    save_like_theirs(tmp_path / FILE, arrays)
    return tmp_path, model, arrays


def assert_loads(path, model, head="pretraining"):
    again = random_model(model.config, head, seed=2)
    report = checkpoint.load(again, path)
    assert report.missing == report.unused == ()
    assert_equal(values(again), values(model))
    return report


def test_names_are_those_of_pytorch():
    for pytorch, tensorflow in NAMES.items():
        assert tf_keras_h5.to_pytorch(tensorflow) == pytorch


def test_their_file_loads_and_another_name_does_not(theirs):
    folder, model, arrays = theirs
    report = assert_loads(folder, model)
    assert report.source == str(folder / FILE)
    for changed in (QUERY.replace("query", "quary"), QUERY.replace("kernel", "kernal")):
        other = {changed if key == QUERY else key: arrays[key] for key in arrays}
        save_like_theirs(folder / FILE, other)
        message = f"{FILE}: lacks bert.encoder.layer.1.attention.self.query.weight of"
        with pytest.raises(ValueError, match=message):
            checkpoint.load(model, folder)
    save_like_theirs(folder / FILE, {**arrays, QUERY: arrays[QUERY].T})
    again = random_model(model.config, "pretraining", seed=2)
    checkpoint.load(again, folder)
    name = "bert/encoder/layer_1/attention/self/query/kernel"
    np.testing.assert_array_equal(values(again)[name], values(model)[name].T)
    assert not np.array_equal(values(again)[name], values(model)[name])


def shard(folder, arrays):
    (folder / FILE).unlink()
    weight_map = {}
    for i in range(3):
        name = f"tf_model-{i + 1:05}-of-00003.h5"
        with h5py.File(folder / name, "w") as file:
            for key in sorted(arrays)[i::3]:
                file[key] = arrays[key]
                weight_map[f"tf_bert_for_pre_training/{key}"] = name
    index = folder / tf_keras_h5.INDEX_FILE
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index, weight_map


def test_shards_are_read_if_they_are_whole(theirs):
    folder, model, arrays = theirs
    index, weight_map = shard(folder, arrays)
    for path in (folder, index):
        assert_loads(path, model)
    name = weight_map[f"tf_bert_for_pre_training/{QUERY}"]
    with h5py.File(folder / name, "r+") as file:
        del file[QUERY]
    message = f"{name}: lacks bert.encoder.layer.1.attention.self.query.weight of "
    with pytest.raises(ValueError, match=f"{message}tf_model.h5.index.json; copy"):
        checkpoint.load(model, folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"{name}: not a readable HDF5 file"):
        checkpoint.load(model, folder)


def test_remote_files_are_copied_first(theirs):
    folder, model, arrays = theirs
    remote = f"ram://{folder.name}"
    tf.io.gfile.copy(str(folder / FILE), f"{remote}/one/{FILE}")
    assert_loads(f"{remote}/one/{FILE}", model)
    index, weight_map = shard(folder, arrays)
    for name in {index.name, *weight_map.values()}:
        tf.io.gfile.copy(str(folder / name), f"{remote}/more/{name}")
    assert_loads(f"{remote}/more/{index.name}", model)


def test_safetensors_of_their_classes_have_the_same_names(theirs):
    folder, model, arrays = theirs
    (folder / FILE).unlink()
    path = folder / "model.safetensors"
    held = {key: np.ascontiguousarray(value) for key, value in arrays.items()}
    safetensors.numpy.save_file(held, path, {"format": "tf"})
    assert_loads(folder, model)
    safetensors.numpy.save_file(held, path, {"format": "pt"})
    with pytest.raises(ValueError, match="none of its 46 variables belongs to a BERT"):
        checkpoint.load(model, folder)


@pytest.mark.slow
def test_which_of_several_files_is_read(theirs, tiny_config):
    folder, model, _ = theirs
    other = random_model(tiny_config, "pretraining", seed=3)
    conversion.write(folder, other, "google")  # some releases hold both
    assert_loads(folder, other)
    assert_loads(folder / FILE, model)
    for path in folder.glob("bert_model.ckpt*"):
        path.unlink()
    assert_loads(folder, model)
    hugging_face.save(folder, other)
    assert_loads(folder, other)
    assert_loads(folder / FILE, model)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "head"),
    [("gpt", "language_model"), ("gpt2", "classifier"), ("pair", "seq2seq")],
)
def test_other_networks_are_read(tiny_config, tmp_path, network, head):
    """A bias of GPT and GPT-2 is [1, out], and both sides of a pair are `bert`."""
    model = random_model(configs(tiny_config)[network], head)
    if head == "classifier":  # there it has no bias
        model.classifier.logits.bias.assign(np.zeros(3))
    hugging_face.save(tmp_path, model)
    tensors = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    tensors.pop("score.bias", None)
    with h5py.File(tmp_path / FILE, "w") as file:
        for name, value in tensors.items():
            key = re.sub(r"\.(\d+)\.", r"_._\1.", name).replace("_._", "#")
            key = key.replace(".", "/").replace("#", "_._") + ":0"
            if network == "pair":
                key = re.sub("^encoder/", "encoder/bert/", key)
            elif value.ndim == 1 and "attn" in key:
                value = value[None]
            elif name == "score.weight":
                key, value = "score/kernel:0", value.T
            file[f"{key.split('/')[0]}/tf_model/{key}"] = value
    assert_loads(tmp_path, model, head)


def test_damaged_files_are_one_line(theirs):
    folder, model, arrays = theirs
    path = folder / FILE
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"no HDF5" * 999):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{FILE}: not a readable HDF5.*copy it a"):
            checkpoint.load(model, folder)
    save_like_theirs(path, {**arrays, QUERY: arrays[QUERY].astype(np.int8)})
    with pytest.raises(ValueError, match=r"query\.weight is of type int8, and not of"):
        checkpoint.load(model, folder)
    t5 = {"decoder/block_._0/layer_._0/SelfAttention/q/kernel:0": arrays[QUERY]}
    for held in ({}, t5):
        save_like_theirs(path, held, "tf_t5_model")
        with pytest.raises(ValueError, match=r"belongs to a BERT.*choose another"):
            checkpoint.load(model, folder)
    with h5py.File(path, "w") as file:  # without groups
        file["x"], file["e"], file[":0"] = np.zeros(3), h5py.Empty("f4"), np.zeros(3)
    with pytest.raises(ValueError, match="none of its 2 variables belongs to a BERT"):
        checkpoint.load(model, folder)


def test_half_precision_is_widened(theirs):
    folder, model, arrays = theirs
    halves = {key: value.astype(np.float16) for key, value in arrays.items()}
    save_like_theirs(folder / FILE, halves)
    again = random_model(model.config, "pretraining", seed=2)
    checkpoint.load(again, folder)
    halved = values(model).items()
    wanted = {k: v.astype(np.float16).astype(np.float32) for k, v in halved}
    assert_equal(values(again), wanted)


@pytest.mark.parametrize(
    ("files", "first"),
    [
        (["pytorch_model.bin"], "pytorch_model.bin"),
        (
            ["pytorch_model-1.bin", "pytorch_model.bin.index.json"],
            "pytorch_model-1.bin",
        ),
        (["weights.pt", "other.pth"], "other.pth"),
        (["flax_model.msgpack"], "flax_model.msgpack"),
    ],
)
def test_pickles_are_refused(tmp_path, files, first):
    for file in files:
        (tmp_path / file).write_bytes(b"x")
    for place in (tmp_path, tmp_path / first):
        message = f"^{tmp_path}/{first} is not read .save it as model.safetensors"
        with pytest.raises(ValueError, match=message):
            places.find(place)
