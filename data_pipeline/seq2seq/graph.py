"""Ids of a decoder to texts, as TensorFlow operations.

The same in training, in predictions and inside an exported SavedModel.
"""

from typing import Any

import tensorflow as tf

from contract import features
from data_pipeline.text import wordpiece


def decode(tokenizer: Any, tokens: features.DecoderTokens, ids: tf.Tensor) -> tf.Tensor:
    """Detokenizes the ids of a decoder, int32 [B, N], after its start token.

    A text ends before the first end token, or before an id below 0, which stands for
    none; start and padding tokens leave no trace. Words, punctuation marks and
    ideographs have one space between them, as `spell` writes a text.
    """
    with tf.device("CPU:0"):  # where string operations are
        is_over = tf.cumsum(tf.cast((ids == tokens.end) | (ids < 0), tf.int32), axis=1)
        is_text = (is_over == 0) & (ids != tokens.start) & (ids != tokens.padding)
        texts = tokenizer.decode_rows(tf.ragged.boolean_mask(ids, is_text))
        if isinstance(tokenizer, wordpiece.BertTokenizer):
            texts = tf.strings.regex_replace(texts, f"^{wordpiece.CONTINUATION}", "")
        return texts


def spell(tokenizer: Any, texts: tf.Tensor) -> tf.Tensor:
    """Texts [B] as `decode` writes them where every word is known.

    A word that the vocabulary cannot spell never equals the [UNK] of a prediction.
    """
    if not isinstance(tokenizer, wordpiece.BertTokenizer):
        return tf.convert_to_tensor(texts)
    with tf.device("CPU:0"):
        words = tokenizer.pretokenize(tf.convert_to_tensor(texts))
        return tf.strings.reduce_join(words, axis=-1, separator=" ")
