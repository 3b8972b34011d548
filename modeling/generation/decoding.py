"""The loop that asks a network with a cache for one token after another.

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
        streams: int64 [R, 2], of sampling.streams_of.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    streams: tf.Tensor


_PROMPTS = Prompts(
    tf.TensorSpec([None, None], tf.int32),
    tf.TensorSpec([None], tf.int32),
    tf.TensorSpec([None, 2], tf.int64),
)


class Written(NamedTuple):
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


class Rules(NamedTuple):
    """How texts are written.

    Attributes:
        sampling: how tokens are drawn.
        end_ids: tokens after which a text ends.
        num_tokens: rows of the vocabulary; a network may put out more, which are no
            tokens. None if all are.
    """

    sampling: sampling_lib.Sampling
    end_ids: Sequence[int] = ()
    num_tokens: int | None = None


class Decoder:
    """Continues prompts with a model, which has `empty_cache` and `extend`.

    A `source`, here and below, is what the model's `source_spec` says that it reads
    before prompts: a tuple, () for a language model.
    """

    def __init__(self, model: Any, rules: Rules):
        self.rules = rules
        # Traced once for batches of all sizes.
        scalar = tf.TensorSpec([], tf.int32)
        self.begin = tf.function(
            functools.partial(begin, model),
            input_signature=[_PROMPTS, scalar, *model.source_spec],
            autograph=False,
        ).get_concrete_function()
        written = tf.nest.map_structure(
            lambda found: tf.TensorSpec(found.shape, found.dtype),
            self.begin.structured_outputs,
        )
        self.go_on = tf.function(
            functools.partial(go_on, model, rules),
            input_signature=[_PROMPTS, written, scalar],
            autograph=False,
        )

    def cut(self, ids: list[int]) -> list[int]:
        """A text up to its end token, if it has one."""
        ends = (
            n for n, index in enumerate(ids, start=1) if index in self.rules.end_ids
        )
        return ids[: next(ends, len(ids))]


def begin(model: Any, prompts: Prompts, capacity: tf.Tensor, *source: Any) -> Written:
    """Reads prompts, to be continued up to C columns."""
    rows, width = tf.unstack(tf.shape(prompts.ids))
    columns = tf.pad(tf.transpose(prompts.ids), [[0, capacity - width], [0, 0]])
    visible, positions = places(prompts, capacity)
    _, cache = model.extend(
        prompts.ids[:, :-1],
        positions[:, : width - 1],
        0,
        visible,
        model.empty_cache(rows, capacity, *source),
        last_only=True,
    )
    return Written(columns, width, tf.zeros([rows], tf.bool), cache)


def go_on(
    model: Any, rules: Rules, prompts: Prompts, written: Written, until: tf.Tensor
) -> Written:
    """Writes up to so many columns, or until all texts have ended."""
    width = tf.shape(prompts.ids)[1]
    visible, positions = places(prompts, tf.shape(written.columns)[0])

    def goes_on(written):
        is_any_open = tf.logical_not(tf.reduce_all(written.is_done))
        return tf.logical_and(written.num_columns < until, is_any_open)

    def write(written):
        logits, cache = next_logits(model, rules, written, visible, positions)
        found = sampling_lib.next_tokens(
            logits,
            rules.sampling,
            prompts.streams,
            written.num_columns - width,
        )
        columns = tf.tensor_scatter_nd_update(
            written.columns, [[written.num_columns]], found[tf.newaxis]
        )
        is_done = tf.logical_or(written.is_done, is_end(found, rules.end_ids))
        new = Written(columns, written.num_columns + 1, is_done, cache)
        return (of_shapes(new, written),)

    return tf.while_loop(goes_on, write, (written,), parallel_iterations=1)[0]


def next_logits(
    model: Any, rules: Any, written: Any, visible: tf.Tensor, positions: tf.Tensor
) -> tuple[tf.Tensor, Any]:
    """Logits float32 [R, V] of what follows each text, and the cache with its end.

    Args:
        rules: with the num_tokens of `Rules`.
        written: with the columns, num_columns and cache of `Written`.
        visible, positions: of all columns, as `places` gives them.
    """
    last = written.num_columns - 1
    logits, cache = model.extend(
        written.columns[last][:, tf.newaxis],
        positions[:, last : last + 1],
        last,
        visible,
        written.cache,
    )
    return tf.cast(logits[:, 0, : rules.num_tokens], tf.float32), cache


def results(
    rules: Rules, prompts: Prompts, written: Written
) -> tuple[tf.Tensor, tf.Tensor]:
    """Ids int32 [R, C - W] that follow the prompts, and which belong to the texts.

    An end token does not, and nothing after it.
    """
    width = tf.shape(prompts.ids)[1]
    ids = tf.transpose(written.columns[width:])
    is_written = tf.range(tf.shape(ids)[1]) < written.num_columns - width
    return ids, tf.logical_and(is_written, is_open(ids, rules.end_ids))


def is_open(ids: tf.Tensor, end_ids: Sequence[int]) -> tf.Tensor:
    """Which ids [..., N] have no end token among them and those before, bool."""
    return tf.cumsum(tf.cast(is_end(ids, end_ids), tf.int32), axis=-1) == 0


def is_end(ids: tf.Tensor, end_ids: Sequence[int]) -> tf.Tensor:
    """Which ids, of any shape, are end tokens, bool."""
    found = tf.zeros_like(ids, tf.bool)
    for end in end_ids:
        found = tf.logical_or(found, tf.equal(ids, end))
    return found


def places(prompts: Prompts, capacity: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Which columns hold tokens, bool [R, C], and the position of each, int32."""
    width = tf.shape(prompts.ids)[1]
    found = tf.range(capacity)[tf.newaxis] - (width - prompts.lengths)[:, tf.newaxis]
    return found >= 0, tf.maximum(found, 0)


