"""The loop: batches, ends, and draws, on a small network with a cache."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.generation import decoding, sampling

V, D, CONTEXT = 40, 12, 48


class Network:
    """One layer of causal attention with random weights, as LanguageModel is called."""

    def __init__(self):
        rng = np.random.default_rng(5)

        def weights(*shape):
            return tf.constant(rng.normal(size=shape), tf.float32)

        self.tokens, self.positions = weights(V, D), weights(CONTEXT, D)
        self.kernels = [weights(D, D) / D**0.5 for _ in range(3)]

    def empty_cache(self, rows, capacity):
        return tf.zeros([rows, capacity, 2, D])

    def extend(
        self, input_ids, position_ids, start, is_visible, cache, last_only=False
    ):
        length, capacity = tf.shape(input_ids)[1], tf.shape(is_visible)[1]
        hidden = tf.gather(self.tokens, input_ids) + tf.gather(
            self.positions, position_ids
        )
        query, key, value = (hidden @ kernel for kernel in self.kernels)
        new = tf.stack([key, value], axis=2)
        cache = tf.concat([cache[:, :start], new, cache[:, start + length :]], axis=1)
        cache = tf.ensure_shape(cache, [None, None, 2, D])
        columns, last = tf.range(capacity), start + tf.range(length)
        causal = columns[tf.newaxis] <= last[:, tf.newaxis]
        seen = tf.logical_and(is_visible[:, tf.newaxis], causal)
        scores = tf.einsum("bsd,btd->bst", query, cache[:, :, 0])
        shares = tf.nn.softmax(tf.where(seen, scores, -1e10))
        hidden += tf.einsum("bst,btd->bsd", shares, cache[:, :, 1])
        hidden = hidden[:, -1:] if last_only else hidden
        return tf.einsum("bsd,vd->bsv", hidden, self.tokens), cache


@pytest.fixture(scope="module")
def network():
    return Network()


def whole_logits(network, ids):
    """Of the last of some tokens, without a cache kept from earlier."""
    ids = tf.constant([ids])
    count = ids.shape[1]
    cache = network.empty_cache(1, count)
    visible, places = tf.ones([1, count], tf.bool), tf.range(count)[tf.newaxis]
    return network.extend(ids, places, 0, visible, cache)[0][0, -1].numpy()


def greedy(network, prompt, count, end=None):
    """Without cache, batch or loop."""
    ids = list(prompt)
    while len(ids) < len(prompt) + count and (
        len(ids) == len(prompt) or ids[-1] != end
    ):
        ids.append(int(np.argmax(whole_logits(network, ids))))
    return ids[len(prompt) :]


def decoder_of(network, end_ids=(), **values):
    rules = decoding.Rules(sampling.Sampling(**values), end_ids)
    return decoding.Decoder(network, rules)


def write(network, prompts, count, *, rows=None, end_ids=(), piece=None, **values):
    values = values or {"temperature": 0}
    decoder = decoder_of(network, end_ids, **values)
    return [
        ids
        for ids, _ in decoding.texts(
            *(decoder, prompts, rows or list(range(len(prompts)))),
            max_new_tokens=count,
            piece=piece,
        )
    ]


PROMPTS = [[3, 1, 4], [1], [5, 9, 2, 6, 5, 3, 5], [8, 9]]


def test_prompts_of_any_length_are_continued_together_as_alone(network):
    wanted = [greedy(network, prompt, 12) for prompt in PROMPTS]
    assert write(network, PROMPTS, 12) == wanted
    assert write(network, PROMPTS[1:2], 12) == wanted[1:2]
    assert write(network, PROMPTS[::-1], 12, piece=5) == wanted[::-1]
    # What a prompt says decides: with another first token the texts are others.
    changed = [[7, *prompt[1:]] for prompt in PROMPTS]
    assert write(network, changed, 12) != wanted


def test_a_text_ends_after_an_end_token_and_others_go_on(network):
    wanted = [greedy(network, prompt, 12) for prompt in PROMPTS]
    end = wanted[2][3]
    expected = [greedy(network, prompt, 12, end) for prompt in PROMPTS]
    assert {len(ids) for ids in expected} != {12}
    assert write(network, PROMPTS, 12, end_ids=[end]) == expected
    assert write(network, PROMPTS, 12, end_ids=[end], piece=2) == expected


def test_the_loop_stops_where_all_texts_have_ended(network):
    prompts = PROMPTS[2:3]
    end = greedy(network, prompts[0], 12)[3]
    decoder = decoder_of(network, [end], temperature=0)
    batch = decoding.prompts_of(
        tf.constant(prompts), tf.constant([7]), tf.zeros([1, 2], tf.int64)
    )
    written = decoder.begin(batch, 20)
    first = decoder.go_on(batch, written, 20)
    assert first.is_done.numpy().all()
    assert first.num_columns < 20


def test_texts_stop_where_asked_to(network):
    wanted = [greedy(network, prompt, 12) for prompt in PROMPTS]
    decoder = decoder_of(network, temperature=0)
    seen = []

    def stops(row, ids):
        seen.append((row, len(ids)))
        return row == 2 and len(ids) >= 6

    found = decoding.texts(
        *(decoder, PROMPTS, [0, 1, 2, 3]), max_new_tokens=12, piece=3, stops=stops
    )
    found = [ids for ids, _ in found]
    assert found[2] == wanted[2][:6]
    assert [found[i] for i in (0, 1, 3)] == [wanted[i] for i in (0, 1, 3)]
    assert (2, 6) in seen and (2, 9) not in seen and (1, 9) in seen


def test_drawn_texts_follow_from_seed_and_row_alone(network):
    drawn = {"temperature": 1.5, "top_k": 20}
    wanted = write(network, PROMPTS, 12, **drawn)
    assert write(network, PROMPTS[2:], 12, rows=[2, 3], **drawn) == wanted[2:]
    assert write(network, PROMPTS[::-1], 12, rows=[3, 2, 1, 0], **drawn) == wanted[::-1]
    assert write(network, PROMPTS, 12, piece=1, **drawn) == wanted
    assert write(network, PROMPTS[2:], 12, rows=[0, 1], **drawn) != wanted[2:]
    assert write(network, PROMPTS, 6, **drawn) == [ids[:6] for ids in wanted]


def test_one_graph_writes_what_the_loop_in_pieces_writes(network):
    wanted = [greedy(network, prompt, 12) for prompt in PROMPTS]
    end = wanted[2][3]
    rules = decoding.Rules(sampling.Sampling(temperature=0), [end])
    ids = tf.ragged.constant(PROMPTS, tf.int32)
    lengths, seeds = tf.constant([3, 1, 7, 2]), tf.zeros(4, tf.int64)
    found, is_text = tf.function(decoding.write)(
        *(network, rules, ids.to_tensor(), lengths, seeds, 12)
    )
    found = tf.ragged.boolean_mask(found, is_text).to_list()
    assert found == [ids[: (ids + [end]).index(end)] for ids in wanted]
    assert found[2] == wanted[2][:3]


def test_rows_of_a_network_that_are_no_tokens_are_never_written(network):
    wanted = greedy(network, PROMPTS[0], 12)
    rules = decoding.Rules(sampling.Sampling(temperature=0), (), max(wanted))
    decoder = decoding.Decoder(network, rules)
    ((found, _),) = decoding.texts(decoder, PROMPTS[:1], [0], max_new_tokens=12)
    assert max(found) < max(wanted)
