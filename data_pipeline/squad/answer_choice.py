"""From start and end logits to answers: predictions.json and the files beside it.

A window proposes the spans between its best starts and its best ends; the proposals of
all windows of a question compete by the sum of their two logits. Ties are settled as in
google-research/bert: the earlier window, the better start, the better end, and of equal
logits the earlier token come first.
"""

import dataclasses
import functools
import itertools
import json
import math
import operator
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import atomic_files, features, file_names
from data_pipeline.examples import packing
from data_pipeline.squad import answer_text, context_windows, squad_files
from data_pipeline.text import tokenization

# In null_odds.json where nothing but "no answer" was proposed: above every threshold.
NO_PROPOSAL_ODDS = 1e6
_NO_PROPOSAL = "empty"  # the answer of SQuAD 1.1 in that case
ALIGNERS = ("original", "words")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs:
    """What was asked, and of the network's inputs where they come from.

    N windows of S tokens for Q questions; a question may have none.

    Attributes:
        question_ids: Q keys under which answers are filed.
        words: of the context of each question, cut at white space (`doc_tokens` of the
            original). Questions may share one list.
        question_index: int [N], the question of each window. Those of a question stand
            in the order of the context.
        input_ids: int [N, S].
        word_index: int [N, S], which word of the context a token comes from; -1 for
            question, special tokens and padding (`token_to_orig_map`).
        is_max_context: bool [N, S] (`token_is_max_context`).
        context_start: int [N], how many tokens of the context precede the window's.
    """

    question_ids: Sequence[str]
    words: Sequence[Sequence[str]]
    question_index: np.ndarray
    input_ids: np.ndarray
    word_index: np.ndarray
    is_max_context: np.ndarray
    context_start: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How answers are chosen.

    Attributes:
        n_best_size: number of starts, of ends and of answers that are kept.
        max_answer_length: in word pieces.
        do_lower_case: whether the model is uncased.
        version_2_with_negative: whether a question may have no answer.
        null_score_diff_threshold: no answer is given where the null odds exceed it.
        aligner: "original" finds the text with `answer_text.align`, "words" with
            `answer_text.Offsets`.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    do_lower_case: bool = True
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0
    aligner: str = "original"

    def __post_init__(self):
        for name in ("n_best_size", "max_answer_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name}={getattr(self, name)} must be at least 1")
        if self.aligner not in ALIGNERS:
            raise ValueError(f"aligner {self.aligner!r} is not one of {ALIGNERS}")


class Answers(NamedTuple):
    """What becomes of a file of questions, by question id and in its order.

    Attributes:
        predictions: the answer, "" for none.
        best: the best answer, whether or not it is withheld; "" where none is proposed.
        nbest: dicts of text, probability, start_logit and end_logit, best first.
        null_odds: the higher, the likelier there is no answer; None for SQuAD 1.1.
    """

    predictions: dict[str, str]
    best: dict[str, str]
    nbest: dict[str, list[dict[str, Any]]]
    null_odds: dict[str, float] | None


def inputs_of(
    questions: squad_files.Questions,
    windows: context_windows.ContextWindows,
    length: int,
) -> Inputs:
    """Lays out windows as the network reads them.

    Args:
        questions: of a file.
        windows: of those questions.
        length: S, in tokens, not less than that of any window.
    """
    word_index, is_max_context = context_windows.token_grids(windows, length)
    words = [squad_files.split_words(context) for context in questions.contexts]
    return Inputs(
        question_ids=questions.ids,
        words=[words[context] for context in questions.context_index],
        question_index=windows.question_index,
        input_ids=packing.grids(windows.packed, length)[features.INPUT_IDS],
        word_index=word_index,
        is_max_context=is_max_context,
        context_start=windows.part_starts,
    )


