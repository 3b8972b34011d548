"""Targets written token by token: the likeliest, drawn, and searched for."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from contract import features as names
from modeling import kernels_tf
from modeling.generation import beam_search, decoding, sampling
from tests.modeling.generation import written_out

NEW = 12
GREEDY = sampling.Sampling(temperature=0)


@pytest.fixture(scope="module")
def source(seq2seq_features):
    return {name: seq2seq_features[name] for name in names.ENCODER_INPUTS}


@pytest.fixture(scope="module")
def write(seq2seq_model):
    """A function that writes in one graph, as an export has it: ids, is_text."""

    def run(source, rules, seeds=None):
        def graph(source):
            rows = tf.shape(source["input_ids"])[0]
            start = seq2seq_model.start(rows)
            given = tf.zeros([rows], tf.int64) if seeds is None else tf.constant(seeds)
            return decoding.write(seq2seq_model, rules, *start, given, NEW, (source,))

        return tf.function(graph, autograph=False)(source)

    return run


def test_greedy_tokens_are_the_recorded_ones(write, source, seq2seq_record):
    ids, is_text = write(source, decoding.GenerationConfig(GREEDY))
    np.testing.assert_array_equal(ids, seq2seq_record["greedy"][:, 1:])
    assert np.all(is_text)


@pytest.mark.slow
def test_a_target_ends_with_its_end_token(write, source, seq2seq_record):
    ids, is_text = write(source, decoding.GenerationConfig(GREEDY, (61,)))
    counts = tf.reduce_sum(tf.cast(is_text, tf.int32), axis=1)
    assert counts.numpy().tolist() == [3, NEW, NEW]
    np.testing.assert_array_equal(ids[1:], seq2seq_record["greedy"][1:, 1:])


@pytest.mark.slow
def test_decoder_in_pieces_writes_what_one_graph_does(
    seq2seq_model, source, seq2seq_record
):
    decoder = decoding.Decoder(seq2seq_model, decoding.GenerationConfig(GREEDY))
    start = [[seq2seq_model.config.decoder_start_token_id]] * 3
    found = decoding.generate(
        decoder, start, [0, 1, 2], max_new_tokens=NEW, piece=5, source=(source,)
    )
    assert [ids for ids, _ in found] == seq2seq_record["greedy"][:, 1:].tolist()


@pytest.mark.slow
def test_several_texts_may_follow_from_one_source(
    seq2seq_model, write, source, seq2seq_features
):
    """Their rows share what was computed of it."""
    rules = decoding.GenerationConfig(sampling.Sampling(temperature=1.0))
    seeds = np.arange(6, dtype=np.int64)

    def twice(source):
        start = seq2seq_model.start(6)
        return decoding.write(seq2seq_model, rules, *start, seeds, NEW, (source,))[0]

    shared = tf.function(twice, autograph=False)(source)
    repeated = {name: tf.repeat(value, 2, axis=0) for name, value in source.items()}
    apart, _ = write(repeated, rules, seeds)
    np.testing.assert_array_equal(shared, apart)
    assert len({tuple(row) for row in shared.numpy()}) == 6


@pytest.fixture(scope="module")
def log_probabilities(seq2seq_model, source):
    """A function of a source and a text: float64 [V] of what follows, uncached."""
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

    found = find(source)
    for row in (0, 2):
        follow = functools.partial(log_probabilities, row)
        wanted = written_out.search(follow, rules, length)
        for place, (score, text) in enumerate(wanted):
            assert found.scores[row, place].numpy() == pytest.approx(score, abs=1e-5)
            ids, is_text = (part[row, place].numpy() for part in found[:2])
            assert ids[is_text].tolist() == [token for token in text if token != 61]
    assert any(not row.numpy().all() for row in found.is_text[:, 0])  # one has ended


def test_joined_weights_compute_the_same(seq2seq_model, source, seq2seq_features):
    expected = seq2seq_model.logits(seq2seq_features)
    pairs = seq2seq_model.empty_cache(3, 4, source).source
    query = seq2seq_model.network.decoder.blocks[0].attention.query.kernel
    with kernels_tf.joined_projections(seq2seq_model) as variables:
        found = seq2seq_model.logits(seq2seq_features)
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
        again = seq2seq_model.empty_cache(3, 4, source).source
        for ours, theirs in zip(*map(tf.nest.flatten, (again, pairs)), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=0)
        # Four to themselves and two to the source, of three and two maps.
        shapes = [tuple(variable.shape) for variable in variables]
        assert (shapes.count((32, 96)), shapes.count((32, 64))) == (4, 2 + 4)
        before = np.asarray(query)
        query.assign(query + 1.0)  # which is not read now
        unmoved = seq2seq_model.logits(seq2seq_features)
        query.assign(before)
    np.testing.assert_array_equal(unmoved, found)
