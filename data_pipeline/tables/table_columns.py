"""Which columns of a table are meant, and whether line 1 of a file names them."""

import collections
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from contract import errors, wording
from data_pipeline.tables import text_rows

Key = int | str  # of a cell in a row

# Usual names, in small letters; the first entry that a file has counts. Two texts that
# are read together, or compared:
_FIRST_PAIRS = """text_a text_b, sentence1 sentence2, question1 question2,
premise hypothesis, question sentence, question passage, question context,
question document, question answer, query passage, query context, query document,
query answer, context hypothesis, text hypothesis, claim evidence, title abstract,
title body, title description"""
_NUMBERED = [
    (f"{noun}{first}", f"{noun}{second}")
    for noun in ("text", "sentence", "question", "sent", "s", "q")
    for first, second in (("1", "2"), ("_1", "_2"), ("_a", "_b"))
]
_TEXT_PAIRS = [tuple(pair.split()) for pair in _FIRST_PAIRS.split(",")]
_SINGLE_TEXTS = "text sentence text_a sentence1 review content question context premise"
_SINGLE_TEXTS += " article"
# A second text beside any single one; the first name is that of transformers.
_SECONDS = "text_pair text2 text_2 text_b sentence2 sentence_2 sentence_b"
_SECONDS += " question2 question_2 question_b"
_SINGLES = [(name,) for name in _SINGLE_TEXTS.split()]
_BESIDE = [(*first, second) for first in _SINGLES for second in _SECONDS.split()]
# Pairs come before single texts, so that no second text is lost.
USUAL_TEXTS = (*_TEXT_PAIRS, *_NUMBERED, *_BESIDE, *_SINGLES)
# A text, one that belongs to it, and one that does not.
USUAL_TRIPLETS = (
    *((first, "positive", "negative") for first in ("anchor", "query")),
    *((first, "positive") for first in ("anchor", "query")),
)
# A text, and the one to write.
_WRITTEN = """source target, source_text target_text, input_text target_text, src tgt,
src trg, input target, input output, inputs targets, prompt response, prompt completion,
instruction response, instruction output, question answer, query response,
text summary, article summary, article highlights, document summary, dialogue summary,
original translation"""
USUAL_WRITTEN = tuple(tuple(pair.split()) for pair in _WRITTEN.split(","))
USUAL_IDS = ("id",)
USUAL_LABELS = ("label", "labels", "gold_label", "class", "category", "score")
# Often beside a text, where the text alone is meant, or where a row comes from.
_OFTEN_UNREAD = {"title", "source"}

LABEL = "label"  # the role of the column that holds no text
_COMPARED_ROWS = 10_000  # which line 1 is compared with
_LIKE_TEXTS = 100  # rows that show how long texts are
# Names of languages, such as en, pt-BR or zh_CN; what may be a name of a column; and
# what is none: a text with an end, or of more than four words.
_LANGUAGE = re.compile(r"[a-z]{2}([-_][A-Za-z]{2,4})?")
_NAME = re.compile(r"[^\W\d][\w-]*( [\w-]+)?")
_SENTENCE = re.compile(r".*[.!?…。！？]\s*|\s*(\S+\s+){4}\S.*", re.DOTALL)
_LABEL_SEPARATOR = re.compile(r"\s*[,;|]\s*")


def parse(column: Key | None, *, keyed: bool) -> Key | None:
    """The column of a flag or layout: a name where rows are `keyed`, or a number."""
    if column is None:
        return None
    if keyed:
        return str(column)
    if isinstance(column, str) and column.isdecimal():
        return int(column)
    if isinstance(column, str) and column.removeprefix("-").isdecimal():
        raise errors.InputError(
            f"column {column}: give the column's name, or its number: 0 for the first"
        )
    return column


def is_number(text: Any) -> bool:
    """Whether a text, such as a label, is a finite number."""
    try:
        return math.isfinite(float(str(text)))
    except ValueError:
        return False


def is_like_number(text: Any) -> bool:
    """As `is_number`, also with a decimal comma."""
    return is_number(str(text).replace(",", ".", 1))


