"""The questions of a file with their windows, and their records."""

import collections
import dataclasses
import os
from typing import Any, ClassVar

import numpy as np

from contract import errors, features, file_names, outcomes
from data_pipeline.batches import splits, tf_records
from data_pipeline.squad import files
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import base


@dataclasses.dataclass(frozen=True)
class QuestionSplit(splits.Split):
    """The questions of a file and their windows, of which one may have several."""

    questions: files.Questions
    windows: context_windows.ContextWindows
    unit: ClassVar[str] = "windows"

    def targets(self) -> dict[str, Any]:
        """start_positions and end_positions, int32 [N] each; {} for prediction."""
        start, end = self.windows.start_positions, self.windows.end_positions
        if start is None or end is None:
            return {}
        return {features.START_POSITIONS: start, features.END_POSITIONS: end}

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] windows: "train.json: question 5733be (window 2 of 3)"."""
        owners = self.windows.question_index
        numbers = splits.window_names(owners, indices)
        return [
            f"{self.path}: question {self.questions.ids[owner]} ({number})"
            for owner, number in zip(owners[indices], numbers, strict=True)
        ]

    def summary(self) -> outcomes.Summary:
        owners = self.windows.question_index
        kinds = (
            "no answer" if none else "answer" for none in self.questions.is_impossible
        )
        return outcomes.Summary(
            path=self.path,
            count=len(self.questions),
            unit="questions",
            lengths=np.bincount(owners, minlength=len(self.questions)),
            length_unit="windows of a question",
            cut=self.packed.num_truncated,
            cut_means="cut to --max_query_length",
            labels=dict(collections.Counter(kinds)),
            labels_title="Answers",
        )


def load(
    name: str,
    questions: files.Questions,
    tokenizer: base.Tokenizer,
    **limits: int,
) -> QuestionSplit:
    """Cuts the split `name` as windows.make_windows, and prints how much there is."""
    windows = context_windows.make_windows(questions, tokenizer, **limits)
    if not len(windows):
        raise errors.InputError(
            f"{questions.path}: no context has a token that the model reads; check "
            "that it holds text"
        )
    counts = tokenizer.count_unknown(windows.packed.tokens)
    unknown = tokenizer.describe_unknown(questions.path, counts)
    print(
        f"{name}: {len(questions)} questions from {questions.path}, "
        f"{len(windows)} windows, {windows.packed.lengths.mean():.1f} tokens on "
        f"average, {windows.packed.num_truncated} questions cut to "
        f"{limits['max_query_length']}{unknown}"
    )
    return QuestionSplit(questions.path, windows.packed, questions, windows)


def write_records(directory: str, data: QuestionSplit, max_seq_length: int) -> None:
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
