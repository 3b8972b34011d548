"""Checkpoints by objects, built here with the keys that Model Garden's encoders have.

By hand, a BertEncoder and a BertEncoderV2 of tf-models-official 2.20 were saved and
read: sequence and pooled outputs agreed to 1.1e-6.
"""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_reborn as bert
from loading import model_directory
from modeling import models, pretrainers
from modeling.checkpoints import checkpoint, names, places
from tests import tiny

IN_LAYER = {
    "attention/self/query": "_attention_layer/_query_dense",
    "attention/self/key": "_attention_layer/_key_dense",
    "attention/self/value": "_attention_layer/_value_dense",
    "attention/output/dense": "_attention_layer/_output_dense",
    "attention/output/LayerNorm": "_attention_layer_norm",
    "intermediate/dense": "_intermediate_dense",
    "output/dense": "_output_dense",
    "output/LayerNorm": "_output_layer_norm",
}
TABLES = ("word", "position", "token_type")
ATTRIBUTES = {
    **{f"bert/embeddings/{n}_embeddings": f"_{n}_embedding_layer" for n in TABLES},
    "bert/embeddings/word_embeddings": "_embedding_layer",
    "bert/embeddings/token_type_embeddings": "_type_embedding_layer",
    "bert/embeddings/LayerNorm": "_embedding_norm_layer",
    "bert/pooler/dense": "_pooler_layer",
    "layer": "_transformer_layers/{}",
}


def numbered(layers, first="layer_with_weights-{}", skipped=0):
    """The paths of a functional encoder, whose parts are numbered."""
    parts = [f"bert/embeddings/{name}_embeddings" for name in TABLES]
    parts.append("bert/embeddings/LayerNorm")
    paths = {part: first.format(i + skipped) for i, part in enumerate(parts)}
    numbers = [first.format(i + 4 + 2 * skipped) for i in range(layers + 1)]
    return {**paths, "layers": numbers[:-1], "bert/pooler/dense": numbers[-1]}


def path_of(name, paths):
    """The path of a variable with a Google name."""
    parent, _, leaf = name.rpartition("/")
    if match := re.match(r"bert/encoder/layer_(\d+)/", name):
        layers = paths.get("layers")
        number = int(match[1])
        layer = layers[number] if layers else paths["layer"].format(number)
        parts = paths.get("parts", IN_LAYER)
        return f"{layer}/{parts[parent.removeprefix(match[0])]}/{leaf}"
    if parent in paths:
        return f"{paths[parent]}/{leaf}"
    return f"{paths[name]}/embeddings" if name in paths else None


def split_heads(name, value, heads):
    """An array as an EinsumDense of attention has it."""
    if "/attention/self/" in name:
        return value.reshape(*value.shape[:-1], heads, -1)
    if name.endswith("attention/output/dense/kernel"):
        return value.reshape(heads, -1, value.shape[-1])
    return value


def save(directory, release, paths, prefix="encoder", extra=(), heads=None):
    """Writes the encoder of a release as nested objects; returns the directory."""
    raw = json.loads((release / "bert_config.json").read_text())
    reader = tf.train.load_checkpoint(str(release / "bert_model.ckpt"))
    values = {
        f"{prefix}/{path_of(name, paths)}": split_heads(
            name, reader.get_tensor(name), heads or raw["num_attention_heads"]
        )
        for name in reader.get_variable_to_shape_map()
        if name.startswith("bert/") and path_of(name, paths)
    }
    values |= {path: reader.get_tensor(name) for path, name in dict(extra).items()}
    write(directory / "bert_model.ckpt", values)
    (directory / "bert_config.json").write_text(json.dumps(raw))
    return directory


def write(prefix, values):
    """Writes {path of attributes: array} by objects; a list's items have numbers."""
    tree = {}
    for path, value in values.items():
        *parents, leaf = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = tf.Variable(value)

    def as_objects(node):
        if isinstance(node, tf.Variable):
            return node
        plain = {k.replace(".S", "/").replace("..", "."): node[k] for k in node}
        return tf.train.Checkpoint(**{k: as_objects(v) for k, v in plain.items()})

    as_objects(tree).write(str(prefix))


FORMS = {
    "functional": (numbered(3), "encoder"),
    "below": (numbered(3), "model/layer_with_weights-0"),
    "unweighted": (numbered(3, "layer-{}", skipped=1), "model"),
    "attributes": (ATTRIBUTES, "model"),
}


def load(directory):
    model = models.BertModel(
        model_directory.read_config(directory / "bert_config.json")
    )
    model.build()
    return model, checkpoint.load(model, directory)


@pytest.mark.parametrize("form", FORMS)
def test_outputs_are_the_recorded(tmp_path, golden_dir, forward_record, form):
    paths, prefix = FORMS[form]
    model, report = load(save(tmp_path, golden_dir, paths, prefix))
    assert not report.missing and not report.unused
    outputs = model.encode(forward_record, None)
    for name in ("sequence_output", "pooled_output"):
        expected = forward_record[name]
        np.testing.assert_allclose(np.asarray(outputs[name]), expected, atol=1e-5)


