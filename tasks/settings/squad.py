"""Settings of run_squad.py: questions, how contexts are cut, and answers chosen."""

import dataclasses
from typing import Any, ClassVar

from contract import errors
from tasks.settings import fields, fine_tuning, head, model

CHINESE = ("cmrc2018", "drcd")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadSettings(head.Head, model.MaxSeqLength, fine_tuning.FineTuning):
    """Settings of run_squad.py: questions, windows of contexts, choice of answers."""

    program: ClassVar[str] = "run_squad"
    scoring: ClassVar[str] = "do_predict"

    max_seq_length: int = fields.again(model.MaxSeqLength, "max_seq_length", 384)
    task_name: str = fields.data(
        "squad",
        "cmrc2018, drcd: contexts are cut at ideographs, answers are found by "
        "--answer_aligner=words and scored by characters, as in the script of CMRC "
        "2018. For other Chinese questions, too.",
        choices=["squad", *CHINESE],
        changes=fields.ANSWERS,
    )
    train_file: str | None = fields.data(
        None,
        "SQuAD json for training.",
        path=True,
        changes=fields.NOTHING,
        in_python=False,
    )
    predict_file: str | None = fields.data(
        None,
        "SQuAD json for predictions; they are scored if it contains the answers.",
        path=True,
        changes=fields.NOTHING,
        in_python=False,
    )
    multiple_answers: str = fields.data(
        "",
        "For training questions with several answers: use the first answer, or make a "
        "separate question of each. By default they are refused, as in "
        "google-research/bert.",
        choices=["", "first", "all"],
        changes=fields.WEIGHTS,
    )
    doc_stride: int = fields.data(
        128, "Stride in tokens between the windows of a long context."
    )
    max_query_length: int = fields.data(
        64, "Maximum number of tokens of a question; longer questions are truncated."
    )
    n_best_size: int = fields.answers(
        20,
        "Number of start positions, end positions and answers to keep.",
        least=1,
        changes=fields.ANSWERS,
    )
    max_answer_length: int = fields.answers(
        30, "Maximum number of tokens of an answer.", least=1, changes=fields.ANSWERS
    )
    version_2_with_negative: bool = fields.answers(
        False, "If true, the SQuAD examples contain some that do not have an answer."
    )
    null_score_diff_threshold: float = fields.answers(
        0.0,
        "Predict no answer if its score exceeds the score of the best answer by more "
        "than this.",
        changes=fields.ANSWERS,
    )
    answer_aligner: str = fields.answers(
        "original",
        "How to find the text of an answer: as in google-research/bert, or by the "
        "positions of words, which suits text without spaces.",
        choices=["original", "words"],
    )
    verbose_logging: bool = fields.answers(
        False,
        "Print each answer that is not found in its context as it is spelled.",
        changes=fields.NOTHING,
    )

    def limits(self) -> dict[str, Any]:
        """How contexts are cut, by the names of the fields."""
        names = ("max_seq_length", "doc_stride", "max_query_length")
        return {name: getattr(self, name) for name in names}

    def with_short_questions(self, room: int) -> "SquadSettings":
        """Leaves tokens of a sequence for contexts, without --max_query_length.

        `room` is for question and context.

        Differs from google-research/bert: where its default of 64 tokens leaves none, a
        question may have half of the tokens; there the run is refused.
        """
        if "max_query_length" in self.given or not self.max_query_length >= room > 1:
            return self
        length = self.max_seq_length
        print(f"max_query_length: {room // 2}, half of max_seq_length={length}")
        return self.with_values(max_query_length=room // 2)

    def check_network(
        self, config: Any, tokenizer: Any, reading: Any, has_pieces: bool
    ) -> None:
        """Raises InputError where questions cannot be asked of a network.

        `reading` is the choice of layers and head; `has_pieces` is whether tokens are
        BERT's word pieces.
        """
        rules = getattr(tokenizer, "rules", None)
        splits = has_pieces and getattr(rules, "isolates_cjk", False)
        sees_all = not config.is_left_to_right or reading.head == "bilstm"
        errors.refuse(
            (
                self.version_2_with_negative and not sees_all,
                "--version_2_with_negative scores 'no answer' at the first token, "
                "which sees nothing from left to right; leave it out, or add "
                "--head=bilstm",
            ),
            (
                self._wants_original and not has_pieces,
                "--answer_aligner=original needs word pieces, and the tokens of this "
                "vocabulary are none; leave it out",
            ),
            (
                self.is_chinese and not splits,
                f"--task_name={self.task_name} cuts texts at each ideograph, as BERT's "
                "word pieces do, and the tokens of this vocabulary may be longer; "
                "choose a BERT",
            ),
        )

    def answer_settings(self, has_pieces: bool) -> dict[str, Any]:
        """How answers are chosen, but for the case of the model."""
        return {
            "n_best_size": self.n_best_size,
            "max_answer_length": self.max_answer_length,
            "version_2_with_negative": self.version_2_with_negative,
            "null_score_diff_threshold": self.null_score_diff_threshold,
            "aligner": "words"
            if self.is_chinese or not has_pieces
            else self.answer_aligner,
            "is_chinese": self.is_chinese,
        }

    @property
    def is_chinese(self) -> bool:
        """Whether questions are read and answers scored as Chinese ones."""
        return self.task_name in CHINESE

    @property
    def _wants_original(self) -> bool:
        return "answer_aligner" in self.given and self.answer_aligner == "original"

    def file_of(self, split: str) -> str:
        """One file serves dev and test."""
        return "train_file" if split == "train" else "predict_file"

    def check(self) -> None:
        """Refuses an action that lacks its file, and English for Chinese."""
        super().check()
        scores = self.do_predict or self.evaluate_steps
        errors.refuse(
            (
                self.is_chinese and self._wants_original,
                f"--task_name={self.task_name} has --answer_aligner=words; leave it "
                "out",
            ),
            (
                self.is_chinese and self.version_2_with_negative,
                f"--task_name={self.task_name} has an answer to each question; leave "
                "--version_2_with_negative out",
            ),
            (
                self.do_train and not self.train_file,
                "--do_train needs a --train_file, a SQuAD json",
            ),
            (
                scores and not self.predict_file,
                "--do_predict and --evaluate_steps need a --predict_file, a SQuAD json",
            ),
        )
        if scores and self.is_chinese:
            errors.check_installed(f"--task_name={self.task_name}", "nltk")
