"""Where the parts of words lie, a word at a time, to compare offsets.py with."""

import bisect
import itertools

from data_pipeline.squad import choice
from data_pipeline.text import wordpiece


class Offsets:
    """Parts of words, in characters of the words as they were written.

    How many characters one becomes by normalization does not depend on its neighbours
    (the two small sigmas are equally long), so each is measured once. `parts` comes
    from choice.split_all with the same tokenizer.
    """

    def __init__(self, parts, do_lower_case):
        vocab = ["[UNK]", "[CLS]", "[SEP]", "a"]
        plain = wordpiece.BertTokenizer(vocab, do_lower_case)
        alone = choice.split_all(itertools.chain.from_iterable(parts), plain)
        self._widths = {char: len("".join(row)) for char, row in alone.items()}
        self._parts = parts

    def of_word(self, word):
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

    def text(self, words, first, last):
        """The text from part `first` of the first word to part `last` of the last."""
        span = " ".join(words)
        starts, ends = self.of_word(words[0]), self.of_word(words[-1])
        end = ends[last][1] if last < len(ends) else len(words[-1])
        start = starts[first][0] if first < len(starts) else 0
        return span[start : len(span) - len(words[-1]) + end].strip()
