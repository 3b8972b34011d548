"""The loop: batches, ends, and draws, on a small network with a cache."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract import features
from modeling import pretrainers
from modeling.generation import decoding, sampling
from modeling.networks.gpt import config as gpt_config
from tests.modeling import left_to_right

V, CONTEXT = 40, 48
PROMPTS = [[3, 1, 4], [1], [5, 9, 2, 6, 5, 3, 5], [8, 9]]


@pytest.fixture(scope="module")
def network():
    config = gpt_config.GptConfig(
        vocab_size=V,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=CONTEXT,
        norm_first=True,
        initializer_range=0.3,
    )
    keras.utils.set_random_seed(11)
    model = pretrainers.LanguageModel(config)
    model.build()
    # So that texts are no repetitions of one token.
    positions = np.random.default_rng(0).normal(size=(CONTEXT, 16))
    model.network.embeddings.position_embeddings.assign(positions)
    return model


@pytest.fixture(scope="module")
def wanted(network):
    spec = {
        name: tf.TensorSpec([1, None], tf.int32) for name in features.ENCODER_INPUTS
    }
    logits = tf.function(network.logits, input_signature=[spec], autograph=False)
    actual = []
    for prompt in PROMPTS:
        ids = list(prompt)
        for _ in range(12):
            row = tf.constant([ids])
            ones = tf.ones_like(row)
            values = (row, ones, tf.zeros_like(row))
            named = dict(zip(features.ENCODER_INPUTS, values, strict=True))
            ids.append(int(np.argmax(logits(named)[0, -1])))
        actual.append(ids[len(prompt) :])
    assert all(len(set(ids)) > 4 for ids in actual)
    return actual


def cut(ids, end):
    return ids[: ids.index(end) + 1] if end in ids else ids


@functools.cache
def decoder_of(network, end_ids=(), **values):
    rules = decoding.GenerationConfig(sampling.Sampling(**values), end_ids)
    return decoding.Decoder(network, rules)


def write(network, prompts, count, *, rows=None, end_ids=(), piece=None, **values):
    decoder = decoder_of(network, end_ids, **(values or {"temperature": 0}))
    rows = rows or list(range(len(prompts)))
    actual = decoding.generate(
        decoder, prompts, rows, max_new_tokens=count, piece=piece
    )
    return [ids for ids, _ in actual]


def test_prompts_of_any_length_are_continued_together_as_alone(network, wanted):
    assert write(network, PROMPTS, 12) == wanted
    assert write(network, PROMPTS[1:2], 12) == wanted[1:2]
    assert write(network, PROMPTS[::-1], 12, piece=5) == wanted[::-1]
    # The prompt decides: with another first token the texts are others.
    changed = [[7, *prompt[1:]] for prompt in PROMPTS]
    assert write(network, changed, 12) != wanted


def test_a_text_ends_after_an_end_token_and_others_go_on(network, wanted):
    end = wanted[2][3]
    expected = [cut(ids, end) for ids in wanted]
    assert 12 in {len(ids) for ids in expected} != {12}
    assert write(network, PROMPTS, 12, end_ids=(end,)) == expected
    assert write(network, PROMPTS, 12, end_ids=(end,), piece=2) == expected


def test_texts_stop_where_asked_to(network, wanted):
    seen = []

    def stops(row, ids):
        seen.append((row, len(ids)))
        return row == 2 and len(ids) >= 6

    actual = decoding.generate(
        *(decoder_of(network, (), temperature=0), PROMPTS, [0, 1, 2, 3]),
        max_new_tokens=12,
        piece=3,
        stops=stops,
    )
    assert [ended for _, ended in actual] == [False, False, True, False]
    actual = [ids for ids, _ in actual]
    assert actual[2] == wanted[2][:6]
    assert [actual[i] for i in (0, 1, 3)] == [wanted[i] for i in (0, 1, 3)]
    assert (2, 6) in seen and (2, 9) not in seen and (1, 9) in seen


def test_drawn_texts_follow_from_seed_and_row_alone(network):
    drawn = {"temperature": 1.5, "top_k": 20}
    actual = write(network, PROMPTS, 12, **drawn)
    assert write(network, PROMPTS[2:], 12, rows=[2, 3], **drawn) == actual[2:]
    assert write(network, PROMPTS[::-1], 12, rows=[3, 2, 1, 0], **drawn) == actual[::-1]
    assert write(network, PROMPTS, 12, piece=1, **drawn) == actual
    assert write(network, PROMPTS[2:], 12, rows=[0, 1], **drawn) != actual[2:]
    assert write(network, PROMPTS, 6, **drawn) == [ids[:6] for ids in actual]


def test_one_graph_writes_what_the_loop_in_pieces_writes(network, wanted):
    end = wanted[2][1]
    rules = decoding.GenerationConfig(sampling.Sampling(temperature=0), (end,))
    ids = tf.ragged.constant(PROMPTS, tf.int32).to_tensor()
    lengths, seeds = tf.constant([3, 1, 7, 2]), tf.zeros(4, tf.int64)
    written = tf.function(decoding.write, autograph=False)
    actual, is_text = written(network, rules, ids, lengths, seeds, 12)
    actual = tf.ragged.boolean_mask(actual, is_text).to_list()
    assert actual == [ids[: [*ids, end].index(end)] for ids in wanted]
    assert actual[2] == wanted[2][:1]


@pytest.mark.slow
def test_rows_of_a_network_that_are_no_tokens_are_never_written(network, wanted):
    most = max(wanted[0])
    rules = decoding.GenerationConfig(sampling.Sampling(temperature=0), (), most)
    decoder = decoding.Decoder(network, rules)
    ((actual, _),) = decoding.generate(decoder, PROMPTS[:1], [0], max_new_tokens=12)
    assert max(actual) < most


def test_greedy_tokens_are_those_of_the_release(shared_file):
    model = left_to_right.gpt_2(shared_file("golden/gpt2/tiny_model/model.ckpt.index"))
    with np.load(shared_file("golden/gpt2/tiny_gpt2.npz")) as actual:
        context, greedy = actual["greedy_context"], actual["greedy"]
    texts = write(model, context.tolist(), greedy.shape[1] - context.shape[1])
    assert texts == greedy[:, context.shape[1] :].tolist()
