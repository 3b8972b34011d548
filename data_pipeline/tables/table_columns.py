"""Which columns of a table are meant, and whether line 1 of a file names them."""

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contract import characters, errors, wording
from data_pipeline import findings
from data_pipeline.tables import other_programs, text_rows

Key = text_rows.Key
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
# Kinds of roles; a mark is a 0 or 1 of the label that its column is named after.
TEXT, CHOICE, LABEL, MARK, OTHER = "text", "choice", "label", "mark", "other"


class Role(NamedTuple):
    """The use of a column; choices are numbered, and a mark has the column's name."""

    kind: str
    name: str

    def __str__(self) -> str:
        kinds = {CHOICE: "choice ", MARK: "label "}
        return kinds.get(self.kind, "") + self.name


@dataclasses.dataclass(frozen=True)
class Column:
    """Where the cells of a role stand."""

    stated: Key | None = None  # a name, or a number from 0, also as digits; -1 the last
    _: dataclasses.KW_ONLY
    usual: Sequence[str] = ()  # names of one that is not stated; the first counts
    place: int | None = None  # of a text, where no text has a usual name
    title: str = ""  # of one that has to be there, in messages


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """The columns that a reader looks for."""

    columns: Mapping[Role, Column]
    # Names of texts that are not stated; the first entry whose names all occur counts.
    # One of more names than roles of texts has a text and its choices.
    texts: tuple[tuple[str, ...], ...]
    unread: tuple[tuple[str, ...], ...]  # names of texts, which are not left out unseen
    flags: str  # that name columns
    optional: Sequence[Role] = ()  # may be absent, all together

    def of_kind(self, *kinds: str) -> list[Role]:
        return [role for role in self.columns if role.kind in kinds]


class Opened(NamedTuple):
    """A table whose columns are known."""

    rows: text_rows.NumberedRows  # all but the header
    keys: dict[Role, Key]  # of the roles that are there
    names: list[str]  # of all columns; none without a header or keys
    first: text_rows.Row  # the header, or else a row
    filled: frozenset[str]  # keys under which one of the first dicts has a value
    marks: Mapping[str, Key]  # columns in which a tool of annotation judges rows
    noticed: list[findings.Finding]  # complete behind the last row

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(self.names) if isinstance(self.first, list) else ()

    def accepted(self, path: str) -> "Opened":
        """Without the rows that a tool of annotation discards."""
        if not self.marks:
            return self
        read = self.keys.values()
        rows = other_programs.accepted(path, self.rows, self.marks, self.noticed, read)
        return self._replace(rows=rows)

    def without_values(self, path: str, wanted: Wanted) -> "Opened":
        """Refuses a value of an optional column, which no dict at the beginning has."""
        columns = [wanted.columns[role] for role in wanted.optional]
        stated = {str(c.stated) for c in columns if c.stated is not None}
        sought = stated or {name for c in columns for name in c.usual}
        if isinstance(self.first, list) or not sought:
            return self
        known = {*self.filled, *self.keys.values()}

        def checked() -> text_rows.NumberedRows:
            for line, row in self.rows:
                assert isinstance(row, dict)
                for name in row.keys() - known:
                    is_sought = name in sought or name.lower() in sought
                    if is_sought and row[name] not in (None, ""):
                        raise errors.InputError(
                            f"{path}:{line}: has a value under {name!r}, and no row "
                            "before has; put such a row first, or rename it"
                        )
                yield line, row

        return self._replace(rows=checked())

    def summary(self) -> str:
        """For people: "reads 'source', 'target'; not read: 'id'"."""
        count = len(self.first)
        unread = dict(enumerate(map(repr, self.names or range(count))))
        parts = []
        for role, key in self.keys.items():
            place = self.names.index(key) if isinstance(key, str) else key
            text = unread.pop(place + count * (place < 0), str(key))
            parts.append(text if text == repr(str(role)) else f"{text} ({role})")
        others = wording.first_of([*unread.values()], 6)
        return f"reads {', '.join(parts)}" + (f"; not read: {others}" if others else "")


