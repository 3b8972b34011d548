"""Tasks in which the likeliest of several texts, or the next word, is the answer.

Each becomes cases: texts that differ in a part, whose tokens are scored. Nothing is
trained. See GPT-2's paper, section 3, and docs/left_to_right.md.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors, wording
from data_pipeline.generation import perplexity, windows


class Alternative(NamedTuple):
    """A text: what is the same or only read, and the end of it that is scored."""

    before: str
    scored: str


class Case(NamedTuple):
    """Texts to compare.

    Attributes:
        place: for messages, and the name of the case in files.
        alternatives: one or more.
        label: which is right, or None if nobody says.
    """

    place: str
    alternatives: Sequence[Alternative]
    label: int | None = None


class Encoded(NamedTuple):
    """Ids of one alternative, with the place of the first that is scored."""

    ids: list[int]
    first: int

    @property
    def window(self) -> windows.Window:
        """All but the first id scored, so that the whole can be judged, too."""
        return windows.Window(self.ids, 1)


def encode(
    cases: Sequence[Case], tokenizer: Any, context: int, *, keeps_end: bool
) -> list[list[Encoded]]:
    """The ids of each alternative, begun with the token that ends texts, if any.

    Text and scored end are cut into tokens together; a token that holds some of both
    is scored.

    Raises:
        ValueError: an alternative has nothing to score, or is too long.
    """
    start = [] if tokenizer.document_end_id is None else [tokenizer.document_end_id]
    flat = [choice for case in cases for choice in case.alternatives]
    whole = tokenizer.tokenize([c.before + c.scored for c in flat]).to_list()
    before = tokenizer.tokenize([c.before for c in flat]).to_list()
    found, done = [], 0
    for case in cases:
        row = []
        for choice in case.alternatives:
            common = _common(before[done], whole[done])
            ids, first = start + whole[done], len(start) + common
            done += 1
            if first == 0:  # nothing stands before the first token
                first = 1
            if first >= len(ids):
                raise errors.InputError(
                    f"{case.place}: {wording.listing([choice.scored])} after "
                    f"{wording.listing([choice.before[-40:]])} has no token that "
                    "could be scored; correct the row"
                )
            row.append(_fitting(Encoded(ids, first), case, context, keeps_end))
        found.append(row)
    return found


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids both begin with."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _fitting(encoded, case, context, keeps_end):
    over = len(encoded.ids) - context
    if over <= 0:
        return encoded
    if not keeps_end or encoded.first - over < 1:
        raise errors.InputError(
            f"{case.place}: a text of {len(encoded.ids)} tokens does not fit into the "
            f"network's context of {context}; shorten it"
            + ("" if keeps_end else ", or pass --keep_end to drop its beginning")
        )
    return Encoded(encoded.ids[over:], encoded.first - over)


class Judged(NamedTuple):
    """What the network finds of a case.

    Attributes:
        case: as it was asked.
        whole, part: nats of each alternative, and of its scored end.
        by_token: nats of the scored end by token.
        is_greedy: whether each scored token was the likeliest, one an alternative.
    """

    case: Case
    whole: list[float]
    part: list[float]
    by_token: list[float]
    is_greedy: list[bool]

    def choices(self) -> dict[str, int]:
        """The likeliest alternative by each measure."""
        return {
            name: int(np.argmin(getattr(self, name)))
            for name in ("whole", "part", "by_token")
        }

    def line(self) -> str:
        """What a .jsonl file says of a case."""
        row: dict[str, Any] = {"place": self.case.place, "label": self.case.label}
        row["texts"] = [a.before + a.scored for a in self.case.alternatives]
        row |= {"choice": self.choices(), "nll_whole": self.whole, "nll": self.part}
        row |= {"nll_by_token": self.by_token, "is_greedy": self.is_greedy}
        return json.dumps(row, ensure_ascii=False) + "\n"


def judge(
    cases: Sequence[Case],
    encoded: Sequence[Sequence[Encoded]],
    run: Callable[[list[windows.Window]], list[windows.Scores]],
) -> Iterator[Judged]:
    """Scores all alternatives of all cases."""
    scores = iter(run([choice.window for row in encoded for choice in row]))
    for case, row in zip(cases, encoded, strict=True):
        whole, part, by_token, is_greedy = [], [], [], []
        for choice in row:
            found = next(scores)
            losses = found.losses.astype(np.float64)
            end = slice(choice.first - 1, None)
            whole.append(float(losses.sum()))
            part.append(float(losses[end].sum()))
            by_token.append(float(losses[end].mean()))
            is_greedy.append(bool(found.hits[end].all()))
        yield Judged(case, whole, part, by_token, is_greedy)


def accuracies(judged: Sequence[Judged]) -> dict[str, float]:
    """The share of right choices by each measure, of the cases with a label."""
    told = [found for found in judged if found.case.label is not None]
    return {
        f"accuracy_{measure}": float(
            np.mean([found.choices()[measure] == found.case.label for found in told])
        )
        for measure in (judged[0].choices() if told else ())
    }


def last_words(path: str) -> list[Case]:
    """A case of each passage: its last word, after the last space (LAMBADA).

    Raises:
        FileNotFoundError, ValueError: as of `perplexity.read`, or it is one word.
    """
    found = []
    for text, place in perplexity.read(path, as_one=False):
        before, space, word = text.rstrip().rpartition(" ")
        if not before.strip():
            raise errors.InputError(
                f"{place}: {wording.listing([text])} is one word, and nothing stands "
                "before it; give a passage"
            )
        found.append(Case(place, [Alternative(before, space + word)]))
    return found


def word_results(judged: Sequence[Judged]) -> dict[str, float]:
    """Whether all tokens of the word are the likeliest, and its perplexity."""
    return {
        "accuracy": float(np.mean([found.is_greedy[0] for found in judged])),
        "perplexity": perplexity.exp(
            math.fsum(f.part[0] for f in judged) / len(judged)
        ),
    }
