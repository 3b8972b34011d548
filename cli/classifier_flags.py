"""Flags of run_classifier.py alone: its rows, a teacher, and what it writes."""

import dataclasses
import os
from typing import Any

from absl import flags

from cli import command_line, feature_flags, table_flags, training_flags
from contract import errors, export_formats, wording
from data_pipeline.classification import label_checks, sources, tables

FLAGS = flags.FLAGS
# Beyond these both softmaxes are 0 and 1, or all alike, and nothing is learned of them.
_LOWEST_HEAT, _HIGHEST_HEAT = 0.01, 1000.0
# Splits of a table, and what TensorFlow Datasets usually calls them.
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
boolean, enum, string = flags.DEFINE_bool, flags.DEFINE_enum, flags.DEFINE_string


def define() -> None:
    """Where labelled rows come from, who teaches, and what else is written."""
    _define_rows()
    _define_labels()
    _define_training()
    _define_output()
    feature_flags.define()


@command_line.heading("Data")
def _define_rows() -> None:
    string(
        "data_dir",
        None,
        "Directory with the files of --task_name, or the data directory of TensorFlow "
        "Datasets.",
    )
    string(
        "task_name",
        None,
        "Name of the task: XNLI, a GLUE task such as CoLA, MNLI or MRPC, a CLUE task "
        "such as AFQMC, TNEWS or C3, or a multiple-choice task (COPA, SWAG, RACE, "
        "Story_Cloze).",
    )
    string("xnli_language", "zh", "Language of the XNLI texts.")
    table_flags.define_files("TSV, CSV or JSONL file with the {} set.")
    for split, tfds in _TFDS_SPLITS.items():
        string(f"tfds_{split}_split", tfds, f"TFDS split to use as the {split} set.")
    command_line.define_float(
        "dev_share",
        0.0,
        "Share of the rows of --train_file, such as 0.2, to use as the dev set "
        "instead of --dev_file. The other rows are for training.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    string(
        "tfds_name",
        None,
        "Data set of TensorFlow Datasets to read instead of files, such as glue/sst2.",
    )
    table_flags.define_form()
    enum(
        "pair_input",
        "joined",
        ["joined", "both_orders", "separate", "cloze"],
        "Input of the network for two texts. joined: one sequence. both_orders: two "
        "sequences, A before B and B before A; their vectors are added, for "
        "similarity. For choices also separate: question [SEP] choice, as for C3; and "
        "cloze: the choice, and the text around #idiom#, as for ChID.",
    )
    boolean(
        "allow_empty_text",
        False,
        "Keep rows without text in your own files, instead of refusing them.",
    )


@command_line.heading("Data")
def _define_labels() -> None:
    string(
        "labels",
        None,
        "Comma-separated labels in the order of their ids, or a file with one label "
        "per line.",
    )
    boolean(
        "check_data",
        False,
        "Only look at the rows of all files that are given: print the labels, and all "
        "that is odd in them or in the texts, and end.",
    )
    kinds = ["classification", "multi_label", "regression"]
    enum(
        "problem_type",
        "classification",
        kinds,
        "Type of the labels: one label, several labels or a number per row.",
    )
    string(
        "label_separator",
        ",",
        "Separator between the labels of a row, for --problem_type=multi_label.",
    )
    command_line.define_float(
        "multi_label_threshold",
        0.5,
        "Minimum probability of a predicted label, for --problem_type=multi_label.",
        0,
        1,
    )
    string(
        "class_weights",
        None,
        "Weights of the classes in the loss: 'balanced', or one number per class, "
        "separated by commas.",
    )
    table_flags.define_columns(
        "Columns with the answers of a multiple-choice task, or one column with JSON "
        "lists. The label is the name or the number (from 0) of the right column; "
        "text_a is the context, and text_b, if given, stands before each answer."
    )
    table_flags.define_column("id", "the row ids for the predictions")