def open_rows(
    path: str,
    table: text_rows.Rows,
    wanted: Wanted,
    has_header: bool | None = None,
) -> Opened:
    """Finds the columns of rows; `has_header` is None where line 1 decides.

    InputError is raised for a column that is not there, and, when it comes, for a row
    that repeats a header of several columns.
    """
    rows, noticed = iter(table), table.noticed
    line, first = next(rows, (0, None))
    if first is None:
        raise errors.InputError(f"{path}: is empty; give it one row per example")
    names = list(first) if isinstance(first, dict) else []
    if isinstance(first, list) and _is_header(path, first, wanted, has_header, noticed):
        names = first
    else:
        rows = itertools.chain([(line, first)], rows)
    rows = _unlike(path, names, rows) if names else rows
    ahead = list(itertools.islice(rows, other_programs.LOOKED_AT))
    marks = other_programs.marks(names, ahead)
    objects = [row for _, row in ahead if isinstance(row, dict)]
    later = [*dict.fromkeys(itertools.chain(*objects))]
    cells = itertools.chain(*(row.items() for row in objects))
    filled = frozenset(key for key, value in cells if value is not None)
    keys = _choose(path, wanted, names, first, marks, later)
    rows = itertools.chain(ahead, rows)
    return Opened(rows, keys, later or names, first, filled, marks, noticed)


def _unlike(
    path: str, names: Sequence[str], rows: text_rows.NumberedRows
) -> text_rows.NumberedRows:
    """Refuses a row of the names of columns, as files that were joined have it."""
    header = [*map(characters.spelling, names)]
    longest = 2 * max(map(len, names)) + 8  # of a cell that may be a name

    def spelled(cells: Iterable[Any]) -> list[str]:
        return [characters.spelling(c) for c in cells if isinstance(c, str)]

    @functools.lru_cache  # most rows end in one of a few labels
    def is_name(cell: str) -> bool:
        return characters.spelling(cell) in header

    for line, row in rows:
        last: Any = row[-1] if isinstance(row, list) else row.get(names[-1])
        if isinstance(last, str) and len(last) <= longest and is_name(last):
            cells = row if isinstance(row, list) else row.values()
            here = header if isinstance(row, list) else spelled(row)
            if sorted(there := spelled(cells)) == sorted(here) and len(here) > 1:
                what = "line 1" if isinstance(row, list) else "the names of columns"
                remedy = "remove it"
                if there != here:
                    what += " in another order"
                    remedy = "give all rows one order, and remove it"
                raise errors.InputError(
                    f"{path}:{line}: repeats {what}, {wording.listing(names)}; {remedy}"
                )
        yield line, row


def _is_header(
    path: str,
    first: list[str],
    wanted: Wanted,
    has_header: bool | None,
    noticed: list[findings.Finding],
) -> bool:
    """Whether line 1 of a file holds names of columns; what cells decide is `noticed`.

    `has_header` decides, or a column that is given by name. Otherwise a header has
    usual names, and a file without one has its texts in columns with numbers; what may
    be either is refused.
    """
    stated = _stated(wanted, keyed=False)
    by_name = [column for column in stated.values() if isinstance(column, str)]
    if has_header is False and by_name:
        raise errors.InputError(
            f"{path}: column {by_name[0]!r} is a name, but --has_header=false; give a "
            "number from 0"
        )
    if has_header is not None:
        return has_header
    is_given = any(stated[role] is not None for role in wanted.of_kind(TEXT))
    if by_name or (not is_given and _first_usual(first, wanted.texts)):
        return True
    line = wording.listing(first)
    usual = {TEXT: {*itertools.chain(*wanted.texts)}, LABEL: {*USUAL_LABELS}}
    are_usual = set()
    for role in wanted.of_kind(*usual):
        place = stated[role]
        place = wanted.columns[role].place if place is None else place
        if (text := text_rows.cell(first, place)) is not None:
            are_usual.add(text.lower() in usual[role.kind])
    if are_usual == {True}:
        text = f"line 1 is the header: {line} (else --has_header=false)"
        noticed.append(findings.Finding(path, text))
        return True
    if is_given and True not in are_usual:
        text = f"line 1 is an example: {line} (else --has_header=true)"
        noticed.append(findings.Finding(path, text))
        return False
    raise errors.InputError(
        f"{path}:1: {line} are not the usual names of columns; if they are names, give "
        f"them to {wanted.flags}, and if not, give numbers from 0 and "
        f"--has_header=false{_separator_hint(first)}"
    )


