"""How tags of words spell spans: BIO, BIOES, BILOU and BMES; or none does.

A tag is a letter, a hyphen and a type ("B-place"), the letter alone, or "O" for a word
outside all spans. Spans are read by the rule of conlleval, the script of the CoNLL
tasks: a word begins a span if its letter says so, or if the word before it is outside,
ends its span, or has another type. By this rule the tags of IOB1, with I where a span
begins, are tags of BIO that `respell` repairs. Plain Python.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from contract import errors

OUTSIDE = "O"
PLAIN = "plain"  # each tag for itself, such as parts of speech
# The letters of a word that begins a span, is inside it, ends it, and is a span alone;
# schemes of two letters do not mark the end.
_LETTERS = {
    "BIO": "BI",  # IOB2
    "BIOES": "BIES",
    "BILOU": "BILU",
    "BMES": "BMES",
}
SPAN_SCHEMES = tuple(_LETTERS)
SCHEMES = (*SPAN_SCHEMES, PLAIN)
_ROLES = "BIES"


class Span(NamedTuple):
    """Words start .. end - 1 of a sentence, which are one thing."""

    start: int
    end: int
    type: str  # "" where the tags do not say


@functools.lru_cache(maxsize=1 << 16)
def parse(tag: str, scheme: str) -> tuple[str, str]:
    """A word's role, a letter of "BIES" or "O", and the type of its span.

    Tags of another scheme raise ValueError.
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    letter, hyphen, span_type = tag.partition("-")
    place = _LETTERS[scheme].find(letter) if len(letter) == 1 else -1
    if place < 0 or bool(hyphen) != bool(span_type):
        letters = ", ".join(f"{known}-type" for known in _LETTERS[scheme])
        raise errors.InputError(
            f"tag {tag!r:.80} is not of the scheme {scheme} ({letters} or O); correct "
            "it, check --tag_column, or choose another --tag_scheme"
        )
    return _ROLES[place], span_type


def fits(tag: str, scheme: str) -> bool:
    """Whether a tag belongs to a scheme; every tag belongs to "plain"."""
    try:
        return scheme == PLAIN or bool(parse(tag, scheme))
    except ValueError:
        return False


def is_placeholder(tag: str) -> bool:
    """Whether a tag belongs to no scheme of spans, such as PAD in a list of tags."""
    return not any(fits(tag, scheme) for scheme in SPAN_SCHEMES)


def schemes_of(tags: Iterable[str]) -> list[str]:
    """The schemes of spans that all of these tags belong to."""
    tags = set(tags)
    return [s for s in SPAN_SCHEMES if all(fits(tag, s) for tag in tags)]


def types_of(tags: Iterable[str], scheme: str) -> set[str]:
    """The types of spans that tags name; none where the scheme is "plain"."""
    if scheme == PLAIN:
        return set()
    return {parse(tag, scheme)[1] for tag in set(tags) - {OUTSIDE}}


def all_tags(types: Iterable[str], scheme: str) -> tuple[str, ...]:
    """Every tag that a scheme of spans has for these types: "O", then sorted."""
    spelled = (
        f"{letter}-{span_type}" if span_type else letter
        for span_type in types
        for letter in _LETTERS[scheme]
    )
    return OUTSIDE, *sorted(spelled)


def find_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """The scheme of `SCHEMES` that all tags belong to; "plain" where no other does.

    Tags of several belong to the first of them.
    """
    names = {tag for tags in sentences for tag in tags} - {OUTSIDE}
    schemes = schemes_of(names) if names else []
    return schemes[0] if schemes else PLAIN


def spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """The spans of a sentence, in order; none where the scheme is "plain".

    Tags of another scheme raise ValueError.
    """
    found: list[Span] = []
    if scheme == PLAIN:
        return found
    start = -1  # of the span that is open
    role_before, type_before = OUTSIDE, ""
    for place, tag in enumerate(tags):
        role, span_type = parse(tag, scheme)
        begins = role in "BS" or (
            role != OUTSIDE and (role_before in "OES" or span_type != type_before)
        )
        if start >= 0 and (begins or role == OUTSIDE):
            found.append(Span(start, place, type_before))
            start = -1
        if begins:
            start = place
        role_before, type_before = role, span_type
    if start >= 0:
        found.append(Span(start, len(tags), type_before))
    return found


def tags_of(found: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Spells spans, which are in order and do not overlap, as a sentence's tags."""
    tags = [OUTSIDE] * length
    letters = _LETTERS[scheme]
    begin, inside = letters[0], letters[1]
    end, single = (letters[2], letters[3]) if len(letters) == 4 else (inside, begin)
    for span in found:
        spelled = [inside] * (span.end - span.start)
        spelled[-1] = end
        spelled[0] = single if len(spelled) == 1 else begin
        suffix = f"-{span.type}" if span.type else ""
        tags[span.start : span.end] = [letter + suffix for letter in spelled]
    return tags


def respell(tags: Sequence[str], scheme: str) -> list[str]:
    """Repairs tags that break their scheme, such as I where a span begins with B.

    The spans stay, and so do "plain" tags. Tags of another scheme raise ValueError.
    """
    if scheme == PLAIN:
        return list(tags)
    return tags_of(spans(tags, scheme), len(tags), scheme)
