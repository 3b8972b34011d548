"""Texts that follow prompts: detokenized, stopped and printed."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

_HALF_CHARACTER = "\ufffd"  # what decodes from a part of one


class Text(NamedTuple):
    """A text that follows a prompt."""

    prompt: str  # "" without one
    sample: int  # which text of the prompt it is, from 0
    text: str  # without the prompt
    num_tokens: int  # an end token included
    ended: bool  # by an end token or a stop text

    def as_json(self) -> str:
        """A line of a .jsonl file."""
        return json.dumps(self._asdict(), ensure_ascii=False)


class Detokenizer:
    """Turns the ids that follow a prompt into text.

    `end_ids` end a text and are no part of it; nor are `stops`, texts before which it
    ends.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        end_ids: Sequence[int] = (),
        stops: Sequence[str] = (),
    ):
        self._decode = decode
        self._end_ids = frozenset(end_ids)
        self._stops = tuple(stops)
        self._longest_stop = max(map(len, stops), default=0)

    def after(self, prompt_ids: Sequence[int], ids: Sequence[int]) -> str:
        """The text that ids add to the prompt, up to a stop text."""
        text = self._whole(prompt_ids, ids)
        return text[: self._end_of(text)]

    def stops(self, prompt_ids: Sequence[int], ids: Sequence[int]) -> bool:
        """Whether the text has a stop text."""
        if not self._stops:
            return False
        text = self._whole(prompt_ids, ids)
        return self._end_of(text) < len(text)

    def stable_prefix(self, prompt_ids: Sequence[int], ids: Sequence[int]) -> str:
        """The part of `after` that further ids do not change."""
        text = self._whole(prompt_ids, ids)
        end = self._end_of(text)
        if end == len(text):
            # Its last characters may be the beginning of a stop text.
            end -= max(self._longest_stop - 1, 0)
        return text[: max(end, 0)].rstrip(_HALF_CHARACTER)

    def _whole(self, prompt_ids, ids):
        ids = [index for index in ids if index not in self._end_ids]
        before = self._decode(prompt_ids)
        text = self._decode([*prompt_ids, *ids])
        # A tokenizer may write the end of the prompt otherwise once something follows.
        return (
            text.removeprefix(before) if text.startswith(before) else self._decode(ids)
        )

    def _end_of(self, text):
        places = (text.find(stop) for stop in self._stops)
        return min((place for place in places if place >= 0), default=len(text))


class StreamPrinter:
    """Prints one text while it grows; `write` takes each addition."""

    def __init__(
        self,
        detokenizer: Detokenizer,
        prompt_ids: Sequence[int],
        write: Callable[[str], Any],
    ):
        self._detokenizer = detokenizer
        self._prompt_ids = prompt_ids
        self._write = write
        self._shown = 0

    def show(self, ids: Sequence[int]) -> None:
        """Prints the part of the text that further ids do not change."""
        self._add(self._detokenizer.stable_prefix(self._prompt_ids, ids))

    def finish(self, ids: Sequence[int]) -> None:
        """Prints the end of the text, and ends the line."""
        self._add(self._detokenizer.after(self._prompt_ids, ids))
        self._write("\n")

    def _add(self, text):
        if len(text) > self._shown:
            self._write(text[self._shown :])
            self._shown = len(text)


def lines(texts: Iterable[Text], *, as_json: bool) -> Iterator[str]:
    """The lines of texts: JSON objects, or under a rule each as in GPT-2's release."""
    for number, text in enumerate(texts, start=1):
        if as_json:
            yield f"{text.as_json()}\n"
        else:
            yield f"{'=' * 40} SAMPLE {number} {'=' * 40}\n{text.prompt}{text.text}\n"
