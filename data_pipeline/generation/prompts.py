"""Prompts of arguments and files, as ids that leave room for the text."""

import dataclasses
import io
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from contract import errors, wording
from data_pipeline.tables import text_rows

STANDARD_INPUT = "-"
_POOL_BATCHES = 16  # that are ordered by length
_KEYS = ("prompt", "text")  # of an object in a file of JSON lines
_REMEDY = (
    "write one, or leave --prompt and --prompt_file out to begin with the token that "
    "ends texts"
)


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
                f"--max_new_tokens={new_tokens} is more than the network's context of "
                f"{self.context} tokens; give fewer"
            )
        return self.context - new_tokens + 1


def read(arguments: Sequence[str], path: str | None) -> list[Prompt]:
    """The prompts of --prompt or of --prompt_file; none where neither is given.

    A file has one a line, or objects with `prompt` (or `text`) where it ends in .jsonl;
    "-" is standard input, one a line. An empty prompt raises ValueError.
    """
    if arguments and path:
        raise errors.InputError(
            "--prompt and --prompt_file exclude each other; give one"
        )
    prompts = [
        Prompt(text, f"--prompt number {number}" if arguments[1:] else "--prompt")
        for number, text in enumerate(arguments, start=1)
    ]
    if path:
        prompts = list(_read_file(path))
        if not prompts:
            raise errors.InputError(f"{path}: has no prompt; {_REMEDY}")
    for prompt in prompts:
        if any("\ud800" <= character <= "\udfff" for character in prompt.text):
            raise errors.InputError(
                f"{prompt.place}: {prompt.text!a:.60} is not UTF-8; set the terminal "
                "to UTF-8, or give the prompt in a --prompt_file"
            )
        if not prompt.text.strip():
            raise errors.InputError(f"{prompt.place}: the prompt is empty; {_REMEDY}")
    return prompts


def _read_file(path: str) -> Iterator[Prompt]:
    if path == STANDARD_INPUT:
        stream = io.TextIOWrapper(sys.stdin.buffer, "utf-8", newline="\n")
        try:
            lines = list(enumerate(stream, start=1))
        except UnicodeDecodeError as error:
            raise errors.InputError(
                f"standard input is not UTF-8 ({error.reason}); convert it, for "
                "example with iconv"
            ) from error
        finally:
            stream.detach()
        for number, line in lines:
            yield Prompt(line.rstrip("\r\n"), f"standard input:{number}")
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
        return [[start_token(tokenizer)]]
    encoded = []
    rows = tokenizer.tokenize([prompt.text for prompt in prompts]).to_list()
    for prompt, ids in zip(prompts, rows, strict=True):
        if not ids:
            raise errors.InputError(
                f"{prompt.place}: {wording.listing([prompt.text])} has no token; "
                f"{_REMEDY}"
            )
        if len(ids) > most and not budget.truncate_left:
            fitting = budget.context - len(ids) + 1
            raise errors.InputError(
                f"{prompt.place}: a prompt of {len(ids)} tokens and "
                f"{new_tokens} new ones do not fit into the network's context of "
                f"{budget.context}; shorten it, "
                + (f"lower --max_new_tokens to {fitting} " if fitting > 0 else "")
                + f"or pass --keep_end to keep its last {most} tokens"
            )
        encoded.append(ids[-most:])
    return encoded


def start_token(tokenizer: Any) -> int:
    """The token that texts without a prompt begin with; ValueError without one."""
    if tokenizer.document_end_id is None:
        raise errors.InputError(
            "the vocabulary has no token that ends a text, so nothing to begin with; "
            "give a --prompt"
        )
    return tokenizer.document_end_id


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
