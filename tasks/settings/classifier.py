"""Settings of run_classifier.py: rows, labels, a teacher, what is written."""

import dataclasses
import os
from typing import Any, ClassVar

from contract import errors
from data_pipeline.classification import sources
from data_pipeline.tables import labelled
from tasks.settings import (
    fields,
    fine_tuning,
    head,
    long_texts,
    model,
    recipe,
    tables,
    training,
)

# Temperatures; beyond these both softmaxes are 0 and 1, or all alike, and nothing is
# learned of them.
_LOWEST, _HIGHEST = 0.01, 1000.0


def _tfds_split(split: str, usual: str) -> Any:
    text = f"TFDS split to use as the {split} set."
    return fields.data(usual, text, changes=fields.NOTHING)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierSettings(
    tables.Columns,
    tables.Files,
    head.Head,
    recipe.Recipe,
    long_texts.LongTexts,
    training.LabelSmoothing,
    training.PackSequences,
    training.Evaluates,
    model.MaxSeqLength,
    fine_tuning.FineTuning,
):
    """Settings of run_classifier.py: rows, labels, a teacher, what is written."""

    program: ClassVar[str] = "run_classifier"

    data_dir: str | None = fields.data(
        None,
        "Directory with the files of --task_name, or the data directory of TensorFlow "
        "Datasets.",
        path=True,
        changes=fields.NOTHING,
        in_python=False,
    )
    task_name: str | None = fields.data(
        None,
        "Name of the task: XNLI, a GLUE task such as CoLA, MNLI or MRPC, or a CLUE "
        "task such as AFQMC, TNEWS or C3.",
        changes=fields.NOTHING,
        in_python=False,
    )
    xnli_language: str = fields.data(
        "zh", "Language of the XNLI texts.", changes=fields.NOTHING, in_python=False
    )
    dev_share: float = fields.data(
        0.0,
        "Share of the rows of --train_file, such as 0.2, to use as the dev set "
        "instead of --dev_file. The other rows are for training.",
        least=0.0,
        most=1.0,
        changes=fields.NOTHING,
        only_trains=True,
    )
    tfds_name: str | None = fields.data(
        None,
        "Data set of TensorFlow Datasets to read instead of files, such as glue/sst2.",
        changes=fields.NOTHING,
        in_python=False,
    )
    pair_input: str = fields.data(
        "joined",
        "Input of the network for two texts. joined: one sequence. both_orders: two "
        "sequences, A before B and B before A; their vectors are added, for "
        "similarity. For choices also separate: question [SEP] choice, as for C3; and "
        "cloze: the choice, and the text around #idiom#, as for ChID.",
        choices=["joined", "both_orders", "separate", "cloze"],
    )
    allow_empty_text: bool = fields.data(
        False,
        "Keep rows without text in your own files, instead of leaving them out of the "
        "training and dev rows and refusing them in test rows.",
        changes=fields.ANSWERS,
    )
    tfds_train_split: str = _tfds_split("train", "train")
    tfds_dev_split: str = _tfds_split("dev", "validation")
    tfds_test_split: str = _tfds_split("test", "test")
    labels: str | None = fields.data(
        None,
        "Comma-separated labels in the order of their ids, or a file with one label "
        "per line.",
        path=True,
        changes=fields.NOTHING,
    )
    check_data: bool = fields.data(
        False,
        "Only look at the rows of all files that are given: print the labels, and all "
        "that is odd in them or in the texts, and end.",
        changes=fields.NOTHING,
        in_python=False,
    )
    problem_type: str = fields.data(
        "classification",
        "Type of the labels: one label, several labels or a number per row.",
        choices=["classification", "multi_label", "regression"],
        changes=fields.WEIGHTS,
    )
    label_separator: str = fields.data(
        ",",
        "Separator between the labels of a row, for --problem_type=multi_label.",
        changes=fields.ANSWERS,
    )
    multi_label_threshold: float = fields.data(
        0.5,
        "Minimum probability of a predicted label, for --problem_type=multi_label.",
        least=0,
        most=1,
        changes=fields.ANSWERS,
    )
    class_weights: str | None = fields.data(
        None,
        "Weights of the classes in the loss: 'balanced', or one number per class, "
        "separated by commas.",
        changes=fields.WEIGHTS,
    )
    lm_loss_weight: float = fields.training(
        0.0,
        "Weight of an additional loss for predicting each next token, for networks "
        "that read from left to right. GPT uses 0.5.",
        least=0,
        changes=fields.WEIGHTS,
    )
    teacher: str | None = fields.training(
        None,
        "Directory of a fine-tuned classifier with the same labels: an --output_dir, "
        "or any directory for --pretrained. The model is trained on the outputs of "
        "this teacher in addition to the labels.",
        path=True,
        changes=fields.NOTHING,
        only_trains=True,
    )
    distill_temperature: float = fields.training(
        2.0,
        "Divisor of the logits of teacher and student before they are compared. "
        "Higher values show more of the unlikely labels; no effect on regression.",
        changes=fields.WEIGHTS,
        only_with={"teacher": True},
        only_trains=True,
    )
    distill_weight: float = fields.training(
        0.9,
        "Weight of the loss between the model and the teacher; the loss of the labels "
        "has the remaining weight.",
        least=0,
        most=1,
        changes=fields.WEIGHTS,
        only_with={"teacher": True},
        only_trains=True,
    )
    unlabelled_file: str | None = fields.training(
        None,
        "TSV, CSV or JSONL file with rows without labels. With --teacher they are "
        "trained on its outputs alone; with a --recipe but fine_tune those to label "
        "next are written to to_label.csv, the most useful first.",
        path=True,
        changes=fields.NOTHING,
        only_trains=True,
    )
    write_tf_records: bool = fields.output(
        True,
        "Write the features to *.tf_record files, as google-research/bert does.",
        changes=fields.NOTHING,
    )
    explain: int = fields.output(
        0,
        "Number of rows with a weight for each word, in explanations.jsonl and the "
        "report: the worst errors of the dev set or, without --do_eval, of the test "
        "set. Without labels, they are the first rows of the test set.",
        least=0,
        changes=fields.NOTHING,
    )
    write_projector: bool = fields.output(
        False,
        "Write the vectors of the dev rows for the embedding projector of TensorBoard.",
        changes=fields.NOTHING,
    )

    def check(self) -> None:
        """Refuses settings that contradict one another, and columns without a name."""
        if self.check_data:  # and nothing else is done
            fields.Settings.check(self)
            return self.check_rows()
        super().check()
        self.check_rows()
        self.source().check(self.local_tables)

    def check_rows(self) -> None:
        """Refuses what contradicts the rows, or the teacher of them."""
        share, teacher = f"--dev_share={self.dev_share}", self.teacher
        unlabelled, temperature = self.unlabelled_file, self.distill_temperature
        errors.refuse(
            (
                self.layout().label_columns
                and "problem_type" in self.given
                and self.problem_type != "multi_label",
                f"--label_column={self.label_column} is a column for each of several "
                f"labels; leave --problem_type={self.problem_type} out",
            ),
            (
                self.write_projector and not self.do_eval,
                "--write_projector shows evaluated rows; add --do_eval",
            ),
            *(
                (
                    self.dev_share and getattr(self, name),
                    f"{share} beside --{name}={getattr(self, name)}: takes the dev "
                    f"rows from --train_file; leave --{name} or this out",
                )
                for name in ("dev_file", "task_name", "tfds_name")
            ),
            *(
                (
                    self.task_name and name in self.given,
                    f"{self.typed(name)} is for files of your own; leave it or "
                    f"--task_name={self.task_name} out",
                )
                for name in (
                    "file_format",
                    "has_header",
                    "delimiter",
                    "quote",
                    "encoding",
                )
            ),
            (
                self.dev_share and not self.train_file,
                f"{share}: takes the dev rows from --train_file; set that, too",
            ),
            (
                self.explain and not (self.do_eval or self.do_predict),
                "--explain explains predictions; add --do_eval or --do_predict",
            ),
            (
                teacher and not _LOWEST <= temperature <= _HIGHEST,
                f"--distill_temperature={temperature} is not {_LOWEST} to {_HIGHEST}; "
                "give one such as 2",
            ),
            (
                teacher and unlabelled and not self.distill_weight,
                "--distill_weight=0 leaves nothing to learn from --unlabelled_file="
                f"{unlabelled}; raise it, or leave the file out",
            ),
            (
                teacher
                and os.path.realpath(teacher)
                == os.path.realpath(self.output_dir or ""),
                f"--teacher={teacher} is the --output_dir of the student; name another",
            ),
        )
        errors.refuse(*recipe.refusals(self))
        if self.windows():
            errors.refuse(*long_texts.refusals(self, self.typed("long_texts")))
        self.check_files("unlabelled_file", *["data_dir"][: bool(self.task_name)])

    def check_kind(self, problem_type: str) -> None:
        """Raises InputError where a flag does not suit the problem type of the rows."""
        is_choice, is_both = problem_type == "choice", self.pair_input == "both_orders"
        errors.refuse(
            (
                is_choice and is_both,
                "--pair_input=both_orders: these rows have choices; leave it out",
            ),
            (
                self.choice_columns and "problem_type" in self.given,
                f"--problem_type={self.problem_type} stands beside --choice_columns; "
                "leave one out",
            ),
            (
                self.label_smoothing
                and (self.teacher or problem_type in ("multi_label", "regression")),
                f"--label_smoothing={self.label_smoothing} is for rows with one label, "
                "and for training without a --teacher; leave it out",
            ),
            (
                self.explain and (is_choice or is_both),
                f"--explain={self.explain} weighs the words of one sequence; leave it "
                "out",
            ),
            *(
                (
                    is_choice and getattr(self, name),
                    f"--{name} is for labels that all examples share; leave it out",
                )
                for name in ("teacher", "write_projector")
            ),
        )

    def check_network(self, config: Any, config_file: str) -> None:
        """Raises InputError where a flag does not suit the network."""
        weight = self.lm_loss_weight
        wants_records = "write_tf_records" in self.given and self.write_tf_records
        errors.refuse(
            (
                self.explain and not config.spec.weighs_words,
                f"--explain={self.explain} weighs the words of BERT's word pieces, and "
                f"{config_file} describes another network; leave it out",
            ),
            (
                config.spec.reads_characters and wants_records,
                "--write_tf_records writes a number for each token, and an ELMo reads "
                "its characters; leave it out",
            ),
            (
                weight and self.freeze_encoder,
                f"--lm_loss_weight={weight} trains the network, and --freeze_encoder "
                "does not; leave one of them out",
            ),
            (
                weight and not config.is_left_to_right,
                f"--lm_loss_weight={weight} predicts each token from those before it, "
                f"and the network of {config_file} sees both sides; leave it out",
            ),
        )

    @property
    def has_named_task(self) -> bool:
        """Whether rows come from a task by name, and not from the user's files."""
        return bool(self.task_name or self.tfds_name)

    def layout(self) -> labelled.Layout:
        """The columns of own files; several of labels have commas between them."""
        names = tuple(map(str.strip, (self.label_column or "").split(",")))
        read = super().layout()
        return dataclasses.replace(
            read,
            label=names if len(names) > 1 else read.label,
            allow_empty_text=self.allow_empty_text,
        )

    def source(self) -> sources.Source:
        """Where the rows come from, as the settings name them."""
        prefix, suffix = ("tfds_", "_split") if self.tfds_name else ("", "_file")
        return sources.Source(
            task_name=self.task_name or "",
            data_dir=self.data_dir or "",
            xnli_language=self.xnli_language,
            files={s: getattr(self, f"{prefix}{s}{suffix}") for s in tables.SPLITS},
            tfds_name=self.tfds_name or "",
            layout=self.layout(),
            label_spec=self.labels or "",
            problem_type=self.problem_type,
            separator=self.label_separator,
            unlabelled_file=self.unlabelled_file or "",
            pair_input=self.pair_input,
            windows=self.windows(),
            follows_windows="long_texts" not in self.given,
            dev_share=self.dev_share,
            opened=self.opened_tables,
        )
