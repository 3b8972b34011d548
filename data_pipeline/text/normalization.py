"""Cleans text and splits it into words, as google-research/bert does for word pieces.

These are steps 1 to 3 of `data_pipeline/text/wordpiece.py`, as TensorFlow
operations. Lines that steps 1 and 2 cannot change, most lines of English text, skip
them: only their ASCII letters are lower-cased.

TensorFlow's tables are those of Unicode 13 (lower-casing, corrected below), 15
(classes) and 16 (NFD, punctuation). So 78 code points that Python 3.11 (Unicode 14)
does not assign come out differently, and none that it assigns; a capital sigma beside a
letter or mark that is newer than Unicode 13 may take the other small form.
"""

from __future__ import annotations

from typing import NamedTuple

from contract.tensorflow_later import text, tf

MAX_WORD_CHARS = 200  # of the original's WordpieceTokenizer; longer words are [UNK]
MAX_WORD_BYTES = 4 * MAX_WORD_CHARS  # UTF-8 needs up to four bytes for a character
# All that separates the words of a SQuAD context and of a text to tag: U+00A0, for one,
# is part of a word there, though the tokenizer splits at it.
CONTEXT_WHITESPACE = " \t\r\n\u202f"

# The patterns are RE2's, which takes a repetition of at most 1,000.
_ASCII_SEPARATORS = r"\t\n\r -/:-@\[-`{-~"
CJK = (
    r"\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{20000}-\x{2a6df}\x{2a700}-\x{2b73f}"
    r"\x{2b740}-\x{2b81f}\x{2b820}-\x{2ceaf}\x{f900}-\x{faff}\x{2f800}-\x{2fa1f}"
)
# Lines for which steps 1 and 2 come down to ASCII, and which have no long word.
_PLAIN = (
    rf"(?:[0-9A-Za-z]{{0,{MAX_WORD_CHARS}}}[{_ASCII_SEPARATORS}])*"
    rf"[0-9A-Za-z]{{0,{MAX_WORD_CHARS}}}"
)
_DELETED = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\x{fffd}\p{Cf}"
SIGNS = "$+<=>^`|~"
# Punctuation of Unicode 16, which RE2 does not know and the word-piece operation does.
_NEW_MARKS = (
    r"\x{1b4e}\x{1b4f}\x{1b7f}\x{10d6e}\x{113d4}\x{113d5}\x{113d7}\x{113d8}"
    r"\x{11be1}\x{16d6d}-\x{16d6f}\x{1e5ff}"
)
# Finds every long word, and some runs of short ones, at a fraction of the cost of
# splitting into words: only frequent separators are listed.
_LONG_RUN = (
    rf"(?s).*[^{_ASCII_SEPARATORS}\x{{3000}}-\x{{303f}}\x{{4e00}}-\x{{9fff}}"
    rf"\x{{ff01}}-\x{{ff0f}}]{{{MAX_WORD_CHARS + 1}}}.*"
)
_TOO_LONG = "x" * (MAX_WORD_BYTES + 1)
# How words are found: as in files of tokenised sentences, or as BERT finds them.
WHITESPACE, PUNCTUATION = SPLITS = "whitespace", "punctuation"


class WordRules(NamedTuple):
    """How a text becomes the words that are cut into word pieces."""

    lowers: bool
    strips_accents: bool  # in google-research/bert, where `lowers`, and only there
    isolates_cjk: bool = True  # each ideograph is a word
    splits_punctuation: bool = True  # each mark is a word; False: as other characters

    @classmethod
    def usual(cls, do_lower_case: bool) -> WordRules:
        """The rules of google-research/bert."""
        return cls(do_lower_case, do_lower_case)

    @property
    def split_as_usual(self) -> bool:
        """Whether words end where they do in google-research/bert."""
        return self.isolates_cjk and self.splits_punctuation

    @property
    def lone(self) -> str:
        """The characters of an expression that are always words of their own."""
        if not self.splits_punctuation:
            return CJK if self.isolates_cjk else ""
        return rf"\p{{P}}{SIGNS}" + (CJK if self.isolates_cjk else _NEW_MARKS)


CASED, UNCASED = map(WordRules.usual, (False, True))

# Where Unicode 14 to 17 put new capitals, which TensorFlow does not lower-case.
_NEW_CAPITAL_BLOCKS = (
    range(0x1C89, 0x1C8A),
    range(0x2C2F, 0x2C30),
    range(0xA7C0, 0xA7F2),
    range(0x10570, 0x10596),
    range(0x10D50, 0x10D66),
    range(0x16EA0, 0x16EB9),
)
_NEW_CAPITALS = [
    point for block in _NEW_CAPITAL_BLOCKS for point in block if chr(point).isupper()
]
_NEW_CAPITAL = "".join(rf"\x{{{point:x}}}" for point in _NEW_CAPITALS)
# Lines that `_clean` leaves alone. Excluding the surrogates makes RE2 strict: its "any
# character" also matches bytes that are not UTF-8.
_CLEAN = rf"[^{_DELETED}{_NEW_CAPITAL}\x{{d800}}-\x{{dfff}}]*"


def normalize(texts: tf.Tensor, rules: WordRules) -> tf.Tensor:
    """Cleans texts [B], lower-cases them and strips accents, as the rules are.

    Bytes that are not UTF-8 are ignored. The word-piece operation counts only bytes, so
    a word of more than MAX_WORD_CHARS characters gets more than MAX_WORD_BYTES bytes.
    """
    if not rules.split_as_usual:
        return hide_long_words(fold(texts, rules), rules)
    if rules.lowers:
        # First, because the UTF-8 lower-casing below depends on the user's locale: a
        # Turkish one turns "I" into a dotless i.
        texts = tf.strings.lower(texts)
    is_plain = tf.strings.regex_full_match(texts, _PLAIN)
    return _rewrite(_normalize, texts, ~is_plain, rules)


