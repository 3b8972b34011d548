"""Settings of tables: files of splits, their form, and their columns."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from contract import errors
from data_pipeline.tables import labelled, text_rows
from tasks.settings import fields

SPLITS = ("train", "dev", "test")
_HAS_HEADER = {"auto": None, "true": True, "false": False}
_FILE = "TSV, CSV or JSONL file with the {} set."


def split_file(help_text: str) -> Any:
    """The field of the file of a split."""
    return fields.data(
        None, help_text, path=True, changes=fields.NOTHING, in_python=False
    )


def column(content: str, changes: frozenset[str] = fields.ANSWERS) -> Any:
    """The field of a column, by what it holds."""
    text = f"Column with {content}: a name, or a number from 0."
    return fields.data(None, text, changes=changes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Files(fields.Settings):
    """A file for each split."""

    train_file: str | None = split_file(_FILE.format("train"))
    dev_file: str | None = split_file(_FILE.format("dev"))
    test_file: str | None = split_file(_FILE.format("test"))

    def paths(self, splits: Sequence[str], rows: str) -> dict[str, Any]:
        """The file of each split; refused where one is not set."""
        for split in splits:
            if not getattr(self, f"{split}_file"):
                raise errors.InputError(
                    f"the {split} {rows} are needed and --{split}_file is not set; set "
                    "it"
                )
        return {split: getattr(self, f"{split}_file") for split in splits}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Form(fields.Settings):
    """The format of files, how rows are cut into cells, and whether line 1 is a row."""

    file_format: str = fields.data(
        "auto",
        "Format of the files; auto detects it from the file name.",
        choices=["auto", *text_rows.FORMATS],
        changes=fields.ANSWERS,
    )
    delimiter: str | None = fields.data(
        None,
        "Character between the cells of TSV and CSV files, or tab. By default a tab, "
        "and for CSV a comma or what the first rows show.",
        changes=fields.ANSWERS,
    )
    quote: str | None = fields.data(
        None,
        "Character around cells that hold the delimiter, or none. By default none for "
        'TSV, and " for CSV.',
        changes=fields.ANSWERS,
    )
    encoding: str | None = fields.data(
        None,
        "Encoding of TSV, CSV and JSONL files, such as cp1252, gb18030 or utf-16. By "
        "default UTF-8, and that of a file that begins with its byte-order mark.",
        changes=fields.ANSWERS,
    )
    has_header: str = fields.data(
        "auto",
        "Line 1 contains the column names; auto detects this.",
        choices=[*_HAS_HEADER],
        changes=fields.ANSWERS,
    )

    def form(self) -> dict[str, Any]:
        """How the rows of a file are cut, by the names of labelled.Layout."""
        return {
            "has_header": _HAS_HEADER[self.has_header],  # None where line 1 decides
            "delimiter": self.delimiter,
            "quote": self.quote,
            "encoding": self.encoding or "utf-8",
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns(Form):
    """Columns of texts, labels, answers and ids."""

    text_a_column: str | None = column("the text, or the first text of a pair")
    text_b_column: str | None = column("the second text of a pair")
    label_column: str | None = column("the labels", fields.NOTHING)
    choice_columns: Sequence[str] = fields.data(
        (),
        "Columns with the answers of a multiple-choice task, or one column with JSON "
        "lists. The label is the name or the number (from 0) of the right column; "
        "text_a is the context, and text_b, if given, stands before each answer.",
        changes=fields.ANSWERS,
    )
    id_column: str | None = column("the row ids for the predictions", fields.NOTHING)

    def layout(self) -> labelled.Layout:
        """The columns of a table."""
        return labelled.Layout(
            file_format=self.file_format,
            **self.form(),
            text_a=self.text_a_column,
            text_b=self.text_b_column,
            label=self.label_column,
            choices=tuple(self.choice_columns),
            example_id=self.id_column,
        )
