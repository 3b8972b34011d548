"""Finds the text of the context that predicted tokens came from.

Tokens are normalized; an answer should read as it was written. This is the rule of
google-research/bert; the aligner "words" of choice.py cuts by text/offsets.py instead.

The *words* of a context are separated by whitespace (`doc_tokens` of the original); the
*parts* of a word are the input of the word-piece step: each punctuation mark and each
ideograph is one.
"""

from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from data_pipeline.text import base, wordpiece


def split_all(texts: Iterable[str], tokenizer: base.Tokenizer) -> dict[str, list[str]]:
    """Maps each distinct text to its normalized parts; invalid UTF-8 has none.

    Normalization never crosses whitespace: a span's parts are those of its words.

    Differs from google-research/bert: a part of more than 200 characters is left out,
    so that `align` answers with the whole span where only another part of the same word
    was predicted.
    """
    distinct = list(dict.fromkeys(texts))
    encoded = tf.constant([t.encode("utf-8", "ignore") for t in distinct], tf.string)
    rows = tokenizer.pretokenize(encoded).to_list()
    return {
        text: [part.decode("utf-8") for part in row]
        for text, row in zip(distinct, rows, strict=True)
    }


def spell(tokens: Iterable[str]) -> str:
    """Joins word pieces to normalized text, with single spaces between the parts."""
    mark = wordpiece.CONTINUATION
    joined = " ".join(tokens).replace(f" {mark}", "").replace(mark, "")
    return " ".join(joined.split())


def align(spelled: str, words: Sequence[str], parts: Mapping[str, list[str]]) -> str:
    """Finds the piece of a span that a prediction covers, as google-research/bert does.

    Takes the first occurrence of `spelled` (from `spell`) in the normalized span of
    `words`, and assumes that its n-th character other than space is the n-th of the
    span. Where that fails ([UNK], combining accents), the piece is the whole span.
    """
    span = " ".join(words)
    normalized = " ".join(part for word in words for part in parts[word])
    start = normalized.find(spelled)
    has_places = len(_without_spaces(span)) == len(_without_spaces(normalized))
    if start == -1 or not spelled or not has_places:
        logging.debug("unable to find text: %r in %r", spelled, span)
        return span
    before = len(_without_spaces(normalized[:start]))
    places = [place for place, char in enumerate(span) if char != " "]
    first, last = places[before], places[before + len(_without_spaces(spelled)) - 1]
    return span[first : last + 1]


def _without_spaces(text):
    return text.replace(" ", "")
