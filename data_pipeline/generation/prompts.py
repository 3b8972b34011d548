"""Prompts of arguments and files, and the texts that follow them.

Prompts become ids that leave room for the text; ids that follow become a text again.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from contract import characters, errors, wording
from data_pipeline.tables import text_rows

STANDARD_INPUT = "-"
_POOL_BATCHES = 16  # that are ordered by length
_KEYS = ("prompt", "text")  # of an object in a file of JSON lines
_REMEDY = "write one, or leave --prompt and --prompt_file out"
_HALF_CHARACTER = "\ufffd"  # what decodes from a part of one


@dataclasses.dataclass(frozen=True)
class Prompt:
    """The beginning of a text, and its place, for messages."""

    text: str
    place: str


@dataclasses.dataclass(frozen=True)
class ContextBudget:
    """How a prompt and the text behind it share the context of the network."""

    context: int  # positions of the network
    # None for half of the context, or without a prompt for all of it, as in GPT-2's
    # release.
    max_new_tokens: int | None
    truncate_left: bool = False  # whether too long a prompt loses its beginning

    def new_tokens(self, *, is_prompted: bool) -> int:
        """The most tokens of a text."""
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        return self.context // 2 if is_prompted else self.context

    def max_prompt_tokens(self, *, is_prompted: bool) -> int:
        """The most tokens of a prompt; ValueError where there is room for none.

        The last token of a text has no position: the network never reads it.
        """
        new_tokens = self.new_tokens(is_prompted=is_prompted)
        if new_tokens > self.context:
            raise errors.InputError(
                f"--max_new_tokens={new_tokens} exceeds the network's context of "
                f"{self.context} tokens; give fewer"
            )
        return self.context - new_tokens + 1


def read(arguments: Sequence[str], path: str | None) -> list[Prompt]:
    """The prompts of --prompt or of --prompt_file; none where neither is given.

    A file has one a line, or objects with `prompt` (or `text`) where it ends in .jsonl;
    "-" is standard input, one a line. An empty prompt raises ValueError.
    """
    if arguments and path:
        raise errors.InputError("give either --prompt or --prompt_file, not both")
    prompts = [
        Prompt(text, f"--prompt number {number}" if arguments[1:] else "--prompt")
        for number, text in enumerate(arguments, start=1)
    ]
    if path:
        prompts = list(_read_file(path))
        if not prompts:
            raise errors.InputError(f"{path}: has no prompt; {_REMEDY}")
    for prompt in prompts:
        characters.check(prompt.text, prompt.place)
        if not prompt.text.strip():
            raise errors.InputError(f"{prompt.place}: the prompt is empty; {_REMEDY}")
    return prompts


def _read_file(path: str) -> Iterator[Prompt]:
    if path == STANDARD_INPUT:
        name = "standard input"
        for number, line in text_rows.split_lines(name, [sys.stdin.buffer.read()]):
            yield Prompt(line.rstrip("\r"), f"{name}:{number}")
    else:
        for text, place in text_rows.texts(path, _KEYS):
            yield Prompt(text, place)


def encode(
    prompts: Sequence[Prompt], tokenizer: Any, budget: ContextBudget
) -> list[list[int]]:
    """The ids of prompts; without prompts, one list with the start token."""
    new_tokens = budget.new_tokens(is_prompted=bool(prompts))
    most = budget.max_prompt_tokens(is_prompted=bool(prompts))
    if not prompts:
        if tokenizer.document_end_id is None:
            raise errors.InputError(
                "the vocabulary has no token that ends a text; give a --prompt"
            )
        return [[tokenizer.document_end_id]]
    encoded = []
    rows = tokenizer.tokenize([prompt.text for prompt in prompts]).to_list()
    for prompt, ids in zip(prompts, rows, strict=True):
        if not ids:
            named = wording.listing([prompt.text])
            raise errors.InputError(f"{prompt.place}: {named} has no token; {_REMEDY}")
        if len(ids) > most and not budget.truncate_left:
            raise errors.InputError(
                f"{prompt.place}: {len(ids)} tokens and {new_tokens} new ones exceed "
                f"{budget.context}; lower --max_new_tokens, or add --keep_end"
            )
        encoded.append(ids[-most:])
    return encoded


class Plan(NamedTuple):
    """The texts to write."""

    prompts: list[str]  # [""] without a prompt
    ids: list[list[int]]  # of each prompt
    rows: list[tuple[int, int]]  # numbers of the prompt and the sample of each text
    new_tokens: int  # the most of a text

    def batches(self, size: int) -> list[list[tuple[int, int]]]:
        """The rows in batches with prompts of similar length, if not far apart."""
        rows: list[tuple[int, int]] = []
        pool = size * _POOL_BATCHES
        for start in range(0, len(self.rows), pool):
            part = self.rows[start : start + pool]
            rows += sorted(part, key=lambda row: len(self.ids[row[0]]))
        return [rows[start : start + size] for start in range(0, len(rows), size)]


def plan(
    prompts: Sequence[Prompt], tokenizer: Any, budget: ContextBudget, num_samples: int
) -> Plan:
    """Plans `num_samples` texts per prompt; raises ValueError as `encode`."""
    ids = encode(prompts, tokenizer, budget)
    return Plan(
        [prompt.text for prompt in prompts] or [""],
        ids,
        [(i, sample) for i in range(len(ids)) for sample in range(num_samples)],
        budget.new_tokens(is_prompted=bool(prompts)),
    )


class Continuation(NamedTuple):
    """A text that follows a prompt."""

    prompt: str  # "" without one
    sample: int  # which text of the prompt it is, from 0
    text: str  # without the prompt
    # An end token included, and those that were written until a stop text was found.
    num_tokens: int
    ended: bool  # by an end token or a stop text

    def as_json(self) -> str:
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


def lines(texts: Iterable[Continuation], *, as_json: bool) -> Iterator[str]:
    """The lines of texts: JSON objects, or under a rule each as in GPT-2's release."""
    for number, text in enumerate(texts, start=1):
        if as_json:
            yield f"{text.as_json()}\n"
        else:
            yield f"{'=' * 40} SAMPLE {number} {'=' * 40}\n{text.prompt}{text.text}\n"
