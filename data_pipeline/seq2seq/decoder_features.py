"""Targets to the inputs and labels of a decoder."""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from contract import features
from data_pipeline.batches import batching, packing


def append_eos(
    ids: tf.RaggedTensor, tokens: features.DecoderTokens, max_target_length: int
) -> tf.RaggedTensor:
    """Targets [B, (T)] with their end token, int32, cut to `max_target_length`."""
    end = tf.fill([ids.nrows(), 1], tf.cast(tokens.end, ids.dtype))
    return tf.concat([ids[:, : max_target_length - 1], end], axis=1)


def grids(
    with_eos: tf.RaggedTensor,
    tokens: features.DecoderTokens,
    length: int | None = None,
) -> dict[str, tf.Tensor]:
    """The features of targets [B, (T)] with end tokens, padded to `length` or the most.

    Returns:
        decoder_input_ids, decoder_mask and labels, int32 [B, T]: the start token and
        the target but for its last token; 1 where a target is; and the target.
    """
    labels = with_eos.to_tensor(tokens.padding, shape=[None, length])  # [B, T]
    lengths = tf.cast(with_eos.row_lengths(), tf.int32)[:, tf.newaxis]  # [B, 1]
    is_real = tf.range(tf.shape(labels)[1]) < lengths  # [B, T]
    return {
        features.DECODER_INPUT_IDS: packing.shift_right(labels, is_real, tokens),
        features.DECODER_MASK: tf.cast(is_real, tf.int32),
        features.LABELS: labels,
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairExamples(batching.Examples):
    """N sources for an encoder with their targets, for training/driver.py."""

    target_ids: np.ndarray | None = None  # int32, with end tokens, end to end
    target_splits: np.ndarray | None = None  # int64 [N + 1], where they begin and end
    tokens: features.DecoderTokens
    max_target_length: int  # of batches whose sources are padded to one length, too
    # Whether batches have unique_ids, which seed the draws of sampling.
    is_numbered: bool = False

    @property
    def target_lengths(self) -> np.ndarray:
        """int64 [N], tokens of each target; zeros of sources alone."""
        if self.target_splits is None:
            return np.zeros(len(self), np.int64)
        return np.diff(self.target_splits)

    def training_order(self, **settings: Any) -> np.ndarray:
        """As batching.training_order; targets order equally long sources."""
        longest = self.target_lengths.max(initial=0) + 1
        keys = self.packed.lengths * longest + self.target_lengths
        return batching.training_order(keys, **settings)

    def batches(self, order: np.ndarray, pad_to: int | None) -> tf.data.Dataset:
        """As batching.batches, with the features of `grids` where there are targets."""
        targets = None
        if self.target_ids is not None:
            splits = tf.constant(self.target_splits)
            targets = tf.RaggedTensor.from_row_splits(self.target_ids, splits)
        length = None if pad_to is None else self.max_target_length

        def others(indices):
            batch = {features.UNIQUE_IDS: indices} if self.is_numbered else {}
            if targets is not None:
                batch |= grids(tf.gather(targets, indices), self.tokens, length)
            return batch

        return batching.batches(self.packed, order, pad_to=pad_to, others=others)
