"""Settings of create_pretraining_data.py: which text, and what records of it."""

import dataclasses
from typing import Any, ClassVar

from absl import logging

from contract import errors
from tasks.settings import fields, mask_shares, model, processes

_OF_MASKED_LM = {"objective": "masked_lm"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CreationSettings(processes.Engine, model.VocabularyChecks):
    """Which text, and what records are made of it."""

    program: ClassVar[str] = "create_pretraining_data"

    input_file: str = fields.data(
        fields.REQUIRED,
        "Comma-separated text files or globs; files may be compressed (.gz).",
        path=True,
    )
    output_file: str = fields.output(
        fields.REQUIRED,
        "Comma-separated TFRecord files; the instances are distributed over them.",
        path=True,
    )
    num_shards: int = fields.output(
        1, "Number of files that each --output_file is split into.", least=1
    )
    vocab_file: str = fields.model(
        fields.REQUIRED,
        "Vocabulary file of the model.",
        path=True,
    )
    do_lower_case: bool = fields.model(
        True,
        "Lower-case the text and remove accents: true for uncased models, false "
        "for cased models.",
    )
    num_workers: int = fields.processes(
        0,
        "Number of processes; 0 for one per core. The output does not depend on it.",
        least=0,
    )
    objective: str = fields.records(
        "masked_lm",
        "Training objective. masked_lm: masked words and the second sentence, as in "
        "BERT. left_to_right: each token from the tokens before it, as in GPT.",
        choices=["masked_lm", "left_to_right"],
    )
    max_seq_length: int = fields.records(
        128, "Maximum sequence length, in tokens.", least=5, most=1 << 20
    )
    max_predictions_per_seq: int = fields.records(
        20,
        "Maximum number of masked tokens per sequence.",
        least=1,
        only_with=_OF_MASKED_LM,
    )
    masked_lm_prob: float = fields.records(
        0.15,
        "Share of the tokens to mask.",
        least=0.0,
        most=1.0,
        only_with=_OF_MASKED_LM,
    )
    short_seq_prob: float = fields.records(
        0.1,
        "Probability of creating sequences which are shorter than the maximum length.",
        least=0.0,
        most=1.0,
        only_with=_OF_MASKED_LM,
    )
    masking: str = fields.records(
        "word_piece",
        "Unit of masking: word pieces, whole words, spans of up to 10 words "
        "(SpanBERT) or n-grams of up to 3 words (ALBERT). With none, "
        "run_pretraining.py masks the records.",
        choices=["word_piece", "whole_word", "span", "ngram", "none"],
        only_with=_OF_MASKED_LM,
    )
    do_whole_word_mask: bool = fields.records(
        False,
        "The same as --masking=whole_word.",
        only_with=_OF_MASKED_LM,
    )
    segmented_words: bool = fields.records(
        False,
        "Words are what spaces separate, for --masking=whole_word, span and ngram: "
        "Chinese text that a tool has segmented. The tokens stay the same.",
        only_with=_OF_MASKED_LM,
    )
    sentence_task: str = fields.records(
        "next",
        "Second task. next: B is the next segment or a random one. order: two "
        "segments are in order or swapped (ALBERT). none: no second task (RoBERTa).",
        choices=["next", "order", "none"],
        only_with=_OF_MASKED_LM,
    )
    dupe_factor: int = fields.records(
        10,
        "Number of times to duplicate the input data, with different pairs and masks; "
        "1 by default with --masking=none.",
        least=1,
        only_with=_OF_MASKED_LM,
    )
    document_end: str = fields.records(
        "blank_line",
        "End of a document with --objective=left_to_right. blank_line: a blank line, "
        "with one sentence per line. file: the end of the file, with the lines as "
        "they are.",
        choices=["blank_line", "file"],
        only_with={"objective": "left_to_right"},
    )
    random_seed: int = fields.records(12345, "Random seed for data generation.")
    mask_proportions: tuple[float, ...] = mask_shares.field(
        "Records", "masked tokens", only_with=_OF_MASKED_LM
    )

    def check(self) -> None:
        """Refuses contradictions, and files that are not there."""
        super().check()
        errors.refuse(
            (
                self.do_whole_word_mask
                and "masking" in self.given
                and self.masking != "whole_word",
                f"--do_whole_word_mask and --masking={self.masking} contradict each "
                "other; leave one of them out",
            ),
            (
                self.segmented_words and self._masking_kind in ("word_piece", "none"),
                f"--segmented_words is for masks of words, but --masking is "
                f"{self._masking_kind}; set --masking=whole_word, span or ngram",
            ),
            (
                "mask_proportions" in self.given and self._masking_kind == "none",
                f"{self.typed('mask_proportions')} is for records that are masked, but "
                "--masking is none; give the flag to run_pretraining.py, which masks "
                "them",
            ),
        )
        self.check_files("input_file", "vocab_file")

    @property
    def _masking_kind(self) -> str:
        return "whole_word" if self.do_whole_word_mask else self.masking

    def rule(self) -> dict[str, Any]:
        """How records are made, by the names of metadata.Metadata."""
        if self.objective == "left_to_right":
            return {
                "objective": self.objective,
                "document_end": self.document_end,
                "masking": "none",
                "masked_lm_prob": 0.0,
                "max_predictions_per_seq": 0,
                "sentence_task": "none",
                "dupe_factor": 1,
                "short_seq_prob": 0.0,
            }
        kind = self._masking_kind
        is_masked = kind != "none"
        uses_once = not is_masked and "dupe_factor" not in self.given
        return {
            "masking": kind,
            "masked_lm_prob": self.masked_lm_prob if is_masked else 0.0,
            "max_predictions_per_seq": self.max_predictions_per_seq if is_masked else 0,
            "mask_proportions": self.mask_proportions,
            "segmented_words": self.segmented_words,
            "sentence_task": self.sentence_task,
            "dupe_factor": 1 if uses_once else self.dupe_factor,
            "short_seq_prob": self.short_seq_prob,
        }

    def warn_of_few_predictions(self) -> None:
        """Where full sequences have fewer masked tokens than their share."""
        wanted = round(self.max_seq_length * self.masked_lm_prob)
        if (
            self.rule()["max_predictions_per_seq"]
            and wanted > self.max_predictions_per_seq
        ):
            logging.warning(
                "--max_predictions_per_seq=%d is less than --max_seq_length times "
                "--masked_lm_prob, so full sequences have fewer masks; %d would be "
                "enough",
                self.max_predictions_per_seq,
                wanted,
            )
