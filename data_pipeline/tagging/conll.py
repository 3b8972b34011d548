"""Reads sentences from columns: a word and its tag a line, as in the CoNLL tasks."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from data_pipeline.files import text_rows

# Begins the line between two documents; CoNLL-U writes a comment instead.
_DOCUMENT_MARK = "-DOCSTART-"
_DOCUMENT_COMMENT = "# newdoc"
_CELL = re.compile("[^ \t]+")


class Sentence(NamedTuple):
    """One sentence of a file.

    Attributes:
        document: the document it is of, counted from the file's beginning.
        words: its words; none where it is empty.
        tags: the tag of each; None where the file has none.
        lines: line in the file of each word, from 1.
    """

    document: int
    words: list[str]
    tags: list[str] | None
    lines: list[int]


class Columns(NamedTuple):
    """What the rows of a file have in common.

    Attributes:
        separator: a tab or a blank.
        num_columns: of each row.
        line: the first row's.
        word: column of the words.
        tag: column of the tags; None where there is none.
        tags: those of rows that do not begin with "#".
    """

    separator: str
    num_columns: int
    line: int
    word: int
    tag: int | None
    tags: set[str]


def cells(line: str, separator: str = " ") -> list[str]:
    """The cells of a line without what ends it; between blanks, none is empty.

    Blanks and tabs alone part them: U+3000, for one, is a word of Chinese texts.
    """
    line = line.rstrip("\r")
    if separator == "\t":
        return [cell.strip(" ") for cell in line.split("\t")]
    return _CELL.findall(line)


def find_columns(
    path: str, word_column: int, tag_column: int, *, tags_required: bool
) -> Columns:
    """Looks through a whole file: what "#" means is known only at its end.

    Args:
        path: as in `text_rows.lines`.
        word_column: counted from 0, or from -1 at the end.
        tag_column: the same; where it is not there, or is the words', there are no
            tags.
        tags_required: raise where there are none.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file cannot be read, or lacks a column.
    """
    columns = None
    at_start = True
    for number, line in text_rows.lines(path):
        if not line.strip() or line.startswith(_DOCUMENT_MARK):
            at_start = True
            continue
        if columns is None:
            if line.startswith("#"):
                continue
            columns = _first_row(
                f"{path}:{number}", line, word_column, tag_column, tags_required
            )._replace(line=number)
        row = cells(line, columns.separator)
        if not _is_comment(line, row, columns, at_start):
            at_start = False
            if columns.tag is not None:
                columns.tags.update(row[columns.tag : columns.tag + 1])
    return columns or Columns(" ", 1, 1, 0, None, set())


def _first_row(
    place: str, line: str, word_column: int, tag_column: int, tags_required: bool
) -> Columns:
    separator = "\t" if "\t" in line else " "
    num_columns = len(cells(line, separator))
    word, tag = (_position(c, num_columns) for c in (word_column, tag_column))
    if word is None:
        raise ValueError(
            f"{place}: {num_columns} columns; --word_column={word_column} is not "
            "there, counted from 0"
        )
    tag = None if tag == word else tag
    if tag is None and tags_required:
        raise ValueError(
            f"{place}: {num_columns} columns; besides the words' there is no "
            f"--tag_column={tag_column}, counted from 0; give each line a word and its "
            "tag, or correct the flags"
        )
    return Columns(separator, num_columns, 1, word, tag, set())


def _position(column: int, num_columns: int) -> int | None:
    position = column if column >= 0 else num_columns + column
    return position if 0 <= position < num_columns else None


def _is_comment(line: str, row: list[str], columns: Columns, at_start: bool) -> bool:
    """Whether a line is a comment; "#" and "#berlin" may also be words.

    Args:
        line: the line.
        row: its cells.
        columns: with those tags that are known so far.
        at_start: whether no word of the sentence stands before it.
    """
    if not line.startswith("#"):
        return False
    if len(row) != columns.num_columns:
        return at_start or line.startswith("# ")
    is_bare = row[0] == "#" or row[0].startswith("# ")
    if not at_start or not is_bare or columns.tag is None:
        return False
    return row[columns.tag] not in columns.tags


def rows(path: str, columns: Columns) -> Iterator[Sentence]:
    """Yields the sentences of a file.

    Args:
        path: as in `text_rows.lines`.
        columns: what `find_columns` found.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it cannot be read, or a row has other columns than the first one,
            or an empty word or tag.
    """
    document = 0
    tags_there = columns.tag is not None
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []
    known: dict[str, str] = {}  # one object a tag, however often it stands there
    for number, line in text_rows.lines(path):
        row = cells(line, columns.separator)
        is_comment = _is_comment(line, row, columns, not words)
        is_mark = line.startswith(_DOCUMENT_MARK) or (
            is_comment and line.startswith(_DOCUMENT_COMMENT)
        )
        if is_mark or not line.strip():
            if words:
                yield Sentence(document, words, tags if tags_there else None, lines)
                words, tags, lines = [], [], []
            document += is_mark
        elif not is_comment:
            _check_row(f"{path}:{number}", row, columns)
            words.append(row[columns.word])
            if columns.tag is not None:
                tags.append(known.setdefault(row[columns.tag], row[columns.tag]))
            lines.append(number)
    if words:
        yield Sentence(document, words, tags if tags_there else None, lines)


def _check_row(place: str, row: list[str], columns: Columns) -> None:
    if len(row) != columns.num_columns:
        raise ValueError(
            f"{place}: {len(row)} columns, line {columns.line} has "
            f"{columns.num_columns}; give both as many (where the first row has a tab, "
            "columns are between tabs, else between blanks)"
        )
    for role, column in (("word", columns.word), ("tag", columns.tag)):
        if column is not None and not row[column]:
            raise ValueError(
                f"{place}: the {role}, column {column}, is empty; fill it, or correct "
                f"--{role}_column"
            )
