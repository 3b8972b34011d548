"""Questions to windows, and logits to answers, as TensorFlow operations for serving.

The windows of windows.py and the answers of choice.py with its aligner "words", cut
from the context as written.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from contract import features
from data_pipeline.batches import excerpts, packing
from data_pipeline.squad import choice
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import base, normalization, offsets


class QuestionWindows(NamedTuple):
    """The N windows of B questions, in their order; the longest has S tokens."""

    # input_ids, input_mask and segment_ids, int32 [N, S]; input_ids may be [N, S, C]
    features: dict[str, tf.Tensor]
    question_index: tf.Tensor  # int64 [N]
    token_index: tf.Tensor  # int64 [N, S], into all tokens of `contexts`; 0 outside
    is_context: tf.Tensor  # bool [N, S]
    is_max_context: tf.Tensor  # bool [N, S], as in windows.token_grids
    contexts: offsets.Contexts


def encoder(
    tokenizer: base.Tokenizer,
    *,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
) -> Callable[[tf.Tensor, tf.Tensor], QuestionWindows]:
    """Returns a function that cuts windows as windows.make_windows does.

    It takes question [B] and context [B], UTF-8 strings whose invalid bytes are
    ignored. A context without tokens has no window.
    """
    limits = max_seq_length, doc_stride, max_query_length
    max_tokens = context_windows.check_lengths(tokenizer, *limits)

    def encode(question, context):
        with tf.device("CPU:0"):  # where string operations are
            tf.debugging.assert_equal(
                tf.size(question),
                tf.size(context),
                message="give as many contexts as questions",
            )
            contexts = offsets.tokenize(context, tokenizer)
            query = tokenizer.tokenize(question)[:, :max_query_length]
            return _cut(contexts, query, tokenizer, max_tokens, doc_stride)

    return encode


def _cut(contexts, query, tokenizer, max_tokens, doc_stride):
    """The windows of contexts after their queries, ragged [B, (S)] or [B, (S), C]."""
    ids = contexts.ids
    question, _, starts, stops = excerpts.cut(
        query.row_lengths(), ids.row_starts(), ids.row_limits(), max_tokens, doc_stride
    )
    tokens, first_lengths = packing.pack(
        tf.gather(query, question),
        tf.gather(ids.values, tf.ragged.range(starts, stops)),
        special=tokenizer,
        max_seq_length=max_tokens + packing.num_special(tokenizer, is_pair=True),
    )
    padded = packing.at_least_one_column(packing.pad(tokens, first_lengths))
    length = tf.shape(padded[features.INPUT_IDS], tf.int64)[1]
    is_context, token_index, is_max_context = context_windows.place_excerpts(
        starts, stops, first_lengths, length, tf.size(contexts.begins)
    )
    return QuestionWindows(
        features=padded,
        question_index=question,
        token_index=token_index,
        is_context=is_context,
        is_max_context=is_max_context,
        contexts=contexts,
    )


def chooser(
    settings: choice.Settings,
) -> Callable[[QuestionWindows, tf.Tensor, tf.Tensor], dict[str, tf.Tensor]]:
    """Returns a function that chooses as choice.choose does by "words".

    The function takes windows and their start and end logits, float32 [N, S], and
    returns [B] each; padding never competes:

    * answer: string; "" for none.
    * start, end: int32, its characters in the context; -1 for none.
    * score: float32, the sum of its two logits.
    * probability: float32, its share among the n best and no answer, 0..1.
    * null_odds: float32, no answer's score minus the best answer's; only where
      `settings.version_2_with_negative`.
    """

    def choose(windows, start_logits, end_logits):
        with tf.device("CPU:0"):
            start = _masked(start_logits, windows)
            end = _masked(end_logits, windows)
            entries = _proposals(windows, start, end, settings)
            entries = _n_best(entries, settings)
            return _predictions(entries, windows.contexts, settings)

    return choose


class _Entries(NamedTuple):
    """Proposed answers, [E] each; no answer has the text "" and both places -1."""

    question: tf.Tensor
    score: tf.Tensor
    begin: tf.Tensor
    end: tf.Tensor
    text: tf.Tensor


def _pick(entries, index):
    return _Entries(*(tf.gather(values, index) for values in entries))


def _masked(logits, windows):
    is_real = windows.features[features.INPUT_MASK] > 0
    return tf.where(is_real, tf.cast(logits, tf.float64), -math.inf)


def _proposals(windows, start, end, settings):
    """The spans of all windows that qualify, and for each question no answer."""
    count = tf.minimum(settings.n_best_size, tf.shape(start)[1])
    starts = tf.math.top_k(start, count).indices  # [N, n]; of equals the earlier
    ends = tf.math.top_k(end, count).indices
    can_start = tf.gather(windows.is_max_context, starts, batch_dims=1)
    can_end = tf.gather(windows.is_context, ends, batch_dims=1)
    fits = choice.are_answers(starts, ends, can_start, can_end, settings)
    window, i, j = tf.unstack(tf.where(fits), axis=1)  # [E]
    first = tf.stack([window, _at(starts, window, i)], axis=1)
    last = tf.stack([window, _at(ends, window, j)], axis=1)
    contexts = windows.contexts
    begins = tf.gather(contexts.begins, tf.gather_nd(windows.token_index, first))
    ends = tf.gather(contexts.ends, tf.gather_nd(windows.token_index, last))
    points = tf.gather(contexts.points, tf.ragged.range(begins, ends))
    spans = _Entries(
        question=tf.gather(windows.question_index, window),
        score=tf.gather_nd(start, first) + tf.gather_nd(end, last),
        begin=begins,
        end=ends,
        text=tf.strings.unicode_encode(points, "UTF-8"),
    )
    if not settings.version_2_with_negative:
        return spans
    count = tf.size(contexts.starts, tf.int64)
    scores = tf.reduce_sum(start[:, :1] + end[:, :1], axis=1)  # [N], of [CLS]
    # In the window where that is least likely, since any window can hold the answer.
    scores = tf.math.unsorted_segment_min(scores, windows.question_index, count)
    has_windows = contexts.ids.row_lengths() > 0
    scores = tf.where(has_windows, scores, 0)
    return _joined(spans, _no_answer(tf.range(count), scores))


def _no_answer(question, score):
    place = -tf.ones_like(question)
    text = tf.fill(tf.shape(question), "")
    return _Entries(question, score, place, place, text)


def _joined(first, second):
    return _Entries(*(tf.concat(each, 0) for each in zip(first, second, strict=True)))


def _at(values, row, column):
    return tf.cast(tf.gather_nd(values, tf.stack([row, column], axis=1)), tf.int64)


def _n_best(entries, settings):
    """Each question's best entries of distinct texts, best first, and no answer."""
    order = tf.argsort(entries.score, direction="DESCENDING", stable=True)
    by_question = tf.argsort(tf.gather(entries.question, order), stable=True)
    entries = _pick(entries, tf.gather(order, by_question))
    spaces = f"[{normalization.CONTEXT_WHITESPACE}]+"
    plain = tf.strings.regex_replace(entries.text, spaces, " ")
    keys = tf.strings.join([tf.strings.as_string(entries.question), plain], " ")
    distinct, index = tf.unique(keys)
    place = tf.range(tf.size(keys))
    firsts = tf.math.unsorted_segment_min(place, index, tf.size(distinct))
    entries = _pick(entries, firsts)
    # A question's first entry has rank 0.
    place = tf.range(tf.size(distinct))
    rank = place - tf.searchsorted(entries.question, entries.question)
    is_kept = (rank < settings.n_best_size) | (entries.begin < 0)
    return _pick(entries, tf.where(is_kept)[:, 0])


