"""keras_files.py, and saving models the way Keras does it."""

import collections
import zipfile

import h5py
import keras
import pytest

from modeling import pretrainers
from modeling.checkpoints import checkpoint, keras_files, places
from modeling.configs import config
from tests import daily
from tests.modeling.random_weights import assert_equal, random_model, values

HEADS = [
    (head, 3 if head in ("classifier", "tagger") else None)
    for head in pretrainers.HEADS
    # encoder_decoder/test_files.py, test_bert_family.py
    if head not in ("seq2seq", "discriminator")
]


def assert_same(actual, expected):
    assert type(actual) is type(expected)
    assert actual.config == expected.config
    assert_equal(values(actual), values(expected))


@pytest.mark.parametrize(
    ("head", "num_classes"),
    daily.params(HEADS, lambda pair: pair[0] in ("pretraining", "classifier")),
)
def test_model_and_config_are_the_same_after_saving(
    tiny_config, tmp_path, head, num_classes
):
    raw = {**tiny_config.to_dict(), "model_type": "bert", "hidden_act": "gelu"}
    odd = config.BertConfig.from_dict({**raw, "layer_norm_eps": 1e-6, "note": [1, "a"]})
    assert odd.hidden_act == "gelu_erf" and odd.extra["note"] == [1, "a"]
    model = random_model(odd, head, num_classes)
    model.save(f"{tmp_path}/m.keras")
    assert keras_files.stored_config(f"{tmp_path}/m.keras") == model.config
    assert_same(keras_files.load(f"{tmp_path}/m.keras"), model)


@pytest.mark.slow
def test_checkpoint_loads_keras_files(tiny_config, tmp_path):
    model, name = random_model(tiny_config, "classifier", 3), keras_files.MODEL_FILE
    model.save(f"{tmp_path}/{name}")
    assert places.find(tmp_path) == f"{tmp_path}/{name}"
    assert places.find(tmp_path / name) == f"{tmp_path}/{name}"
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
    pretrainers.build("classifier", 3, tiny_config).save_weights(path)
    counts = collections.Counter()

    def count(name, item):
        if isinstance(item, h5py.Dataset):
            counts[name.rsplit("/", 1)[0]] += 1

    with h5py.File(path) as file:
        file.visititems(count)
    assert counts == places


def test_weights_alone_are_not_read(tiny_config, tmp_path):
    path = tmp_path / "model.weights.h5"
    random_model(tiny_config, "span", None).save_weights(path)
    for place in (path, tmp_path):
        message = "weights.h5 is not read .it holds weights alone.* save it as model.k"
        with pytest.raises(ValueError, match=message):
            places.find(place)


def test_other_files_are_refused(tiny_config, tmp_path):
    path = tmp_path / "m.keras"
    random_model(tiny_config, "none", None).save(path)
    whole = path.read_bytes()
    for content, message in (
        (whole[:2000], r"not a readable Keras file [^\n]+$"),
        ({"notes.txt": b""}, "not a readable Keras file"),
        ({"config.json": b" " * 10**7}, "it unpacks to 10,000,000 bytes"),
    ):
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, text in content.items():
                    archive.writestr(name, text)
        with pytest.raises(ValueError, match=f"^{path}: .*{message}"):
            keras_files.load(str(path))
    keras.Sequential([keras.Input([3]), keras.layers.Dense(2)]).save(path)
    message = r"a Keras model Sequential; give one of bert>Bert"
    with pytest.raises(ValueError, match=message):
        keras_files.load(str(path))
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match="no checkpoint in this directory"):
        places.find(path)