def fold(texts: tf.Tensor, rules: WordRules) -> tf.Tensor:
    """`normalize` without its care for long words, and with all whitespace a space."""
    if rules.lowers:
        texts = tf.strings.lower(texts)
    is_plain = tf.strings.regex_full_match(texts, _PLAIN)
    texts = _rewrite(_fold, texts, ~is_plain, rules)
    return tf.strings.regex_replace(texts, r"[\t\n\r\p{Z}]", " ")


def lower(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases each character of clean texts [B] by itself, sigma too."""
    texts = tf.strings.regex_replace(tf.strings.lower(texts), "Σ", "σ")
    return tf.strings.lower(_lower_new_capitals(texts), encoding="utf-8")


def hide_long_words(texts: tf.Tensor, rules: WordRules) -> tf.Tensor:
    """The rest of `normalize`, for texts [B] from `fold`."""
    if not rules.split_as_usual:  # the expression lists where words end as usual
        return _hide_long_words(texts, rules)
    has_long_run = tf.strings.regex_full_match(texts, _LONG_RUN)
    return _rewrite(_hide_long_words, texts, has_long_run, rules)


def split_words(texts: tf.Tensor, rules: WordRules) -> tf.RaggedTensor:
    """Splits texts [B] into the words [B, (W)] that `BertTokenizer` spells with pieces.

    Words of more than MAX_WORD_CHARS characters, and bytes that are not UTF-8, are left
    out.
    """
    return split_normalized(normalize(texts, rules), rules)


def split_normalized(normalized: tf.Tensor, rules: WordRules) -> tf.RaggedTensor:
    """The words [B, (W)] of texts [B] from `normalize`; see `split_words`."""
    words = split(normalized, rules)
    return tf.ragged.boolean_mask(words, tf.strings.length(words) <= MAX_WORD_BYTES)


def stands_alone(characters: tf.Tensor, rules: WordRules) -> tf.Tensor:
    """Whether each of [B] characters is always a word of its own: punctuation, CJK."""
    pattern = f"[{rules.lone}]" if rules.lone else r"[^\x00-\x{10ffff}]"
    return tf.strings.regex_full_match(characters, pattern)


def _normalize(texts, rules):
    """Steps 1 and 2, for texts that are not plain ASCII, and hides long words."""
    return hide_long_words(_fold(texts, rules), rules)


def _fold(texts, rules):
    is_clean = tf.strings.regex_full_match(texts, _CLEAN)
    texts = _rewrite(_clean, texts, ~is_clean, rules.lowers)
    if rules.lowers:
        texts = tf.strings.lower(texts, encoding="utf-8")
    if rules.strips_accents:
        texts = text.normalize_utf8(texts, "NFD")
        texts = tf.strings.regex_replace(texts, r"\p{Mn}+", "")
    return texts


def _clean(texts, do_lower_case):
    """Step 1, and lower-cases the capitals that TensorFlow does not know."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
    texts = tf.strings.regex_replace(texts, f"[{_DELETED}]+", "")
    if not do_lower_case:
        return texts
    has_new = tf.strings.regex_full_match(texts, f"(?s).*[{_NEW_CAPITAL}].*")
    return _rewrite(_lower_new_capitals, texts, has_new)


def _lower_new_capitals(texts):
    points = tf.strings.unicode_decode(texts, "UTF-8")
    capitals = tf.constant(_NEW_CAPITALS)
    lowered = tf.constant([ord(chr(point).lower()) for point in _NEW_CAPITALS])
    values = points.flat_values
    nearest = tf.minimum(tf.searchsorted(capitals, values), len(_NEW_CAPITALS) - 1)
    is_capital = tf.gather(capitals, nearest) == values
    values = tf.where(is_capital, tf.gather(lowered, nearest), values)
    return tf.strings.unicode_encode(points.with_flat_values(values), "UTF-8")


def _hide_long_words(texts, rules):
    """Replaces words of too many characters by one of too many bytes, an [UNK]."""
    words = split(texts, rules)
    length = tf.strings.length(words.flat_values, unit="UTF8_CHAR")
    kept = tf.where(length > MAX_WORD_CHARS, _TOO_LONG, words.flat_values)
    return tf.strings.reduce_join(words.with_flat_values(kept), axis=-1, separator=" ")


def split(texts: tf.Tensor, rules: WordRules) -> tf.RaggedTensor:
    """Step 3, as the word-piece operation does the usual one too: [B] to [B, (W)]."""
    texts = tf.strings.regex_replace(texts, r"\p{Z}", " ")
    if rules.lone:
        texts = tf.strings.regex_replace(texts, f"[{rules.lone}]", r" \0 ")
    return tf.strings.split(texts)


def _rewrite(function, texts, is_chosen, *arguments):
    """Applies function(texts, *arguments) to the chosen rows of texts [B], if any."""

    def rewritten():
        rows = tf.where(is_chosen)
        changed = function(tf.gather_nd(texts, rows), *arguments)
        return tf.tensor_scatter_nd_update(texts, rows, changed)

    return tf.cond(tf.reduce_any(is_chosen), rewritten, lambda: texts)
