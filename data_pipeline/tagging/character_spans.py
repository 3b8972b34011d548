"""Spans of characters, as tools for annotation write them, to words with tags.

A row has a text and its spans: [start, end, label] of doccano and spaCy, or objects
with start, end and label of Prodigy. Characters count from 0, `end` is one past the
last. A text is cut into words as an exported tagger cuts it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from contract import errors

_KEYS = ("spans", "entities", "label", "labels")
# Of a span that is an object; the second of each is doccano's.
_START, _END = ("start", "start_offset"), ("end", "end_offset")
_CHUNK_TEXTS = 1024  # cut at a time


class Word(NamedTuple):
    """A word of a text, text[start:end]."""

    text: str
    start: int
    end: int


def find_key(row: Mapping[str, Any]) -> str:
    """The key of a row's spans; "" where it has no text with spans."""
    if not isinstance(row.get("text"), str):
        return ""

    lists = [key for key in _KEYS if isinstance(row.get(key), list)]
    kinds = list | dict
    return next((k for k in lists if all(isinstance(s, kinds) for s in row[k])), "")


def cut(texts: Sequence[str]) -> Iterator[list[Word]]:
    """Yields the words of each text."""
    # Slow to import, and rarely needed.
    from data_pipeline.text import offsets

    for first in range(0, len(texts), _CHUNK_TEXTS):
        columns = offsets.split_words(texts[first : first + _CHUNK_TEXTS])
        arrays = (columns[name].numpy() for name in ("words", "starts", "ends"))
        for row in zip(*arrays, strict=True):
            cells = zip(*(values.tolist() for values in row), strict=True)
            yield [Word(word.decode(), *place) for word, *place in cells if word]


def tags(place: str, row: Mapping[str, Any], words: Sequence[Word]) -> list[str]:
    """The tags of a row's words, BIO.

    Raises:
        ValueError: a span is none, overlaps another, or does not begin and end with a
            word; whitespace at its ends does not count. Or the row is not accepted.
    """
    if row.get("answer", "accept") != "accept":  # Prodigy's
        raise errors.InputError(
            f"{place}: its answer is {row['answer']!r}; give accepted rows alone"
        )
    text, key = row["text"], find_key(row)
    result = ["O"] * len(words)
    for span in row[key]:
        start, end, label = _parse(f"{place}: {key}", span, len(text))
        name = f"{place}: {label} {text[start:end]!r:.40}, characters {start} to {end},"
        end -= len(text[start:end]) - len(text[start:end].rstrip())
        start += len(text[start:end]) - len(text[start:end].lstrip())
        inside = [i for i, w in enumerate(words) if w.start < end and start < w.end]
        if (
            not inside
            or words[inside[0]].start != start
            or words[inside[-1]].end != end
        ):
            around = " ".join(words[i].text for i in inside)
            raise errors.InputError(
                f"{name} is a part of {around!r:.60} and not whole words; correct the "
                "span, or give words and tags"
            )
        if any(result[i] != "O" for i in inside):
            raise errors.InputError(f"{name} overlaps another span; remove one")
        for i in inside:
            result[i] = f"{'B' if i == inside[0] else 'I'}-{label}"
    return result


def _parse(place: str, span: Any, length: int) -> tuple[int, int, str]:
    values = span
    if isinstance(span, dict):
        values = [span[key] for key in (*_START, *_END, "label") if key in span]
    if [*map(type, values)] == [int, int, str]:
        start, end, label = values
        if 0 <= start < end <= length and label:
            return start, end, label
    raise errors.InputError(
        f"{place} has {span!r:.60}, and the text {length} characters; write [start, "
        "end, label] from 0 to one past the last, or an object with start, end, label"
    )
