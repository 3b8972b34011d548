"""Reads sentences from columns: a word and its tag a line, as in the CoNLL tasks."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from contract import errors
from data_pipeline.tables import text_rows

# Begins the line between two documents; CoNLL-U writes a comment instead.
_DOCUMENT_MARK = "-DOCSTART-"
_DOCUMENT_COMMENT = "# newdoc"
_CELL = re.compile("[^ \t]+")
_CONLLU_COLUMNS = 10  # between tabs, the first the number of the word
# In CoNLL-U the row of a multiword token (3-4) or an empty node (5.1): no word, for the
# words of 3-4 have rows of their own.
CONLLU_NO_WORD = re.compile(r"\d+[-.]\d+\t")
_CONLLU_ROW = re.compile(r"\d+([-.]\d+)?\t")


class Sentence(NamedTuple):
    """One sentence of a file."""

    document: int  # counted from the file's beginning
    words: list[str]
    tags: list[str] | None  # None where the file has none
    lines: list[int]  # of each word, from 1


class Columns(NamedTuple):
    """What the rows of a file have in common."""

    separator: str  # a tab or a space
    num_columns: int  # of each row
    line: int  # of the first row
    word: int  # column of the words
    tag: int | None  # column of the tags
    tags: set[str]  # of words, to tell the word "#" from a comment
    is_conllu: bool = False


def cells(line: str, separator: str = " ") -> list[str]:
    """The cells of a line; runs of spaces count as one separator.

    Only spaces and tabs separate: U+3000, for one, is a word of Chinese texts.
    """
    line = line.rstrip("\r")
    if separator == "\t":
        return [cell.strip(" ") for cell in line.split("\t")]
    return _CELL.findall(line)


def find_columns(
    path: str, word_column: int, tag_column: int, *, tags_required: bool
) -> Columns:
    """Reads a whole file to find its columns: only its end tells what "#" means.

    Columns are counted from 0, or from -1 at the end. A tag column that is missing, or
    is the words', means that there are no tags.

    Raises:
        ValueError: the file cannot be read, or lacks a column that is required.
    """
    no_row = ("#", _DOCUMENT_MARK)
    numbered = (
        (number, line)
        for number, line in text_rows.lines(path)
        if line.strip() and not line.startswith(no_row)
    )
    number, line = next(numbered, (0, ""))
    if not line:
        return Columns(" ", 1, 1, 0, None, set())
    place = f"{path}:{number}"
    separator = "\t" if "\t" in line else " "
    num_columns = len(cells(line, separator))
    word, tag = (_position(c, num_columns) for c in (word_column, tag_column))
    if word is None:
        raise errors.InputError(
            f"{place}: {num_columns} columns; --word_column={word_column} is not "
            "there, counted from 0"
        )
    tag = None if tag == word else tag
    if tag is None and tags_required:
        raise errors.InputError(
            f"{place}: {num_columns} columns; besides the words' there is no "
            f"--tag_column={tag_column}, counted from 0; give each line a word and its "
            "tag, or correct the flags"
        )
    is_conllu = num_columns >= _CONLLU_COLUMNS and bool(_CONLLU_ROW.match(line))
    columns = Columns(separator, num_columns, number, word, tag, set(), is_conllu)
    if tag is not None:
        for _, row, _ in _scan(path, columns):
            columns.tags.update((row or [])[tag : tag + 1])
    return columns


def _position(column: int, num_columns: int) -> int | None:
    position = column if column >= 0 else num_columns + column
    return position if 0 <= position < num_columns else None


def _scan(path: str, columns: Columns) -> Iterator[tuple[int, list[str] | None, bool]]:
    """Yields number, cells (None at a sentence's end), whether a document begins."""
    at_start = True  # whether no word of the sentence has come yet
    for number, line in text_rows.lines(path):
        if columns.is_conllu and CONLLU_NO_WORD.match(line):
            continue
        row = cells(line, columns.separator)
        is_comment = _is_comment(line, row, columns, at_start)
        begins_document = line.startswith(_DOCUMENT_MARK) or (
            is_comment and line.startswith(_DOCUMENT_COMMENT)
        )
        if begins_document or not line.strip():
            at_start = True
            yield number, None, begins_document
        elif not is_comment:
            at_start = False
            yield number, row, False


def _is_comment(line: str, row: list[str], columns: Columns, at_start: bool) -> bool:
    """Whether a line is a comment; "#" and "#berlin" may also be words."""
    if not line.startswith("#"):
        return False
    if len(row) != columns.num_columns:
        return at_start or line.startswith("# ")
    is_bare = row[0] == "#" or row[0].startswith("# ")
    if not at_start or not is_bare or columns.tag is None:
        return False
    return row[columns.tag] not in columns.tags


def rows(path: str, columns: Columns) -> Iterator[Sentence]:
    """Yields the sentences of a file with the columns that `find_columns` found.

    Raises:
        ValueError: a row has other columns than the first, or an empty word or tag.
    """
    document = 0
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []

    def sentence() -> Sentence:
        return Sentence(document, words, None if columns.tag is None else tags, lines)

    known: dict[str, str] = {}  # one object a tag, however often it stands there
    for number, row, begins_document in _scan(path, columns):
        if row is None:
            if words:
                yield sentence()
                words, tags, lines = [], [], []
            document += begins_document
            continue
        _check_row(f"{path}:{number}", row, columns)
        words.append(row[columns.word])
        if columns.tag is not None:
            tags.append(known.setdefault(row[columns.tag], row[columns.tag]))
        lines.append(number)
    if words:
        yield sentence()


def _check_row(place: str, row: list[str], columns: Columns) -> None:
    if len(row) != columns.num_columns:
        # CoNLL files have few columns, and lines of plain text many words.
        is_text = columns.separator == " " and max(len(row), columns.num_columns) > 5
        remedy = (
            "this looks like plain text, which serving.predictor --input_format=lines "
            "tags with an export; or give one word a line"
            if is_text
            else "give both as many (where the first row has a tab, columns are "
            "between tabs, else between spaces)"
        )
        raise errors.InputError(
            f"{place}: {len(row)} columns, line {columns.line} has "
            f"{columns.num_columns}; {remedy}"
        )
    for role, column in (("word", columns.word), ("tag", columns.tag)):
        if column is not None and not row[column]:
            raise errors.InputError(
                f"{place}: the {role}, column {column}, is empty; fill it, or correct "
                f"--{role}_column"
            )
