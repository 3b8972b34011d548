"""Flags of run_classifier.py alone: its rows, a teacher, and what it writes."""

import os
from collections.abc import Callable
from typing import Any

from absl import flags

from cli import command_line, feature_flags
from contract import errors

FLAGS = flags.FLAGS
# Beyond these both softmaxes are 0 and 1, or all alike, and nothing is learned of them.
_LOWEST_TEMPERATURE, _HIGHEST_TEMPERATURE = 0.01, 1000.0
# Splits of a table, and what TensorFlow Datasets usually calls them.
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}


def define() -> None:
    """Where labelled rows come from, who teaches, and what else is written."""
    _define_rows()
    _define_columns()
    _define_language_model()
    _define_teacher()
    _define_output()
    feature_flags.define()


@command_line.heading("Data")
def _define_rows() -> None:
    string, boolean, enum = flags.DEFINE_string, flags.DEFINE_bool, flags.DEFINE_enum
    string("data_dir", None, "Directory with the task's files, or of TFDS data sets.")
    string(
        "task_name",
        None,
        "CoLA, MNLI, MRPC, XNLI or another GLUE task; or, with a choice of answers, "
        "COPA, SWAG, RACE or Story_Cloze.",
    )
    string("xnli_language", "zh", "Language of XNLI's texts.")
    for split, tfds in _TFDS_SPLITS.items():
        string(f"{split}_file", None, f"TSV, CSV or JSONL file of the {split} rows.")
        string(f"tfds_{split}_split", tfds, f"TFDS split of the {split} rows.")
    command_line.define_float(
        "dev_share",
        0.0,
        "Share of the rows of --train_file, such as 0.2, that are the dev rows instead "
        "of those of a --dev_file; the others are trained on.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    string("tfds_name", None, "TensorFlow data set to read instead, such as glue/sst2.")
    enum("file_format", "auto", ["auto", "tsv", "csv", "jsonl"], "auto: by the ending.")
    enum("has_header", "auto", ["auto", "true", "false"], "Whether line 1 has names.")
    enum(
        "pair_input",
        "joined",
        ["joined", "both_orders"],
        "How the network reads two texts: as one sequence, or in both orders, whose "
        "vectors are added, for similarity.",
    )
    string("labels", None, "Labels in the order of their ids, or a file of them.")
    enum(
        "problem_type",
        "classification",
        ["classification", "multi_label", "regression"],
        "Kind of the labels.",
    )
    string("label_separator", ",", "Between the labels of a row, for multi_label.")
    command_line.define_float(
        "multi_label_threshold",
        0.5,
        "Probability of a label given.",
        lower_bound=0,
        upper_bound=1,
    )
    boolean("allow_empty_text", False, "Keep rows of own files that have no text.")
    string("class_weights", None, "'balanced', or one weight a class, by comma.")


@command_line.heading("Data")
def _define_columns() -> None:
    string = flags.DEFINE_string
    for column, content in (
        ("text_a", "the text, or the first of a pair"),
        ("text_b", "the second text of a pair"),
        ("label", "the labels"),
        ("id", "what names a row in predictions"),
    ):
        string(
            f"{column}_column", None, f"Column of {content}: a name, or number from 0."
        )
    flags.DEFINE_list(
        "choice_columns",
        [],
        "Columns of answers, of which the label names the right one, by column or by "
        "number from 0; or one column of JSON lists. text_a is their context; text_b, "
        "if given, stands before each.",
    )


@command_line.heading("Training")
def _define_language_model() -> None:
    command_line.define_float(
        "lm_loss_weight",
        0.0,
        "Weight of the loss of predicting each next token of the texts, beside that of "
        "the labels; GPT has 0.5. For networks that read from left to right.",
        lower_bound=0,
    )


@command_line.heading("Training")
def _define_teacher() -> None:
    flags.DEFINE_string(
        "teacher",
        None,
        "Directory of a fine-tuned classifier with the same labels, whose outputs are "
        "learned beside the labels: an --output_dir, or as --pretrained.",
    )
    command_line.define_float(
        "distill_temperature",
        2.0,
        "Divides the outputs of teacher and student before they are compared; higher "
        "ones show more of what is unlikely. Without effect on regression.",
    )
    command_line.define_float(
        "distill_weight",
        0.9,
        "Share of the loss that compares with the teacher; the labels' is the rest.",
        lower_bound=0,
        upper_bound=1,
    )
    flags.DEFINE_string(
        "unlabelled_file",
        None,
        "TSV, CSV or JSONL file of rows that only the teacher says something of.",
    )


@command_line.heading("Output")
def _define_output() -> None:
    flags.DEFINE_bool("write_tf_records", True, "Write features as the original does.")
    flags.DEFINE_integer(
        "explain",
        0,
        "Rows whose words get weights, in explanations.jsonl and the report: the worst "
        "errors of the dev rows or, without --do_eval, of the test rows.",
        lower_bound=0,
    )
    flags.DEFINE_bool(
        "write_projector",
        False,
        "Write vectors of the dev rows for TensorBoard's embedding projector.",
    )


def check() -> None:
    """Raises ValueError where flags contradict each other."""
    if FLAGS.write_projector and not FLAGS.do_eval:
        raise errors.InputError("--write_projector shows evaluated rows; add --do_eval")
    if FLAGS.dev_share:
        others = [n for n in ("dev_file", "task_name", "tfds_name") if FLAGS[n].value]
        if others or not FLAGS.train_file:
            beside = f" beside --{others[0]}={FLAGS[others[0]].value}" if others else ""
            raise errors.InputError(
                f"--dev_share={FLAGS.dev_share}{beside}: takes the dev rows from "
                "--train_file; "
                + (f"leave --{others[0]} or this out" if others else "set that, too")
            )
    if FLAGS.explain and not (FLAGS.do_eval or FLAGS.do_predict):
        raise errors.InputError(
            "--explain explains predictions; add --do_eval or --do_predict"
        )
    for name in ("distill_temperature", "distill_weight", "unlabelled_file"):
        if FLAGS[name].present and not FLAGS.teacher:
            raise errors.InputError(
                f"--{name}={FLAGS[name].value} is for learning from a teacher; set "
                "--teacher, or leave it out"
            )
    if FLAGS.teacher:
        _check_teacher()
    command_line.check_files("unlabelled_file", *(["data_dir"] * bool(FLAGS.task_name)))


def check_kind(problem_type: str) -> None:
    """Raises ValueError where a flag does not suit the problem type of the rows."""
    is_choice, is_both = problem_type == "choice", FLAGS.pair_input == "both_orders"
    if is_choice and is_both:
        raise errors.InputError(
            "--pair_input=both_orders is for pairs of texts, and these rows have "
            "choices; leave it out"
        )
    if FLAGS.choice_columns and FLAGS["problem_type"].present:
        raise errors.InputError(
            f"--problem_type={FLAGS.problem_type} stands beside --choice_columns, "
            "which say what is decided; leave one out"
        )
    if FLAGS.explain and (is_choice or is_both):
        raise errors.InputError(
            f"--explain={FLAGS.explain} weighs the words of one sequence, and an "
            "example here has several; leave it out"
        )
    for name in ("teacher", "write_projector"):
        if is_choice and FLAGS[name].value:
            raise errors.InputError(
                f"--{name} is for labels that all examples share, and a choice has "
                "answers of its own; leave it out"
            )


def check_network(config: Any, config_file: str, takes_text: bool) -> None:
    """Raises ValueError where a flag does not suit the network or its tokenizer.

    `takes_text` says whether an export can have the tokenizer.
    """
    if FLAGS.explain and config.network != "bert":
        raise errors.InputError(
            f"--explain={FLAGS.explain} weighs the words of BERT's word pieces, and "
            f"{config_file} describes another network; leave it out"
        )
    asks = FLAGS["write_tf_records"].present and FLAGS.write_tf_records
    if config.network == "elmo" and asks:
        raise errors.InputError(
            "--write_tf_records writes a number for each token, and an ELMo reads its "
            "characters; leave it out"
        )
    if FLAGS.do_export and FLAGS.export_format == "litert" and not takes_text:
        raise errors.InputError(
            "--export_format=litert keeps the tokenizer beside the network, and GPT's "
            "is no TensorFlow operation; leave it out: a SavedModel takes ids"
        )
    if FLAGS.lm_loss_weight and FLAGS.freeze_encoder:
        raise errors.InputError(
            f"--lm_loss_weight={FLAGS.lm_loss_weight} trains the network, and "
            "--freeze_encoder does not; leave one of them out"
        )
    if FLAGS.lm_loss_weight and not config.is_left_to_right:
        raise errors.InputError(
            f"--lm_loss_weight={FLAGS.lm_loss_weight} predicts each token from those "
            f"before it, and the network of {config_file} sees both sides; leave it "
            'out, or take one that reads from left to right ("attention": "causal" in '
            "bert_config.json, GPT or GPT-2)"
        )


def _check_teacher() -> None:
    if not _LOWEST_TEMPERATURE <= FLAGS.distill_temperature <= _HIGHEST_TEMPERATURE:
        raise errors.InputError(
            f"--distill_temperature={FLAGS.distill_temperature} is not "
            f"{_LOWEST_TEMPERATURE} to {_HIGHEST_TEMPERATURE}; give one such as 2"
        )
    if FLAGS.unlabelled_file and not FLAGS.distill_weight:
        raise errors.InputError(
            "--distill_weight=0 leaves nothing to learn from --unlabelled_file="
            f"{FLAGS.unlabelled_file}; raise it, or leave the file out"
        )
    if os.path.realpath(FLAGS.teacher) == os.path.realpath(FLAGS.output_dir):
        raise errors.InputError(
            f"--teacher={FLAGS.teacher} is the --output_dir of the student; name "
            "another directory for one of them"
        )


def records_writer(write: Callable[..., None], data: Any) -> Callable[[str], None]:
    """What writes the features of rows to a directory, unless a flag says not to."""
    if not FLAGS.write_tf_records:
        return lambda directory: None
    return lambda directory: write(directory, data, FLAGS.max_seq_length)


def layout() -> dict[str, Any]:
    """The columns of own files, as the flags have them."""
    return {
        "file_format": FLAGS.file_format,
        "has_header": {"auto": None, "true": True, "false": False}[FLAGS.has_header],
        "text_a": FLAGS.text_a_column,
        "text_b": FLAGS.text_b_column,
        "label": FLAGS.label_column,
        "choices": tuple(FLAGS.choice_columns),
        "example_id": FLAGS.id_column,
    }


def source() -> dict[str, Any]:
    """Where the rows come from, as the flags have it."""
    prefix, suffix = ("tfds_", "_split") if FLAGS.tfds_name else ("", "_file")
    return {
        "task_name": FLAGS.task_name or "",
        "data_dir": FLAGS.data_dir or "",
        "xnli_language": FLAGS.xnli_language,
        "files": {s: FLAGS[f"{prefix}{s}{suffix}"].value for s in _TFDS_SPLITS},
        "tfds_name": FLAGS.tfds_name or "",
        "label_spec": FLAGS.labels or "",
        "problem_type": FLAGS.problem_type,
        "separator": FLAGS.label_separator,
        "allow_empty_text": FLAGS.allow_empty_text,
        "unlabelled_file": FLAGS.unlabelled_file or "",
        "pair_input": FLAGS.pair_input,
        "dev_share": FLAGS.dev_share,
    }
