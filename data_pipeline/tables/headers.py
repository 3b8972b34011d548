"""Whether line 1 of a file holds names of columns: one rule for all tables."""

import collections
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from contract import errors, wording
from data_pipeline.tables import table_columns, text_rows

_COMPARED_ROWS = 10_000  # which line 1 is compared with
LABEL = "label"  # the role of the column that holds no text
_LIKE_TEXTS = 100  # rows that show how long texts are
# Names of languages, such as en, pt-BR or zh_CN; what may be a name of a column; and
# what is none: a text with an end, or of more than four words.
_LANGUAGE = re.compile(r"[a-z]{2}([-_][A-Za-z]{2,4})?")
_NAME = re.compile(r"[^\W\d][\w-]*( [\w-]+)?")
_SENTENCE = re.compile(r".*[.!?…。！？]\s*|\s*(\S+\s+){4}\S.*", re.DOTALL)
_LABEL_SEPARATOR = re.compile(r"\s*[,;|]\s*")


def next_rows(rows: text_rows.NumberedRows) -> list[tuple[int, Any]]:
    """Takes the rows with which line 1 is compared."""
    return list(itertools.islice(rows, _COMPARED_ROWS))


def is_header(
    path: str,
    first: Sequence[str],
    others: Sequence[Sequence[str]],
    *,
    has_header: bool | None,
    columns: Mapping[str, table_columns.Key | None],
    usual: Mapping[str, Collection[str]],
    names: Collection[str] | None = None,
    earlier: Sequence[str] = (),
) -> bool:
    """Whether line 1 of a file holds names of columns; a guess is printed.

    `has_header` decides, or a column that is given by name. Otherwise a header has
    usual names, names in `earlier`, or names of languages; an example has a label that
    is a number or that other rows have, too. Both, or neither, raises ValueError.

    Args:
        first: the cells of line 1; `others` are the rows after it, of `next_rows`.
        columns: the column of each role.
        usual: usual names, in small letters, of LABEL and of the roles of texts.
        names: the usual names in line 1, where they choose the columns of texts.
        earlier: the header of another split.
    """
    by_name = [column for column in columns.values() if isinstance(column, str)]
    if has_header is False and by_name:
        raise errors.InputError(
            f"{path}: column {by_name[0]!r} is a name, but --has_header=false says "
            "that there are none; give columns by number, from 0"
        )
    different = [row for row in others if row != first]
    answer = has_header is not False
    if has_header is None and not by_name:
        answer = _guess(path, first, different, columns, usual, names, earlier)
    if answer and len(different) < len(others) and len(first) > 1:
        raise errors.InputError(
            f"{path}: another row repeats line 1, {wording.listing(first)}, which is "
            "the header; remove that row"
        )
    return answer


def _guess(path, first, others, columns, usual, names, earlier) -> bool:
    line = wording.listing(first)

    def doubt(reason: str) -> errors.InputError:
        return errors.InputError(
            f"{path}:1: {reason}; pass --has_header=true if the line is a header, else "
            "--has_header=false"
        )

    numbers = first[first[0] == "" :]  # the index of pandas has no name
    if numbers and [*numbers] == [*map(str, range(len(numbers)))]:
        raise doubt(f"{line} may be the numbers of columns, as pandas writes them")
    if names is not None and not names:
        raise errors.InputError(
            f"{path}:1: {line} has no usual name of a text column (text, sentence, "
            "question, ...); pass --text_a_column and --label_column, by name or by "
            f"number from 0{table_columns.separator_hint(first)}"
        )
    every = {name.lower() for name in earlier}.union(*usual.values())
    if names and sum(text.lower() in every for text in first) > 1:
        return True
    texts = {role: table_columns.cell(first, columns[role]) for role in usual}
    texts = {role: text for role, text in texts.items() if text is not None}
    unusual = [
        text
        for role, text in texts.items()
        if text.lower() not in (usual[LABEL] if role == LABEL else every)
    ]
    is_usual = names or len(unusual) < len(texts)
    label = texts.pop(LABEL, None)
    places = [columns[role] for role in texts]
    rows = others[:_LIKE_TEXTS]
    short = [_are_like(_NAME, row, places) for row in rows]
    is_short = bool(short) and 2 * sum(short) >= len(short)
    repeated = _repeated(first, others, columns.get(LABEL), every)
    is_title = any(  # a word above numbers
        _NAME.fullmatch(text) and all(map(table_columns.is_number, values))
        for text, values in zip(first, zip(*others, strict=True), strict=False)
    )
    is_language = (
        *(LABEL not in usual, len(places) > 1, rows),
        _are_like(_LANGUAGE, first, places),
        not any(_are_like(_LANGUAGE, row, places) for row in rows),
    )
    if is_usual:
        against = repeated + list(filter(table_columns.is_number, first))
        against += list(filter(_SENTENCE.fullmatch, unusual))
        if not names and label is None and is_short and not is_title:
            against += unusual
        if against:
            raise doubt(
                f"{line} has a usual name of a column, and {against[0]!r:.40}, which "
                "looks like a value"
            )
    if is_usual or all(is_language):
        if not names:
            print(f"{path}: line 1 is the header: {line} (else --has_header=false)")
        return True
    if earlier and label is None:
        raise errors.InputError(
            f"{path}:1: {line} may be a header or a text, where the rows read before "
            f"it have {wording.listing(earlier)}; pass --has_header=true if it is a "
            "header, else put that line above it"
        )
    is_like_others = repeated or label == "" or table_columns.is_number(label)
    if rows and label is None and not is_like_others:
        if is_title or (_are_like(_NAME, first, places) and not is_short):
            raise doubt(f"{line} may be names of columns: no other row is as short")
    elif rows and not is_like_others:
        parts = [_label_parts(row[columns[LABEL]]) for row in others]
        counts = collections.Counter(itertools.chain(*parts)).values()
        is_long = any(map(_SENTENCE.fullmatch, texts.values()))
        is_one_of_many = not is_long and (max(counts) > 1 or not is_short)
        if is_title or 1 not in counts or is_one_of_many:
            raise doubt(f"{label!r} is the label of no other row")
    print(f"{path}: line 1 is an example: {line} (else --has_header=true)")
    return False


def _repeated(first, others, label_column, every) -> list[str]:
    """Cells of line 1 that other rows have in their column, too: no numbers or names.

    A label may also be one of several in a cell.
    """
    repeated = []
    for place, values in enumerate(zip(*others, strict=True)):
        text, parts = first[place], {first[place]}
        if isinstance(label_column, int) and label_column in (
            place,
            place - len(first),
        ):
            parts = _label_parts(text)
            values = (*itertools.chain(*map(_label_parts, values)),)
        elif text.lower() in every or table_columns.is_number(text):
            continue
        if text and not parts.isdisjoint(values):
            repeated.append(text)
    return repeated


def _label_parts(cell: str) -> set[str]:
    return {cell, *_LABEL_SEPARATOR.split(cell)}


def _are_like(pattern, row, places) -> bool:
    """Whether the cells at some places in a row match a pattern or are empty."""
    cells = (table_columns.cell(row, place) for place in places)
    return all(pattern.fullmatch(cell) for cell in cells if cell and cell.strip())
