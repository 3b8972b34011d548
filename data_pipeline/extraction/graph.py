"""Texts to features, and features to tokens, as TensorFlow operations for serving."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from contract import features
from data_pipeline.batches import packing
from data_pipeline.text import base


def encoder(
    tokenizer: base.Tokenizer, max_seq_length: int
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """A function of texts, string [B], to what input_lines makes of single texts."""

    def encode(texts):
        with tf.device("CPU:0"):  # where string operations are
            packed = packing.pack(
                tokenizer.tokenize(texts),
                None,
                special=tokenizer,
                max_seq_length=max_seq_length,
            )
            return packing.pad(*packed)

    return encode


def speller(vocab: Sequence[str]) -> Callable[[dict[str, tf.Tensor]], tf.Tensor]:
    """A function of features to their tokens, string [B, S]; "" where none is."""

    def spell(batch):
        with tf.device("CPU:0"):
            tokens = tf.gather(tf.constant(vocab), batch[features.INPUT_IDS])
            return tf.where(batch[features.INPUT_MASK] > 0, tokens, "")

    return spell
