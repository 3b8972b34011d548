"""The loop that computes one token after another by a network with a cache.

It consists of TensorFlow operations, so one function serves scripts and exports. In a
batch prompts are padded to the left: the next token has the same column in all rows.

Beside the axes of modeling/__init__.py: R rows of a batch, each a text that is written;
W columns of the longest prompt; C columns of prompt and text.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from modeling.generation import sampling as sampling_lib

MIN_WIDTH = 2  # columns of a prompt: one that is read before the loop, and its last


class Prompts(NamedTuple):
    """Where a batch of texts begins.

    Attributes:
        ids: int32 [R, W], padded to the left.
        lengths: int32 [R], 1 to W.
        streams: int64 [R, 2], of sampling.make_streams.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    streams: tf.Tensor


_PROMPTS = Prompts(
    tf.TensorSpec([None, None], tf.int32),
    tf.TensorSpec([None], tf.int32),
    tf.TensorSpec([None, 2], tf.int64),
)


class DecodeState(NamedTuple):
    """A batch of texts on its way.

    Attributes:
        columns: int32 [C, R], the ids of prompts and texts.
        num_columns: int32 scalar, how many of them are there.
        is_done: bool [R], whose text has ended; what follows its end means nothing.
        cache: of the model, with all columns but the last.
    """

    columns: tf.Tensor
    num_columns: tf.Tensor
    is_done: tf.Tensor
    cache: Any


class GenerationConfig(NamedTuple):
    """How texts are written.

    Attributes:
        sampling: how tokens are drawn.
        end_ids: tokens after which a text ends.
        num_tokens: rows of the vocabulary; a network may put out more, which are no
            tokens. None if all are.
        min_length: the least tokens of a text, its end included.
        no_repeat_ngram_size: as many tokens in a row come once in prompt and text; 0
            for no such rule.
    """

    sampling: sampling_lib.Sampling
    end_ids: Sequence[int] = ()
    num_tokens: int | None = None
    min_length: int = 0
    no_repeat_ngram_size: int = 0


class Decoder:
    """Continues prompts with a model, which has `empty_cache` and `extend`.

    A `source`, here and below, is what the model reads by its `source_spec`
    before prompts: a tuple, () for a language model.
    """

    def __init__(self, model: Any, config: GenerationConfig):
        self.config = config
        # Traced once for batches of all sizes.
        scalar = tf.TensorSpec([], tf.int32)
        self.begin = tf.function(
            functools.partial(begin, model),
            input_signature=[_PROMPTS, scalar, *model.source_spec],
            autograph=False,
        ).get_concrete_function()
        state = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype),
            self.begin.structured_outputs,
        )
        self.go_on = tf.function(
            functools.partial(go_on, model, config),
            input_signature=[_PROMPTS, state, scalar],
            autograph=False,
        )

    def cut_at_end(self, ids: list[int]) -> list[int]:
        """A text up to its end token, if it has one."""
        ends = (
            n for n, index in enumerate(ids, start=1) if index in self.config.end_ids
        )
        return ids[: next(ends, len(ids))]


def begin(
    model: Any, prompts: Prompts, capacity: tf.Tensor, *source: Any
) -> DecodeState:
    """Reads prompts, to be continued up to C columns."""
    rows, width = tf.unstack(tf.shape(prompts.ids))
    columns = tf.pad(tf.transpose(prompts.ids), [[0, capacity - width], [0, 0]])
    visible, positions = locate_columns(prompts, capacity)
    _, cache = model.extend(
        prompts.ids[:, :-1],
        positions[:, : width - 1],
        0,
        visible,
        model.empty_cache(rows, capacity, *source),
        last_only=True,
    )
    return DecodeState(columns, width, tf.zeros([rows], tf.bool), cache)


