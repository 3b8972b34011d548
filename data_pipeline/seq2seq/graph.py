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
    """The encoder's features of texts [B]: int32 [B, S], S of the longest.

    Longer sources are cut to `max_source_length` tokens, special ones included.
    """
    tokens, lengths, _ = pack(tokenizer, sources, max_source_length)
    return packing.pad(tokens, lengths)


def decode(tokenizer: Any, tokens: features.DecoderTokens, ids: tf.Tensor) -> tf.Tensor:
    """Detokenizes the ids of a decoder, int32 [B, N], after its start token.

    A text ends before the first end token, or before an id below 0, which stands for
    none; start and padding tokens leave no trace. Word pieces are joined to words, and
    a piece that continues a word is one where it comes first. Words, punctuation marks
    and ideographs have one space between them: how they stood in a text, and in
    uncased vocabularies its capitals and accents, is not in the ids. `spell` writes a
    text in this form.
    """
    with tf.device("CPU:0"):  # where string operations are
        is_over = tf.cumsum(tf.cast((ids == tokens.end) | (ids < 0), tf.int32), axis=1)
        is_text = (is_over == 0) & (ids != tokens.start) & (ids != tokens.padding)
        texts = tokenizer.decode_rows(tf.ragged.boolean_mask(ids, is_text))
        if isinstance(tokenizer, wordpiece.BertTokenizer):
            texts = tf.strings.regex_replace(texts, f"^{wordpiece.CONTINUATION}", "")
        return texts


def spell(tokenizer: Any, texts: tf.Tensor) -> tf.Tensor:
    """Texts [B] as `decode` writes them where every word is known: what is compared.

    A word that the vocabulary cannot spell stays as it is, and so never equals the
    [UNK] that stands for it in a prediction.
    """
    if not isinstance(tokenizer, wordpiece.BertTokenizer):
        return tf.convert_to_tensor(texts)
    with tf.device("CPU:0"):
        words = tokenizer.pretokenize(tf.convert_to_tensor(texts))
        return tf.strings.reduce_join(words, axis=-1, separator=" ")
