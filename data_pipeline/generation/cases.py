"""Tasks whose answer is the likeliest of several texts, or the next word.

Each becomes cases: texts that differ in a part, whose tokens are scored. Nothing is
trained. See GPT-2's paper, section 3, and docs/generation.md.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors, wording
from data_pipeline.generation import perplexity, windows


class Alternative(NamedTuple):
    """A text: the beginning, which is only read, and the end, which is scored."""

    before: str
    scored: str


class Case(NamedTuple):
    """Texts to compare."""

    place: str  # for messages, and the name of the case in files
    alternatives: Sequence[Alternative]
    label: int | None = None  # which is right, or None if unknown


class Encoded(NamedTuple):
    """Ids of one alternative, with the place of the first that is scored."""

    ids: list[int]
    first: int

    @property
    def window(self) -> windows.Window:
        """Scores all ids but the first, for the likelihood of the whole text."""
        return windows.Window(self.ids, 1)


def encode(
    cases: Sequence[Case], tokenizer: Any, context: int, *, truncate_left: bool
) -> list[list[Encoded]]:
    """The ids of each alternative, after the token that ends texts, if any.

    Beginning and end are tokenized together; a token with characters of both is scored.
    Nothing to score, or too long a text, raises ValueError.
    """
    start = [] if tokenizer.document_end_id is None else [tokenizer.document_end_id]
    flat = [choice for case in cases for choice in case.alternatives]
    whole = tokenizer.tokenize([c.before + c.scored for c in flat]).to_list()
    before = tokenizer.tokenize([c.before for c in flat]).to_list()
    ids_of_texts = zip(before, whole, strict=True)
    encoded = []
    for case in cases:
        row = []
        for choice in case.alternatives:
            read, both = next(ids_of_texts)
            pairs = zip(read, both, strict=False)
            common = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
            # Nothing predicts the first token.
            ids, first = start + both, max(len(start) + len(list(common)), 1)
            if first >= len(ids):
                raise errors.InputError(
                    f"{case.place}: {wording.listing([choice.scored])} after "
                    f"{wording.listing([choice.before[-40:]])} has no token that "
                    "could be scored; correct the row"
                )
            row.append(_truncated(Encoded(ids, first), case, context, truncate_left))
        encoded.append(row)
    return encoded


def _truncated(encoded, case, context, truncate_left):
    over = len(encoded.ids) - context
    if over <= 0:
        return encoded
    if not truncate_left or encoded.first - over < 1:
        raise errors.InputError(
            f"{case.place}: a text of {len(encoded.ids)} tokens does not fit into the "
            f"network's context of {context}; shorten it"
            + ("" if truncate_left else ", or pass --keep_end to drop its beginning")
        )
    return Encoded(encoded.ids[over:], encoded.first - over)


class Judged(NamedTuple):
    """Likelihoods of the alternatives of a case."""

    case: Case
    whole: list[float]  # nats of each alternative
    part: list[float]  # nats of its scored end
    by_token: list[float]  # the same by token
    is_greedy: list[bool]  # whether each scored token was the likeliest

    def choices(self) -> dict[str, int]:
        """The likeliest alternative by each measure."""
        return {
            name: int(np.argmin(getattr(self, name)))
            for name in ("whole", "part", "by_token")
        }

    def line(self) -> str:
        """The line of a .jsonl file."""
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
            score = next(scores)
            losses = score.losses.astype(np.float64)
            end = slice(choice.first - 1, None)
            whole.append(float(losses.sum()))
            part.append(float(losses[end].sum()))
            by_token.append(float(losses[end].mean()))
            is_greedy.append(bool(score.hits[end].all()))
        yield Judged(case, whole, part, by_token, is_greedy)


def accuracies(judged: Sequence[Judged]) -> dict[str, float]:
    """The share of right choices by each measure, of the cases with a label."""
    labelled = [each for each in judged if each.case.label is not None]
    return {
        f"accuracy_{measure}": float(
            np.mean([each.choices()[measure] == each.case.label for each in labelled])
        )
        for measure in (judged[0].choices() if labelled else ())
    }


def last_words(path: str) -> list[Case]:
    """A case of each passage: its last word, after the last space (LAMBADA)."""
    cases = []
    for text, place in perplexity.read(path, as_one=False):
        before, space, word = text.rstrip().rpartition(" ")
        if not before.strip():
            raise errors.InputError(
                f"{place}: {wording.listing([text])} is one word, and nothing stands "
                "before it; give a passage"
            )
        cases.append(Case(place, [Alternative(before, space + word)]))
    return cases


def word_results(judged: Sequence[Judged]) -> dict[str, float]:
    """Whether all tokens of the word are the likeliest, and its perplexity."""
    return {
        "accuracy": float(np.mean([each.is_greedy[0] for each in judged])),
        "perplexity": perplexity.exp(
            math.fsum(each.part[0] for each in judged) / len(judged)
        ),
    }