def go_on(
    model: Any,
    config: GenerationConfig,
    prompts: Prompts,
    state: DecodeState,
    until: tf.Tensor,
) -> DecodeState:
    """Writes up to so many columns, or until all texts have ended."""
    width = tf.shape(prompts.ids)[1]
    visible, positions = locate_columns(prompts, tf.shape(state.columns)[0])

    def goes_on(state):
        is_any_open = tf.logical_not(tf.reduce_all(state.is_done))
        return tf.logical_and(state.num_columns < until, is_any_open)

    def write(state):
        logits, cache = next_logits(model, config, state, visible, positions)
        logits = forbid(config, logits, state, visible, width)
        tokens = sampling_lib.next_tokens(
            logits,
            config.sampling,
            prompts.streams,
            state.num_columns - width,
        )
        columns = tf.tensor_scatter_nd_update(
            state.columns, [[state.num_columns]], tokens[tf.newaxis]
        )
        is_done = tf.logical_or(state.is_done, is_end(tokens, config.end_ids))
        new = DecodeState(columns, state.num_columns + 1, is_done, cache)
        return (set_shapes(new, state),)

    return tf.while_loop(goes_on, write, (state,), parallel_iterations=1)[0]


def next_logits(
    model: Any, config: Any, state: Any, visible: tf.Tensor, positions: tf.Tensor
) -> tuple[tf.Tensor, Any]:
    """Logits float32 [R, V] of what follows each text, and the cache with its end.

    Args:
        config: with the num_tokens of `GenerationConfig`.
        state: with the columns, num_columns and cache of `DecodeState`.
        visible, positions: of all columns, as `locate_columns` gives them.
    """
    last = state.num_columns - 1
    logits, cache = model.extend(
        state.columns[last][:, tf.newaxis],
        positions[:, last : last + 1],
        last,
        visible,
        state.cache,
    )
    return tf.cast(logits[:, 0, : config.num_tokens], tf.float32), cache


def forbid(
    config: Any, scores: tf.Tensor, state: Any, visible: tf.Tensor, width: tf.Tensor
) -> tf.Tensor:
    """Scores [R, V] of tokens after prompts of `width` columns, -inf of wrong ones.

    `config` has end_ids, min_length, no_repeat_ngram_size; see also `next_logits`.
    """
    end, never = state.num_columns, float("-inf")
    if config.min_length > 1:
        ends = is_end(tf.range(tf.shape(scores)[1]), config.end_ids)
        scores = tf.where(ends & (end - width < config.min_length - 1), never, scores)
    if config.no_repeat_ngram_size > 0:
        before = config.no_repeat_ngram_size - 1  # tokens of an n-gram but its last
        columns, rows = tf.unstack(tf.shape(state.columns))
        padded = tf.pad(state.columns, [[0, before], [0, 0]])
        starts, first = tf.range(columns), tf.maximum(end - before, 0)
        repeats = tf.transpose(visible) & (starts + before < end)[:, tf.newaxis]
        for place in range(before):  # [C, R], by the column where an n-gram begins
            repeats &= padded[place : place + columns] == padded[first + place]
        tokens = tf.where(repeats, padded[before:], 0)
        places = tf.stack([tf.zeros_like(tokens) + tf.range(rows), tokens], -1)
        counts = tf.scatter_nd(places, tf.cast(repeats, tf.float32), tf.shape(scores))
        scores = tf.where(counts > 0, never, scores)
    return scores


def read_results(
    config: GenerationConfig, prompts: Prompts, state: DecodeState
) -> tuple[tf.Tensor, tf.Tensor]:
    """Ids int32 [R, C - W] that follow the prompts, and which belong to the texts.

    An end token does not, and nothing after it.
    """
    width = tf.shape(prompts.ids)[1]
    ids = tf.transpose(state.columns[width:])
    is_written = tf.range(tf.shape(ids)[1]) < state.num_columns - width
    return ids, tf.logical_and(is_written, is_open(ids, config.end_ids))


def is_open(ids: tf.Tensor, end_ids: Sequence[int]) -> tf.Tensor:
    """Which ids [..., N] have no end token among them and those before, bool."""
    return tf.cumsum(tf.cast(is_end(ids, end_ids), tf.int32), axis=-1) == 0


def is_end(ids: tf.Tensor, end_ids: Sequence[int]) -> tf.Tensor:
    """Which ids, of any shape, are end tokens, bool."""
    is_any = tf.zeros_like(ids, tf.bool)
    for end in end_ids:
        is_any = tf.logical_or(is_any, tf.equal(ids, end))
    return is_any