def _predictions(entries, contexts, settings):
    count = tf.size(contexts.starts, tf.int64)  # B
    top = tf.math.unsorted_segment_max(entries.score, entries.question, count)
    weight = tf.exp(entries.score - tf.gather(top, entries.question))
    total = tf.math.unsorted_segment_sum(weight, entries.question, count)
    probability = weight / tf.gather(total, entries.question)

    size = tf.size(entries.question, tf.int64)

    def first(is_wanted):
        """The first wanted entry of each question, or `size`."""
        index = tf.where(is_wanted)[:, 0]
        owner = tf.gather(entries.question, index)
        return tf.minimum(tf.math.unsorted_segment_min(index, owner, count), size)

    # The answer where nothing was proposed, put after all entries.
    zero = tf.zeros([1], tf.float64)
    entries = _joined(entries, _no_answer(tf.constant([-1], tf.int64), zero))
    probability = tf.concat([probability, zero + 1], axis=0)
    chosen = best = first(entries.begin[:-1] >= 0)  # [B]
    null_odds = {}
    if settings.version_2_with_negative:
        null = first(entries.begin[:-1] < 0)
        diff = tf.gather(entries.score, null) - tf.gather(entries.score, best)
        diff = tf.where(best < size, diff, choice.NO_PROPOSAL_SCORE_DIFF)
        chosen = tf.where(diff > settings.null_score_diff_threshold, null, best)
        null_odds["null_odds"] = tf.cast(diff, tf.float32)
    chosen_entries = _pick(entries, chosen)
    shift = tf.where(chosen_entries.begin >= 0, contexts.starts, 0)
    return {
        "answer": chosen_entries.text,
        "start": tf.cast(chosen_entries.begin - shift, tf.int32),
        "end": tf.cast(chosen_entries.end - shift, tf.int32),
        "score": tf.cast(chosen_entries.score, tf.float32),
        "probability": tf.cast(tf.gather(probability, chosen), tf.float32),
        **null_odds,
    }
