"""Tokens that were added to a vocabulary, found in text as TensorFlow operations.

As Hugging Face's tokenizers find them: anywhere, also within a word; the first one in
the text, and of several that begin there the longest. Spaces that belong to a token
count, and no other characters are skipped.
"""

import re
from collections.abc import Callable, Mapping

import tensorflow as tf

# Both are deleted from any text by normalization, so they can mean something else.
_MARK, _OTHER = "\x01", "\x02"


def tokenize(
    texts: tf.Tensor,
    tokens: Mapping[bytes, int],
    others: Callable[[tf.Tensor], tf.RaggedTensor],
    value: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = lambda found, ids: ids,
) -> tf.RaggedTensor:
    """Cuts texts [B] into the ids [B, (S)] of `tokens`, and of `others` between them.

    `others` makes [B', (S)] of the texts between. `value` makes what stands for each
    token found, from its text and id, both [F].
    """
    if not tokens:
        return others(texts)
    pieces, is_token = _split(texts, list(tokens))
    found = tf.boolean_mask(pieces.values, is_token)  # [F]
    distinct, index = tf.unique(found)  # [U], few
    equal = distinct[:, tf.newaxis] == tf.constant(list(tokens))  # [U, tokens]
    ids = tf.constant(list(tokens.values()), tf.int32)
    ids = tf.gather(tf.gather(ids, tf.argmax(equal, axis=1)), index)
    of_tokens = tf.RaggedTensor.from_row_lengths(
        value(found, ids), tf.cast(is_token, tf.int64)
    )
    between = others(tf.where(is_token, "", pieces.values))
    both = tf.concat([between, of_tokens], axis=1)  # one of the two is empty
    return tf.RaggedTensor.from_row_splits(
        both.values, tf.gather(both.row_splits, pieces.row_splits)
    )


def _split(texts, tokens):
    """Texts and tokens in turn, ragged [B, (P)], and which of them are tokens [P]."""
    longest_first = sorted(tokens, key=len, reverse=True)  # RE2 takes the first
    pattern = b"|".join(map(re.escape, longest_first))
    texts = tf.strings.regex_replace(texts, _MARK, _OTHER)
    texts = tf.strings.regex_replace(texts, pattern, rf"{_MARK}\0{_MARK}")
    pieces = tf.strings.split(texts, _MARK)
    place = tf.ragged.range(pieces.row_lengths()).values
    return pieces, place % 2 == 1