def locate_columns(
    prompts: Prompts, capacity: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Which columns hold tokens, bool [R, C], and the position of each, int32."""
    width = tf.shape(prompts.ids)[1]
    columns = tf.range(capacity)[tf.newaxis]
    positions = columns - (width - prompts.lengths)[:, tf.newaxis]
    return positions >= 0, tf.maximum(positions, 0)


def set_shapes(tensors: Any, others: Any) -> Any:
    """The tensors with the static shapes of the others, as a loop needs them."""

    def set_shape_like(tensor, other):
        tensor.set_shape(other.shape)
        return tensor

    return tf.nest.map_structure(set_shape_like, tensors, others)


def make_prompts(ids: tf.Tensor, lengths: tf.Tensor, streams: tf.Tensor) -> Prompts:
    """Prompts of ids int32 [R, W] that are padded to the right."""
    ids = tf.pad(ids, [[0, 0], [0, tf.maximum(MIN_WIDTH - tf.shape(ids)[1], 0)]])
    prompts = Prompts(ids, tf.maximum(lengths, 1), streams)
    _, positions = locate_columns(prompts, tf.shape(ids)[1])
    return prompts._replace(ids=tf.gather(ids, positions, batch_dims=1))


def write(
    model: Any,
    config: GenerationConfig,
    ids: tf.Tensor,
    lengths: tf.Tensor,
    seeds: tf.Tensor,
    max_new_tokens: int,
    source: Sequence[Any] = (),
    rows: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Continues ids [R, W], padded to the right, in one graph; see `read_results`.

    What is drawn follows from the seed of a row, int64 [R], wherever it stands, and
    from its number, int64 [R], if that is passed.
    """
    first = tf.zeros_like(seeds)
    numbers = first if rows is None else rows
    streams = sampling_lib.make_streams(seeds, numbers, first)
    prompts = make_prompts(ids, lengths, streams)
    capacity = tf.shape(prompts.ids)[1] + max_new_tokens
    state = begin(model, prompts, capacity, *source)
    state = go_on(model, config, prompts, state, capacity)
    return read_results(config, prompts, state)


def generate(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[int],
    *,
    max_new_tokens: int,
    seed: int = 0,
    samples: Sequence[int] | None = None,
    piece: int | None = None,
    stops: Callable[[int, list[int]], bool] | None = None,
    source: Sequence[Any] = (),
) -> list[tuple[list[int], bool]]:
    """The text that follows each prompt of a batch, and whether it has ended by itself.

    An end token is the last of its text.

    Args:
        rows: which prompt of the input each is, and `samples` which text of that.
        piece: tokens that are written between two calls of `stops`; None for all.
        stops: place in the batch, its text so far -> whether that is to end.
    """
    count = len(prompts)
    numbers = (np.array(column, np.int64) for column in (rows, samples or [0] * count))
    streams = sampling_lib.make_streams(tf.fill([count], np.int64(seed)), *numbers)
    lengths = np.array([len(ids) for ids in prompts], np.int32)
    padded = np.zeros((count, lengths.max()), np.int32)
    for row, prompt in enumerate(prompts):
        padded[row, : len(prompt)] = prompt
    batch = make_prompts(tf.constant(padded), tf.constant(lengths), streams)
    width = batch.ids.shape[1]
    capacity = width + max_new_tokens
    state = decoder.begin(batch, tf.constant(capacity), *source)
    texts: list[tuple[list[int], bool]] = [([], False)] * count
    while True:
        until = min(capacity, int(state.num_columns) + (piece or max_new_tokens))
        state = decoder.go_on(batch, state, tf.constant(until))
        ended = state.is_done.numpy()
        columns = state.columns[width : int(state.num_columns)].numpy().T
        for row, ids in enumerate(columns.tolist()):
            if not texts[row][1]:
                ids = decoder.cut_at_end(ids)
                has_ended = bool(ended[row]) or bool(stops and stops(row, ids))
                texts[row] = ids, has_ended
        if int(state.num_columns) == capacity or all(end for _, end in texts):
            return texts
        is_done = tf.constant([has_ended for _, has_ended in texts])
        state = state._replace(is_done=is_done)
