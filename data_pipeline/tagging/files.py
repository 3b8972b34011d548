"""Reads sentences with one tag a word: columns (CoNLL), seq.in and seq.out, JSONL.

Columns have a word a line and a blank line between sentences. seq.in has a sentence a
line and seq.out its tags. JSONL has a sentence a line: {"words": [...], "tags": [...]},
with numbers for tags (`ner_tags` of the library `datasets`), or a text and its spans of
characters: [start, end, label] of doccano and spaCy, or objects with start, end and
label of Prodigy. Characters count from 0, `end` is one past the last. CLUENER2020 has
{type: {entity: [[start, end], ...]}} beside each text, and `end` is the last character.
"""

import contextlib
import dataclasses
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from contract import errors, features, json_files, remote_files, wording
from data_pipeline import findings
from data_pipeline.tables import other_programs, text_rows
from data_pipeline.tagging import schemes

FORMATS = ("conll", "seq", "jsonl", "cluener")
TAGS_KEY = "tags"
_TAGS_KEYS = (TAGS_KEY, "ner_tags")
_WORDS_KEYS = ("words", "tokens", "text")
_SPANS_KEYS = ("spans", "entities", "label", "labels")
# Of a span that is an object; the second of each is doccano's.
_START, _END = ("start", "start_offset"), ("end", "end_offset")
_CHUNK_TEXTS = 1024  # cut at a time
_BLANKS = " \t\r"  # U+3000, which strip() takes for one, is a word
# Begins the line between two documents; CoNLL-U writes a comment instead.
_DOCUMENT_MARK = "-DOCSTART-"
_DOCUMENT_COMMENT = "# newdoc"
# Cells of a line 1 that names columns.
_HEADER_WORDS = {"word", "words", "token", "tokens", "form", "text"}
_HEADER_TAGS = {"tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags", "pos"}
_CELL = re.compile("[^ \t]+")
_ROW_OF_CSV = re.compile(r"[^\t,;]+[,;](?!\d)\S*")  # no "3,000"
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
    text: str = ""  # whose characters but for whitespace are the words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """How a file holds its words and tags.

    `file_format` is one of `FORMATS`, or "auto". Columns count from 0, or from -1 at
    the end; a file that lacks the tag column, or has the words there, has no tags.
    `tag_names` are those that numbers stand for in JSONL, from 0.
    """

    file_format: str = "auto"
    word_column: int = 0
    tag_column: int = -1
    tag_names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Sentences:
    """The N sentences of a file, in its order; none is empty."""

    path: str  # of the words
    tag_path: str  # of the tags; differs for seq.out alone
    file_format: str  # one of `FORMATS`
    words: list[list[str]]
    tags: list[list[str]] | None  # None where the file has none
    documents: np.ndarray  # int32 [N], of each sentence; never decreasing
    lines: list[list[int]]  # in the file, of each word, from 1
    separator: str = " "  # of columns, a tab or a space
    header: int = 0  # the line that names columns; 0 for none
    num_skipped: int = 0  # empty sentences, left out
    texts: list[str] | None = None  # of CLUENER2020, whose words are characters
    noticed: tuple[findings.Finding, ...] = ()  # columns, keys and header, read or not

    def __len__(self):
        return len(self.words)

    @property
    def num_words(self) -> int:
        return sum(map(len, self.words))

    def tagged_words(self) -> Iterator[tuple[int, str]]:
        """Yields line and tag of each word; refuses sentences without tags."""
        if self.tags is None:
            raise errors.InputError(f"{self.path}: has no tags; give it some")
        for lines, tags in zip(self.lines, self.tags, strict=True):
            yield from zip(lines, tags, strict=True)


def read(path: str, layout: Layout, *, tags_required: bool) -> Sentences:
    """Reads one file.

    Columns are separated by tabs if the first row has one, else by spaces. Blank lines
    and lines of -DOCSTART- end a sentence, the latter a document as well, as do CoNLL-U
    comments `# newdoc`. A line that begins with "#" is a comment unless it has the
    columns of a row; if the word is "#" alone and the first of a sentence, other rows
    must have its tag as well. Rows of ten columns between tabs whose first is a number
    are CoNLL-U: multiword tokens (3-4) and empty nodes (5.1) are no words. A first row
    such as "word tag" names the columns.

    For seq.in and seq.out, `path` is the former or their directory; without a seq.out
    there are no tags.
    """
    path = str(path)
    file_format = _format(path, layout.file_format)
    separator, header, tag_path = " ", 0, None
    noticed: list[findings.Finding] = []
    if file_format == "seq":
        if remote_files.is_dir(path):
            path = os.path.join(path, "seq.in")
            if not remote_files.exists(path):
                raise FileNotFoundError(f"{path}: no such file; name a file")
        tag_path = _tag_path(path, tags_required)
        rows = _lines_of_words(path, tag_path)
    elif file_format == "jsonl":
        rows = _objects(path, layout.tag_names, noticed)
    elif file_format == "cluener":
        rows = _characters(path)
    else:
        columns = _find_columns(path, layout, tags_required=tags_required)
        separator, header = columns.separator, columns.header
        if header:
            text = f"is the header, {dict(columns.lines)[header].strip()!r:.60}"
            noticed.append(findings.Finding(f"{path}:{header}", text))
        rows = _column_sentences(columns)
    read_rows = list(rows)
    sentences = [sentence for sentence in read_rows if sentence.words]
    _check_tags(path, sentences, tags_required)
    if file_format == "conll":
        noticed += _check_words(sentences, columns)
    documents, words, tags, lines, texts = map(list, zip(*sentences, strict=True))
    return Sentences(
        path=path,
        tag_path=tag_path or path,
        file_format=file_format,
        words=words,
        tags=None if tags[0] is None else tags,
        documents=np.array(documents, features.INTEGER),
        lines=lines,
        separator=separator,
        header=header,
        num_skipped=len(read_rows) - len(sentences),
        texts=texts if file_format == "cluener" else None,
        noticed=tuple(noticed),
    )


def _format(path: str, file_format: str) -> str:
    if file_format != "auto":
        if file_format not in FORMATS:
            known = ", ".join(("auto", *FORMATS))
            raise errors.InputError(f"--file_format={file_format} is none of {known}")
        return file_format
    name = path.lower().removesuffix(".gz")
    if name.endswith("seq.in") or remote_files.is_dir(path):
        return "seq"
    if name.endswith((".json", ".jsonl")):
        return "jsonl"
    if remote_files.is_pipe(path):
        raise errors.InputError(
            f"{path}: is a pipe, which is read once; set --file_format"
        )
    first = next((line for _, line in text_rows.lines(path) if line.strip()), "")
    with contextlib.suppress(ValueError):
        if isinstance(json_files.parse(first), dict):
            return "jsonl"
    if name.endswith(".csv") or _ROW_OF_CSV.fullmatch(first.rstrip("\r")):
        raise errors.InputError(
            f"{path}: is CSV; write a word, a tab and its tag a line, or JSONL "
            "(--file_format=conll reads it as it is)"
        )
    return "conll"


def _check_tags(path: str, sentences: list[Sentence], tags_required: bool) -> None:
    if not sentences:
        raise errors.InputError(
            f"{path}: there is no sentence; give it a word and its tag a line, or "
            'lines of {"words": [], "tags": []}'
        )
    for sentence in sentences:
        line = sentence.lines[0]
        if sentence.tags is None and tags_required:
            keys = ", ".join((*_TAGS_KEYS, *_SPANS_KEYS))
            raise errors.InputError(
                f"{path}:{line}: has no tags; give it some (in JSONL under {keys}; "
                "doccano's annotations by names of labels and not by numbers)"
            )
        if (sentence.tags is None) != (sentences[0].tags is None):
            raise errors.InputError(
                f"{path}: of lines {sentences[0].lines[0]} and {line} one has tags and "
                "one has none; give all some, or none"
            )


def _check_words(
    sentences: list[Sentence], columns: "_Columns"
) -> list[findings.Finding]:
    """Refuses a column of numbers or of one word; notes the columns."""
    words = [word for sentence in sentences for word in sentence.words]
    if columns.num_columns < 3 or len(words) < 2:
        return []
    path, first = columns.path, next(row for _, row, _ in _scan(columns) if row)
    cells = ", ".join(f"{i} {cell!r:.20}" for i, cell in enumerate(first))
    if all(map(str.isdecimal, words)) or len({*words}) == 1:
        others = enumerate(first[columns.word + 1 :], start=columns.word + 1)
        likely = next((i for i, cell in others if not cell.isdecimal()), 1)
        raise errors.InputError(
            f"{path}: the words are numbers or all the same; columns begin with "
            f"{cells}: set --word_column={likely}, and --tag_column to that of the tags"
        )
    tag = "none" if columns.tag is None else columns.tag
    text = f"columns {cells}; words: {columns.word}, tags: {tag}"
    return [findings.Finding(path, text)]


class _Columns(NamedTuple):
    path: str
    lines: list[tuple[int, str]]  # of the whole file
    separator: str  # a tab or a space
    num_columns: int  # of each row
    first_line: int  # of the first row
    word: int  # column of the words
    tag: int | None  # column of the tags
    tags: set[str]  # of words: a line "#" with one of them is no comment
    is_conllu: bool = False
    header: int = 0  # line that names the columns; 0 for none


def split_cells(line: str, separator: str = " ") -> list[str]:
    """The cells of a line; U+3000, a word of Chinese texts, separates nothing."""
    line = line.rstrip("\r")
    if separator == "\t":
        return [cell.strip(" ") for cell in line.split("\t")]
    return _CELL.findall(line)


def _find_columns(path: str, layout: Layout, *, tags_required: bool) -> _Columns:
    """Reads a whole file and finds its columns: only its end decides on "#"."""
    no_row, lines = ("#", _DOCUMENT_MARK), [*text_rows.lines(path)]
    rows = (row for row in lines if row[1].strip(_BLANKS))
    rows = (row for row in rows if not row[1].startswith(no_row))
    number, line = next(rows, (0, ""))
    if not line:
        return _Columns(path, lines, " ", 1, 1, 0, None, set())
    place = f"{path}:{number}"
    separator = "\t" if "\t" in line else " "
    num_columns = len(split_cells(line, separator))
    word, tag = (
        column % num_columns if -num_columns <= column < num_columns else None
        for column in (layout.word_column, layout.tag_column)
    )
    if word is None:
        raise errors.InputError(
            f"{place}: {num_columns} columns; lower --word_column={layout.word_column}"
        )
    tag = None if tag == word else tag
    if tag is None and tags_required:
        raise errors.InputError(
            f"{place}: {num_columns} columns; besides the words' there is no "
            f"--tag_column={layout.tag_column}; give each line a word and its tag"
        )
    is_conllu = num_columns >= _CONLLU_COLUMNS and bool(_CONLLU_ROW.match(line))
    about = separator, num_columns, number, word, tag, set[str](), is_conllu
    columns = _Columns(path, lines, *about)
    cells = [cell.lower() for cell in split_cells(line, separator)]
    if tag is not None and cells[word] in _HEADER_WORDS and cells[tag] in _HEADER_TAGS:
        columns = columns._replace(header=number)
    if tag is not None:
        for _, row, _ in _scan(columns):
            columns.tags.update((row or [])[tag : tag + 1])
    return columns


def _scan(columns: _Columns) -> Iterator[tuple[int, list[str] | None, bool]]:
    """Yields number, cells (None at a sentence's end), whether a document begins."""
    at_start = True  # whether no word of the sentence has come yet
    for number, line in columns.lines:
        if number == columns.header:
            continue
        if columns.is_conllu and CONLLU_NO_WORD.match(line):
            continue
        row = split_cells(line, columns.separator)
        is_comment = _is_comment(line, row, columns, at_start)
        begins_document = line.startswith(_DOCUMENT_MARK) or (
            is_comment and line.startswith(_DOCUMENT_COMMENT)
        )
        if begins_document or not line.strip(_BLANKS):
            at_start = True
            yield number, None, begins_document
        elif not is_comment:
            at_start = False
            yield number, row, False


def _is_comment(line: str, row: list[str], columns: _Columns, at_start: bool) -> bool:
    """Whether a line is a comment; "#" and "#berlin" may also be words."""
    if not line.startswith("#"):
        return False
    if len(row) != columns.num_columns:
        return at_start or line.startswith("# ")
    is_bare = row[0] == "#" or row[0].startswith("# ")
    if not at_start or not is_bare or columns.tag is None:
        return False
    return row[columns.tag] not in columns.tags


def _column_sentences(columns: _Columns) -> Iterator[Sentence]:
    document = 0
    lines: list[int] = []
    rows: list[list[str]] = []  # of the sentence that has begun
    scanned = itertools.chain(_scan(columns), [(0, None, False)])
    for number, row, begins_document in scanned:
        if row is not None:
            _check_row(f"{columns.path}:{number}", row, columns)
            lines.append(number)
            rows.append(row)
            continue
        if rows:
            words = [row[columns.word] for row in rows]
            # One object a tag, however often it stands there.
            tag = columns.tag
            tags = None if tag is None else [sys.intern(row[tag]) for row in rows]
            yield Sentence(document, words, tags, lines)
            lines, rows = [], []
        document += begins_document


def _check_row(place: str, row: list[str], columns: _Columns) -> None:
    if len(row) != columns.num_columns:
        raise errors.InputError(
            f"{place}: {len(row)} columns, line {columns.first_line} has "
            f"{columns.num_columns}; give both as many (or plain text to "
            "run_predictor.py --input_format=lines)"
        )
    for role, column in (("word", columns.word), ("tag", columns.tag)):
        if column is not None and not row[column]:
            raise errors.InputError(
                f"{place}: the {role}, column {column}, is empty; check --{role}_column"
            )


def _tag_path(path: str, tags_required: bool) -> str | None:
    plain = path.removesuffix(".gz")
    tag_path = f"{plain.removesuffix('in')}out{path[len(plain) :]}"
    if not plain.endswith(".in"):
        raise errors.InputError(
            f"{path}: does not end in seq.in; rename it, or see --file_format"
        )
    if remote_files.exists(tag_path):
        return tag_path
    if tags_required:
        raise FileNotFoundError(f"{tag_path}: no such file; it has the tags of {path}")
    return None


def _lines_of_words(path: str, tag_path: str | None) -> Iterator[Sentence]:
    """The sentences of seq.in with the tags of seq.out."""
    tags_lines = text_rows.lines(tag_path) if tag_path else ()
    pairs = itertools.zip_longest(text_rows.lines(path), tags_lines)
    for number, pair in enumerate(pairs, start=1):
        words, tags = (split_cells(line[1]) if line else [] for line in pair)
        if tag_path:
            _check_numbers(f"{tag_path}:{number}", len(words), len(tags))
        yield Sentence(0, words, tags if tag_path else None, [number] * len(words))


def _check_numbers(place: str, num_words: int, num_tags: int) -> None:
    if num_words != num_tags:
        raise errors.InputError(
            f"{place}: {num_tags} tags for {num_words} words; give each word one"
        )


def _objects(
    path: str, names: Sequence[str], noticed: list[findings.Finding]
) -> Iterator[Sentence]:
    rows: list[tuple[int, Any]] = [*text_rows.file_rows(path, "jsonl")]
    for number, row in rows:
        if isinstance(row.get("label"), dict):
            raise errors.InputError(
                f"{path}:{number}: label has a key for each type, as in CLUENER2020; "
                "set --file_format=cluener"
            )
    if any(spans_key(row) or _tags_key(row) for _, row in rows):
        marks = other_programs.marks((), rows)
        rows = [*other_programs.accepted(path, rows, marks, noticed)]
    texts = [row["text"] for _, row in rows if spans_key(row)]
    words_of_texts = cut(texts)
    read_keys: set[str] = set()
    for number, row in rows:
        place, tags = f"{path}:{number}", None
        if key := spans_key(row):
            read_keys |= {"text", key}
            text_words = next(words_of_texts)
            tags = tags_of_spans(place, row, text_words)
            words = [word.text for word in text_words]
        else:
            words_key, words = words_of(place, row)
            if key := _tags_key(row):
                tags = _tags(place, key, row[key], names)
                _check_numbers(place, len(words), len(tags))
            read_keys |= {words_key, key}
        yield Sentence(0, words, tags, [number] * len(words))
    if "text" in read_keys and not texts:
        text = "text is cut at whitespace; spans and exports at signs as well"
        noticed.append(findings.Finding(path, text))
    keys = dict.fromkeys(key for _, row in rows for key in row)
    if others := [key for key in keys if key not in read_keys]:
        read = [key for key in keys if key in read_keys]
        text = f"reads {wording.listing(read)}, not {wording.listing(others)}"
        noticed.append(findings.Finding(path, text))


def _characters(path: str) -> Iterator[Sentence]:
    """The sentences of CLUENER2020: a word and a tag for each character, BMES."""
    for number, row in text_rows.file_rows(path, "jsonl"):
        assert isinstance(row, dict)
        place = f"{path}:{number}"
        text = text_rows.field(row, "text", str, place, "give a text")
        words = [Word(text[i], i, i + 1) for i in character_places(text)]
        tags = None
        if "label" in row:
            entities = _entities(place, text, row["label"])
            tags = _tags_of(place, text, words, entities, "BMES")
        characters = [word.text for word in words]
        yield Sentence(0, characters, tags, [number] * len(words), text)


def character_places(text: str) -> list[int]:
    """The places of characters that are words: all but whitespace."""
    return [i for i, character in enumerate(text) if not character.isspace()]


def _entities(place: str, text: str, label: Any) -> Iterator[tuple[int, int, str]]:
    """Yields start, end and type of each entity."""
    try:
        spans = [
            (str(name), entity, int(start), int(end))
            for name, entities in label.items()
            for entity, places in entities.items()
            for start, end in places
        ]
    except (AttributeError, TypeError, ValueError) as error:
        raise errors.InputError(
            f"{place}: label is {label!r:.60}; give "
            "{type: {entity: [[start, end]]}}"
        ) from error
    for name, entity, start, end in spans:
        if start < 0 or text[start : end + 1] != entity or not entity.strip():
            raise errors.InputError(
                f"{place}: {name} is {entity!r:.40}, and the text has "
                f"{text[max(start, 0) : end + 1]!r:.40} at {start} to {end}; correct it"
            )
        yield start, end + 1, name


def _tags_key(row: Mapping[str, Any]) -> str:
    return next((key for key in _TAGS_KEYS if row.get(key) is not None), "")


def spans_key(row: Mapping[str, Any]) -> str:
    """The key of the spans of a row's text; "" where it has none, or tags."""
    if _tags_key(row) or not isinstance(row.get("text"), str):
        return ""
    lists = [key for key in _SPANS_KEYS if isinstance(row.get(key), list)]
    forms = list | dict
    return next((k for k in lists if all(isinstance(s, forms) for s in row[k])), "")


def words_of(place: str, row: dict[str, Any]) -> tuple[str, list[str]]:
    """The key of the words of a row, and these; InputError without any."""
    key = next((key for key in _WORDS_KEYS if row.get(key) is not None), None)
    if key is None:
        raise errors.InputError(f"{place}: has none of {_WORDS_KEYS}; give it one")
    value = row[key]
    if key == "text":
        value = text_rows.field(row, key, str, place, "write one").split()
    _check_texts(place, key, value)
    return key, list(value)


def _tags(place: str, key: str, value: Any, names: Sequence[str]) -> list[str]:
    if isinstance(value, list) and value and {*map(type, value)} == {int}:
        if outside := [tag for tag in value if not 0 <= tag < len(names)]:
            raise errors.InputError(
                f"{place}: {key} has {outside[0]}, and --labels names {len(names)} "
                "tags; name all in the order of their numbers, from 0"
            )
        return [names[tag] for tag in value]
    _check_texts(place, key, value)
    return list(value)


def _check_texts(place: str, key: str, value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise errors.InputError(
            f"{place}: {key} is {value!r:.60}; write a list of strings, none empty"
        )


class Word(NamedTuple):
    """A word of a text, text[start:end]."""

    text: str
    start: int
    end: int


def cut(texts: Sequence[str]) -> Iterator[list[Word]]:
    """Yields the words of each text, as an exported tagger cuts it."""
    # Slow to import, and rarely needed.
    from data_pipeline.text import offsets

    for first in range(0, len(texts), _CHUNK_TEXTS):
        columns = offsets.split_words(texts[first : first + _CHUNK_TEXTS])
        arrays = (columns[name].numpy() for name in ("words", "starts", "ends"))
        for row in zip(*arrays, strict=True):
            cells = zip(*(values.tolist() for values in row), strict=True)
            yield [Word(word.decode(), *place) for word, *place in cells if word]


def tags_of_spans(
    place: str, row: Mapping[str, Any], words: Sequence[Word]
) -> list[str]:
    """The tags of the words of a text with spans, BIO.

    Spans begin and end with a word, but for whitespace, and do not overlap.
    """
    text, key = row["text"], spans_key(row)
    spans = (_parse(f"{place}: {key}", span, len(text)) for span in row[key])
    return _tags_of(place, text, words, spans, "BIO")


def _tags_of(
    place: str,
    text: str,
    words: Sequence[Word],
    spans: Iterable[tuple[int, int, str]],
    scheme: str,
) -> list[str]:
    """The tags of words by spans of characters: start, end and type."""
    of_words: list[schemes.Span] = []
    taken: set[int] = set()
    for start, end, label in spans:
        name = f"{place}: {label} {text[start:end]!r:.40}, characters {start} to {end},"
        end -= len(text[start:end]) - len(text[start:end].rstrip())
        start += len(text[start:end]) - len(text[start:end].lstrip())
        inside = [i for i, w in enumerate(words) if w.start < end and start < w.end]
        ends = inside and (words[inside[0]].start, words[inside[-1]].end)
        if ends != (start, end):
            around = " ".join(words[i].text for i in inside)
            raise errors.InputError(
                f"{name} is a part of {around!r:.60} and not whole words; correct it"
            )
        if not taken.isdisjoint(inside):
            raise errors.InputError(f"{name} overlaps another span; remove one")
        taken.update(inside)
        of_words.append(schemes.Span(inside[0], inside[-1] + 1, label))
    return schemes.spell_spans(of_words, len(words), scheme)


def _parse(place: str, span: Any, length: int) -> tuple[int, int, str]:
    values = span
    if isinstance(span, dict):
        values = [span[key] for key in (*_START, *_END, "label") if key in span]
    if [*map(type, values)] == [int, int, str]:
        start, end, label = values
        if 0 <= start < end <= length and label:
            return start, end, label
    raise errors.InputError(
        f"{place} has {span!r:.60}, and the text {length} characters; write [start, "
        "end, label], end one past the last, or an object with start, end, label"
    )
