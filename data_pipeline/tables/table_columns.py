"""Which columns of a table are meant, and whether line 1 of a file names them."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from contract import errors, wording
from data_pipeline.tables import text_rows

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


def parse(column: text_rows.Key | None, *, keyed: bool) -> text_rows.Key | None:
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


def summary(keys: Mapping[str, text_rows.Key], names: Sequence[str], count: int) -> str:
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


def key(
    path: str, role: str, column: text_rows.Key, names: Sequence[str], *, keyed: bool
) -> text_rows.Key:
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
    is_header: Callable[[list[str]], bool],
) -> tuple[list[str], text_rows.Row, text_rows.NumberedRows]:
    """The names of columns, the first row, which may be the header, and all other rows.

    Names are those of the header, keys of objects, or none. `is_header` gets the cells
    of line 1. A row that repeats a header of several columns is refused when it comes.
    """
    line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(f"{path}: the file is empty; give it rows")
    if isinstance(first, list) and is_header(first):
        return first, first, _unlike(path, first, rows)
    names = list(first) if isinstance(first, dict) else []
    return names, first, itertools.chain([(line, first)], rows)


def _unlike(
    path: str, header: list[str], rows: text_rows.NumberedRows
) -> text_rows.NumberedRows:
    for line, row in rows:
        if row == header and len(header) > 1:
            raise errors.InputError(
                f"{path}:{line}: repeats line 1, {wording.listing(header)}; remove it"
            )
        yield line, row


def is_header(
    path: str,
    first: Sequence[str],
    *,
    has_header: bool | None,
    columns: Mapping[str, text_rows.Key | None],
    usual: Mapping[str, Collection[str]],
    is_chosen: bool,
    is_given: bool,
    flags: str,
) -> bool:
    """Whether line 1 of a file holds names of columns; prints what cells decide.

    `has_header` decides, or a column that is given by name. Otherwise a header has
    usual names, and a file without one has its texts in columns with numbers; what may
    be either is refused.

    Args:
        first: the cells of line 1.
        columns: the column of each role, whether stated or not.
        usual: usual names, in small letters, of roles.
        is_chosen: whether usual names in line 1 choose the columns of texts.
        is_given: whether the columns of texts are stated.
        flags: that name columns, for the message.
    """
    by_name = [column for column in columns.values() if isinstance(column, str)]
    if has_header is False and by_name:
        raise errors.InputError(
            f"{path}: column {by_name[0]!r} is a name, but --has_header=false; give a "
            "number from 0"
        )
    if has_header is not None:
        return has_header
    if by_name or is_chosen:
        return True
    line = wording.listing(first)
    cells = {role: text_rows.cell(first, columns[role]) for role in usual}
    are_usual = {t.lower() in usual[role] for role, t in cells.items() if t is not None}
    if are_usual == {True}:
        print(f"{path}: line 1 is the header: {line} (else --has_header=false)")
        return True
    if is_given and True not in are_usual:
        print(f"{path}: line 1 is an example: {line} (else --has_header=true)")
        return False
    raise errors.InputError(
        f"{path}:1: {line} are not the usual names of columns; if they are names, give "
        f"them to {flags}, and if not, give numbers from 0 and --has_header=false"
        + _separator_hint(first)
    )
