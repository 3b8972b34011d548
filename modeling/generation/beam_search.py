"""Beam search: the likeliest texts that follow a prompt, by their tokens' sum.

Wu et al. (2016), section 7, as Hugging Face's generate has it with early_stopping
"never": the score of a text is the sum of its tokens' log probabilities, its end
included, divided by length ** length_penalty. The library's default, False, compares
open texts by their length so far, not by the longest that they could have: with a
length_penalty of 2 it ends before longer texts win, and 6 of 20 texts were others. At
length_penalty=0 both are one search. True ends with as many texts as beams. Like
decoding.py it consists of TensorFlow operations, and takes the same models.

Axes: B prompts, or sources; J open texts of each (beams), R = B * J of the model; M
texts of each that are kept; N columns that may be written, C those with the prompt.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from contract import errors
from modeling.generation import decoding

_NONE = float("-inf")  # the score of no text


class BeamConfig(NamedTuple):
    """How texts are searched for.

    Attributes:
        num_beams: how many texts are open at a time; 1 is greedy decoding.
        length_penalty: above 0 long texts gain, at 0 sums are compared as they are.
        num_results: how many texts of each prompt are kept, up to num_beams.
        early_stopping: True, False or "never"; see above.
        end_ids, ...: as in decoding.GenerationConfig.
    """

    num_beams: int
    length_penalty: float = 1.0
    num_results: int = 1
    end_ids: Sequence[int] = ()
    num_tokens: int | None = None
    early_stopping: bool | str = "never"
    min_length: int = 0
    no_repeat_ngram_size: int = 0


class BeamResult(NamedTuple):
    """The best texts first.

    Attributes:
        ids: int32 [B, M, N].
        is_text: bool [B, M, N], which ids belong to texts; ends do not, and nothing
            after them. None does where fewer than M texts exist.
        scores: float32 [B, M].
    """

    ids: tf.Tensor
    is_text: tf.Tensor
    scores: tf.Tensor


class _Kept(NamedTuple):
    """Texts that have ended, the best M of each prompt."""

    ids: tf.Tensor  # int32 [B, M, N]
    scores: tf.Tensor  # float32 [B, M]


class _State(NamedTuple):
    """A search on its way; num_columns and cache are as in decoding.DecodeState."""

    columns: tf.Tensor  # int32 [C, R], of open texts
    num_columns: tf.Tensor
    sums: tf.Tensor  # float32 [B, J], the largest first
    kept: _Kept
    is_done: tf.Tensor  # bool [B], where no open text can be kept any more
    cache: Any


def check(config: BeamConfig, num_outputs: int) -> None:
    """Refuses config that no search can follow, for a model with so many outputs.

    Raises:
        ValueError: there are no tokens for so many beams, or beams for the results.
    """
    if (value := config.early_stopping) not in (True, False, "never"):
        raise errors.InputError(f"early_stopping={value!r} is not True, False, 'never'")
    tokens = config.num_tokens or num_outputs
    for name, limit, of_what in (
        ("num_beams", tokens, "tokens, with each of which one text begins"),
        ("num_results", config.num_beams, "texts open at a time (num_beams)"),
    ):
        if not 1 <= (value := getattr(config, name)) <= limit:
            raise errors.InputError(
                f"{name}={value}: there are {limit} {of_what}; give 1 to {limit}"
            )


def search(
    model: Any,
    config: BeamConfig,
    ids: tf.Tensor,
    lengths: tf.Tensor,
    max_new_tokens: int,
    source: Sequence[Any] = (),
) -> BeamResult:
    """Continues ids int32 [B, W], padded to the right, with the likeliest texts.

    A search ends where no open text can become better than those that are kept, or
    with `max_new_tokens`, where open texts are taken as they are.

    Args:
        source: as in decoding.Decoder, of B rows.

    Raises:
        ValueError: as in `check`.
    """
    check(config, model.config.num_outputs)
    num_results = config.num_results
    if config.early_stopping != "never":  # the worst of so many decides when it ends
        config = config._replace(num_results=config.num_beams)
    streams = tf.zeros([tf.shape(ids)[0], 2], tf.int64)  # nothing is drawn
    prompts = decoding.make_prompts(ids, lengths, streams)
    width = tf.shape(prompts.ids)[1]
    capacity = width + max_new_tokens
    state = _begin(model, config, prompts, capacity, source)
    visible, positions = (
        tf.repeat(values, config.num_beams, axis=0)
        for values in decoding.locate_columns(prompts, capacity)
    )

    def goes_on(state):
        is_any_open = tf.logical_not(tf.reduce_all(state.is_done))
        return tf.logical_and(state.num_columns < capacity, is_any_open)

    def step(state):
        logits, cache = decoding.next_logits(model, config, state, visible, positions)
        scores = tf.nn.log_softmax(logits)
        scores = decoding.forbid(config, scores, state, visible, width)
        new, parents = _extended(config, state, scores, width)
        cache = model.take_cache_rows(cache, _rows_in_batch(parents))
        return (decoding.set_shapes(new._replace(cache=cache), state),)

    state = tf.while_loop(goes_on, step, (state,), parallel_iterations=1)[0]
    best = _collect(config, state, width)
    return BeamResult(*(part[:, :num_results] for part in best))


def _begin(model, config, prompts, capacity, source):
    """Reads each prompt once; of its beams the first alone is a text so far."""
    beams, batch = config.num_beams, tf.shape(prompts.ids)[0]
    written = decoding.begin(model, prompts, capacity, *source)
    rows = tf.repeat(tf.range(batch), beams)
    first = tf.where(tf.range(beams) == 0, 0.0, _NONE)
    length = capacity - tf.shape(prompts.ids)[1]
    kept = _Kept(
        tf.zeros([batch, config.num_results, length], tf.int32),
        tf.fill([batch, config.num_results], _NONE),
    )
    return _State(
        tf.gather(written.columns, rows, axis=1),
        written.num_columns,
        tf.tile(first[tf.newaxis], [batch, 1]),
        kept,
        tf.zeros([batch], tf.bool),
        model.take_cache_rows(written.cache, rows),
    )


def _extended(config, state, scores, width):
    """The search after one more token of each open text, and which it has grown from.

    `scores` are [R, V], parents [B, J]; the cache is as it was.
    """
    beams, num_tokens = config.num_beams, tf.shape(scores)[1]
    sums = tf.reshape(scores, [-1, beams, num_tokens])
    sums = tf.reshape(sums + state.sums[..., tf.newaxis], [-1, beams * num_tokens])
    # As many may end as there are end tokens, and J go on all the same.
    count = tf.minimum(beams * (1 + len(config.end_ids)), beams * num_tokens)
    sums, places = tf.math.top_k(sums, count)  # [B, K], the largest first
    parents, tokens = places // num_tokens, places % num_tokens
    ends = decoding.is_end(tokens, config.end_ids)
    length = state.num_columns + 1 - width  # the new token included

    # Of texts that end, those are kept that would be among the J open ones.
    is_new = tf.logical_and(ends, tf.range(count) < beams)
    is_new = tf.logical_and(is_new, ~state.is_done[:, tf.newaxis])
    written = tf.gather(_texts(state, width, beams), parents, batch_dims=1)  # [B, K, N]
    is_last = tf.range(tf.shape(written)[-1]) == length - 1
    texts = tf.where(is_last, tokens[..., tf.newaxis], written)
    scores = tf.where(is_new, _scores(config, sums, length), _NONE)
    kept = _best(config, state.kept, texts, scores)

    sums, chosen = tf.math.top_k(tf.where(ends, _NONE, sums), beams)  # [B, J]
    parents = tf.gather(parents, chosen, batch_dims=1)
    tokens = tf.gather(tokens, chosen, batch_dims=1)
    columns = tf.gather(state.columns, _rows_in_batch(parents), axis=1)
    columns = tf.tensor_scatter_nd_update(
        columns, [[state.num_columns]], tf.reshape(tokens, [1, -1])
    )
    # Sums only fall, so the best that an open text can get is its sum at the length
    # that divides it most.
    most = length + 1 if config.length_penalty <= 0 else tf.shape(written)[-1]
    if config.early_stopping != "never":
        most = length
    hope = _scores(config, sums[:, 0], most)
    is_done = state.is_done | (hope <= kept.scores[:, -1])
    if config.early_stopping is True:  # with the last token open texts count, too
        is_full = tf.math.is_finite(kept.scores[:, -1])
        is_done |= is_full & (length < tf.shape(written)[-1])
    if beams == 1:  # greedy decoding ends with its text
        is_done |= tf.reduce_any(is_new, axis=1)
    state = state._replace(
        columns=columns,
        num_columns=state.num_columns + 1,
        sums=sums,
        kept=kept,
        is_done=is_done,
    )
    return state, parents


def _collect(config, state, width):
    """The texts kept at the end, open ones included where they might have become so."""
    scores = _scores(config, state.sums, state.num_columns - width)
    scores = tf.where(state.is_done[:, tf.newaxis], _NONE, scores)
    texts = _texts(state, width, config.num_beams)
    ids, scores = _best(config, state.kept, texts, scores)
    is_there = tf.math.is_finite(scores)[..., tf.newaxis]
    return BeamResult(ids, is_there & decoding.is_open(ids, config.end_ids), scores)


def _texts(state, width, beams):
    """The new tokens of open texts, int32 [B, J, N]."""
    ids = tf.transpose(state.columns[width:])
    return tf.reshape(ids, [-1, beams, tf.shape(ids)[1]])


def _scores(config, sums, length):
    return sums / tf.cast(length, tf.float32) ** config.length_penalty


def _best(config, kept, ids, scores):
    """The M best of texts that were kept and others, [B, K, N] with their scores."""
    scores = tf.concat([kept.scores, scores], axis=1)
    scores, places = tf.math.top_k(scores, config.num_results)
    ids = tf.concat([kept.ids, ids], axis=1)
    return _Kept(tf.gather(ids, places, batch_dims=1), scores)


def _rows_in_batch(parents):
    """Rows int32 [R] of the beams [B, J] of each prompt."""
    batch, beams = tf.unstack(tf.shape(parents))
    return tf.reshape(tf.range(batch)[:, tf.newaxis] * beams + parents, [-1])
