"""Text to word-piece ids in plain Python, equal to those of TensorFlow's operations.

What stands between whitespace is remembered with its ids: most of a text has been seen
before. Unlike there, 20 letters of Unicode 16 keep their accents, and its punctuation
ends a word of more than 200 characters. A capital sigma beside a letter or mark that is
newer than Unicode 13 may take the other small form.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from data_pipeline.text import added_tokens as matching
from data_pipeline.text import normalization

_REMEMBERED = 1 << 16  # runs of characters
_RUN = re.compile(r"[^\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# Of Unicode 14 and 15, and punctuation of 16: Python 3.10 has 13. U+1734 was Mn there.
_NEWER = {
    "Cf": "890-891 13439-1343F",
    "Mc": "1734",
    "Mn": "898-89F 8CA-8D2 C3C ECE 180F 1AC1-1ACE 1DFA 10EFD-10EFF 10F82-10F85 11070 "
    "11073-11074 110C2 11241 11F00-11F01 11F36-11F3A 11F40 11F42 13440 13447-13455 "
    "1CF00-1CF2D 1CF30-1CF46 1E08F 1E2AE 1E4EC-1E4EF",
    "P": "61D 1B4E-1B4F 1B7D-1B7F 2E53-2E5D 10D6E 10F86-10F89 113D4-113D5 113D7-113D8 "
    "116B9 11B00-11B09 11BE1 11F43-11F4F 12FF1-12FF2 16D6D-16D6F 1E5FF",
}
_CLASS = {
    point: name
    for name, blocks in _NEWER.items()
    for first, *last in (block.split("-") for block in blocks.split())
    for point in range(int(first, 16), int((last or [first])[0], 16) + 1)
}
# Python's expressions write a code point as it is.
_SIGNS = re.sub(r"\\x{(\w+)}", lambda m: chr(int(m[1], 16)), normalization.SIGNS)
_SIGN = re.compile(f"[{_SIGNS}]")


class _Table(dict):
    """What replaces a code point in str.translate, by the character and its class."""

    def __init__(self, replacement: Callable[[str, str], str]):
        self._replacement = replacement

    def __missing__(self, point: int) -> str:
        char = chr(point)
        name = _CLASS.get(point) or unicodedata.category(char)
        return self.setdefault(point, self._replacement(char, name))


def _clean(char, name):
    if char in "\t\n\r" or name[0] == "Z":
        return " "
    return "" if name in ("Cc", "Cf") or char == "\ufffd" else char


def _set_apart(char, name):
    return f" {char} " if name[0] == "P" or _SIGN.match(char) else char


_CLEAN, _APART = _Table(_clean), _Table(_set_apart)
_NO_MARKS = _Table(lambda char, name: "" if name == "Mn" else char)


def fold(text: str, do_lower_case: bool) -> str:
    """As normalization.fold; half a surrogate pair raises UnicodeEncodeError."""
    text.encode("utf-8")
    text = text.translate(_CLEAN)
    if not do_lower_case:
        return text
    return unicodedata.normalize("NFD", text.lower()).translate(_NO_MARKS)


def split(folded: str) -> list[str]:
    """The words of a text from `fold`: each punctuation mark and ideograph is one."""
    return folded.translate(_APART).split()


class WordPieces:
    """A function of a text to its ids, for a BertTokenizer.

    `entries` are its vocabulary, where those that text never becomes have brackets;
    `added` are {added token: id} as they stand in texts, and in texts from `fold`.
    """

    def __init__(
        self,
        entries: Sequence[str],
        continuation: str,
        unk_id: int,
        do_lower_case: bool,
        added: Sequence[Mapping[str, int]],
    ):
        self._ids = {entry: index for index, entry in enumerate(entries)}
        self._continuation, self._longest = continuation, max(map(len, entries))
        self._unknown, self._lowers = [unk_id], do_lower_case
        self._added = [(t, re.compile(f"({matching.pattern(t)})")) for t in added]
        self._run = functools.lru_cache(_REMEMBERED)(
            lambda run: self._cut(fold(run, self._lowers))
        )

    def __call__(self, text: str) -> list[int]:
        return self._between(0, text, self._outside)

    def _between(self, kind, text, cut):
        """Ids of the added tokens in a text, and what `cut` makes of all between."""
        tokens, pattern = self._added[kind]
        parts = enumerate(pattern.split(text) if tokens else [text])
        return [i for n, x in parts for i in ((tokens[x],) if n % 2 else cut(x))]

    def _outside(self, text):
        if self._added[1][0]:
            return self._between(1, fold(text, self._lowers), self._cut)
        return [i for run in _RUN.findall(text) for i in self._run(run)]

    def _cut(self, folded):
        return [i for word in split(folded) for i in self._spell(word)]

    def _spell(self, word):
        ids: list[int] = []
        begin, mark = 0, ""
        while begin < len(word) <= normalization.MAX_WORD_CHARS:
            for end in range(min(len(word), begin + self._longest), begin, -1):
                if (index := self._ids.get(mark + word[begin:end])) is not None:
                    break
            else:
                return self._unknown
            ids.append(index)
            begin, mark = end, self._continuation
        return ids or self._unknown
