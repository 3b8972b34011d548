"""Targets written token by token: the likeliest, drawn, and searched for."""

import dataclasses
import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from contract import features as feature_names
from modeling import pretrainers
from modeling.generation import beam_search, decoding, sampling
from tests import daily
from tests.modeling.generation import written_out
from tests.modeling.networks.encoder_decoder.conftest import GOLDEN

NEW = 12
GREEDY = sampling.Sampling(temperature=0)


@pytest.fixture(scope="module")
def source(seq2seq_features):
    return {name: seq2seq_features[name] for name in feature_names.ENCODER_INPUTS}


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


@pytest.mark.slow
def test_one_layer_writes_the_same_whether_shapes_are_known(seq2seq_config, source):
    """TensorFlow fused the sum of scores and mask, and took a wrong input."""
    sides = {
        side: dataclasses.replace(getattr(seq2seq_config, side), num_hidden_layers=1)
        for side in ("encoder", "decoder")
    }
    config = dataclasses.replace(seq2seq_config, **sides)
    model = pretrainers.build("seq2seq", None, config)

    def write(source):
        start = model.start(tf.shape(source["input_ids"])[0])
        rules, seeds = decoding.GenerationConfig(GREEDY), tf.zeros([3], tf.int64)
        return decoding.write(model, rules, *start, seeds, 4, (source,))

    known = tf.function(write, autograph=False)(source)
    spec = tf.TensorSpec([None, None], tf.int32)
    signature = [dict.fromkeys(source, spec)]
    unknown = tf.function(write, autograph=False, input_signature=signature)(source)
    np.testing.assert_array_equal(known[0], unknown[0])


@pytest.fixture(scope="module")
def log_probabilities(seq2seq_model, source):
    width = NEW + 1

    @tf.function(autograph=False)
    def logits(row, ids):
        features = {name: value[row][tf.newaxis] for name, value in source.items()}
        features[feature_names.DECODER_INPUT_IDS] = ids
        features[feature_names.DECODER_MASK] = tf.ones_like(ids)
        return seq2seq_model.logits(features)[0]

    def follow(row, text):
        ids = np.zeros((1, width), np.int32)
        ids[0, : len(text) + 1] = seq2seq_model.config.decoder_start_token_id, *text
        values = logits(tf.constant(row), ids).numpy()[len(text)].astype(np.float64)
        return values - np.log(np.exp(values).sum())

    return follow


@pytest.mark.slow
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


# --- Settings of generation_config.json, against texts that transformers wrote.

RECORD = json.loads((GOLDEN / "generate.json").read_text("utf-8"))


def write_with(model, settings):
    """Texts for the recorded sources, as bert.write has them."""
    end, most = RECORD["eos_token_id"], RECORD["max_new_tokens"]
    config = model.config.with_generation({**settings, "max_new_tokens": most})
    stated = config.settings()
    ids = tf.ragged.constant(RECORD["sources"], tf.int32)
    mask = tf.ones_like(ids).to_tensor()
    values = ids.to_tensor(), mask, tf.zeros_like(mask)
    source = dict(zip(feature_names.ENCODER_INPUTS, values, strict=True))

    @tf.function(autograph=False)
    def run(source):
        start, most = model.start(len(values[0])), stated.pop("max_new_tokens")
        if stated["num_beams"] > 1:
            rules = beam_search.BeamConfig(**stated, end_ids=(end,))
            best = beam_search.search(model, rules, *start, most, (source,))
            return best.ids[:, 0], best.is_text[:, 0]
        least, size = stated["min_length"], stated["no_repeat_ngram_size"]
        rules = decoding.GenerationConfig(GREEDY, (end,), None, least, size)
        seeds = tf.zeros([len(values[0])], tf.int64)
        return decoding.write(model, rules, *start, seeds, most, (source,))

    return [
        ids[is_text].tolist()
        for ids, is_text in zip(*(part.numpy() for part in run(source)), strict=True)
    ]


def recorded(settings):
    (row,) = (row for row in RECORD["texts"] if settings.items() <= row[0].items())
    return row


BEAMS = {"num_beams": 4, "length_penalty": 2.0}
QUICK = [  # settings, and others with which texts differ
    ({"num_beams": 1, "min_length": 5}, {"num_beams": 1, "min_length": 8}),
    (
        {**BEAMS, "early_stopping": True, "min_length": 0},
        {**BEAMS, "early_stopping": False, "min_length": 0},
    ),
    (
        {**BEAMS, "early_stopping": False, "min_length": 8},
        {**BEAMS, "early_stopping": "never", "min_length": 0},
    ),
]


@pytest.mark.parametrize(
    ("settings", "other"), daily.params(QUICK, lambda pair: pair in QUICK[1:2]), ids=str
)
def test_texts_are_those_of_transformers(seq2seq_model, settings, other):
    whole, texts = recorded(settings)
    assert write_with(seq2seq_model, whole) == texts != recorded(other)[1]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(RECORD["texts"])))
def test_all_texts_are_those_of_transformers(seq2seq_model, number):
    settings, texts = RECORD["texts"][number]
    assert write_with(seq2seq_model, settings) == texts


def test_no_sequence_of_tokens_comes_twice_in_prompt_and_text():
    columns = tf.constant([[0, 9], [2, 7], [5, 7], [2, 7], [0, 0]])  # padded prompts
    state = decoding.DecodeState(columns, tf.constant(4), None, None)
    visible = tf.constant([[False, True, True, True, True], [True] * 5])
    rules = decoding.GenerationConfig(GREEDY, (3,), no_repeat_ngram_size=2)
    scores = decoding.forbid(rules, tf.zeros([2, 10]), state, visible, 2)
    assert np.argwhere(np.isinf(scores)).tolist() == [[0, 5], [1, 7]]
    for size, banned in {
        1: [[0, 2], [0, 5], [1, 7], [1, 9]],
        3: [[1, 7]],
        9: [],
    }.items():
        rules = rules._replace(no_repeat_ngram_size=size)
        scores = decoding.forbid(rules, tf.zeros([2, 10]), state, visible, 2)
        assert np.argwhere(np.isinf(scores)).tolist() == banned
    rules = decoding.GenerationConfig(GREEDY, (3,), min_length=4)  # of 2 columns so far
    scores = decoding.forbid(rules, tf.zeros([2, 10]), state, visible, 2)
    assert np.argwhere(np.isinf(scores)).tolist() == [[0, 3], [1, 3]]
    rules = rules._replace(min_length=3)
    scores = decoding.forbid(rules, tf.zeros([2, 10]), state, visible, 2)
    assert not np.isinf(scores).any()
