"""Tags of words, and how they spell spans: BIO, BIOES, BILOU and BMES; or plain tags.

A tag is a letter, a hyphen and a type ("B-place"), the letter alone, or "O" outside all
spans. Spans are read by the rule of conlleval, the script of the CoNLL tasks: a word
begins a span if its letter does, or if the word before it is outside, ends its span, or
has another type. So the tags of IOB1 are tags of BIO that `respell` repairs.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from contract import errors, features, wording
from data_pipeline import label_maps
from data_pipeline.tables import label_files

OUTSIDE = "O"
PLAIN = "plain"  # each tag for itself, such as parts of speech
# The letters of a word that begins a span, is inside it, ends it, and is a span alone;
# BIO (IOB2) does not mark the end.
_LETTERS = {"BIO": "BI", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}
SPAN_SCHEMES = tuple(_LETTERS)
SCHEMES = (*SPAN_SCHEMES, PLAIN)
_ROLES = "BIES"


class Span(NamedTuple):
    """Words start .. end - 1 of a sentence, which are one thing."""

    start: int
    end: int
    type: str  # "" where the tags have none


@functools.lru_cache(maxsize=1 << 16)
def parse(tag: str, scheme: str) -> tuple[str, str]:
    """A word's role, a letter of "BIES" or "O", and the type of its span."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    letter, hyphen, span_type = tag.partition("-")
    place = _LETTERS[scheme].find(letter) if len(letter) == 1 else -1
    if place < 0 or bool(hyphen) != bool(span_type):
        letters = ", ".join(f"{known}-type" for known in _LETTERS[scheme])
        raise errors.InputError(
            f"tag {tag!r:.80} is not of the scheme {scheme} ({letters} or O); check "
            "--tag_column and --tag_scheme"
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
    """The first of `SCHEMES` that all tags belong to; "plain" where no other does."""
    names = {tag for tags in sentences for tag in tags} - {OUTSIDE}
    if not names:
        return PLAIN
    return next(s for s in SCHEMES if all(fits(name, s) for name in names))


# A tag as other programs spell it: B_ORG, b-org, ORG-B.
_LETTER_FIRST = re.compile("([BIESLUM])[-_](.+)", re.IGNORECASE)
_LETTER_LAST = re.compile("(.+)[-_]([BIESLUM])", re.IGNORECASE)


def _usual_spelling(tag: str) -> str:
    if match := _LETTER_FIRST.fullmatch(tag):
        return f"{match[1].upper()}-{match[2]}"
    match = _LETTER_LAST.fullmatch(tag)
    return f"{match[2].upper()}-{match[1]}" if match else tag


def odd_tags(counts: Mapping[str, int]) -> tuple[str, list[str]]:
    """The scheme that most words' tags mean, and the tags that are not of it.

    `counts` are those of each tag; ("", []) where most mean none. The commonest other
    tag may stand for "O", and does not count.
    """
    spelled = {tag: _usual_spelling(tag) for tag in counts if tag != OUTSIDE}
    # Letters alone may be parts of speech, unless nearly all fit.
    is_typed = any("-" in tag for tag in spelled.values())
    shares = []
    for scheme in SPAN_SCHEMES:
        others = [counts[tag] for tag in spelled if not fits(spelled[tag], scheme)]
        meant = sum(counts[tag] for tag in spelled) - sum(others)
        margin = sum(others) - max(others, default=0) if is_typed else 20 * sum(others)
        shares.append((meant - margin, scheme))
    most, scheme = max(shares, key=lambda share: share[0])
    odd = [tag for tag in spelled if not fits(tag, scheme)]
    return (scheme, odd) if most > 0 else ("", [])


def spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """The spans of a sentence, in order; none where the scheme is "plain"."""
    if scheme == PLAIN:
        return []
    closed: list[Span] = []
    start = -1  # of the span that is open
    role_before, type_before = OUTSIDE, ""
    for place, tag in enumerate(tags):
        role, span_type = parse(tag, scheme)
        begins = role in "BS" or (
            role != OUTSIDE and (role_before in "OES" or span_type != type_before)
        )
        if start >= 0 and (begins or role == OUTSIDE):
            closed.append(Span(start, place, type_before))
            start = -1
        if begins:
            start = place
        role_before, type_before = role, span_type
    if start >= 0:
        closed.append(Span(start, len(tags), type_before))
    return closed


def spell_spans(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Spells spans, which are in order and do not overlap, as a sentence's tags."""
    tags = [OUTSIDE] * length
    letters = _LETTERS[scheme]
    begin, inside = letters[0], letters[1]
    end, single = (letters[2], letters[3]) if len(letters) == 4 else (inside, begin)
    for span in spans:
        spelled = [inside] * (span.end - span.start)
        spelled[-1] = end
        spelled[0] = single if len(spelled) == 1 else begin
        suffix = f"-{span.type}" if span.type else ""
        tags[span.start : span.end] = [letter + suffix for letter in spelled]
    return tags


def respell(tags: Sequence[str], scheme: str) -> list[str]:
    """Repairs tags that break their scheme, such as I where a span begins with B."""
    if scheme == PLAIN:
        return list(tags)
    return spell_spans(spans(tags, scheme), len(tags), scheme)


@dataclasses.dataclass(frozen=True)
class TagNames:
    """The C tags that a tagger predicts, in the order of their ids.

    Lists of other programs may begin with PAD and UNK. Such placeholders keep their
    ids; where one is predicted, "O" is written.
    """

    names: tuple[str, ...]
    scheme: str

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise errors.InputError(
                f"--tag_scheme={self.scheme} is not one of {', '.join(SCHEMES)}"
            )
        placeholders = self.placeholders()
        if len(self.names) - len(placeholders) < 2:
            raise errors.InputError(
                f"a tagger needs 2 tags or more, not {wording.listing(self.names)}; "
                "check --tag_column and --labels"
            )
        label_files.check_distinct(self.names, "tag")
        if self.scheme != PLAIN:
            for name in self.names:
                if name not in placeholders:
                    parse(name, self.scheme)

    @property
    def num_outputs(self) -> int:
        return len(self.names)

    @property
    def settings(self) -> dict[str, str]:
        """What label_map.json has beside the names."""
        return {"problem_type": label_maps.TAGGING, "tag_scheme": self.scheme}

    def placeholders(self) -> tuple[str, ...]:
        """Names of no scheme; none where the scheme is "plain"."""
        if self.scheme == PLAIN:
            return ()
        return tuple(filter(is_placeholder, self.names))

    def output_names(self) -> tuple[str, ...]:
        """The tag written for each of the C predicted ids."""
        placeholders = self.placeholders()
        return tuple(OUTSIDE if name in placeholders else name for name in self.names)

    def encode(
        self,
        tagged_words: Iterable[tuple[int, str]],
        path: str,
        *,
        is_training: bool = True,
        accepts_unknown: bool = False,
    ) -> np.ndarray:
        """The id of each word's tag, int32 [words], by line and tag in the file `path`.

        Unless `is_training`, unknown tags of known types are features.IGNORED, and with
        `accepts_unknown` all unknown ones.
        """
        ids = {name: index for index, name in enumerate(self.names)}
        known_types = types_of({*self.names} - {*self.placeholders()}, self.scheme)

        def tag_id(line: int, name: str) -> int:
            if name in ids:
                return ids[name]
            is_known = bool(types_of([name], self.scheme) & known_types)
            if not is_training and (accepts_unknown or is_known):
                return features.IGNORED
            place = f"{path}:{line}"
            if is_known:
                raise errors.InputError(
                    f"{place}: --labels lacks {name!r:.80} of {self.scheme}; add it"
                )
            raise errors.InputError(
                f"{place}: tag {name!r:.80} is not one of {wording.listing(self.names)}"
                f"{label_files.closest(name, self.names)}; train with all --labels, or "
                "score it as wrong by --accept_unknown_tags"
            )

        return np.fromiter(itertools.starmap(tag_id, tagged_words), features.INTEGER)

    def decode(self, ids: Iterable[Sequence[int]]) -> list[list[str]]:
        """The tags of sentences from the ids of their words, repaired."""
        names = self.output_names()
        return [respell([names[index] for index in row], self.scheme) for row in ids]


def named(names: Sequence[str]) -> TagNames:
    """The tags of these names, of the scheme that they spell."""
    # Ignores names of no scheme (PAD), unless no name has one (parts of speech).
    spelled = [name for name in names if not is_placeholder(name)]
    scheme = find_scheme([[name] for name in spelled or names])
    if not any("-" in name for name in spelled):
        scheme = PLAIN
    meant, odd = odd_tags(dict.fromkeys(names, 1))
    if odd:
        print(f"labels: {wording.listing(odd)} are not of the scheme {meant}")
    return TagNames(tuple(names), scheme)


def find_tags(words_tags: Iterable[str], path: str, scheme: str) -> TagNames:
    """The tags to learn from those of words in a file: "O" first, the others sorted.

    Each type of span that the words have gets every tag of the scheme.
    """
    tags = {*words_tags}
    if scheme == PLAIN:
        names = tuple(sorted(tags, key=lambda tag: (tag != OUTSIDE, tag)))
    else:
        names = all_tags(types_of(tags, scheme), scheme)
    if len(names) == 1:
        raise errors.InputError(
            f"{path}: every word has the tag {names[0]!r:.80}; check "
            "--tag_column, or name the tags with --labels"
        )
    return TagNames(names, scheme)
