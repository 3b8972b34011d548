"""Which sequences of a batch share a row, so that little is computed for padding.

modeling/packed_rows.py reads the result. A batch keeps its sequences and their order.
"""

import numpy as np
import tensorflow as tf

from contract import features
from data_pipeline.batches import packing


def first_fit(lengths: np.ndarray, width: int) -> tuple[np.ndarray, int]:
    """Lays sequences of int [B] tokens into rows of `width`, the longest first.

    Each begins in the first row with room for it, which takes at most 11/9 of the
    fewest rows, and one more (Johnson, 1973, first-fit decreasing).

    Returns:
        Where each begins in the flattened rows, int64 [B], and how many rows there are.
    """
    room = np.full(len(lengths), width)
    starts = np.zeros(len(lengths), np.int64)
    for number in np.argsort(-lengths, kind="stable"):
        row = np.argmax(room >= lengths[number])
        starts[number] = row * width + width - room[row]
        room[row] -= lengths[number]
    return starts, np.count_nonzero(room < width)


def lay_out(lengths, width, shares, num_rows=None):
    """The features of a batch of B sequences of `lengths`, int [B], padded to `width`.

    Each of the equal `shares` of a batch, which are computed apart, has `num_rows`
    rows of its own, or as many as the fullest needs.

    Returns:
        packed_sources int32 [shares * R, width], packed_starts int32 [B].
    """
    parts = lengths.reshape(shares, -1)
    fits = [first_fit(part, width) for part in parts]
    count = num_rows or max(1, max(count for _, count in fits))
    sources = np.full((shares, count * width), -1, np.int32)
    for row, (starts, _), part in zip(sources, fits, parts, strict=True):
        taken = packing.ranges(np.arange(len(part)) * width, part)
        row[packing.ranges(starts, part)] = taken
    starts = np.concatenate([starts for starts, _ in fits])
    return sources.reshape(-1, width), starts.astype(np.int32)


def share_rows(batches: tf.data.Dataset, shares: int, num_rows: int | None = None):
    """Adds the features of `lay_out` to batches; its arguments are as there."""

    def add(batch):
        mask = batch[features.INPUT_MASK]  # [B, S] or [B, G, S]
        lengths = tf.reshape(tf.reduce_sum(mask, axis=-1), [-1])
        sources, starts = tf.numpy_function(
            lambda lengths, width: lay_out(lengths, int(width), shares, num_rows),
            [lengths, tf.shape(mask)[-1]],
            [tf.int32, tf.int32],
        )
        rows = num_rows and num_rows * shares
        return batch | {
            features.PACKED_SOURCES: tf.ensure_shape(sources, [rows, mask.shape[-1]]),
            features.PACKED_STARTS: tf.ensure_shape(starts, lengths.shape),
        }

    return batches.map(add, num_parallel_calls=1).prefetch(2)


def join_predictions(batches: tf.data.Dataset, shares: int) -> tf.data.Dataset:
    """Lays the masked tokens of a share end to end: no logits are those of padding.

    masked_lm_ids and masked_lm_weights [B, P] become [shares * N], where N is the
    number of the share that has most, and masked_lm_places int32 [shares * N] tells
    which of its share's they are. What fills a share has weight 0.
    """
    values = features.MASKED_LM_IDS, features.MASKED_LM_WEIGHTS

    def join(batch):
        ids, weights = (tf.reshape(batch[name], [shares, -1]) for name in values)
        is_padding = tf.cast(weights <= 0.0, tf.int32)
        count = tf.reduce_max(tf.reduce_sum(1 - is_padding, axis=1))
        places = tf.argsort(is_padding, axis=1, stable=True)[:, : tf.maximum(count, 1)]
        return batch | {
            features.MASKED_LM_PLACES: tf.reshape(places, [-1]),
            **{
                name: tf.reshape(tf.gather(each, places, batch_dims=1), [-1])
                for name, each in zip(values, (ids, weights), strict=True)
            },
        }

    return batches.map(join, num_parallel_calls=1)


def most_rows(lengths: np.ndarray, order: np.ndarray, width: int, shares: int) -> int:
    """The rows that the fullest share of all batches needs, for shapes that stay.

    `lengths` are int [N, G], `order` int [steps, B] is which examples make a batch.
    """
    parts = lengths[order].reshape(len(order) * shares, -1)
    return max(first_fit(part, width)[1] for part in parts)