def choose(
    inputs: Inputs,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    vocab: Sequence[str],
    settings: Settings,
) -> Answers:
    """Chooses an answer for each question.

    Differs from google-research/bert: where only "no answer" is proposed, that is the
    prediction, with null odds of 1000000.0; there `AttributeError` ends the run.

    Args:
        inputs: all questions of a file. One without windows is one for which nothing
            is proposed.
        start_logits: float [N, S], of the windows in their order. Padding competes, as
            it does in google-research/bert, but for places that are -inf.
        end_logits: float [N, S].
        vocab: the token of each id.
        settings: how to choose.

    Raises:
        ValueError: logits and windows differ in shape, or a logit is not a number.
    """
    _check(inputs, start_logits, end_logits)
    texts = _Texts(inputs, vocab, settings)
    answers = Answers({}, {}, {}, {} if settings.version_2_with_negative else None)
    order = np.argsort(inputs.question_index, kind="stable")
    bounds = np.searchsorted(
        inputs.question_index[order], np.arange(len(inputs.question_ids) + 1)
    )
    for question, question_id in enumerate(inputs.question_ids):
        rows = order[bounds[question] : bounds[question + 1]]
        start = start_logits[rows].astype(np.float64)  # [W, S]
        end = end_logits[rows].astype(np.float64)
        in_context = inputs.word_index[rows] >= 0
        can_start = in_context & inputs.is_max_context[rows]
        spans = _proposals(start, end, can_start, in_context, settings)
        entries = _distinct(
            spans, start, end, texts.of_question(question, rows), settings
        )
        answers.nbest[question_id] = _with_probabilities(entries)
        best = next((text for text in entries if text), None)
        answers.best[question_id] = best or ""
        if answers.null_odds is None:
            answers.predictions[question_id] = next(iter(entries))
            continue
        odds = _null_odds(entries, best)
        answers.null_odds[question_id] = odds
        is_withheld = odds > settings.null_score_diff_threshold
        answers.predictions[question_id] = "" if is_withheld else best or ""
    return answers


def write(directory: str, answers: Answers) -> None:
    """Writes the files of the original.

    Raises:
        OSError: one cannot be written; then none of them is.
    """
    written = {
        file_names.SQUAD_PREDICTIONS: answers.predictions,
        file_names.SQUAD_NBEST: answers.nbest,
    }
    if answers.null_odds is not None:
        written[file_names.SQUAD_NULL_ODDS] = answers.null_odds
    atomic_files.write(
        {
            os.path.join(directory, name): [json.dumps(values, indent=4) + "\n"]
            for name, values in written.items()
        }
    )


def _check(inputs, start_logits, end_logits):
    for name, logits in (("start", start_logits), ("end", end_logits)):
        if logits.shape != inputs.input_ids.shape:
            raise ValueError(
                f"{name} logits of shape {logits.shape} do not belong to windows of "
                f"shape {inputs.input_ids.shape}; predict these windows"
            )
        if broken := int((~(logits < np.inf)).any(axis=1).sum()):
            raise ValueError(
                f"{name} logits of {broken} of {len(logits)} windows are not numbers; "
                "the weights are damaged, take another checkpoint"
            )


def _proposals(start, end, can_start, can_end, settings):
    """The spans of a question that qualify, the best first; all [W, S].

    Returns:
        [P, 3] int: window, first token, last token. (w, 0, 0) is no answer, for w the
        window where that is the least likely: any of them can hold the answer.
    """
    starts = _best_positions(start, settings.n_best_size)  # [W, n]
    ends = _best_positions(end, settings.n_best_size)
    first, last = starts[:, :, np.newaxis], ends[:, np.newaxis, :]
    fits = (first <= last) & (last < first + settings.max_answer_length)  # [W, n, n]
    fits &= np.take_along_axis(can_start, starts, axis=1)[:, :, np.newaxis]
    fits &= np.take_along_axis(can_end, ends, axis=1)[:, np.newaxis, :]
    window, i, j = np.nonzero(fits)
    spans = np.stack([window, starts[window, i], ends[window, j]], axis=1)
    if settings.version_2_with_negative and len(start):
        nulls = start[:, 0] + end[:, 0]
        spans = np.concatenate([spans, [[np.argmin(nulls), 0, 0]]])
    window, first, last = spans.T
    scores = start[window, first] + end[window, last]
    return spans[np.argsort(-scores, kind="stable")]


