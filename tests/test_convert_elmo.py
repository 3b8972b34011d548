"""convert_checkpoint.py and bert.load on ELMo's files."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_reborn as bert
from tests import tiny
from tests.elmo_files import GOLDEN, OPTIONS, WEIGHTS, stored, write_training
from tests.modeling.random_weights import assert_equal

VOCAB = ("<S>", "</S>", "<UNK>", "the", "boat")


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    directory = write_training(tmp_path_factory.mktemp("training") / "run")
    (directory / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCAB))
    return directory


def convert(source, target, output_dir, *arguments):
    places = f"--input={source} --to={target} --output_dir={output_dir}"
    return tiny.succeed("convert_checkpoint", places, *arguments).out


@pytest.mark.slow
def test_training_becomes_a_release_and_a_checkpoint(training, tmp_path):
    """The HDF5 file is that of the original's dump; every name is accounted for."""
    released, again = tmp_path / "released", tmp_path / "again"
    out = convert(training, "hdf5", released)
    assert "model.ckpt-7 (google), head: none\n" in out
    assert "converted: 29 variables (encoder 29)\n" in out
    assert (
        "left out: 33 variables (Adagrad 31, global_step 1, train_perplexity 1)" in out
    )
    assert "left over: lm/softmax/W, lm/softmax/b\n" in out
    assert_equal(stored(released / "weights.hdf5"), stored(WEIGHTS))
    listed = "options.json tokenizer_config.json vocab.txt weights.hdf5"
    assert sorted(path.name for path in released.iterdir()) == listed.split()
    raw = json.loads((released / "options.json").read_text())
    assert raw["char_cnn"]["n_characters"] == 262
    assert (released / "vocab.txt").read_text().split() == [*VOCAB]
    out = convert(released, "google", again, "--split_words=punctuation")
    assert "weights.hdf5 (hdf5), head: none\n" in out
    reader = tf.train.load_checkpoint(str(again / "model.ckpt"))
    tensors = {
        key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()
    }
    names = json.loads((GOLDEN / "checkpoint_names.json").read_text())
    arrays = stored(WEIGHTS)
    expected = {name: arrays[key] for name, key in names.items() if key in arrays}
    assert_equal(tensors, expected)
    settings = json.loads((again / "tokenizer_config.json").read_text())
    assert settings["split_words"] == "punctuation"


def test_bert_load_opens_a_release(tmp_path):
    released = tmp_path / "released"
    released.mkdir()
    shutil.copy(WEIGHTS, released / "elmo_weights.hdf5")
    shutil.copy(OPTIONS, released / "elmo_options.json")
    loaded = bert.load(released)
    assert "29 of 29 variables assigned" in loaded.source
    features = loaded.encode(["the boat", "boat"])
    assert features["input_ids"].shape == (2, 4, 50)
    assert features["input_mask"].numpy().tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    outputs = loaded.model(features)
    assert outputs["sequence_output"].shape == (2, 4, 24)
    assert loaded.tokens("the boat") == ["<S>", "the", "boat", "</S>"]
    assert "2 layers x 24" in repr(loaded)
    loaded.save(tmp_path / "saved", "hdf5")
    again = bert.load(tmp_path / "saved").model(features)
    np.testing.assert_array_equal(again["pooled_output"], outputs["pooled_output"])
    tagger = bert.load(released, head="tagger", labels=["O", "X"])
    assert tagger.model(features)["logits"].shape == (2, 4, 2)
    with pytest.raises(ValueError, match="hold no head, and this model has output_"):
        tagger.save(tmp_path / "tagger", "hdf5")
