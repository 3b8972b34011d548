"""Words to windows, and logits to tags, as TensorFlow operations for serving.

The windows of training, without the context of documents, and the tags that
scores.decide decides on.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from contract import features
from data_pipeline.batches import packing
from data_pipeline.tagging import schemes
from data_pipeline.tagging import windows as sentence_windows
from data_pipeline.text import base


class WindowTensors(NamedTuple):
    """The N windows of B sentences with K words in all, in the sentences' order."""

    features: dict[str, tf.Tensor]  # int32 [N, S], S of the longest window
    outputs: tf.Tensor  # int64 [K, 2], window and place in it that predict each word
    words: tf.Tensor  # int64 [K, 2], sentence of each word and place in it
    shape: tf.Tensor  # int64 [2], B and W, the most words of a sentence


def encoder(
    tokenizer: base.Tokenizer, *, max_seq_length: int, stride: int = 0
) -> Callable[[tf.Tensor], WindowTensors]:
    """A function of words, string [B, W], "" being none, that cuts windows."""
    room, step = sentence_windows.limits(max_seq_length, stride)

    def encode(words):
        with tf.device("CPU:0"):
            places = tf.where(words != "")  # [K, 2]
            pieces = tokenizer.tokenize_words(tf.gather_nd(words, places))
            cut = sentence_windows.cut(pieces, places[:, 0], tokenizer, room, step)
            packed, columns = sentence_windows.pack(cut, tokenizer, max_seq_length)
            return WindowTensors(
                features=packing.at_least_one_column(packing.pad(*packed)),
                outputs=tf.stack([cut.chosen, columns], axis=1),
                words=places,
                shape=tf.shape(words, tf.int64),
            )

    return encode


def best_tags(logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """The likeliest tags of logits [..., C]: int32 "ids", float32 "probabilities"."""
    probabilities = tf.nn.softmax(logits)
    return {
        "ids": tf.argmax(probabilities, axis=-1, output_type=tf.int32),
        "probabilities": tf.reduce_max(probabilities, axis=-1),
    }


def chooser(
    tag_set: schemes.TagNames,
) -> Callable[[WindowTensors, tf.Tensor], dict[str, tf.Tensor]]:
    """Chooses tags as scores.decide does: the likeliest, repaired.

    Returns a function of windows and logits, float32 [N, S, C], to "tags", string [B,
    W], and "probabilities", float32 [B, W]; "" and 0 where no word is.
    """
    spell = _speller(tag_set)

    def choose(windows, logits):
        with tf.device("CPU:0"):
            best = best_tags(tf.gather_nd(logits, windows.outputs))  # [K]
            tags = spell(best["ids"], windows.words[:, 0])
            return {
                "tags": _grid(tags, windows),
                "probabilities": _grid(best["probabilities"], windows),
            }

    return choose


def _grid(values, windows):
    """[K] to [B, W], with "" or 0 where no word is."""
    empty = tf.zeros(windows.shape, values.dtype)
    return tf.tensor_scatter_nd_update(empty, windows.words, values)


def _speller(tag_set):
    """A function of ids int32 [K] and sentences int64 [K], as `TagNames.decode`."""
    if tag_set.scheme == schemes.PLAIN:
        return lambda ids, sentence: tf.gather(tag_set.names, ids)
    names = tag_set.output_names()
    parsed = [schemes.parse(name, tag_set.scheme) for name in names]
    types = sorted({span_type for _, span_type in parsed})
    spellings = [_spellings(span_type, tag_set.scheme) for span_type in types]
    type_index = [types.index(span_type) for _, span_type in parsed]

    def has_role(ids, roles):
        return tf.gather([role in roles for role, _ in parsed], ids)

    def spell(ids, sentence):
        is_inside = ~has_role(ids, schemes.OUTSIDE)
        word_types = tf.gather(type_index, ids)
        joins = sentence[1:] == sentence[:-1]
        joins &= (word_types[1:] == word_types[:-1]) & is_inside[1:] & is_inside[:-1]
        joins &= ~(has_role(ids[1:], "BS") | has_role(ids[:-1], "ES"))
        no_one = tf.zeros_like(is_inside[:1])  # before the first, after the last
        has_before = tf.concat([no_one, joins], axis=0)
        has_after = tf.concat([joins, no_one], axis=0)
        masks = [tf.cast(mask, features.INTEGER) for mask in (has_before, has_after)]
        spelled = tf.gather_nd(spellings, tf.stack([word_types, *masks], axis=1))
        return tf.where(is_inside, spelled, schemes.OUTSIDE)

    return spell


def _spellings(span_type, scheme):
    """How a span's word is spelled: [word before][word after]."""

    def spelled(length):
        return schemes.spell_spans([schemes.Span(0, length, span_type)], length, scheme)

    (single,), (first, inside, last) = spelled(1), spelled(3)
    return [[single, first], [last, inside]]
