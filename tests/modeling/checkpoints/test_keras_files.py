"""keras_files.py, and saving models the way Keras does it."""

import collections
import zipfile

import h5py
import keras
import numpy as np
import pytest

from modeling import models, pretrainers
from modeling.checkpoints import checkpoint, keras_files
from modeling.configs import config
from tests.modeling.random_weights import assert_equal, random_model, values

HEADS = [
    (head, 3 if head in ("classifier", "tagger") else None)
    for head in pretrainers.HEADS
    if head != "seq2seq"  # encoder_decoder/test_files.py
]


def assert_same(actual, expected):
    assert type(actual) is type(expected)
    assert actual.config == expected.config
    assert_equal(values(actual), values(expected))


@pytest.mark.parametrize(("head", "num_classes"), HEADS)
def test_model_and_config_are_the_same_after_saving(
    tiny_config, tmp_path, head, num_classes
):
    raw = {**tiny_config.to_dict(), "model_type": "bert", "hidden_act": "gelu"}
    odd = config.BertConfig.from_dict({**raw, "layer_norm_eps": 1e-6, "note": [1, "a"]})
    assert odd.hidden_act == "gelu_erf" and odd.extra["note"] == [1, "a"]
    model = random_model(odd, head, num_classes)
    keras_files.save(model, f"{tmp_path}/m.keras")
    assert keras_files.stored_config(f"{tmp_path}/m.keras") == model.config
    assert_same(keras_files.load(f"{tmp_path}/m.keras"), model)


@pytest.mark.slow
def test_keras_loads_it_by_itself(tiny_config, tiny_features, tmp_path):
    """Compiled, trained by `fit`, saved: as with any Keras model."""
    model = models.BertClassifier(tiny_config, 3)
    # XLA takes its time; `fit` compiles with it in test_optimizer.py.
    model.compile(optimizer="sgd", loss="mse", jit_compile=False)
    inputs = {k: tiny_features[k] for k in ("input_ids", "input_mask", "segment_ids")}
    model.fit(inputs, {"logits": np.ones((2, 3), np.float32)}, verbose=0)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    assert_same(again, model)
    np.testing.assert_array_equal(
        again(tiny_features)["logits"], model(tiny_features)["logits"]
    )
    assert isinstance(again.optimizer, keras.optimizers.SGD)
    # And without what trained it.
    bare = keras_files.load(str(tmp_path / "m.keras"))
    assert_same(bare, model)
    assert not bare.compiled


def test_checkpoint_loads_keras_files(tiny_config, tmp_path):
    model, name = random_model(tiny_config, "classifier", 3), keras_files.MODEL_FILE
    keras_files.save(model, f"{tmp_path}/{name}")
    assert checkpoint.find(tmp_path) == f"{tmp_path}/{name}"
    assert checkpoint.find(tmp_path / name) == f"{tmp_path}/{name}"
    again = pretrainers.build("classifier", 3, tiny_config)
    report = checkpoint.load(again, tmp_path)
    assert report.missing == report.unused == () and report.global_step is None
    assert_same(again, model)
    # The head of another task stays as it was, and is reported.
    tagger = pretrainers.build("tagger", 3, tiny_config)
    report = checkpoint.load(tagger, tmp_path)
    assert report.missing == ("output_weights", "output_bias")
    assert report.unused == ("classifier/logits/bias", "classifier/logits/kernel")


def test_arrays_lie_where_they_always_did(tiny_config, tmp_path):
    """So the first files stay readable."""
    block = "attention/query attention/key attention/value attention/output_projection"
    block = f"{block} attention_norm ffn_in ffn_out ffn_norm".split()
    places = {"bert/embeddings/vars": 3}
    places |= {
        f"bert/blocks/encoder_block{i}/{part}/vars": 2
        for i in ("", "_1")
        for part in block
    }
    for part in ("bert/embeddings/norm", "bert/pooler", "classifier/logits"):
        places[f"{part}/vars"] = 2
    path = f"{tmp_path}/m.weights.h5"
    keras_files.save(pretrainers.build("classifier", 3, tiny_config), path)
    counts = collections.Counter()

    def count(name, item):
        if isinstance(item, h5py.Dataset):
            counts[name.rsplit("/", 1)[0]] += 1

    with h5py.File(path) as file:
        file.visititems(count)
    assert counts == places


def test_weights_alone_are_not_read(tiny_config, tmp_path):
    """They do not say which head they have; beside them may lie what does."""
    path = tmp_path / keras_files.WEIGHTS_FILE
    keras_files.save(random_model(tiny_config, "span", None), str(path))
    for place in (path, tmp_path):
        message = "weights.h5 is not read .it holds weights alone.* save it as model.k"
        with pytest.raises(ValueError, match=message):
            checkpoint.find(place)
    keras_files.save(
        pretrainers.build("span", None, tiny_config), f"{tmp_path}/m.keras"
    )
    assert checkpoint.find(tmp_path / "m.keras") == f"{tmp_path}/m.keras"


def test_damaged_file_is_one_line(tiny_config, tmp_path):
    path = tmp_path / "m.keras"
    keras_files.save(random_model(tiny_config, "none", None), str(path))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match=f"^{path}: not a readable Keras file [^\n]+$"):
        keras_files.load(str(path))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "")
    with pytest.raises(ValueError, match="not a readable Keras file"):
        keras_files.load(str(path))


def test_archive_that_unpacks_to_more_than_weights_is_refused(tmp_path):
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", b" " * 10**7)
    with pytest.raises(ValueError, match="it unpacks to 10,000,000 bytes, as no"):
        keras_files.load(str(path))
    path.unlink()
    path.mkdir()
    for place in (path, tmp_path):
        with pytest.raises(ValueError, match="no checkpoint in this directory"):
            checkpoint.find(place)


def test_model_of_another_kind_is_refused(tmp_path):
    other = keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])
    other.save(tmp_path / "a.keras")
    message = r"a Keras model Sequential, .* none of modeling/models\.py \(bert>Bert"
    with pytest.raises(ValueError, match=message):
        keras_files.load(f"{tmp_path}/a.keras")
