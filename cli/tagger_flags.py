"""Flags of words and their tags."""

from typing import Any

from absl import flags

from cli import (
    command_line,
    feature_flags,
    fine_tuning_flags,
    table_flags,
    training_flags,
)

FLAGS = flags.FLAGS


def define() -> None:
    """Where tagged words come from, and what reads them."""
    _define_words()
    training_flags.define_packing()
    feature_flags.define()


@command_line.heading("Data")
def _define_words() -> None:
    integer, boolean = flags.DEFINE_integer, flags.DEFINE_bool
    table_flags.define_files("CoNLL, seq.in or JSONL file with the {} set.")
    forms = ["auto", "conll", "seq", "jsonl", "cluener"]
    flags.DEFINE_enum(
        "file_format",
        "auto",
        forms,
        "Format of the files; auto detects it from the file name or the first line. "
        "cluener: as CLUENER2020, a tag for each character.",
    )
    integer(
        "word_column",
        0,
        "Column of the words, counted from 0; negative numbers count from the end.",
    )
    integer(
        "tag_column",
        -1,
        "Column of the tags, counted from 0; negative numbers count from the end.",
    )
    text = (
        "Comma-separated labels in the order of their ids, or a file with one label "
        "per line."
    )
    flags.DEFINE_string("labels", None, text)
    flags.DEFINE_enum(
        "tag_scheme",
        "auto",
        ["auto", "BIO", "BIOES", "BILOU", "BMES", "plain"],
        "Scheme of the tags in the files; auto detects it. BIO also reads IOB1.",
    )
    boolean(
        "accept_unknown_tags",
        False,
        "Score dev and test rows with tags that are not in the training set, instead "
        "of refusing them. Each such tag counts as wrong, because it cannot be "
        "predicted.",
    )
    integer(
        "window_stride",
        0,
        "Stride in tokens between the windows of a long sentence; 0 for half a window.",
        lower_bound=0,
    )
    boolean(
        "document_context",
        False,
        "Fill each window with the sentences around it, up to --max_seq_length.",
    )


def layout() -> dict[str, Any]:
    """How files hold words and tags, by the names of the flags."""
    names = ("file_format", "word_column", "tag_column")
    return {name: FLAGS[name].value for name in names}


def limits() -> dict[str, Any]:
    """How long sentences are cut, in tokens."""
    return {"max_seq_length": FLAGS.max_seq_length, "stride": FLAGS.window_stride}


def paths() -> dict[str, Any]:
    """The files that the run needs; ValueError where a flag is not set."""
    return table_flags.paths(fine_tuning_flags.wanted_splits(), "sentences")
