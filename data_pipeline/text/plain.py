"""Text to words in plain Python, equal to those of `normalization`.

Differs from them: 20 letters of Unicode 16 (Todhri, Tulu-Tigalari, Gurung Khema, Kirat
Rai) keep their accents, and its punctuation ends a word of over 200 characters. A large
sigma beside letters or marks newer than Unicode 13 may take the other small form.
"""

import functools
import re
import unicodedata

from data_pipeline.text import normalization

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
_IDEOGRAPHS = re.sub(r"\\x{(\w+)}", lambda m: chr(int(m[1], 16)), normalization.CJK)
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")


class _Table(dict):
    """The replacements of str.translate, by a character and its class."""

    def __init__(self, replacement):
        self._replacement = replacement

    def __missing__(self, point: int) -> str:
        char = chr(point)
        name = _CLASS.get(point) or unicodedata.category(char)
        return self.setdefault(point, self._replacement(char, name))


def _clean(char, name):
    if char in "\t\n\r" or name[0] == "Z":
        return " "
    return "" if name in ("Cc", "Cf") or char == "\ufffd" else char


def _set_apart(splits_punctuation, isolates_cjk, char, name):
    is_mark = splits_punctuation and (name[0] == "P" or char in normalization.SIGNS)
    is_alone = is_mark or (isolates_cjk and _IDEOGRAPH.match(char))
    return f" {char} " if is_alone else char


@functools.cache
def _apart(splits_punctuation, isolates_cjk):
    return _Table(functools.partial(_set_apart, splits_punctuation, isolates_cjk))


_CLEAN = _Table(_clean)
_NO_MARKS = _Table(lambda char, name: "" if name == "Mn" else char)


def fold(text: str, rules: normalization.WordRules) -> str:
    """As normalization.fold."""
    text = text.translate(_CLEAN)
    if rules.lowers:
        text = text.lower()
    if not rules.strips_accents:
        return text
    return unicodedata.normalize("NFD", text).translate(_NO_MARKS)


def split(folded: str, rules: normalization.WordRules) -> list[str]:
    """The words of a text from `fold`."""
    table = _apart(rules.splits_punctuation, rules.isolates_cjk)
    return folded.translate(table).split()