def _stated(wanted: Wanted, *, keyed: bool) -> dict[Role, Key | None]:
    columns = wanted.columns.items()
    return {role: _parse(column.stated, keyed=keyed) for role, column in columns}


def _parse(column: Key | None, *, keyed: bool) -> Key | None:
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


def _choose(
    path: str,
    wanted: Wanted,
    names: list[str],
    first: text_rows.Row,
    marks: Collection[str],
    later: Sequence[str],
) -> dict[Role, Key]:
    """The key of each role that is there; `first` is the header or else a row.

    No text that is not stated is in one of the columns `marks`, or, save an optional
    one, of those that `later` rows alone have.
    """
    keyed = isinstance(first, dict)
    chosen = _stated(wanted, keyed=keyed)
    free = [name for name in names if name not in marks]
    named: dict[Role, str] = {}
    if all(chosen[role] is None for role in wanted.of_kind(TEXT)):
        others = [chosen[role] for role in wanted.of_kind(LABEL, MARK, OTHER)]
        taken = [text_rows.cell(names, c) if isinstance(c, int) else c for c in others]
        unread = [name for name in later if name not in marks]
        named = _usual_texts(path, wanted, free, [*filter(None, taken)], unread)
    for role, column in wanted.columns.items():
        usual = [] if chosen[role] is not None else [*zip(column.usual)]
        more = later if role in wanted.optional else ()
        name = _first_usual(free, usual) or _first_usual(more, usual)
        if name and role not in named:
            named[role] = name[0]
    has_texts = any(role.kind == TEXT for role in named)
    chosen |= {role: name for role, name in named.items() if chosen.get(role) is None}
    places: Sequence[Key] = free or range(len(first))
    known = f"is none of {wording.listing(names)}" if names else "line 1 is no header"
    hint = "" if keyed else _separator_hint([*first])
    for role, column in wanted.columns.items():
        if chosen[role] is None and not has_texts:
            chosen[role] = text_rows.cell(places, column.place)
        if chosen[role] is None and column.title:
            raise errors.InputError(
                f"{path}: the {column.title}'s column is not given and {known}; pass "
                f"--{role.name}_column{hint}"
            )

    names = [*later] or names

    def is_absent(column: Key | None) -> bool:
        if isinstance(column, str):
            return column not in names
        return text_rows.cell(first, column) is None

    if all(is_absent(chosen[role]) for role in wanted.optional):
        chosen |= dict.fromkeys(wanted.optional)
    return {
        role: _key(path, str(role), column, names, keyed=keyed)
        for role, column in chosen.items()
        if column is not None
    }


def _usual_texts(
    path: str,
    wanted: Wanted,
    names: Sequence[str],
    taken: Collection[str],
    later: Iterable[str],
) -> dict[Role, str]:
    """The first of `wanted.texts` whose names occur, without those that are `taken`."""
    roles = wanted.of_kind(TEXT)
    texts = _first_usual([name for name in names if name not in taken], wanted.texts)
    if texts and not wanted.of_kind(CHOICE):
        _check_unread(path, wanted, [*names, *later], [*texts, *taken])
    if len(texts) > len(roles):
        numbers = range(len(texts) - 1)
        roles = [roles[0], *(Role(CHOICE, str(number)) for number in numbers)]
    return dict(zip(roles, texts, strict=False))


def _first_usual(
    names: Sequence[str], usual: Iterable[tuple[str, ...]]
) -> tuple[str, ...]:
    """The first entry of `usual` whose names all occur, as `names` spells them."""
    spelled = {name.lower(): name for name in reversed(names)}
    entries = (entry for entry in usual if spelled.keys() >= set(entry))
    return tuple(spelled[name] for name in next(entries, ()))


def _key(
    path: str, role: str, column: Key, names: Sequence[str], *, keyed: bool
) -> Key:
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


def _check_unread(
    path: str, wanted: Wanted, names: Iterable[str], chosen: Collection[str]
) -> None:
    """Refuses a choice of columns that leaves a text with a usual name unread."""
    texts = {*itertools.chain(*wanted.unread)} - _OFTEN_UNREAD
    for name in names:
        if name not in chosen and name.lower() in texts:
            raise errors.InputError(
                f"{path}: {' and '.join(map(repr, chosen))} would be read, and "
                f"{name!r} would not; name the columns with {wanted.flags}"
            )
