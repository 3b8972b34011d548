"""From predicted tokens back to the text of the context that they came from.

Tokens are normalized: lower-cased, without accents, cut at punctuation. An answer
should read as it was written. Two aligners see to that:

* `align` is the rule of google-research/bert. It looks for the spelled prediction in
  the normalized span. Where it is not there (because of an [UNK]), or where characters
  were lost or won on the way (accents of their own), the whole span is the answer.
* `Offsets` knows where each part of a word lies, whatever it was spelled with, and
  answers with whole parts. It is the better one for writing without spaces, whose
  spans are whole sentences, and for vocabularies that lack characters.

"Words" of a context are what white space separates, `doc_tokens` of the original; its
"parts" are the words that the word-piece step sees: each punctuation mark and each
ideograph is one.
"""

import bisect
import itertools
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from data_pipeline.text import normalization
from data_pipeline.text.tokenization import CONTINUATION


def split_all(texts: Iterable[str], do_lower_case: bool) -> dict[str, list[str]]:
    """Maps each text to its parts, normalized.

    All distinct texts go through `normalization.split_words` at once. Since that rule
    never looks beyond white space, the parts of a span are those of its words.

    Differs from google-research/bert: a part of more than 200 characters is left out,
    so that `align` answers with the whole span where only another part of the same word
    was predicted.

    Args:
        texts: words of contexts; each may come many times. What cannot be UTF-8 (half
            of a surrogate pair) has no part.
        do_lower_case: whether the model is uncased.
    """
    distinct = list(dict.fromkeys(texts))
    encoded = tf.constant([t.encode("utf-8", "ignore") for t in distinct], tf.string)
    rows = normalization.split_words(encoded, do_lower_case).to_list()
    return {
        text: [part.decode("utf-8") for part in row]
        for text, row in zip(distinct, rows, strict=True)
    }


def spell(tokens: Iterable[str]) -> str:
    """Word pieces to normalized text, with single spaces between the parts.

    A span may begin inside a word; its first piece loses its mark as well.
    """
    joined = " ".join(tokens).replace(f" {CONTINUATION}", "").replace(CONTINUATION, "")
    return " ".join(joined.split())


def align(spelled: str, words: Sequence[str], parts: Mapping[str, list[str]]) -> str:
    """The stretch of a span that a prediction covers, as google-research/bert finds it.

    The prediction is looked for in the normalized span, and its first occurrence is
    taken. The n-th character of the normalized span that is not a space must then be
    the n-th one of the span; it is assumed to be where both have equally many.

    Args:
        spelled: the prediction, of `spell`.
        words: of the context, from the one of the first token to that of the last.
        parts: of `split_all`, holding all of `words`.

    Returns:
        A part of the words joined by spaces; all of it where the rule fails.
    """
    span = " ".join(words)
    normalized = " ".join(part for word in words for part in parts[word])
    start = normalized.find(spelled)
    if start == -1 or not spelled or len(_ink(span)) != len(_ink(normalized)):
        logging.debug("unable to find text: %r in %r", spelled, span)
        return span
    before = len(_ink(normalized[:start]))
    places = [place for place, char in enumerate(span) if char != " "]
    first, last = places[before], places[before + len(_ink(spelled)) - 1]
    return span[first : last + 1]


def _ink(text):
    return text.replace(" ", "")


class Offsets:
    """Where the parts of words lie, in characters of the words as they were written.

    What normalization makes of a character does not depend on its neighbours, but for
    the small forms of sigma, which are equally long. So it is enough to know how many
    characters each distinct one becomes.

    Args:
        parts: of `split_all`, for every word that will be asked for.
        do_lower_case: as given to `split_all`.
    """

    def __init__(self, parts: Mapping[str, list[str]], do_lower_case: bool):
        alone = split_all(itertools.chain.from_iterable(parts), do_lower_case)
        self._widths = {char: len("".join(row)) for char, row in alone.items()}
        self._parts = parts

    def of_word(self, word: str) -> list[tuple[int, int]]:
        """(start, end) of each part; [] where a part is too long to be known.

        Accents that the normalized part lost belong to it nevertheless.
        """
        # Number of normalized characters up to and with each written one.
        written = list(itertools.accumulate(self._widths[char] for char in word))
        ends = list(itertools.accumulate(map(len, self._parts[word])))
        if not ends or written[-1] != ends[-1]:
            return []
        return [
            (bisect.bisect_right(written, start), bisect.bisect_right(written, end))
            for start, end in itertools.pairwise([0, *ends])
        ]

    def text(self, words: Sequence[str], first: int, last: int) -> str:
        """The text from one part to another.

        Args:
            words: of the context, from the one of the first token to that of the last.
            first: which part of the first word the answer begins with.
            last: which part of the last word it ends with.

        Returns:
            A part of the words joined by spaces. Of a word whose parts are not known,
            all.
        """
        span = " ".join(words)
        starts, ends = self.of_word(words[0]), self.of_word(words[-1])
        end = ends[last][1] if last < len(ends) else len(words[-1])
        start = starts[first][0] if first < len(starts) else 0
        return span[start : len(span) - len(words[-1]) + end].strip()