def summary(keys: Mapping[str, Key], names: Sequence[str], count: int) -> str:
    """The columns that are read, by the `keys` of roles, and those that are not.

    They have `names`, or numbers below `count`.
    """
    shown = [repr(name) for name in names] or [*map(str, range(count))]
    parts = []
    unread = dict(enumerate(shown))
    for role, key in keys.items():
        place = list(names).index(key) if isinstance(key, str) else key
        text = unread.pop(place + count * (place < 0), str(key))
        parts.append(text if text == repr(role) else f"{text} ({role})")
    others = wording.first_of(list(unread.values()), 6)
    return f"reads {', '.join(parts)}" + (f"; not read: {others}" if others else "")


def key(path: str, role: str, column: Key, names: Sequence[str], *, keyed: bool) -> Key:
    """The key of a column, as `parse` returns it, in rows with `names`."""
    if isinstance(column, int):
        return column
    names = list(names)
    remedy = f"its columns are {wording.listing(names)}; choose one"
    remedy += "" if keyed else ", or a number from 0"
    if (count := names.count(column)) > 1:
        raise errors.InputError(
            f"{path}: {count} columns are called {column!r} ({role}); {remedy}"
        )
    if column not in names:
        alike = [name for name in names if name.lower() == column.lower()]
        hint = f"there is {alike[0]!r} (capitals count); " if alike else ""
        raise errors.InputError(
            f"{path}: no column {column!r} ({role}); {hint}{remedy}"
            + _separator_hint(names)
        )
    return column if keyed else names.index(column)


def _separator_hint(names: Sequence[str]) -> str:
    """For messages: that line 1 is one cell, if another delimiter stands in it."""
    for delimiter in (";", "|") if len(names) == 1 else ():
        if count := names[0].count(delimiter):
            return f"; line 1 is one cell with {count} {delimiter!r}: see --delimiter"
    return ""


def cell(row: Any, key: Key | None) -> Any:
    """The cell of a row, or None."""
    try:
        return None if key is None else row[key]
    except (IndexError, KeyError):
        return None


def missing_cell_message(row: text_rows.Row, role: str, key: Key) -> str:
    """A message on a row without that cell, with the remedy."""
    if isinstance(row, dict):
        return f"no value under {key!r} ({role}); give the row one"
    return f"{len(row)} columns, and the {role} is in column {key}; correct either"


def choose_usual(
    names: Sequence[str], usual: Iterable[tuple[str, ...]]
) -> tuple[str, ...]:
    """The first entry of `usual` whose names all occur, as `names` spells them."""
    spelled = {name.lower(): name for name in reversed(names)}
    entries = (entry for entry in usual if spelled.keys() >= set(entry))
    return tuple(spelled[name] for name in next(entries, ()))


def check_unread(
    path: str,
    names: Iterable[str],
    chosen: Collection[str],
    usual: Iterable[tuple[str, ...]],
    flags: str,
) -> None:
    """Refuses a guess of columns that leaves a text with a usual name unread."""
    texts = {name for entry in usual for name in entry} - _OFTEN_UNREAD
    for name in names:
        if name not in chosen and name.lower() in texts:
            raise errors.InputError(
                f"{path}: {' and '.join(map(repr, chosen))} would be read, and "
                f"{name!r} would not; name the columns with {flags}"
            )


def take_header(
    path: str,
    rows: text_rows.NumberedRows,
    is_header: Callable[[list[str], list[Any]], bool],
    *,
    compares: bool = True,
) -> tuple[list[str], text_rows.Row, text_rows.NumberedRows]:
    """The names of columns, the first row, which may be the header, and all other rows.

    Names are those of the header, keys of objects, or none. `is_header` gets the cells
    of line 1, and the rows with which it `compares` them.
    """
    line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(f"{path}: the file is empty; give it rows")
    names = list(first) if isinstance(first, dict) else []
    if isinstance(first, list):
        others = list(itertools.islice(rows, _COMPARED_ROWS)) if compares else []
        rows = itertools.chain(others, rows)
        if is_header(first, [row for _, row in others]):
            return first, first, rows
    return names, first, itertools.chain([(line, first)], rows)


