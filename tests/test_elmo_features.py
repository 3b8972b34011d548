"""extract_features.py on networks that are not BERT: ELMo, and GPT without a frame."""

import json

import h5py
import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from modeling.checkpoints import checkpoint, pretrained
from tests import elmo_files, tiny, tiny_gpt

ROUNDING = 1e-5
SENTENCES = json.loads((elmo_files.GOLDEN / "sentences.json").read_text("utf-8"))
LINES = [words for batch in SENTENCES for words in batch]


@pytest.fixture(scope="module")
def elmo(tmp_path_factory):
    return elmo_files.write_release(tmp_path_factory.mktemp("elmo") / "model")


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    return tiny_gpt.write_model(tmp_path_factory.mktemp("gpt") / "model")


@pytest.fixture
def extract(tmp_path):

    def call(model, text, *arguments):
        (tmp_path / "input.txt").write_text(text, encoding="utf-8")
        output = tmp_path / "output"
        done = tiny.run_script(
            "extract_features",
            f"--pretrained={model} --input_file={tmp_path}/input.txt",
            *(f"--output_file={output}", *arguments),
        )
        return done, output

    return call


def data_sets(done, path):
    assert done.code == 0, done.err
    with h5py.File(path) as file:
        assert set(file) == {str(number) for number in range(len(file))}
        return [file[str(number)][...] for number in range(len(file))]


def opened(directory):
    files = pretrained.locate(directory)
    model = models.BertModel(pretrained.read_config(files.config_file))
    model.build()
    checkpoint.load(model, files.init_checkpoint)
    return model


def test_dump_has_the_vectors_of_the_original(elmo, extract):
    """Each line stands for itself; one that is blank has no word."""
    lines = [" ".join(words) for words in LINES]
    text = "\n".join([*lines[:3], "", *lines[3:]]) + "\n"
    actual = data_sets(*extract(elmo, text, "--output_format=hdf5", "--batch_size=4"))
    assert actual.pop(3).shape == (3, 0, 24)
    with np.load(elmo_files.GOLDEN / "skip.npz") as golden:
        for number, words in enumerate(SENTENCES):
            values = golden[f"batch{number}/lm_embeddings_from_zero"]
            for row, length in zip(values, map(len, words), strict=True):
                vectors = actual.pop(0)
                assert vectors.dtype == np.float32
                np.testing.assert_allclose(vectors, row[:, :length], atol=ROUNDING)
    assert not actual


def test_gpt_that_was_never_fine_tuned_reads_texts_alone(gpt, extract):
    flags = ("--max_seq_length=48", "--batch_size=2")
    actual = data_sets(*extract(gpt, "a sea\n\nbe", "--output_format=hdf5", *flags))
    assert [vectors.shape for vectors in actual] == [(3, 5, 32), (3, 0, 32), (3, 2, 32)]
    ids = tiny_gpt.tokenizer().tokenize("a sea")[tf.newaxis]
    outputs = opened(gpt).network(ids, tf.ones_like(ids), tf.zeros_like(ids))
    layers = [outputs["embedding_output"], *outputs["layer_outputs"]]
    for ours, wanted in zip(actual[0], layers, strict=True):
        np.testing.assert_allclose(ours, wanted[0], atol=ROUNDING)
