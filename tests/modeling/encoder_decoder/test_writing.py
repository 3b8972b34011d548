"""Targets written token by token: the likeliest, drawn, and searched for."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from contract import features as names
from modeling.generation import beam_search, decoding, sampling
from tests.modeling.generation import written_out

NEW = 12
GREEDY = sampling.Sampling(temperature=0)


@pytest.fixture(scope="module")
def source(seq2seq_features):
    return {name: seq2seq_features[name] for name in names.ENCODER_INPUTS}


@pytest.fixture(scope="module")
def write(seq2seq_model):
    def run(source, rules, seeds=None):
        def graph(source):
            rows = tf.shape(source["input_ids"])[0]
            start = seq2seq_model.start(rows)
            numbers = (
                tf.zeros([rows], tf.int64) if seeds is None else tf.constant(seeds)
            )
            return decoding.write(seq2seq_model, rules, *start, numbers, NEW, (source,))

        return tf.function(graph, autograph=False)(source)

    return run


def test_greedy_tokens_are_the_recorded_ones(write, source, seq2seq_record):
    ids, is_text = write(source, decoding.GenerationConfig(GREEDY))
    np.testing.assert_array_equal(ids, seq2seq_record["greedy"][:, 1:])
    assert np.all(is_text)


@pytest.fixture(scope="module")
def log_probabilities(seq2seq_model, source):
    width = NEW + 1

    @tf.function(autograph=False)
    def logits(row, ids):
        features = {name: value[row][tf.newaxis] for name, value in source.items()}
        features[names.DECODER_INPUT_IDS] = ids
        features[names.DECODER_MASK] = tf.ones_like(ids)
        return seq2seq_model.logits(features)[0]

    def follow(row, text):
        ids = np.zeros((1, width), np.int32)
        ids[0, : len(text) + 1] = seq2seq_model.config.decoder_start_token_id, *text
        values = logits(tf.constant(row), ids).numpy()[len(text)].astype(np.float64)
        return values - np.log(np.exp(values).sum())

    return follow


def test_beams_find_what_a_search_without_cache_finds(
    seq2seq_model, source, log_probabilities
):
    rules, length = beam_search.BeamConfig(4, 1.0, 2, end_ids=(61,)), 5

    @tf.function(autograph=False)
    def find(source):
        start = seq2seq_model.start(3)
        return beam_search.search(seq2seq_model, rules, *start, length, (source,))

    actual = find(source)
    for row in (0, 2):
        follow = functools.partial(log_probabilities, row)
        wanted = written_out.search(follow, rules, length)
        for place, (score, text) in enumerate(wanted):
            assert actual.scores[row, place].numpy() == pytest.approx(score, abs=1e-5)
            ids, is_text = (part[row, place].numpy() for part in actual[:2])
            assert ids[is_text].tolist() == [token for token in text if token != 61]
    assert any(not row.numpy().all() for row in actual.is_text[:, 0])  # one has ended
