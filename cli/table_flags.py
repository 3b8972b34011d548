"""Flags of tables: files of splits, their form, and their columns."""

from collections.abc import Sequence
from typing import Any

from absl import flags

from cli import command_line
from contract import errors
from data_pipeline.classification import tables
from data_pipeline.tables import text_rows

FLAGS = flags.FLAGS
SPLITS = ("train", "dev", "test")
_HAS_HEADER = {"auto": None, "true": True, "false": False}
enum, string = flags.DEFINE_enum, flags.DEFINE_string


@command_line.heading("Data")
def define_files(help_text: str) -> None:
    """A file for each split; `{}` in the help is the split."""
    for split in SPLITS:
        string(f"{split}_file", None, help_text.format(split))


@command_line.heading("Data")
def define_form() -> None:
    """The format of files, how rows are cut into cells, and whether line 1 is a row."""
    enum(
        "file_format",
        "auto",
        ["auto", *text_rows.FORMATS],
        "Format of the files; auto detects it from the file name.",
    )
    string(
        "delimiter",
        None,
        "Character between the cells of TSV and CSV files, or tab. By default a tab, "
        "and for CSV a comma or what the first rows show.",
    )
    string(
        "quote",
        None,
        "Character around cells that hold the delimiter, or none. By default none for "
        'TSV, and " for CSV.',
    )
    string(
        "encoding",
        None,
        "Encoding of TSV, CSV and JSONL files, such as cp1252, gb18030 or utf-16. By "
        "default UTF-8, and that of a file that begins with its byte-order mark.",
    )
    enum(
        "has_header",
        "auto",
        [*_HAS_HEADER],
        "Line 1 contains the column names; auto detects this.",
    )


def form() -> dict[str, Any]:
    """How the rows of a file are cut, by the names of tables.Layout."""
    return {
        "has_header": _HAS_HEADER[FLAGS.has_header],  # None where line 1 decides
        "delimiter": FLAGS.delimiter,
        "quote": FLAGS.quote,
        "encoding": FLAGS.encoding or "utf-8",
    }


def define_columns() -> None:
    """Columns of texts, labels, answers and ids."""
    for column, content in (
        ("text_a", "the text, or the first text of a pair"),
        ("text_b", "the second text of a pair"),
        ("label", "the labels"),
    ):
        define_column(column, content)
    flags.DEFINE_list(
        "choice_columns",
        [],
        "Columns with the answers of a multiple-choice task, or one column with JSON "
        "lists. The label is the name or the number (from 0) of the right column; "
        "text_a is the context, and text_b, if given, stands before each answer.",
    )
    define_column("id", "the row ids for the predictions")


def define_column(column: str, content: str) -> None:
    """One column, by what it holds."""
    text = f"Column with {content}: a name, or a number from 0."
    string(f"{column}_column", None, text)


def layout(file_format: str) -> tables.Layout:
    """The columns of a table, as the flags name them."""
    return tables.Layout(
        file_format=file_format,
        **form(),
        text_a=FLAGS.text_a_column,
        text_b=FLAGS.text_b_column,
        label=FLAGS.label_column,
        choices=tuple(FLAGS.choice_columns),
        example_id=FLAGS.id_column,
    )


def paths(splits: Sequence[str], rows: str) -> dict[str, Any]:
    """The file of each split; ValueError where a flag is not set."""
    for split in splits:
        if not FLAGS[f"{split}_file"].value:
            raise errors.InputError(
                f"the {split} {rows} are needed and --{split}_file is not set; set it"
            )
    return {split: FLAGS[f"{split}_file"].value for split in splits}