def _best_positions(logits, count):
    """[W, S] to [W, min(count, S)]: places of the highest, of equals the earlier."""
    return np.argsort(-logits, axis=1, kind="stable")[:, :count]


def _distinct(spans, start, end, text_of, settings):
    """Text to (start logit, end logit) of the best spans whose texts differ.

    "" is among them where a question may have no answer, even as one too many.
    """
    entries: dict[str, tuple[float, float]] = {}
    spans = spans.tolist()
    for window, first, last in spans:
        is_null = not first  # [CLS] stands there
        if len(entries) >= settings.n_best_size and not is_null:
            continue
        text = "" if is_null else text_of(window, first, last)
        if text not in entries:
            entries[text] = float(start[window, first]), float(end[window, last])
    if not entries:
        entries["" if settings.version_2_with_negative else _NO_PROPOSAL] = 0.0, 0.0
    return entries


def _with_probabilities(entries):
    """The n-best list; probabilities are the softmax over its sums of logits."""
    scores = [start + end for start, end in entries.values()]
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    # Python 3.12's sum rounds otherwise than that of the original's time.
    total = functools.reduce(operator.add, weights)
    return [
        {
            "text": text,
            "probability": weight / total,
            "start_logit": start,
            "end_logit": end,
        }
        for (text, (start, end)), weight in zip(entries.items(), weights, strict=True)
    ]


def _null_odds(entries, best):
    """Score of no answer minus that of the best answer."""
    if best is None:
        return NO_PROPOSAL_ODDS
    start, end = entries[best]
    return sum(entries[""]) - start - end


class _Texts:
    """The texts of spans. Everything that needs TensorFlow is done for all at once."""

    def __init__(self, inputs, vocab, settings):
        lists = {id(words): words for words in inputs.words}.values()
        words = itertools.chain.from_iterable(lists)
        self._parts = answer_text.split_all(words, settings.do_lower_case)
        self._inputs, self._vocab = inputs, vocab
        self._offsets = None
        if settings.aligner == "words":
            self._offsets = answer_text.Offsets(self._parts, settings.do_lower_case)
            self._continues = np.array(list(map(tokenization.is_continuation, vocab)))

    def of_question(self, question, rows):
        """A function from (window, first, last), a span of `rows`, to its text."""
        word_index = self._inputs.word_index[rows]
        input_ids = self._inputs.input_ids[rows]
        all_words = self._inputs.words[question]
        if self._offsets is not None:
            begins = ~self._continues[input_ids]
            part = _part_index(begins, word_index, self._inputs.context_start[rows])

        def text_of(window, first, last):
            place = word_index[window, [first, last]]
            words = all_words[place[0] : place[1] + 1]
            if self._offsets is not None:
                return self._offsets.text(words, *part[window, [first, last]])
            ids = input_ids[window, first : last + 1].tolist()
            spelled = answer_text.spell(self._vocab[index] for index in ids)
            return answer_text.align(spelled, words, self._parts)

        return text_of


def _part_index(begins, word_index, context_start):
    """Which part of its word a token belongs to, from 0; all [W, S] of a question.

    A window may begin inside a word, so the tokens of the context are put together.

    Args:
        begins: bool, whether a token begins a part.
        word_index: as in `Inputs`.
        context_start: [W], as in `Inputs`.
    """
    in_context = word_index >= 0
    place = context_start[:, np.newaxis] + np.cumsum(in_context, axis=1) - 1
    words = np.zeros(np.max(place, initial=-1) + 1, np.int64)  # [tokens of the context]
    words[place[in_context]] = word_index[in_context]
    begun = np.zeros_like(words)
    begun[place[in_context]] = begins[in_context]
    begun = np.cumsum(begun)
    part = begun - begun[np.searchsorted(words, words)]
    return np.where(in_context, part[np.where(in_context, place, 0)], 0)
