"""Exact match and F1 of Chinese answers, as the script of CMRC 2018 counts them.

A segment is an ideograph, or what nltk cuts of the text between two: an English word, a
number or a sign. F1 counts the segments of the longest run that both answers have.
"""

import difflib
import re

# The script's list has …… as well, which is no single character and stays.
_DROPPED = "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
_NO_SIGNS = str.maketrans("", "", _DROPPED)
_IDEOGRAPH = re.compile("([一-龥])")  # U+4E00 to U+9FA5


def exact(gold: str, prediction: str) -> float:
    """1.0 where two answers are equal but for case and signs, else 0.0."""
    return float(normalize(gold) == normalize(prediction))


def normalize(text: str) -> str:
    """Reduces an answer to what is compared."""
    return text.lower().strip().translate(_NO_SIGNS)


def f1(gold: str, prediction: str) -> float:
    """Harmonic mean of precision and recall of the longest run of equal segments."""
    wanted, written = segments(gold), segments(prediction)
    matcher = difflib.SequenceMatcher(None, wanted, written, autojunk=False)
    common = matcher.find_longest_match().size
    if common == 0:
        return 0.0
    precision, recall = common / len(written), common / len(wanted)
    return (2 * precision * recall) / (precision + recall)


def segments(text: str) -> list[str]:
    """The segments of an answer, without signs."""
    import nltk  # of the extra chinese

    parts: list[str] = []
    for part in _IDEOGRAPH.split(normalize(text)):
        is_one = _IDEOGRAPH.fullmatch(part)
        parts += [part] if is_one else nltk.word_tokenize(part, preserve_line=True)
    return parts