def of_shapes(tensors: Any, others: Any) -> Any:
    """The tensors, said to have the shapes of the others, as a loop wants it."""

    def of_shape(tensor, other):
        tensor.set_shape(other.shape)
        return tensor

    return tf.nest.map_structure(of_shape, tensors, others)


def prompts_of(ids: tf.Tensor, lengths: tf.Tensor, streams: tf.Tensor) -> Prompts:
    """Prompts of ids int32 [R, W] that are padded to the right."""
    ids = tf.pad(ids, [[0, 0], [0, tf.maximum(MIN_WIDTH - tf.shape(ids)[1], 0)]])
    prompts = Prompts(ids, tf.maximum(lengths, 1), streams)
    _, found = places(prompts, tf.shape(ids)[1])
    return prompts._replace(ids=tf.gather(ids, found, batch_dims=1))


def write(
    model: Any,
    rules: Rules,
    ids: tf.Tensor,
    lengths: tf.Tensor,
    seeds: tf.Tensor,
    max_new_tokens: int,
    source: Sequence[Any] = (),
) -> tuple[tf.Tensor, tf.Tensor]:
    """Continues ids [R, W], padded to the right, in one graph; see `results`.

    What is drawn follows from the seed of a row, int64 [R], wherever it stands.
    """
    first = tf.zeros_like(seeds)
    streams = sampling_lib.streams_of(seeds, first, first)
    prompts = prompts_of(ids, lengths, streams)
    capacity = tf.shape(prompts.ids)[1] + max_new_tokens
    written = begin(model, prompts, capacity, *source)
    written = go_on(model, rules, prompts, written, capacity)
    return results(rules, prompts, written)


def texts(
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
    """What follows each prompt of a batch, and whether it has ended by itself.

    An end token is the last of its text.

    Args:
        rows: which prompt of the input each is, and `samples` which text of that.
        piece: tokens that are written between two calls of `stops`; None for all.
        stops: place in the batch, its text so far -> whether that is to end.
    """
    count = len(prompts)
    numbers = (np.array(column, np.int64) for column in (rows, samples or [0] * count))
    streams = sampling_lib.streams_of(tf.fill([count], np.int64(seed)), *numbers)
    lengths = np.array([len(ids) for ids in prompts], np.int32)
    padded = np.zeros((count, lengths.max()), np.int32)
    for row, prompt in enumerate(prompts):
        padded[row, : len(prompt)] = prompt
    batch = prompts_of(tf.constant(padded), tf.constant(lengths), streams)
    width = batch.ids.shape[1]
    capacity = width + max_new_tokens
    written = decoder.begin(batch, tf.constant(capacity), *source)
    found: list[tuple[list[int], bool]] = [([], False)] * count
    while True:
        until = min(capacity, int(written.num_columns) + (piece or max_new_tokens))
        written = decoder.go_on(batch, written, tf.constant(until))
        ended = written.is_done.numpy()
        columns = written.columns[width : int(written.num_columns)].numpy().T
        for row, ids in enumerate(columns.tolist()):
            if not found[row][1]:
                ids = decoder.cut(ids)
                has_ended = bool(ended[row]) or bool(stops and stops(row, ids))
                found[row] = ids, has_ended
        if int(written.num_columns) == capacity or all(end for _, end in found):
            return found
        is_done = tf.constant([has_ended for _, has_ended in found])
        written = written._replace(is_done=is_done)
