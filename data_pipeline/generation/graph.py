"""Prompts to ids and ids to texts as TensorFlow operations; for exports."""

from typing import Any

import tensorflow as tf


def encode(tokenizer: Any, texts: tf.Tensor, most: int) -> tf.RaggedTensor:
    """The last ids of texts [B], int32 [B, (W)]; one that ends texts where none is."""
    ids = tokenizer.tokenize(texts).with_row_splits_dtype(tf.int64)
    if tokenizer.document_end_id is not None:
        missing = tf.cast(ids.row_lengths() == 0, tf.int64)
        starts = tf.fill([tf.reduce_sum(missing)], tokenizer.document_end_id)
        starts = tf.RaggedTensor.from_row_lengths(starts, missing)
        ids = tf.concat([ids, starts], axis=1)
    return ids[:, -most:]


def encode_scored(tokenizer: Any, texts: tf.Tensor, most: int) -> tf.RaggedTensor:
    """The first ids of texts [B], begun with the token that ends texts, if any."""
    ids = tokenizer.tokenize(texts).with_row_splits_dtype(tf.int64)
    if tokenizer.document_end_id is not None:
        start = tf.fill([tf.shape(texts)[0], 1], tokenizer.document_end_id)
        ids = tf.concat([start, ids], axis=1)
    return ids[:, :most]


def decode(
    tokenizer: Any, prompt: tf.RaggedTensor, written: tf.RaggedTensor
) -> tf.Tensor:
    """The texts [B] that ids, ragged [B, (N)], add to those of prompts."""
    before = tf.strings.length(tokenizer.decode_rows(prompt))
    text = tokenizer.decode_rows(tf.concat([prompt, written], axis=1))
    count = tf.maximum(tf.strings.length(text) - before, 0)
    return tf.strings.substr(text, before, count)
