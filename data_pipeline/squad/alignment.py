"""Finds the text of the context that predicted tokens came from.

Tokens are lower-cased, stripped of accents and cut at punctuation; an answer should
read as it was written. There are two aligners:

* `align` is the rule of google-research/bert: it searches the normalized span for the
  spelled prediction. Where that is not found (because of an [UNK]), or normalization
  changed the number of characters (combining accents), the whole span is the answer.
* `Offsets` knows where each part of a word lies and answers with whole parts: better
  for writing without spaces and for vocabularies that lack characters.

The *words* of a context are separated by whitespace (`doc_tokens` of the original); the
*parts* of a word are the input of the word-piece step: each punctuation mark and each
ideograph is one.
"""

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from data_pipeline.text import normalization
from data_pipeline.text.wordpiece import CONTINUATION


def split_all(
    texts: Iterable[str],
    do_lower_case: bool,
    split_words: Callable[[tf.Tensor], tf.RaggedTensor] | None = None,
) -> dict[str, list[str]]:
    """Maps each distinct text to its normalized parts; invalid UTF-8 has none.

    `split_words` is that of a tokenizer, which may have added tokens.
    Normalization never crosses whitespace: a span's parts are those of its words.

    Differs from google-research/bert: a part of more than 200 characters is left out,
    so that `align` answers with the whole span where only another part of the same word
    was predicted.
    """
    distinct = list(dict.fromkeys(texts))
    encoded = tf.constant([t.encode("utf-8", "ignore") for t in distinct], tf.string)
    if split_words is None:
        rows = normalization.split_words(encoded, do_lower_case).to_list()
    else:
        rows = split_words(encoded).to_list()
    return {
        text: [part.decode("utf-8") for part in row]
        for text, row in zip(distinct, rows, strict=True)
    }


def spell(tokens: Iterable[str]) -> str:
    """Joins word pieces to normalized text, with single spaces between the parts.

    A span may begin inside a word; its first piece loses its "##" as well.
    """
    joined = " ".join(tokens).replace(f" {CONTINUATION}", "").replace(CONTINUATION, "")
    return " ".join(joined.split())


def align(spelled: str, words: Sequence[str], parts: Mapping[str, list[str]]) -> str:
    """Finds the piece of a span that a prediction covers, as google-research/bert does.

    Takes the first occurrence of `spelled` (from `spell`) in the normalized span, and
    assumes that its n-th character other than space is the n-th of the span. Where
    that fails, the piece is the whole span, its words joined by spaces. `words` are the
    span's; `parts` come from `split_all`.
    """
    span = " ".join(words)
    normalized = " ".join(part for word in words for part in parts[word])
    start = normalized.find(spelled)
    if (
        start == -1
        or not spelled
        or len(_without_spaces(span)) != len(_without_spaces(normalized))
    ):
        logging.debug("unable to find text: %r in %r", spelled, span)
        return span
    before = len(_without_spaces(normalized[:start]))
    places = [place for place, char in enumerate(span) if char != " "]
    first, last = places[before], places[before + len(_without_spaces(spelled)) - 1]
    return span[first : last + 1]


def _without_spaces(text):
    return text.replace(" ", "")


class Offsets:
    """Where the parts of words lie, in characters of the words as they were written.

    How many characters one becomes by normalization does not depend on its neighbours
    (the two small sigmas are equally long), so each is measured once. `parts` comes
    from `split_all` with the same `do_lower_case`.
    """

    def __init__(self, parts: Mapping[str, list[str]], do_lower_case: bool):
        alone = split_all(itertools.chain.from_iterable(parts), do_lower_case)
        self._widths = {char: len("".join(row)) for char, row in alone.items()}
        self._parts = parts

    def of_word(self, word: str) -> list[tuple[int, int]]:
        """(start, end) of each part with its accents; [] where a part is too long."""
        # Normalized characters up to and including each written one.
        written = list(itertools.accumulate(self._widths[char] for char in word))
        ends = list(itertools.accumulate(map(len, self._parts[word])))
        if not ends or written[-1] != ends[-1]:
            return []
        return [
            (bisect.bisect_right(written, start), bisect.bisect_right(written, end))
            for start, end in itertools.pairwise([0, *ends])
        ]

    def text(self, words: Sequence[str], first: int, last: int) -> str:
        """The text from part `first` of the first word to part `last` of the last word.

        A word without known parts counts whole.
        """
        span = " ".join(words)
        starts, ends = self.of_word(words[0]), self.of_word(words[-1])
        end = ends[last][1] if last < len(ends) else len(words[-1])
        start = starts[first][0] if first < len(starts) else 0
        return span[start : len(span) - len(words[-1]) + end].strip()
