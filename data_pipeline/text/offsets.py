"""Contexts to tokens that know where they come from, as TensorFlow operations.

A token stands where its part of a word stands, which is what the word-piece step sees
as one word.
"""

from typing import NamedTuple

import tensorflow as tf

from data_pipeline.text import base, normalization

# What str.strip removes; Unicode has no whitespace beyond these.
WHITESPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))


class Contexts(NamedTuple):
    """The characters and tokens of B contexts, end to end."""

    points: tf.Tensor  # int32 [K], the characters, with a space after each context
    starts: tf.Tensor  # int64 [B], where each context begins in `points`
    # int32 [B, (T)], or int16 [B, (T), C]; each word is tokenized by itself
    ids: tf.RaggedTensor
    begins: tf.Tensor  # int64 [sum of T], in `points`, of the token's part of a word
    ends: tf.Tensor  # int64 [sum of T], one past the last character of that part


def tokenize(contexts, tokenizer: base.Tokenizer) -> Contexts:
    """Tokenizes the words of contexts [B], and finds where each token comes from."""
    rows = _characters(contexts)
    points = rows.values  # [K]
    is_ink = ~_is_any(points, normalization.CONTEXT_WHITESPACE)
    before = tf.concat([[False], is_ink[:-1]], axis=0)
    word_starts = tf.where(is_ink & ~before)[:, 0]  # [W]
    word_ends = tf.where(~is_ink & before)[:, 0]
    words = tf.strings.unicode_encode(
        tf.RaggedTensor.from_row_lengths(points[is_ink], word_ends - word_starts),
        "UTF-8",
    )
    tokens = tokenizer.tokenize_inside(words)  # [W, (T)]
    begins, ends = _places(points, words, word_starts, word_ends, tokens, tokenizer)
    owner = tf.gather(rows.value_rowids(), word_starts)
    return Contexts(
        points=points,
        starts=rows.row_starts(),
        ids=tf.RaggedTensor.from_value_rowids(
            tokens.values, tf.gather(owner, tokens.value_rowids()), rows.nrows()
        ),
        begins=begins,
        ends=ends,
    )


def split_words(
    text: tf.Tensor, rules: normalization.WordRules = normalization.CASED
) -> dict[str, tf.Tensor]:
    """Splits texts [B], UTF-8, at whitespace, and before and after punctuation.

    As in a tokenizer with these rules, each punctuation mark, symbol and Chinese
    character is a word; invalid bytes are ignored.

    Returns:
        [B, W] each: words, string as written, padded with ""; starts and ends, int32,
        the characters of a word in the text, padded with -1.
    """
    with tf.device("CPU:0"):  # where string operations are
        rows = _characters(text)
        points = rows.values
        is_word = ~is_whitespace(points)
        distinct, index = tf.unique(points)
        letters = tf.strings.unicode_encode(distinct[:, tf.newaxis], "UTF-8")
        is_alone = tf.gather(normalization.stands_alone(letters, rules), index)
        is_edge = ~is_word | is_alone  # no word goes on across such a character
        before = tf.concat([[True], is_edge[:-1]], axis=0)
        after = tf.concat([is_edge[1:], [True]], axis=0)
        starts = tf.where(is_word & (is_alone | before))[:, 0]
        ends = tf.where(is_word & (is_alone | after))[:, 0] + 1
        words = tf.strings.unicode_encode(
            tf.RaggedTensor.from_row_lengths(points[is_word], ends - starts), "UTF-8"
        )
        text_index = tf.gather(rows.value_rowids(), starts)
        shift = tf.gather(rows.row_starts(), text_index)

        def grid(values, padding):
            words = tf.RaggedTensor.from_value_rowids(values, text_index, rows.nrows())
            return words.to_tensor(padding)

        return {
            "words": grid(words, ""),
            "starts": grid(tf.cast(starts - shift, tf.int32), -1),
            "ends": grid(tf.cast(ends - shift, tf.int32), -1),
        }


def _characters(texts):
    """Those of texts [B], with a space behind, so that no word goes on in the next."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
    return tf.strings.unicode_decode(tf.strings.join([texts, " "]), "UTF-8")


def is_whitespace(points):
    """Whether each of int32 [K] is what str.strip removes; bool [K]."""
    return _is_any(points, WHITESPACE)


def _places(points, words, word_starts, word_ends, tokens, tokenizer):
    """Begins and ends as in `Contexts`, without whitespace.

    Where normalized and written characters of a word differ in number, its parts are
    unknown and the whole word counts.
    """
    parts = tokenizer.pretokenize(words)  # [W, (parts)]
    spelled = _sums(tf.strings.length(parts.values, "UTF8_CHAR"))
    written = _sums(_widths(points, tokenizer.rules))  # [K + 1]
    spelled_splits = tf.gather(spelled, parts.row_splits)  # [W + 1]
    shift = tf.gather(written, word_starts)
    is_known = tf.gather(written, word_ends) - shift == (
        spelled_splits[1:] - spelled_splits[:-1]
    )
    shift -= spelled_splits[:-1]

    word = tokens.value_rowids()  # [T], and so is all that follows
    begun = tf.cumsum(tf.cast(tokenizer.starts_pretoken(tokens.values), tf.int64))
    part = begun - tf.gather(begun, tf.gather(tokens.row_starts(), word))
    is_known = tf.gather(is_known, word) & (part < tf.gather(parts.row_lengths(), word))
    part = tf.where(is_known, part + tf.gather(parts.row_starts(), word), 0)
    start = tf.gather(spelled, part) + tf.gather(shift, word)
    end = tf.gather(spelled, tf.where(is_known, part + 1, 0)) + tf.gather(shift, word)
    word_ends = tf.gather(word_ends, word)
    begins = tf.searchsorted(written[1:], start, "right", tf.int64)
    begins = tf.where(is_known, begins, tf.gather(word_starts, word))
    ends = tf.searchsorted(written[1:], end, "right", tf.int64)
    ends = tf.where(is_known, tf.minimum(ends, word_ends), word_ends)

    is_ink = ~is_whitespace(points)
    ink = tf.where(is_ink)[:, 0]
    inks = _sums(is_ink)
    begins = tf.gather(ink, tf.gather(inks, begins))
    return begins, tf.gather(ink, tf.gather(inks, ends) - 1) + 1


def _widths(points, rules):
    """How many characters each becomes when it is normalized; int32 [K]."""
    distinct, index = tf.unique(points)
    letters = tf.strings.unicode_encode(distinct[:, tf.newaxis], "UTF-8")
    alone = normalization.split_words(letters, rules)
    joined = tf.strings.reduce_join(alone, axis=-1)
    return tf.gather(tf.strings.length(joined, "UTF8_CHAR"), index)


def _is_any(points, characters: str):
    wanted = tf.constant([ord(character) for character in characters])
    return tf.reduce_any(points[:, tf.newaxis] == wanted, axis=1)


def _sums(counts):
    """[K] to int64 [K + 1], the sums of the first 0, 1, ... K of them."""
    return tf.concat([[0], tf.cumsum(tf.cast(counts, tf.int64))], axis=0)
