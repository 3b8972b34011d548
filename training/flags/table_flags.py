"""Flags of where labelled rows come from, for scripts that read tables."""

from typing import Any

from absl import flags

from training.flags import command_line

FLAGS = flags.FLAGS
# Splits of a table, and what TensorFlow Datasets usually calls them.
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}


@command_line.heading("Data")
def define() -> None:
    """Where labelled rows come from: a task, files or a TFDS data set."""
    string, boolean, enum = flags.DEFINE_string, flags.DEFINE_bool, flags.DEFINE_enum
    string("data_dir", None, "Directory with the task's files, or of TFDS data sets.")
    string("task_name", None, "CoLA, MNLI, MRPC, XNLI or another GLUE task.")
    string("xnli_language", "zh", "Language of XNLI's texts.")
    for split, tfds in _TFDS_SPLITS.items():
        string(f"{split}_file", None, f"TSV, CSV or JSONL file of the {split} rows.")
        string(f"tfds_{split}_split", tfds, f"TFDS split of the {split} rows.")
    string("tfds_name", None, "TensorFlow data set to read instead, such as glue/sst2.")
    enum("file_format", "auto", ["auto", "tsv", "csv", "jsonl"], "auto: by the ending.")
    enum("has_header", "auto", ["auto", "true", "false"], "Whether line 1 has names.")
    for column in ("text_a", "text_b", "label", "id"):
        string(f"{column}_column", None, "Name, or number from 0, of the column.")
    string("labels", None, "Labels in the order of their ids, or a file of them.")
    enum(
        "problem_type",
        "classification",
        ["classification", "multi_label", "regression"],
        "Kind of the labels.",
    )
    string("label_separator", ",", "Between the labels of a row, for multi_label.")
    command_line.define_float(
        "multi_label_threshold", 0.5, "Probability of a label given."
    )
    boolean("allow_empty_text", False, "Keep rows of own files that have no text.")
    string("class_weights", None, "'balanced', or one weight a class, by comma.")


def layout() -> dict[str, Any]:
    """The columns of own files, as the flags have them."""
    return {
        "file_format": FLAGS.file_format,
        "has_header": {"auto": None, "true": True, "false": False}[FLAGS.has_header],
        "text_a": FLAGS.text_a_column,
        "text_b": FLAGS.text_b_column,
        "label": FLAGS.label_column,
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
    }