def is_header(
    path: str,
    first: Sequence[str],
    others: Sequence[Sequence[str]],
    *,
    has_header: bool | None,
    columns: Mapping[str, Key | None],
    usual: Mapping[str, Collection[str]],
    names: Collection[str] | None = None,
    earlier: Sequence[str] = (),
) -> bool:
    """Whether line 1 of a file holds names of columns; a guess is printed.

    `has_header` decides, or a column that is given by name. Otherwise a header has
    usual names, names in `earlier`, or names of languages; an example has a label that
    is a number or that other rows have, too. Both, or neither, is refused.

    Args:
        first: the cells of line 1; `others` are the rows after it.
        columns: the column of each role.
        usual: usual names, in small letters, of LABEL and of the roles of texts.
        names: the usual names in line 1, where they choose the columns of texts.
        earlier: the header of another split.
    """
    by_name = [column for column in columns.values() if isinstance(column, str)]
    if has_header is False and by_name:
        raise errors.InputError(
            f"{path}: column {by_name[0]!r} is a name, but --has_header=false; give a "
            "number from 0"
        )
    different = [row for row in others if row != first]
    answer = has_header is not False
    if has_header is None and not by_name:
        answer = _guess(path, first, different, columns, usual, names, earlier)
    if answer and len(different) < len(others) and len(first) > 1:
        raise errors.InputError(
            f"{path}: another row repeats line 1, {wording.listing(first)}; remove it"
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
            f"{path}:1: {line} has no usual name of a text column (text, question, ...)"
            f"; pass --text_a_column and --label_column{_separator_hint(first)}"
        )
    every = {name.lower() for name in earlier}.union(*usual.values())
    if names and sum(text.lower() in every for text in first) > 1:
        return True
    texts = {role: cell(first, columns[role]) for role in usual}
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
        _NAME.fullmatch(text) and all(map(is_like_number, values))
        for text, values in zip(first, zip(*others, strict=True), strict=False)
    )
    is_language = (
        *(LABEL not in usual, len(places) > 1, rows),
        _are_like(_LANGUAGE, first, places),
        not any(_are_like(_LANGUAGE, row, places) for row in rows),
    )
    if is_usual:
        against = repeated + list(filter(is_like_number, first))
        against += list(filter(_SENTENCE.fullmatch, unusual))
        if not names and label is None and is_short and not is_title:
            against += unusual
        if against:
            raise doubt(f"{line} has a usual name and a value, {against[0]!r:.40}")
    if is_usual or all(is_language):
        if not names:
            print(f"{path}: line 1 is the header: {line} (else --has_header=false)")
        return True
    if earlier and label is None:
        raise errors.InputError(
            f"{path}:1: {line} may be a text; pass --has_header=true if it is a header"
            f", else put {wording.listing(earlier)} above it"
        )
    is_like_others = repeated or label == "" or is_like_number(label)
    if rows and label is None and not is_like_others:
        if is_title or (_are_like(_NAME, first, places) and not is_short):
            raise doubt(f"{line} may be names of columns")
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
    """Cells of line 1, no numbers or names, that others have in their column, too."""
    repeated = []
    for place, values in enumerate(zip(*others, strict=True)):
        text, parts = first[place], {first[place]}
        if label_column in (place, place - len(first)):
            parts = _label_parts(text)
            values = (*itertools.chain(*map(_label_parts, values)),)
        elif text.lower() in every or is_like_number(text):
            continue
        if text and not parts.isdisjoint(values):
            repeated.append(text)
    return repeated


def _label_parts(cell: str) -> set[str]:
    return {cell, *_LABEL_SEPARATOR.split(cell)}


def _are_like(pattern, row, places) -> bool:
    """Whether the cells at some places in a row match a pattern or are empty."""
    cells = (cell(row, place) for place in places)
    return all(pattern.fullmatch(cell) for cell in cells if cell and cell.strip())
