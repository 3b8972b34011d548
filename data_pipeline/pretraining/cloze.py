"""Texts with [MASK] to features, and logits to tokens, as TensorFlow operations.

Each [MASK] that stands in a text as written is the token; RoBERTa's <mask> takes the
whitespace before it.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from contract import errors, features
from data_pipeline.batches import packing
from data_pipeline.text import added_tokens, base, bpe_graph

_SPACES = rf"[{bpe_graph.ALL_WHITESPACE}]+"


class Clozes(NamedTuple):
    """B texts with K masks in all, and at most M in one text."""

    # input_ids, input_mask, segment_ids int32 [B, S], masked_lm_positions int32 [B, M]
    features: dict[str, tf.Tensor]
    texts: tf.Tensor  # string [B], as written, without bytes that are not UTF-8
    places: tf.Tensor  # int64 [K, 2], text of each mask and its number there
    byte_starts: tf.Tensor  # int32 [K], where it begins in the text
    starts: tf.Tensor  # int32 [K], the same in characters


def check(tokenizer: base.Tokenizer, top_k: int) -> None:
    """Refuses a vocabulary from which so many tokens cannot be chosen for a mask."""
    if tokenizer.mask_id is None:
        raise errors.InputError(
            f"the vocabulary of {tokenizer.vocab_size} tokens has no "
            f"{tokenizer.mask_token} to fill in; give the vocabulary of the checkpoint"
        )
    if top_k > tokenizer.vocab_size:
        raise errors.InputError(
            f"--top_k={top_k} exceeds the {tokenizer.vocab_size} tokens; lower it"
        )


def encoder(
    tokenizer: base.Tokenizer, max_seq_length: int, max_predictions: int
) -> Callable[[tf.Tensor], Clozes]:
    """A function of texts, string [B], that finds their masks.

    Masks beyond the length, or the first `max_predictions` of a text, are left out.
    """
    assert tokenizer.mask_id is not None  # as `check` has seen
    mask, mask_ids = tokenizer.mask_token, {tokenizer.mask_token: tokenizer.mask_id}

    def encode(texts):
        with tf.device("CPU:0"):  # where string operations are
            plain = texts = tf.strings.unicode_transcode(
                texts, "UTF-8", "UTF-8", errors="ignore"
            )
            if tokenizer.mask_takes_space:
                plain = tf.strings.regex_replace(texts, _SPACES + re.escape(mask), mask)
            tokens, lengths = packing.pack(
                added_tokens.tokenize(plain, mask_ids, tokenizer.tokenize),
                None,
                special=tokenizer,
                max_seq_length=max_seq_length,
            )
            positions = tf.ragged.boolean_mask(
                tf.ragged.range(tf.cast(tokens.row_lengths(), tf.int32)),
                tokens.with_values(tokens.values == tokenizer.mask_id),
            )[:, :max_predictions]  # [B, (M)]
            counts = positions.row_lengths()
            columns = positions.value_rowids(), tf.ragged.range(counts).values
            byte_starts, starts = _starts(texts, counts, mask)
            return Clozes(
                features={
                    **packing.pad(tokens, lengths),
                    features.MASKED_LM_POSITIONS: positions.to_tensor(0),
                },
                texts=texts,
                places=tf.stack(columns, axis=1),
                byte_starts=byte_starts,
                starts=starts,
            )

    return encode


def _starts(texts, counts, mask):
    """Where the first `counts` [B] masks of texts begin, in bytes and characters."""
    pieces = tf.strings.split(texts, mask)  # before, between and after masks
    before = pieces.row_starts()
    chosen = tf.ragged.range(before, before + counts)  # the piece before each mask

    def starts(unit):
        lengths = tf.strings.length(pieces.values, unit) + len(mask)
        ends = tf.concat([[0], tf.cumsum(lengths)], axis=0)  # of pieces and masks
        first = tf.gather(ends, tf.gather(before, chosen.value_rowids()))
        return tf.gather(ends, chosen.values + 1) - len(mask) - first

    return starts("BYTE"), starts("UTF8_CHAR")


def chooser(
    tokenizer: base.Tokenizer, top_k: int
) -> Callable[[Clozes, tf.Tensor], dict[str, tf.Tensor]]:
    """A function of clozes and their logits, float32 [B, M, V], to what fills them.

    It returns, the likeliest first, and "", 0 and -1 where a text has fewer masks:

    * tokens: string [B, M, k], as in the vocabulary.
    * probabilities: float32 [B, M, k], 0..1.
    * filled: string [B, M, k], the text with the token in place of this mask.
    * starts: int32 [B, M], where the mask begins, in characters of the text.
    """

    def choose(clozes, logits):
        # A network's table may have more rows than the vocabulary has entries.
        shares = tf.nn.softmax(tf.gather_nd(logits, clozes.places))[
            :, : tokenizer.vocab_size
        ]
        shares, ids = tf.math.top_k(shares, top_k)  # [K, k]
        with tf.device("CPU:0"):
            tokens = tf.gather(tf.constant(tokenizer.vocab), ids)
            words = tf.gather(tf.constant(tokenizer.spellings()), ids)
            shape = tf.shape(clozes.features[features.MASKED_LM_POSITIONS], tf.int64)
            shape_of_k = tf.concat([shape, [top_k]], axis=0)

            def grid(values, shape, padding):
                empty = tf.fill(shape, padding)
                return tf.tensor_scatter_nd_update(empty, clozes.places, values)

            return {
                "tokens": grid(tokens, shape_of_k, ""),
                "probabilities": grid(shares, shape_of_k, 0.0),
                "filled": grid(_filled(clozes, words, tokenizer), shape_of_k, ""),
                "starts": grid(clozes.starts, shape, -1),
            }

    return choose


def _filled(clozes, words, tokenizer):
    """Texts with one mask replaced by each of words [K, k]."""
    texts = tf.gather(clozes.texts, clozes.places[:, 0])  # [K]
    ends = clozes.byte_starts + len(tokenizer.mask_token)
    before = tf.strings.substr(texts, tf.zeros_like(ends), clozes.byte_starts)
    after = tf.strings.substr(texts, ends, tf.strings.length(texts) - ends)
    if tokenizer.mask_takes_space:
        before = tf.strings.regex_replace(before, f"{_SPACES}$", "")
    first, last = (
        tf.tile(side[:, tf.newaxis], [1, tf.shape(words)[1]])
        for side in (before, after)
    )
    filled = tf.strings.join([first, words, last])
    if tokenizer.mask_takes_space:
        filled = tf.strings.regex_replace(filled, "^ ", "")
    return filled
