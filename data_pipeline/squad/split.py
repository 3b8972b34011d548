"""The questions of a file with their windows: examples, answers, scores, records."""

import collections
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors, features, file_names
from data_pipeline.batches import batching, packing, padding, tf_records
from data_pipeline.squad import choice, files
from data_pipeline.squad import scores as answer_scores
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import base


@dataclasses.dataclass(frozen=True)
class QuestionSet:
    """Questions and what the network reads of them; one may have several windows."""

    questions: files.Questions
    windows: context_windows.ContextWindows

    def targets(self) -> dict[str, np.ndarray]:
        """start_positions and end_positions, int32 [N] each; {} for prediction."""
        start, end = self.windows.start_positions, self.windows.end_positions
        if start is None or end is None:
            return {}
        return {features.START_POSITIONS: start, features.END_POSITIONS: end}

    def digest(self) -> str:
        """A short text that differs where windows or answers differ."""
        digest = packing.digest(self.windows.packed, *self.targets().values())
        return f"{len(self.windows)} windows, digest {digest}"

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] windows: "train.json: question 5733be (window 2 of 3)"."""
        owners = self.windows.question_index
        numbers = padding.window_names(owners, indices)
        return [
            f"{self.questions.path}: question {self.questions.ids[owner]} ({number})"
            for owner, number in zip(owners[indices], numbers, strict=True)
        ]

    def summary(self) -> dict[str, Any]:
        """What a report says of the questions: how many, how long, with an answer."""
        owners = self.windows.question_index
        kinds = (
            "no answer" if none else "answer" for none in self.questions.is_impossible
        )
        return {
            "path": self.questions.path,
            "count": len(self.questions),
            "unit": "questions",
            "lengths": np.bincount(owners, minlength=len(self.questions)),
            "length_unit": "windows of a question",
            "cut": self.windows.packed.num_truncated,
            "cut_means": "cut to --max_query_length",
            "labels": dict(collections.Counter(kinds)),
            "labels_title": "Answers",
        }

    def examples(self) -> batching.Examples:
        """The windows as training/fine_tuning.py takes them."""
        return batching.Examples(
            self.windows.packed, self.names, self.digest, self.targets()
        )


class Answered(NamedTuple):
    """What a model answers to the questions of a file."""

    answers: choice.Answers
    scores: dict[str, float]  # official ones; {} without annotated answers

    def results(self, prefix: str) -> dict[str, float]:
        """The scores under their official names, which have no prefix."""
        return self.scores


def load(
    split: str,
    questions: files.Questions,
    tokenizer: base.Tokenizer,
    **limits: int,
) -> QuestionSet:
    """Cuts contexts as `context_windows.make_windows`, and prints a line about `split`.

    Raises:
        ValueError: a limit leaves no room, or no context has a token.
    """
    windows = context_windows.make_windows(questions, tokenizer, **limits)
    if not len(windows):
        raise errors.InputError(
            f"{questions.path}: no context has a token that the model reads; check "
            "that it holds text"
        )
    print(
        f"{split}: {len(questions)} questions from {questions.path}, "
        f"{len(windows)} windows, {windows.packed.lengths.mean():.1f} tokens on "
        f"average, {windows.packed.num_truncated} questions cut to "
        f"{limits['max_query_length']}"
    )
    return QuestionSet(questions, windows)


def write_records(directory: str, data: QuestionSet, max_seq_length: int) -> None:
    """Writes train.tf_record where there are targets, else eval.tf_record.

    As the original's FeatureWriter: unique_ids and the three inputs; for training also
    start_positions, end_positions and is_impossible. Nothing where tokens are rows of
    characters, for which that format has no place.
    """
    windows = data.windows
    if windows.packed.tokens.ndim > 1:
        return
    columns = {features.UNIQUE_IDS: windows.unique_ids}
    name = "eval"
    if targets := data.targets():
        name = "train"
        is_impossible = np.array(data.questions.is_impossible, features.INTEGER)
        columns |= targets
        columns[features.IS_IMPOSSIBLE] = is_impossible[windows.question_index]
    path = os.path.join(directory, f"{name}{file_names.TF_RECORD_ENDING}")
    tf_records.write(path, windows.packed, columns, max_seq_length)


def answer(
    data: QuestionSet,
    logits: Mapping[str, np.ndarray],
    vocab: Sequence[str],
    settings: choice.Settings,
    pad_to: int | None = None,
) -> choice.Answers:
    """Chooses an answer for each question.

    Differs from google-research/bert: padding takes none of the n_best_size places,
    unless every window is padded to one length.

    `logits` are start_logits and end_logits, float32 [N, S]; `pad_to` is the S that
    every window was padded to, None if the longest of its batch.
    """
    length = logits["start_logits"].shape[1]
    inputs = choice.inputs_of(data.questions, data.windows, length)
    is_read = np.arange(length) < data.windows.packed.lengths[:, np.newaxis]
    start, end = (
        logits[name] if pad_to else np.where(is_read, logits[name], -np.inf)
        for name in ("start_logits", "end_logits")
    )
    return choice.choose(inputs, start, end, vocab, settings)


def score(data: QuestionSet, answers: choice.Answers) -> dict[str, float]:
    """The official scores of the file's version; {} without annotated answers.

    The best thresholds include withheld answers, which the official script, reading
    predictions.json, cannot see: it finds no threshold above the present one.
    """
    questions = data.questions
    if not _is_annotated(questions):
        return {}
    gold = dict(zip(questions.ids, questions.answer_texts, strict=True))
    if not questions.is_version_2:
        return answer_scores.score_v1(gold, answers.predictions)
    scores = answer_scores.score_v2(gold, answers.predictions)
    if answers.null_score_diffs is not None:
        unwithheld = answer_scores.score_v2(
            gold, answers.best, answers.null_score_diffs
        )
        scores |= {k: v for k, v in unwithheld.items() if k.startswith("best_")}
    return scores


def _is_annotated(questions: files.Questions) -> bool:
    pairs = zip(questions.answer_texts, questions.is_impossible, strict=True)
    return all(texts or is_impossible for texts, is_impossible in pairs)


def score_names(data: QuestionSet, settings: choice.Settings) -> tuple[str, ...]:
    """Scores by which a checkpoint can be best, default first; ValueError if none."""
    if not _is_annotated(data.questions):
        raise errors.InputError(
            f"{data.questions.path}: some questions have no answer to compare with, "
            "and are not marked is_impossible; leave out --evaluate_steps and --grid, "
            "or give a file with answers"
        )
    if not data.questions.is_version_2:
        return "f1", "exact_match"
    if not settings.version_2_with_negative:
        return "f1", "exact"
    return "f1", "exact", "best_f1", "best_exact"
