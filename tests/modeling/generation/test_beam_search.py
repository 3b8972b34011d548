"""Beam search against every text there is, and against the search written out."""

import functools
import types

import numpy as np
import pytest
import tensorflow as tf

from modeling.generation import beam_search, decoding, sampling
from tests.modeling.generation import written_out

V, N, END = 5, 4, 3


class Network:
    """A recurrent network whose logits depend on all tokens before, by its cache.

    It reads a row of a source, of which several rows of texts may follow.
    """

    config = types.SimpleNamespace(num_outputs=V)
    source_spec = (tf.TensorSpec([None, 4], tf.float32),)

    def __init__(self, seed=5):
        rng = np.random.default_rng(seed)
        self.inner, self.outer = rng.normal(size=(2, 4, 4)).astype(np.float32)
        self.table = rng.normal(size=(V, 4)).astype(np.float32)
        self.output = 2 * rng.normal(size=(4, V)).astype(np.float32)
        self.bias = np.float32(np.arange(V) == END)

    def empty_cache(self, batch_size, capacity, source):
        return tf.zeros([batch_size, 4]), source

    def extend(self, ids, places, start, is_visible, cache, last_only=False):
        state, source = cache
        rows = tf.repeat(source, tf.shape(state)[0] // tf.shape(source)[0], axis=0)
        for place in range(ids.shape[1] or 1):
            new = tf.matmul(state, self.inner) + tf.gather(self.table, ids[:, place])
            new = tf.tanh(new + tf.matmul(rows, self.outer))
            # Padding of a prompt is not read.
            state = tf.where(is_visible[:, start + place, tf.newaxis], new, state)
        logits = tf.matmul(state, self.output) + self.bias
        return logits[:, tf.newaxis], (state, source)

    def take_cache_rows(self, cache, rows):
        return tf.gather(cache[0], rows), cache[1]

    def log_probabilities(self, prompt, source):
        state = np.zeros(4)
        for token in prompt:
            state = state @ self.inner + self.table[token] + source @ self.outer
            state = np.tanh(state)
        logits = state @ self.output + self.bias
        return logits - np.log(np.exp(logits).sum())


NETWORK = Network()
SOURCES = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
PROMPTS = [(1,), (2, 0, 4), (4, 4)]


def follow_toy(row):
    return functools.cache(
        lambda text: NETWORK.log_probabilities((*PROMPTS[row], *text), SOURCES[row])
    )


@functools.cache
def searcher(rules, length):
    @tf.function(autograph=False)
    def find(ids, lengths, source):
        return beam_search.search(NETWORK, rules, ids, lengths, length, (source,))

    return find


def found_texts(actual, row, end_ids):
    texts = []
    for ids, is_text, score in zip(
        *(part[row].numpy() for part in actual), strict=True
    ):
        if not np.isfinite(score):
            assert not is_text.any()
            continue
        count = int(is_text.sum())
        assert is_text[:count].all()
        has_end = count < len(ids) and ids[count] in end_ids
        texts.append((float(score), tuple(map(int, ids[: count + has_end]))))
    return texts


def search(rules, length=N):
    ids = tf.ragged.constant(PROMPTS, tf.int32)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    actual = searcher(rules, length)(ids.to_tensor(), lengths, tf.constant(SOURCES))
    return [found_texts(actual, row, rules.end_ids) for row in range(len(PROMPTS))]


def assert_same(actual, wanted):
    assert [text for _, text in actual] == [text for _, text in wanted]
    scores = [[score for score, _ in texts] for texts in (actual, wanted)]
    np.testing.assert_allclose(*scores, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("alpha", "ends"), [(0.6, (END,)), (2.0, (END, 0)), (-1.0, (END,)), (0.0, ())]
)
def test_search_is_the_one_written_out(alpha, ends):
    rules = beam_search.BeamConfig(3, alpha, 2, end_ids=ends)
    for row, actual in enumerate(search(rules)):
        assert_same(actual, written_out.search(follow_toy(row), rules, N))


def test_one_beam_is_greedy_decoding():
    rules = decoding.GenerationConfig(sampling.Sampling(temperature=0), (END,))
    ids = tf.ragged.constant(PROMPTS, tf.int32)
    written, is_text = decoding.write(
        *(NETWORK, rules, ids.to_tensor(), tf.cast(ids.row_lengths(), tf.int32)),
        *(tf.zeros([3], tf.int64), 9, (tf.constant(SOURCES),)),
    )
    actual = search(beam_search.BeamConfig(1, 1.0, end_ids=(END,)), 9)
    ended = []
    for row, ((_, text),) in enumerate(actual):
        ended.append(text[-1] == END)
        kept = written[row].numpy()[is_text[row].numpy()]
        assert [t for t in text if t != END] == kept.tolist()
    assert ended == [False, True, True]


def test_search_stops_where_no_open_text_can_win(monkeypatch):
    steps = []
    extend = Network.extend

    def counting(self, ids, *args, **kwargs):
        tf.py_function(lambda: steps.append(1), [], [])
        return extend(self, ids, *args, **kwargs)

    monkeypatch.setattr(Network, "extend", counting)
    rules = beam_search.BeamConfig(2, 0.0, end_ids=(END,))
    length = 40
    find = searcher.__wrapped__(rules, length)
    ids = tf.constant([PROMPTS[0]])
    actual = find(ids, tf.constant([1]), tf.constant(SOURCES[:1]))
    wanted = written_out.search(follow_toy(0), rules, length)
    assert_same(found_texts(actual, 0, (END,)), wanted[:1])
    assert len(steps) == 1 + 9  # for the prompt, and of 40


def test_rules_that_no_search_follows_are_refused():
    rules = beam_search.BeamConfig(6)
    with pytest.raises(ValueError, match=r"num_beams=6: there are 5 tokens.*1 to 5"):
        beam_search.check(rules, V)
    with pytest.raises(ValueError, match="num_beams=3: there are 2 tokens"):
        beam_search.check(beam_search.BeamConfig(3, num_tokens=2), V)
    with pytest.raises(ValueError, match=r"num_results=3: there are 2 texts open"):
        beam_search.check(beam_search.BeamConfig(2, num_results=3), V)
    with pytest.raises(ValueError, match="early_stopping='soon' is not True, False"):
        beam_search.check(beam_search.BeamConfig(2, early_stopping="soon"), V)
    with pytest.raises(ValueError, match="num_beams=0"):
        beam_search.search(NETWORK, beam_search.BeamConfig(0), None, None, 1)
