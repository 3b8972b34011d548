"""Weights of ELMo: releases, training checkpoints, our files, and damaged ones."""

import dataclasses
import json
import pathlib
import shutil

import h5py
import numpy as np
import pytest
import tensorflow as tf

from loading import model_directory
from modeling import pretrainers
from modeling.checkpoints import checkpoint, google, names
from modeling.configs import config_files
from modeling.networks.elmo import files, lstm
from tests import read_model
from tests.elmo_files import OPTIONS, WEIGHTS, stored, write, zero_states
from tests.modeling.random_weights import assert_equal, random_model, values

BIAS, CARRY = "CNN/b_cnn_0", "CNN_high_1/W_carry"


@pytest.fixture(scope="module")
def config():
    return config_files.read(OPTIONS)


@pytest.fixture
def released(tmp_path):
    shutil.copyfile(OPTIONS, tmp_path / "elmo_1x24_options.json")
    shutil.copyfile(WEIGHTS, tmp_path / "elmo_1x24_weights.hdf5")
    return tmp_path


def test_release_is_found_by_its_directory(released, config):
    for vocab in ("", "vocab-2016-09-10.txt", "vocab.txt"):  # the last one counts
        if vocab:
            (released / vocab).write_text("<S>\n</S>\n<UNK>\n")
        release = model_directory.locate(released)
        assert pathlib.Path(release.config_file).name == "elmo_1x24_options.json"
        assert pathlib.Path(release.init_checkpoint).name == "elmo_1x24_weights.hdf5"
        assert pathlib.Path(release.vocab_file).name == vocab
    model = pretrainers.build("none", None, config)
    report = checkpoint.load(model, release.init_checkpoint)
    assert report.missing == report.unused == () and len(report.assigned) == 29
    arrays = stored(WEIGHTS)
    for name, variable in names.named_variables(model):
        np.testing.assert_array_equal(variable, arrays[name.hdf5], err_msg=name.hdf5)
    shutil.copyfile(OPTIONS, released / "other_options.json")
    with pytest.raises(ValueError, match="there is no bert_config"):
        model_directory.locate(released)


def test_single_lstm_is_read_under_its_own_names(tmp_path, config):
    single = dataclasses.replace(config, num_hidden_layers=1)
    model = random_model(single, "none")
    files.save(tmp_path / "weights.hdf5", model)
    arrays = stored(tmp_path / "weights.hdf5")
    assert "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" in arrays
    bare = {key.replace("MultiRNNCell/Cell0/", ""): v for key, v in arrays.items()}
    write(tmp_path / "weights.hdf5", bare)
    tensors = {
        key.replace("multi_rnn_cell/cell_0/", ""): value
        for key, value in values(model).items()
    }
    assert "lm/RNN_0/rnn/lstm_cell/kernel" in tensors
    google.write(tmp_path / "run-3", tensors)
    for path in (tmp_path / "weights.hdf5", tmp_path / "run-3"):
        read = read_model.read(path, single, "none")
        assert read.report.missing == read.report.unused == ()
        assert_equal(values(read.model), values(model))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({CARRY: None}, f"lacks {CARRY} of the 29 variables"),
        ({BIAS: np.arange(4)}, f"{BIAS} is of type int64, and weights"),
        ({BIAS: np.array([0, np.nan, 0, 0.0])}, f"{BIAS} has 1 of 4 numbers that are"),
        (dict.fromkeys(stored(WEIGHTS)), "none of its 1 variables belongs to a BERT"),
        (None, r"not a readable HDF5 file \([^\n]*\); copy it again, whole$"),
    ],
)
def test_damaged_weights_are_named(tmp_path, config, changes, message):
    path = tmp_path / "weights.hdf5"
    if changes is None:
        path.write_bytes(WEIGHTS.read_bytes()[:40_000])
    else:
        arrays = {**stored(WEIGHTS), "vectors": np.zeros(3), **changes}
        write(path, {key: v for key, v in arrays.items() if v is not None})
    with pytest.raises(ValueError, match=f"weights.hdf5: .*{message}"):
        checkpoint.load(pretrainers.build("none", None, config), tmp_path)


def word_ids(sentences):
    """Ids of characters as the original gives them, [B, S, 50], 0 at padding."""

    def ids(middle):
        return [258 + 1, *(x + 1 for x in middle), 259 + 1] + [261] * (48 - len(middle))

    framed = [
        [ids([256]), *(ids(list(word.encode()[:48])) for word in words), ids([257])]
        for words in sentences
    ]
    batch = np.zeros((len(framed), max(map(len, framed)), 50), np.int32)
    for row, words in zip(batch, framed, strict=True):
        row[: len(words)] = words
    return batch


@pytest.mark.slow
def test_published_fixture_gives_its_recorded_vectors(shared_file):
    directory = shared_file("data/others/bilm_fixture/options.json").parent
    release = model_directory.locate(directory)
    model = pretrainers.build(
        "none", None, model_directory.read_config(release.config_file)
    )
    checkpoint.load(model, release.init_checkpoint)
    lists = json.loads((directory / "lm_embeddings_sentences.json").read_text())
    states = zeros = zero_states(model.config, 3)

    @tf.function(
        input_signature=[
            tf.TensorSpec([3, None, 50], tf.int32),
            *[tf.TensorSpec([3, None], tf.int32)] * 2,
            lstm.States(*(tf.TensorSpec(x.shape, x.dtype) for x in states)),
        ]
    )
    def call(ids, mask, segments, states):
        outputs = model.network(ids, mask, segments, states=states)
        return outputs["sequence_output"], outputs["states"]

    for number in range(10):
        sentences = [texts[number].split() for texts in lists]
        ids = word_ids(sentences)
        mask = (ids[..., 0] > 0).astype(np.int32)
        vectors, states = call(ids, mask, 0 * mask, states)
        for k, words in enumerate(sentences):
            with h5py.File(directory / f"lm_embeddings_{k}.hdf5") as file:
                expected = np.concatenate(file[str(number)][...], axis=-1)
            ours = vectors[k, 1 : len(words) + 1]
            np.testing.assert_allclose(ours, expected, atol=1e-6, rtol=0)
    # Without the states of the batches before, the last is another.
    fresh = call(ids, mask, 0 * mask, zeros)[0][k, 1 : len(words) + 1]
    assert np.abs(fresh - expected).max() > 1e-3