@command_line.heading("Training")
def _define_training() -> None:
    training_flags.define_packing()
    command_line.define_float(
        "lm_loss_weight",
        0.0,
        "Weight of an additional loss for predicting each next token, for networks "
        "that read from left to right. GPT uses 0.5.",
        lower_bound=0,
    )
    string(
        "teacher",
        None,
        "Directory of a fine-tuned classifier with the same labels: an --output_dir, "
        "or any directory for --pretrained. The model is trained on the outputs of "
        "this teacher in addition to the labels.",
    )
    command_line.define_float(
        "distill_temperature",
        2.0,
        "Divisor of the logits of teacher and student before they are compared. "
        "Higher values show more of the unlikely labels; no effect on regression.",
    )
    command_line.define_float(
        "distill_weight",
        0.9,
        "Weight of the loss between the model and the teacher; the loss of the labels "
        "has the remaining weight.",
        lower_bound=0,
        upper_bound=1,
    )
    string(
        "unlabelled_file",
        None,
        "TSV, CSV or JSONL file with rows without labels; they are trained on the "
        "outputs of the teacher alone.",
    )


@command_line.heading("Output")
def _define_output() -> None:
    boolean(
        "write_tf_records",
        True,
        "Write the features to *.tf_record files, as google-research/bert does.",
    )
    flags.DEFINE_integer(
        "explain",
        0,
        "Number of rows with a weight for each word, in explanations.jsonl and the "
        "report: the worst errors of the dev set or, without --do_eval, of the test "
        "set. Without labels, they are the first rows of the test set.",
        lower_bound=0,
    )
    boolean(
        "write_projector",
        False,
        "Write the vectors of the dev rows for the embedding projector of TensorBoard.",
    )


def check() -> None:
    """Raises ValueError where flags contradict each other."""
    share, teacher = f"--dev_share={FLAGS.dev_share}", FLAGS.teacher
    heat, unlabelled = FLAGS.distill_temperature, FLAGS.unlabelled_file
    command_line.refuse(
        (
            layout().label_columns
            and FLAGS["problem_type"].present
            and FLAGS.problem_type != "multi_label",
            f"--label_column={FLAGS.label_column} is a column for each of several "
            f"labels; leave --problem_type={FLAGS.problem_type} out",
        ),
        (
            FLAGS.write_projector and not FLAGS.do_eval,
            "--write_projector shows evaluated rows; add --do_eval",
        ),
        *(
            (
                FLAGS.dev_share and FLAGS[name].value,
                f"{share} beside --{name}={FLAGS[name].value}: takes the dev rows from "
                f"--train_file; leave --{name} or this out",
            )
            for name in ("dev_file", "task_name", "tfds_name")
        ),
        *(
            (
                FLAGS.task_name and FLAGS[name].present,
                f"{FLAGS[name].serialize()} is for files of your own; leave it or "
                f"--task_name={FLAGS.task_name} out",
            )
            for name in ("file_format", "has_header", "delimiter", "quote")
        ),
        (
            FLAGS.dev_share and not FLAGS.train_file,
            f"{share}: takes the dev rows from --train_file; set that, too",
        ),
        (
            FLAGS.explain and not (FLAGS.do_eval or FLAGS.do_predict),
            "--explain explains predictions; add --do_eval or --do_predict",
        ),
        *(
            (
                FLAGS[name].present and not teacher,
                f"--{name}={FLAGS[name].value} needs a --teacher; set it, too",
            )
            for name in ("distill_temperature", "distill_weight", "unlabelled_file")
        ),
        (
            teacher and not _LOWEST_HEAT <= heat <= _HIGHEST_HEAT,
            f"--distill_temperature={heat} is not {_LOWEST_HEAT} to {_HIGHEST_HEAT}; "
            "give one such as 2",
        ),
        (
            teacher and unlabelled and not FLAGS.distill_weight,
            "--distill_weight=0 leaves nothing to learn from --unlabelled_file="
            f"{unlabelled}; raise it, or leave the file out",
        ),
        (
            teacher and os.path.realpath(teacher) == os.path.realpath(FLAGS.output_dir),
            f"--teacher={teacher} is the --output_dir of the student; name another",
        ),
    )
    command_line.check_files("unlabelled_file", *["data_dir"][: bool(FLAGS.task_name)])


