"""extract_features.py on networks that are not BERT: ELMo, and GPT without a frame."""

import json

import h5py
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.text import elmo as elmo_tokenizer
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


@pytest.fixture(scope="module")
def one_by_one(elmo):
    """The original's loop: a sentence a batch, its states going into the next one."""
    vocab = elmo_tokenizer.read_vocab(str(elmo / "vocab.txt"))
    model, tokenizer = opened(elmo), elmo_tokenizer.ElmoTokenizer(vocab)

    def read(rows):
        states = model.network.zero_states(1)
        for words in rows:
            tokens = tokenizer.tokenize_words(words).values
            ids = tf.concat([[tokenizer.start_id], tokens, [tokenizer.end_id]], axis=0)
            ids = tf.cast(ids, tf.int32)[tf.newaxis]
            mask = tf.ones(ids.shape[:2], tf.int32)
            outputs = model.network(ids, mask, 0 * mask, states=states)
            states = outputs["states"]
            layers = [outputs["embedding_output"], *outputs["layer_outputs"]]
            yield np.stack([np.asarray(layer)[0, 1:-1] for layer in layers])

    return read


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


@pytest.mark.slow  # test_pretraining_objectives.py carries them every day
def test_carried_states_are_those_of_one_line_after_another(elmo, extract, one_by_one):
    rows = [*LINES[:3], [], *LINES[3:]]  # a blank line changes states, too
    text = "".join(" ".join(words) + "\n" for words in rows)
    flags = ("--output_format=hdf5", "--carry_states", "--batch_size=4")
    actual = data_sets(*extract(elmo, text, *flags))
    for ours, vectors in zip(actual, one_by_one(rows), strict=True):
        np.testing.assert_allclose(ours, vectors, atol=ROUNDING)
    # The twins: from zero, and without the blank line.
    assert np.abs(actual[1] - next(one_by_one(rows[1:]))).max() > 1e-2
    *_, last = one_by_one(LINES[:4])
    assert np.abs(actual[4] - last).max() > 1e-3


def test_gpt_that_was_never_fine_tuned_reads_texts_alone(gpt, extract):
    flags = ("--max_seq_length=48", "--batch_size=2")
    actual = data_sets(*extract(gpt, "a sea\n\nbe", "--output_format=hdf5", *flags))
    assert [vectors.shape for vectors in actual] == [(3, 5, 32), (3, 0, 32), (3, 2, 32)]
    ids = tiny_gpt.tokenizer().tokenize("a sea")[tf.newaxis]
    outputs = opened(gpt).network(ids, tf.ones_like(ids), tf.zeros_like(ids))
    layers = [outputs["embedding_output"], *outputs["layer_outputs"]]
    for ours, wanted in zip(actual[0], layers, strict=True):
        np.testing.assert_allclose(ours, wanted[0], atol=ROUNDING)
