"""Sources to features, and ids of a decoder to texts, as TensorFlow operations.

The same in training, in predictions and inside an exported SavedModel.
"""

from typing import Any

import tensorflow as tf

from contract import features
from data_pipeline.batches import packing
from data_pipeline.text import wordpiece


def pack(tokenizer: Any, sources: tf.Tensor, max_source_length: int) -> Any:
    """[CLS] source [SEP] of texts [B]: results of packing.pack, and lengths uncut."""
    ids = tokenizer.tokenize(sources)
    tokens, lengths = packing.pack(
        ids, None, special=tokenizer, max_seq_length=max_source_length
    )
    return tokens, lengths, ids.row_lengths() + 2


def encode(
    tokenizer: Any, sources: tf.Tensor, max_source_length: int
) -> dict[str, tf.Tensor]:
    """The encoder's features of texts [B]: int32 [B, S], S of the longest, cut."""
    tokens, lengths, _ = pack(tokenizer, sources, max_source_length)
    return packing.pad(tokens, lengths)


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
