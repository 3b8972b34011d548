"""extract_features.py on networks that are not BERT: ELMo, and GPT without a frame."""

import json

import numpy as np
import pytest
import tensorflow as tf

from loading import model_directory
from modeling import models
from modeling.checkpoints import checkpoint
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


def lines_of(done, path):
    """The vectors of each line, float32 [S, K, W]."""
    assert done.code == 0, done.err
    with np.load(path) as arrays:
        return np.split(arrays["values"], arrays["splits"][1:-1])


def opened(directory):
    files = model_directory.locate(directory)
    model = models.BertModel(model_directory.read_config(files.config_file))
    model.build()
    checkpoint.load(model, files.init_checkpoint)
    return model


@pytest.mark.slow
def test_dump_has_the_vectors_of_the_original(elmo, extract):
    """Each line stands for itself; one that is blank has no word."""
    lines = [" ".join(words) for words in LINES]
    text = "\n".join([*lines[:3], "", *lines[3:]]) + "\n"
    actual = lines_of(*extract(elmo, text, "--output_format=npz", "--batch_size=4"))
    assert actual.pop(3).shape == (2, 3, 24)  # <S> and </S>, which stand in each line
    with np.load(elmo_files.GOLDEN / "skip.npz") as golden:
        for number, words in enumerate(SENTENCES):
            values = golden[f"batch{number}/lm_embeddings_from_zero"]
            for row, length in zip(values, map(len, words), strict=True):
                vectors = actual.pop(0)[1:-1].swapaxes(0, 1)
                assert vectors.dtype == np.float32
                np.testing.assert_allclose(vectors, row[:, :length], atol=ROUNDING)
    assert not actual


@pytest.mark.slow
def test_gpt_that_was_never_fine_tuned_reads_texts_alone(gpt, extract):
    flags = ("--max_seq_length=48", "--batch_size=2", "--layers=0,1")
    actual = lines_of(*extract(gpt, "a sea\n\nbe", "--output_format=npz", *flags))
    assert [vectors.shape for vectors in actual] == [(5, 2, 32), (0, 2, 32), (2, 2, 32)]
    ids = tiny_gpt.tokenizer().tokenize("a sea")[tf.newaxis]
    outputs = opened(gpt).network(ids, tf.ones_like(ids), tf.zeros_like(ids))
    layers = outputs["layer_outputs"]
    for ours, wanted in zip(actual[0].swapaxes(0, 1), layers, strict=True):
        np.testing.assert_allclose(ours, wanted[0], atol=ROUNDING)
