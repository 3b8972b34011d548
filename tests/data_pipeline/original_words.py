"""How google-research/bert cuts text into words, one character at a time.

And characters and lines on which whatever claims to do the same has to agree.
"""

import functools
import random
import unicodedata

CJK = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
# Everything that a string can hold and Unicode has named; private use is one class.
ASSIGNED = [
    chr(point)
    for point in range(0x110000)
    if unicodedata.category(chr(point)) not in ("Cn", "Cs", "Co")
] + ["\ue000", "\U0010fffd"]


@functools.cache
def _cleaned(char):
    """What a character of the raw text becomes before words are split."""
    category = unicodedata.category(char)
    if char in "\t\n\r" or category == "Zs":
        return " "
    if char in "\0\ufffd" or category in ("Cc", "Cf"):
        return ""
    is_cjk = any(first <= ord(char) <= last for first, last in CJK)
    return f" {char} " if is_cjk else char


@functools.cache
def _is_punctuation(char):
    if char.isascii():
        return char.isprintable() and not char.isalnum() and char != " "
    return unicodedata.category(char).startswith("P")


def reference_words(line, lower):
    line = line.decode("utf-8", "ignore") if isinstance(line, bytes) else line
    words = []
    for word in "".join(map(_cleaned, line)).split():
        if lower:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in word if unicodedata.category(c) != "Mn")
        words += "".join(f" {c} " if _is_punctuation(c) else c for c in word).split()
    return words


def random_lines(count, pools, seed):
    rng = random.Random(seed)
    return [
        "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(40)))
        for _ in range(count)
    ]


POOLS = (
    *("abcXYZ IJ", " \t\n\r\v\x1c\x85\xa0\u2003\u2028\u3000", ".,!-$+<=>^`|~_[]#“。"),
    *("ΑΒΣσςΆ\u0345\u0301İIı", "中文国龘𠀀豈", "한국글가", "ⅧⓐﬁßǅÅΩ"),
    *("\0\ufffd\xad\u200b\ufeff\u0600\x07", "\u1b44\u302e\u302f\U0001d165ไทยहिन्दी"),
    [chr(point) for point in range(0x300, 0x36F)],
    [chr(point) for point in range(0x400, 0x4FF)],
)
