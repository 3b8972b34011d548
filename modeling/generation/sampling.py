"""Which token comes next: temperature, top-k, top-p, and a draw (GPT-2, sample.py).

Values of a Sampling may be numbers, or tensors [R] where rows differ.
"""

import dataclasses
from typing import Any

import tensorflow as tf

REMOVED = -1e10  # the logit of a token that is not to be drawn, as GPT-2 has it
# A draw is a function of two numbers of 64 bits; each holds two of 32.
_HALF = 1 << 32


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How the next token is drawn; the defaults are those of GPT-2's release.

    Attributes:
        temperature: what logits are divided by, or 0 for the likeliest token.
        top_k: how many of the likeliest tokens may be drawn; 0 for all.
        top_p: the fewest tokens whose probabilities reach it may be drawn; 1 for all.
        released_top_p: leave out the token that reaches `top_p`, as the release does.
    """

    temperature: Any = 1.0
    top_k: Any = 0
    top_p: Any = 1.0
    released_top_p: bool = False

    @property
    def is_greedy(self) -> bool:
        """Whether no row draws; False where the temperature is a tensor."""
        return isinstance(self.temperature, int | float) and self.temperature == 0


def next_tokens(
    logits: tf.Tensor, sampling: Sampling, streams: tf.Tensor, step: tf.Tensor
) -> tf.Tensor:
    """The tokens int32 [R] that follow, of logits float32 [R, V].

    Args:
        streams: int64 [R, 2] of `make_streams`; a draw follows from its row and the
            step alone, whatever rows stand beside it.
        step: int64 scalar, how many tokens were drawn before.
    """
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)
    if sampling.is_greedy:
        return likeliest
    temperature = _by_row(sampling.temperature, logits, tf.float32)
    is_drawn = temperature > 0.0
    # The division of a row that is not drawn is by 1: its result is not used.
    wanted = dataclasses.replace(
        sampling, temperature=tf.where(is_drawn, temperature, 1.0)
    )
    drawn = _draw(filtered(logits, wanted), streams, step)
    return tf.where(is_drawn, drawn, likeliest)


def filtered(logits: tf.Tensor, sampling: Sampling) -> tf.Tensor:
    """Logits [R, V] over the temperature; those that are not to be drawn, `REMOVED`."""
    logits /= _by_row(sampling.temperature, logits, tf.float32)[:, tf.newaxis]
    has_top_p = _may_change(sampling.top_p, 1.0)
    if not has_top_p and not _may_change(sampling.top_k, 0):
        return logits
    size = tf.shape(logits)[-1]
    count = _by_row(sampling.top_k, logits, tf.int32)
    count = tf.where(count > 0, tf.minimum(count, size), size)  # [R]
    ranked = tf.math.top_k(logits, tf.reduce_max(count)).values
    if has_top_p:
        count = _count_of_top_p(ranked, count, sampling)
    # All that are as likely as the last one stay.
    smallest = tf.gather(ranked, count - 1, batch_dims=1)[:, tf.newaxis]
    return tf.where(logits < smallest, REMOVED, logits)


def make_streams(seeds: tf.Tensor, rows: tf.Tensor, samples: tf.Tensor) -> tf.Tensor:
    """The numbers that draws follow from, int64 [R, 2].

    Args:
        seeds: int64 [R], of which the last 32 bits count.
        rows: int64 [R], which prompt of the input a row continues.
        samples: int64 [R], which of the texts that continue it.
    """
    return tf.stack([seeds % _HALF, rows + samples * _HALF], axis=1)


def _may_change(value: Any, neutral: float) -> bool:
    """Whether a filter can remove a token; of tensors it may."""
    return not isinstance(value, int | float) or value != neutral


def _by_row(value, logits, dtype):
    return tf.broadcast_to(tf.cast(value, dtype), tf.shape(logits)[:1])


def _count_of_top_p(ranked, count, sampling):
    """How many of the first `count` of ranked logits [R, K] top-p leaves, int32 [R]."""
    is_there = tf.range(tf.shape(ranked)[1]) < count[:, tf.newaxis]
    shares = tf.nn.softmax(tf.where(is_there, ranked, REMOVED))
    reached = tf.cumsum(shares, axis=-1)
    limit = _by_row(sampling.top_p, ranked, tf.float32)[:, tf.newaxis]
    before = reached - shares
    is_kept = reached <= limit if sampling.released_top_p else before < limit
    kept = tf.math.count_nonzero(is_kept & is_there, axis=-1, dtype=tf.int32)
    # Rounding may keep a sum of all below 1, or bring it there too early.
    return tf.where(limit[:, 0] < 1.0, tf.maximum(kept, 1), count)


def _draw(logits, streams, step):
    """One token int32 a row, by the seed of the row alone."""
    step = tf.cast(step, tf.int64) * _HALF

    def draw_row(row):
        values, stream = row
        seed = tf.stack([stream[0] + step, stream[1]])
        token = tf.random.stateless_categorical(values[tf.newaxis], 1, seed, tf.int32)
        return token[0, 0]

    return tf.map_fn(draw_row, (logits, streams), fn_output_signature=tf.int32)
