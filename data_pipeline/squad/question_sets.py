"""Files of questions, to what run_squad.py trains with, answers and scores."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from contract import features, file_names
from data_pipeline.examples import batching, packing, tf_records
from data_pipeline.squad import (
    answer_choice,
    answer_scores,
    context_windows,
    squad_files,
)
from data_pipeline.text import tokenization


@dataclasses.dataclass(frozen=True)
class Data:
    """Questions of a file with their windows.

    Attributes:
        questions: as they stand in the file, or for training in the original's order.
        windows: what the network reads; a question may have several, or none.
    """

    questions: squad_files.Questions
    windows: context_windows.ContextWindows

    def batches(self, order: np.ndarray, pad_to: int | None) -> tf.data.Dataset:
        """Padded batches of windows; with answer positions where they are known.

        Args:
            order: int32 [steps, B], as in batching.batches.
            pad_to: length of every batch, or None for its longest window.
        """
        targets = {}
        if self.windows.start_positions is not None:
            targets = {
                features.START_POSITIONS: self.windows.start_positions,
                features.END_POSITIONS: self.windows.end_positions,
            }
        return batching.batches(
            self.windows.packed, order, targets=targets, pad_to=pad_to
        )

    def digest(self) -> str:
        """A short text that differs where windows or answers differ."""
        windows = self.windows
        digest = packing.digest(
            windows.packed, windows.start_positions, windows.end_positions
        )
        return f"{len(windows)} windows, digest {digest}"

    def names(self, indices: np.ndarray) -> list[str]:
        """What windows are called, for a message.

        Args:
            indices: int [B], as in a row of batching.training_order.

        Returns:
            B texts such as "train.json: question 5733be (window 2 of 3)".
        """
        owners = self.windows.question_index
        parts = batching.window_names(owners, indices)
        return [
            f"{self.questions.path}: question {self.questions.ids[owner]} ({part})"
            for owner, part in zip(owners[indices], parts, strict=True)
        ]


def load(
    split: str,
    questions: squad_files.Questions,
    tokenizer: tokenization.BertTokenizer,
    *,
    report: Callable[..., None],
    **limits: int,
) -> Data:
    """Cuts contexts into windows, and says on one line what came of it.

    Args:
        split: its name, for the line.
        questions: read and checked.
        tokenizer: of the model.
        report: called with (questions done, questions in all).
        **limits: max_seq_length, doc_stride and max_query_length of
            context_windows.make_windows.

    Raises:
        ValueError: a limit leaves no room, or no context has a token.
    """
    windows = context_windows.make_windows(
        questions, tokenizer, report=report, **limits
    )
    if not len(windows):
        raise ValueError(
            f"{questions.path}: no context has a token that the model reads; check "
            "that it holds text"
        )
    print(
        f"{split}: {len(questions)} questions from {questions.path}, "
        f"{len(windows)} windows, {windows.packed.lengths.mean():.1f} tokens on "
        f"average, {windows.packed.num_truncated} questions cut to "
        f"{limits['max_query_length']}"
    )
    return Data(questions, windows)


def write_records(directory: str, data: Data, max_seq_length: int) -> None:
    """Writes train.tf_record where answers are known, else eval.tf_record.

    They hold what the original's FeatureWriter writes: unique_ids and the three inputs;
    for training start_positions, end_positions and is_impossible as well.
    """
    windows = data.windows
    columns = {features.UNIQUE_IDS: windows.unique_ids}
    name = "eval"
    if windows.start_positions is not None and windows.end_positions is not None:
        name = "train"
        is_impossible = np.array(data.questions.is_impossible, features.INTEGER)
        columns |= {
            features.START_POSITIONS: windows.start_positions,
            features.END_POSITIONS: windows.end_positions,
            features.IS_IMPOSSIBLE: is_impossible[windows.question_index],
        }
    path = os.path.join(directory, f"{name}{file_names.TF_RECORD_ENDING}")
    tf_records.write(path, windows.packed, columns, max_seq_length)


def answer(
    data: Data,
    logits: Mapping[str, np.ndarray],
    vocab: Any,
    settings: answer_choice.Settings,
    pad_to: int | None = None,
) -> answer_choice.Answers:
    """Chooses an answer for each question.

    Differs from google-research/bert: padding takes none of the n_best_size places,
    unless every window is padded to one length.

    Args:
        data: the questions.
        logits: start_logits and end_logits, float32 [N, S] of the windows.
        vocab: the token of each id.
        settings: how to choose.
        pad_to: S where every window was padded to it; None for padding that depends on
            the batch.
    """
    length = logits["start_logits"].shape[1]
    inputs = answer_choice.inputs_of(data.questions, data.windows, length)
    is_read = np.arange(length) < data.windows.packed.lengths[:, np.newaxis]
    start, end = (
        logits[name] if pad_to else np.where(is_read, logits[name], -np.inf)
        for name in ("start_logits", "end_logits")
    )
    return answer_choice.choose(inputs, start, end, vocab, settings)


def score(data: Data, answers: answer_choice.Answers) -> dict[str, float]:
    """The official scores of the file's version; {} where right answers are not known.

    They are known if each question has one or is marked to have none. Thresholds are
    looked for among the best answers, those that are withheld included: the official
    script, given predictions.json, cannot find one above the present one.
    """
    questions = data.questions
    if not _has_right_answers(questions):
        return {}
    gold = dict(zip(questions.ids, questions.answer_texts, strict=True))
    if questions.has_marks:
        scores = answer_scores.score_v2(gold, answers.predictions)
        if answers.null_odds is not None:
            unwithheld = answer_scores.score_v2(gold, answers.best, answers.null_odds)
            scores |= {k: v for k, v in unwithheld.items() if k.startswith("best_")}
        return scores
    return answer_scores.score_v1(gold, answers.predictions)


def _has_right_answers(questions):
    answers, marks = questions.answer_texts, questions.is_impossible
    return all(texts or mark for texts, mark in zip(answers, marks, strict=True))


def score_names(data: Data, settings: answer_choice.Settings) -> tuple[str, ...]:
    """The scores by which a checkpoint can be the best; f1 is the usual one.

    Raises:
        ValueError: nothing can be scored.
    """
    if not _has_right_answers(data.questions):
        raise ValueError(
            f"{data.questions.path}: some questions have no answer to compare with, "
            "and are not marked is_impossible; leave out --evaluate_steps, or give a "
            "file with answers"
        )
    if not data.questions.has_marks:
        return "f1", "exact_match"
    if not settings.version_2_with_negative:
        return "f1", "exact"
    return "f1", "exact", "best_f1", "best_exact"
