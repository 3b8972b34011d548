"""Chooses answers from start and end logits: predictions.json and its neighbours.

Spans between a window's best starts and best ends compete, over all windows of a
question, by the sum of their two logits. Ties go, as in google-research/bert, to the
earlier window, better start, better end, and among equal logits to the earlier token.
"""

import dataclasses
import functools
import itertools
import json
import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from contract import atomic_files, errors, features, file_names
from data_pipeline.batches import packing
from data_pipeline.squad import files
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import base, offsets, wordpiece

# In null_odds.json where nothing but "no answer" was proposed: above every threshold.
NO_PROPOSAL_SCORE_DIFF = 1e6
_NO_PROPOSAL = "empty"  # what SQuAD 1.1 is answered then
ALIGNERS = ("original", "words")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs:
    """N windows of S tokens for Q questions."""

    question_ids: Sequence[str]  # Q keys of answers
    contexts: Sequence[str]  # Q
    question_index: np.ndarray  # int [N], never decreasing; not all need occur
    # int [N, S]; None where tokens are rows of characters, which nothing searches for
    input_ids: np.ndarray | None
    grids: context_windows.TokenGrids
    # int [N, S, 2], the characters of its context that a token came from, for "words"
    places: np.ndarray | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How answers are chosen."""

    n_best_size: int = 20  # of starts, of ends and of answers
    max_answer_length: int = 30  # in tokens
    version_2_with_negative: bool = False  # whether a question may have no answer
    null_score_diff_threshold: float = 0.0  # above it the prediction is ""
    # "original": align; "words": from the first to the last token as written.
    aligner: str = "original"
    is_chinese: bool = False  # whether answers are scored as those of CMRC 2018

    def __post_init__(self):
        for name in ("n_best_size", "max_answer_length"):
            if getattr(self, name) < 1:
                raise errors.InputError(f"--{name}={getattr(self, name)} is below 1")
        if self.aligner not in ALIGNERS:
            raise errors.InputError(f"aligner {self.aligner!r} is none of {ALIGNERS}")


class Answers(NamedTuple):
    """The answers to a file of questions, by question id and in its order."""

    predictions: dict[str, str]  # "" for none
    best: dict[str, str]  # the same, but with withheld answers
    n_best: dict[str, list[dict[str, Any]]]  # text, probability and the two logits
    null_score_diffs: dict[str, float] | None  # no answer minus best; None in 1.1


def lay_out(
    windows: context_windows.QuestionSplit,
    length: int,
    tokenizer: base.Tokenizer | None = None,
) -> Inputs:
    """Rows of `length` tokens; with the tokenizer of the windows there are places."""
    questions = windows.questions
    grids = context_windows.token_grids(windows, length)
    input_ids = places = None
    if tokenizer:
        places = _places(questions.contexts, windows, grids, tokenizer)
    if windows.packed.tokens.ndim == 1:
        input_ids = packing.grids(windows.packed, length)[features.INPUT_IDS]
    return Inputs(
        question_ids=questions.ids,
        contexts=[questions.contexts[index] for index in questions.context_index],
        question_index=windows.question_index,
        input_ids=input_ids,
        grids=grids,
        places=places,
    )


def _places(contexts, windows, grids, tokenizer):
    tokens = offsets.tokenize(tf.constant(contexts), tokenizer)
    starts = tf.gather(tokens.starts, tokens.ids.value_rowids())
    places = tf.stack([tokens.begins - starts, tokens.ends - starts], axis=1).numpy()
    token = packing.ranges(windows.excerpt_starts, windows.excerpt_lengths)
    grid = np.zeros((*grids.word_index.shape, 2), np.int64)
    grid[grids.word_index >= 0] = places[token]
    return grid


def choose(
    inputs: Inputs,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    tokenizer: base.Tokenizer,
    settings: Settings,
) -> Answers:
    """Chooses answers from logits, float [N, S], of which -inf never competes.

    Differs from google-research/bert: where only "no answer" is proposed, that is the
    prediction, with null odds of 1000000.0; the original ends with `AttributeError`.
    """
    _check(inputs, start_logits, end_logits)
    find_text = _text_finder(inputs, tokenizer, settings)
    answers = Answers({}, {}, {}, {} if settings.version_2_with_negative else None)
    numbers = np.arange(len(inputs.question_ids) + 1)
    bounds = np.searchsorted(inputs.question_index, numbers)
    for question, question_id in enumerate(inputs.question_ids):
        rows = np.arange(bounds[question], bounds[question + 1])
        start = start_logits[rows].astype(np.float64)  # [W, S]
        end = end_logits[rows].astype(np.float64)
        in_context = inputs.grids.word_index[rows] >= 0
        can_start = in_context & inputs.grids.is_max_context[rows]
        spans = _proposals(start, end, can_start, in_context, settings)
        text_of = functools.partial(find_text, question, rows)
        entries = _distinct(spans, start, end, text_of, settings)
        answers.n_best[question_id] = _with_probabilities(entries)
        best = next((text for text in entries if text), None)
        answers.best[question_id] = best or ""
        if answers.null_score_diffs is None:
            answers.predictions[question_id] = next(iter(entries))
            continue
        null_score_diff = NO_PROPOSAL_SCORE_DIFF
        if best is not None:
            start_logit, end_logit = entries[best]
            null_score_diff = sum(entries[""]) - start_logit - end_logit
        answers.null_score_diffs[question_id] = null_score_diff
        is_withheld = null_score_diff > settings.null_score_diff_threshold
        answers.predictions[question_id] = "" if is_withheld else best or ""
    return answers


def write(directory: str, answers: Answers, submission: str = "") -> None:
    """Writes the files of the original, or none.

    A site takes the answers in a file that is called `submission`.
    """
    written = {
        file_names.SQUAD_PREDICTIONS: answers.predictions,
        file_names.SQUAD_NBEST: answers.n_best,
        file_names.SQUAD_NULL_ODDS: answers.null_score_diffs,
    }
    if submission:
        written[submission] = answers.predictions
    contents = {
        os.path.join(directory, name): [json.dumps(values, indent=4) + "\n"]
        for name, values in written.items()
        if values is not None
    }
    atomic_files.write(contents)


def _check(inputs, start_logits, end_logits):
    shape = inputs.grids.word_index.shape
    for name, logits in (("start", start_logits), ("end", end_logits)):
        if logits.shape != shape:
            raise errors.InputError(
                f"{name} logits {logits.shape} are not of windows {shape}"
            )
        if broken := int((~(logits < np.inf)).any(axis=1).sum()):
            raise errors.InputError(
                f"{name} logits of {broken} of {len(logits)} windows are not numbers; "
                "take another checkpoint"
            )


def _proposals(start, end, can_start, can_end, settings):
    """The W windows' qualifying spans, int [P, 3] of window, first and last token.

    Best first; (w, 0, 0) is no answer, w being the window where that is least likely.
    """
    starts = _best_positions(start, settings.n_best_size)  # [W, n]
    ends = _best_positions(end, settings.n_best_size)
    can_start = np.take_along_axis(can_start, starts, axis=1)
    can_end = np.take_along_axis(can_end, ends, axis=1)
    fits = are_answers(starts, ends, can_start, can_end, settings)
    window, i, j = np.nonzero(fits)
    spans = np.stack([window, starts[window, i], ends[window, j]], axis=1)
    if settings.version_2_with_negative and len(start):
        nulls = start[:, 0] + end[:, 0]
        spans = np.concatenate([spans, [[np.argmin(nulls), 0, 0]]])
    window, first, last = spans.T
    scores = start[window, first] + end[window, last]
    return spans[np.argsort(-scores, kind="stable")]


def are_answers(
    starts: Any, ends: Any, can_start: Any, can_end: Any, settings: Settings
) -> Any:
    """Which starts and ends of W windows make an answer, bool [W, starts, ends].

    Arrays or tensors [W, n], of places in a window and of whether a context allows it.
    """
    first, last = starts[:, :, np.newaxis], ends[:, np.newaxis, :]
    fits = (first <= last) & (last < first + settings.max_answer_length)
    return fits & can_start[:, :, np.newaxis] & can_end[:, np.newaxis, :]


def _best_positions(logits, count):
    """Positions of the highest of [W, S] logits, best first: [W, min(count, S)]."""
    return np.argsort(-logits, axis=1, kind="stable")[:, :count]


def _distinct(spans, start, end, text_of, settings):
    """Maps the n best distinct texts to (start logit, end logit); "" may be extra."""
    entries: dict[str, tuple[float, float]] = {}
    for window, first, last in spans.tolist():
        is_null = first == 0  # the place of [CLS]
        if len(entries) >= settings.n_best_size and not is_null:
            continue
        text = "" if is_null else text_of(window, first, last)
        if text not in entries:
            entries[text] = float(start[window, first]), float(end[window, last])
    if not entries:
        entries["" if settings.version_2_with_negative else _NO_PROPOSAL] = 0.0, 0.0
    return entries


def _with_probabilities(entries):
    scores = [start + end for start, end in entries.values()]
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    # `sum` of Python 3.12 and later rounds differently.
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


def _text_finder(inputs, tokenizer, settings):
    """A function of question, its rows, and a span in one of these to the text."""
    if settings.aligner == "words":

        def cut(question, rows, window, first, last):
            begin, _ = inputs.places[rows[window], first]
            _, end = inputs.places[rows[window], last]
            text = inputs.contexts[question][begin:end]
            return " ".join(files.split_words(text)).strip()

        return cut
    words_of = {text: files.split_words(text) for text in {*inputs.contexts}}
    words = itertools.chain.from_iterable(words_of.values())
    parts = split_all(words, tokenizer)

    def find(question, rows, window, first, last):
        row = rows[window]
        begin, end = inputs.grids.word_index[row, [first, last]]
        words = words_of[inputs.contexts[question]][begin : end + 1]
        ids = inputs.input_ids[row, first : last + 1].tolist()
        spelled = spell(tokenizer.vocab[index] for index in ids)
        return align(spelled, words, parts)

    return find


def split_all(texts: Iterable[str], tokenizer: base.Tokenizer) -> dict[str, list[str]]:
    """Maps each distinct text to its normalized parts; invalid UTF-8 has none.

    Normalization never crosses whitespace: a span's parts are those of its words.

    Differs from google-research/bert: a part of more than 200 characters is left out,
    so the answer is the whole span of words where a prediction lies beside such a part.
    """
    distinct = list(dict.fromkeys(texts))
    encoded = tf.constant([t.encode("utf-8", "ignore") for t in distinct], tf.string)
    rows = tokenizer.pretokenize(encoded).to_list()
    return {
        text: [part.decode("utf-8") for part in row]
        for text, row in zip(distinct, rows, strict=True)
    }


def spell(tokens: Iterable[str]) -> str:
    """Joins word pieces to normalized text, with single spaces between the parts."""
    mark = wordpiece.CONTINUATION
    joined = " ".join(tokens).replace(f" {mark}", "").replace(mark, "")
    return " ".join(joined.split())


def align(spelled: str, words: Sequence[str], parts: Mapping[str, list[str]]) -> str:
    """Finds the piece of a span that a prediction covers, as google-research/bert does.

    Takes the first occurrence of `spelled` (from `spell`) in the normalized span of
    `words`, and assumes that its n-th character other than space is the n-th of the
    span. Where that fails ([UNK], combining accents), the piece is the whole span.
    """
    span = " ".join(words)
    normalized = " ".join(part for word in words for part in parts[word])
    start = normalized.find(spelled)
    has_places = len(_without_spaces(span)) == len(_without_spaces(normalized))
    if start == -1 or not spelled or not has_places:
        logging.debug("unable to find text: %r in %r", spelled, span)
        return span
    before = len(_without_spaces(normalized[:start]))
    places = [place for place, char in enumerate(span) if char != " "]
    first, last = places[before], places[before + len(_without_spaces(spelled)) - 1]
    return span[first : last + 1]


def _without_spaces(text):
    return text.replace(" ", "")