def check_kind(problem_type: str) -> None:
    """Raises ValueError where a flag does not suit the problem type of the rows."""
    is_choice, is_both = problem_type == "choice", FLAGS.pair_input == "both_orders"
    command_line.refuse(
        (
            is_choice and is_both,
            "--pair_input=both_orders: these rows have choices; leave it out",
        ),
        (
            FLAGS.choice_columns and FLAGS["problem_type"].present,
            f"--problem_type={FLAGS.problem_type} stands beside --choice_columns; "
            "leave one out",
        ),
        (
            FLAGS.explain and (is_choice or is_both),
            f"--explain={FLAGS.explain} weighs the words of one sequence; leave it out",
        ),
        *(
            (
                is_choice and FLAGS[name].value,
                f"--{name} is for labels that all examples share; leave it out",
            )
            for name in ("teacher", "write_projector")
        ),
    )


def check_network(config: Any, config_file: str, takes_text: bool) -> None:
    """Raises ValueError where a flag does not suit the network or its tokenizer.

    `takes_text` says whether an export can have the tokenizer.
    """
    records, weight = FLAGS["write_tf_records"], FLAGS.lm_loss_weight
    export_format = FLAGS.export_format
    is_split = FLAGS.do_export and export_format != export_formats.SAVED_MODEL
    command_line.refuse(
        (
            FLAGS.explain and config.network != "bert",
            f"--explain={FLAGS.explain} weighs the words of BERT's word pieces, and "
            f"{config_file} describes another network; leave it out",
        ),
        (
            config.network == "elmo" and records.present and records.value,
            "--write_tf_records writes a number for each token, and an ELMo reads its "
            "characters; leave it out",
        ),
        (
            is_split and not takes_text,
            f"--export_format={export_format} keeps the tokenizer beside the network, "
            "and GPT's is no TensorFlow operation; leave it out",
        ),
        (
            weight and FLAGS.freeze_encoder,
            f"--lm_loss_weight={weight} trains the network, and --freeze_encoder does "
            "not; leave one of them out",
        ),
        (
            weight and not config.is_left_to_right,
            f"--lm_loss_weight={weight} predicts each token from those before it, and "
            f"the network of {config_file} sees both sides; leave it out",
        ),
    )


def layout() -> tables.Layout:
    """The columns of own files; several of labels have commas between them."""
    names = tuple(map(str.strip, (FLAGS.label_column or "").split(",")))
    read = table_flags.layout(FLAGS.file_format)
    return dataclasses.replace(read, label=names) if len(names) > 1 else read


def look() -> None:
    """Ends the program after a look at the rows, where --check_data is set."""
    if not FLAGS.check_data:
        return
    check()
    splits = [split for split in table_flags.SPLITS if FLAGS[f"{split}_file"].value]
    if FLAGS.task_name or FLAGS.tfds_name:
        splits = ["train", "dev"]
    if FLAGS.dev_share:
        splits[1:1] = ["dev"]
    if faults := label_checks.look(source(), splits):
        raise errors.InputError(f"--check_data: {wording.count(faults, 'fault')}")
    print("--check_data: no fault")
    raise SystemExit


def source() -> sources.Source:
    """Where the rows come from, as the flags name them."""
    prefix, suffix = ("tfds_", "_split") if FLAGS.tfds_name else ("", "_file")
    return sources.Source(
        task_name=FLAGS.task_name or "",
        data_dir=FLAGS.data_dir or "",
        xnli_language=FLAGS.xnli_language,
        files={s: FLAGS[f"{prefix}{s}{suffix}"].value for s in _TFDS_SPLITS},
        tfds_name=FLAGS.tfds_name or "",
        layout=layout(),
        label_spec=FLAGS.labels or "",
        problem_type=FLAGS.problem_type,
        separator=FLAGS.label_separator,
        allow_empty_text=FLAGS.allow_empty_text,
        unlabelled_file=FLAGS.unlabelled_file or "",
        pair_input=FLAGS.pair_input,
        dev_share=FLAGS.dev_share,
    )