def test_swapped_layers_are_another_network(tmp_path, golden_dir, forward_record):
    paths = numbered(3)
    paths["layers"] = paths["layers"][::-1]
    model, _ = load(save(tmp_path, golden_dir, paths))
    output = np.asarray(model.encode(forward_record, None)["sequence_output"])
    assert np.abs(output - forward_record["sequence_output"]).max() > 0.1


def test_pretraining_checkpoint_has_its_heads(tmp_path, golden_dir, forward_record):
    """The pretrainer's head has the table of words, and that of pairs the pooler."""
    bare = numbered(3)
    words, pooler = "bert/embeddings/word_embeddings", "bert/pooler/dense"
    heads = {
        "masked_lm/embedding_table": words,
        "masked_lm/output_bias.Sbias": "cls/predictions/output_bias",
        "masked_lm/dense/kernel": "cls/predictions/transform/dense/kernel",
        "masked_lm/dense/bias": "cls/predictions/transform/dense/bias",
        "masked_lm/layer_norm/gamma": "cls/predictions/transform/LayerNorm/gamma",
        "masked_lm/layer_norm/beta": "cls/predictions/transform/LayerNorm/beta",
        "next_sentence..pooler_dense/kernel": f"{pooler}/kernel",
        "next_sentence..pooler_dense/bias": f"{pooler}/bias",
    }
    # One more pooler is random, and one more table would be the same object.
    random = {f"encoder/{bare[pooler]}/bias": "bert/embeddings/LayerNorm/gamma"}
    del bare[words], bare[pooler]
    save(tmp_path, golden_dir, bare, extra={**heads, **random})
    file = places.open_file(tmp_path)
    assert "save_counter" not in file.states.values()
    model = pretrainers.BertPretrainer(
        model_directory.read_config(tmp_path / "bert_config.json")
    )
    model.build()
    report = checkpoint.load(model, tmp_path)
    assert report.missing == (
        "cls/seq_relationship/output_weights",
        "cls/seq_relationship/output_bias",
    )
    assert [key.split("/.")[0] for key in report.unused] == [
        f"encoder/{numbered(3)[pooler]}/bias"
    ]
    outputs = model(forward_record)
    expected = forward_record["pooled_output"]
    pooled = model.encode(forward_record, None)["pooled_output"]
    np.testing.assert_allclose(np.asarray(pooled), expected, atol=1e-5)
    top = tf.math.top_k(tf.reshape(outputs["masked_lm_logits"], (80, -1)), 5)
    np.testing.assert_array_equal(top.indices, forward_record["masked_lm_top5"])


def test_early_release_has_attention_of_two_axes(tmp_path, golden_dir):
    """The kernels after the heads lie outside of the attention there."""
    early = {**IN_LAYER, "attention/output/dense": "_attention_output_dense"}
    paths = {**numbered(3), "parts": early}
    model, report = load(save(tmp_path, golden_dir, paths))
    assert not report.missing
    rows = {row.google: value for row, value in names.named_variables(model)}
    key = "bert/encoder/layer_0/attention/output/dense/kernel"
    reader = tf.train.load_checkpoint(str(golden_dir / "bert_model.ckpt"))
    np.testing.assert_array_equal(np.asarray(rows[key]), reader.get_tensor(key))


def test_other_heads_and_two_encoders_are_refused(tmp_path, golden_dir):
    save(tmp_path, golden_dir, numbered(3), heads=8)
    with pytest.raises(ValueError, match=r"num_attention_heads=4 \(the file has 8\)"):
        load(tmp_path)
    two = numbered(3)
    two["layers"] = [*two["layers"][:2], "other/layer_with_weights-6"]
    save(tmp_path, golden_dir, two)
    with pytest.raises(ValueError, match="none of its 56 variables belongs to a BERT"):
        load(tmp_path)


def test_states_of_training_are_no_weights(tmp_path, golden_dir):
    paths = {"optimizer/learning_rate": "bert/embeddings/LayerNorm/gamma"}
    save(tmp_path, golden_dir, numbered(3), extra=paths)
    file = places.open_file(tmp_path)
    assert sorted(file.states.values()) == ["CHECKPOINTABLE_OBJECT_GRAPH", "optimizer"]
    assert not load(tmp_path)[1].unused


@pytest.mark.slow
def test_directory_of_a_release_opens(tmp_path):
    release = tiny.write_model(tmp_path / "release")
    (tmp_path / "garden").mkdir()
    save(tmp_path / "garden", release, numbered(2))
    shutil.copy(release / "vocab.txt", tmp_path / "garden")
    texts = ["the film was great", "awful"]
    vectors = [
        bert.load(tmp_path / name, head="none").embed(texts)
        for name in ("release", "garden")
    ]
    np.testing.assert_array_equal(vectors[0], vectors[1])
