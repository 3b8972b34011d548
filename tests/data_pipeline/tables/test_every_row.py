"""Rows in = rows out + rows reported, whoever wrote the table, for every reader."""

import codecs
import contextlib
import csv
import io
import json
import pathlib
import re
import tempfile
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import errors
from data_pipeline.embedding import corpora
from data_pipeline.seq2seq import pairs
from data_pipeline.tables import labelled, text_rows
from tests.refusals import refused
from tests.shown import shown

TEXTS = [
    *("A nice one.", "so bad", "Well, a nice one", "Wait; what?", 'He said "no" twice'),
    *(
        "good",
        "question",
        "0",
        "One, two; three",
        "it's 5 o'clock",
        "Größe: 好",
        "class",
    ),
]
LABELS = ["pos", "neg", "odd", "score"]


class Reader(NamedTuple):
    """What reads a table of id, first text, second text and label."""

    read: object  # path, {role: key}, delimiter -> [(line, texts)]
    roles: tuple[str, ...]  # of the columns of the texts
    names: tuple[str, ...]  # usual names of the four columns


def of_table(path, columns, delimiter):
    layout = labelled.Layout(delimiter=delimiter, **columns)
    table = shown(labelled.read_table(path, layout, labels_required=True))
    texts = zip(table.text_a, table.text_b, strict=True)
    return list(zip(table.lines, texts, strict=True))


def of_embedding(path, columns, delimiter):
    layout = labelled.Layout(
        delimiter=delimiter, usual_texts=corpora.USUAL_TEXTS, **columns
    )
    table = shown(corpora.open_rows(path, layout).read())
    return list(zip(table.lines, table.texts(), strict=True))


def of_pairs(path, columns, delimiter):
    layout = pairs.Layout(delimiter=delimiter, **columns)
    read = pairs.open_rows(path, layout, targets_required=True)
    rows = [(row.line, (row.source, row.target)) for row in read.rows]
    shown(read)
    return rows


def of_choices(path, columns, delimiter):
    """Answers in the place of the second text, and no label."""
    wanted = dict(columns, choices=(columns["text_b"], columns["label"]))
    del wanted["text_b"], wanted["label"]
    layout = labelled.Layout(delimiter=delimiter, **wanted)
    table = shown(labelled.read_table(path, layout, labels_required=False))
    rows = zip(table.lines, table.text_a, table.choices, strict=True)
    return [(line, (text, choices[0])) for line, text, choices in rows]


TEXT_COLUMNS = ("text_a", "text_b")
READERS = {
    "classification": Reader(
        of_table, TEXT_COLUMNS, ("id", "text_a", "text_b", "label")
    ),
    "embedding": Reader(of_embedding, TEXT_COLUMNS, ("id", "question", "passage", "x")),
    "choices": Reader(of_choices, TEXT_COLUMNS, ("id", "text", "first", "second")),
    "seq2seq": Reader(of_pairs, ("source", "target"), ("id", "source", "target", "x")),
}


class Written(NamedTuple):
    """A file: its rows by line, and whether line 1 is a header."""

    path: str
    rows: dict[int, tuple[str, ...]]
    has_header: bool
    num_empty: int
    is_whole: bool  # whether each row has four cells to a reader of the rules


@st.composite
def written(draw, names):
    """A function that writes a table into a directory."""
    ending, delimiter = draw(
        st.sampled_from([("csv", ","), ("csv", ";"), ("tsv", "\t")])
    )
    header = draw(st.sampled_from([None, names, ("nr", "Tweet", "Reply", "Mood")]))
    quotes = draw(st.sampled_from([True, True, False]))
    cells = draw(
        st.lists(
            st.tuples(
                st.integers(0, 99).map(str),
                *[st.sampled_from(TEXTS)] * 2,
                st.sampled_from(LABELS),
            ),
            min_size=2,
            max_size=8,
        )
    )
    cells.insert(0, ("7", "It is what it is.", "Nothing to add.", "pos"))
    change = draw(st.sampled_from(["", "", "long", "short", "empty", "empty"]))
    place = draw(st.integers(0, len(cells) - 1))
    bom, end = draw(st.booleans()), draw(st.sampled_from(["\n", "\r\n"]))

    def write(directory):
        lines = [] if header is None else [delimiter.join(header)]
        where, is_whole = {}, True
        for number, row in enumerate(cells):
            is_whole &= quotes or ending == "tsv" or delimiter not in "".join(row)
            if number == place and change == "empty":
                lines += [delimiter * draw(st.integers(1, 4))]
            row = [*row, "more"] if (number, change) == (place, "long") else row
            row = row[:-1] if (number, change) == (place, "short") else row
            is_whole &= len(row) == 4
            where[len(lines) + 1] = tuple(row)
            line = io.StringIO()
            if quotes and ending == "csv":
                csv.writer(line, delimiter=delimiter, lineterminator="").writerow(row)
            lines.append(line.getvalue() or delimiter.join(row))
        path = pathlib.Path(directory, f"t.{ending}")
        text = end.join(lines) + end
        path.write_bytes(bom * codecs.BOM_UTF8 + text.encode())
        return Written(
            str(path), where, header is not None, change == "empty", is_whole
        )

    return write, header, delimiter


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("by_number", [False, True])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rows_in_are_rows_out_and_rows_reported(name, by_number, data):
    read, roles, names = READERS[name]
    write, header, delimiter = data.draw(written(names))
    given_delimiter = data.draw(st.sampled_from([None, delimiter]))
    columns = dict(zip((*roles, "label"), (1, 2, 3), strict=True))
    if header is not None and not by_number:
        columns = {role: header[place] for role, place in columns.items()}
    if name == "seq2seq":
        del columns["label"]
    with tempfile.TemporaryDirectory() as directory:
        file = write(directory)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                actual = read(file.path, columns, given_delimiter)
        except errors.InputError as error:
            assert "t.csv" in str(error) or "t.tsv" in str(error)
            return
    assert file.is_whole  # no row of another length is read
    left_out = re.search(r"left out (\d+) row", printed.getvalue())
    assert (int(left_out[1]) if left_out else 0) == file.num_empty
    wanted = {line: tuple(row[1:3]) for line, row in file.rows.items()}
    if file.has_header and actual and actual[0][0] == 1:  # it is printed as an example
        assert "line 1 is an example" in printed.getvalue()
        actual = actual[1:]
    if not file.has_header and min(wanted) not in dict(actual):
        assert "line 1 is the header" in printed.getvalue()
        del wanted[min(wanted)]
    assert dict(actual) == wanted


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(["p1\tA text", "p2\tone, two", "p3", "p4\ta\tb", "\t"])),
    st.booleans(),
)
def test_texts_of_a_corpus_are_all_read_or_refused(lines, bom):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "corpus.tsv")
        path.write_bytes(bom * codecs.BOM_UTF8 + "\n".join(lines).encode())
        try:
            texts = list(corpora.read_texts(str(path), has_ids=True))
        except errors.InputError:
            assert not all(re.fullmatch(r"p\d\t[^\t]+", line) for line in lines)
            return
    assert [f"{text.text_id}\t{text.text}" for text in texts] == lines


def test_the_property_can_fail(tmp_path):
    """Without the check of lengths, an unquoted comma shifts the columns unseen."""
    path = tmp_path / "t.csv"
    path.write_text("text,label\nfine,pos\nWell, a nice one,pos\n")
    ragged = [row for _, row in text_rows.file_rows(str(path), "csv", ragged="kept")]
    assert ragged[2][:2] == ["Well", " a nice one"]
    with pytest.raises(ValueError, match=r"t.csv:3: 3 cells, line 1 has 2"):
        list(text_rows.file_rows(str(path), "csv"))


FIRSTS = {"null": {"label": None}, "absent": {}}


def of_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return labelled.open_table(str(path), labelled.Layout(), labels_required=False)


def of_memory(path, rows):
    return labelled.open_memory(
        "t.jsonl", rows, labelled.Layout(), labels_required=False
    )


@pytest.mark.parametrize("open_rows", [of_jsonl, of_memory])
@pytest.mark.parametrize("first", FIRSTS.values(), ids=FIRSTS)
def test_the_first_row_does_not_decide_whether_labels_are_read(
    tmp_path, capsys, open_rows, first
):
    def read(*labels, count=1):
        rows = [{"text": f"a {i}", **first} for i in range(count)]
        rows += [{"text": f"b {label}", "label": label} for label in labels]
        return shown(open_rows(tmp_path / "t.jsonl", rows).read())

    assert read("x", "y").labels == ["null", "x", "y"]
    assert "t.jsonl: reads 'text' (text_a), 'label'\n" in capsys.readouterr().out
    assert read().labels is None
    # The columns follow from the first hundred rows; no later label is left unread.
    assert read("x", count=99).labels[-1] == "x"
    with refused("t.jsonl:151: has a value under 'label', and no row before has; put"):
        read("x", count=150)
    assert read(count=150).labels is None


def test_a_mark_that_is_null_is_as_an_empty_cell(tmp_path):
    rows = [{"text": "a", "x": None, "y": None}, {"text": "b", "x": 1, "y": 0}]
    layout = labelled.Layout(label=("x", "y"))
    for required in (True, False):
        opened = labelled.open_memory("t", rows, layout, labels_required=required)
        assert opened.read().labels == ["null", ("x",)]
    rows[1]["x"] = None
    with refused("t:2: '' in the column 'x' is not 0 or 1"):
        labelled.open_memory("t", rows, layout, labels_required=True).read()


@pytest.mark.parametrize("count", [1, 150])
def test_targets_of_later_rows_alone_are_refused(tmp_path, count):
    rows = [{"source": f"a {i}"} for i in range(count)] + [{"source": "b"}]
    path = tmp_path / "t.jsonl"

    def read():
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return [
            row.target
            for row in pairs.open_rows(
                str(path), pairs.Layout(), targets_required=False
            ).rows
        ]

    assert read() == [None] * len(rows)
    rows[-1]["target"] = "c"
    with refused(f"t.jsonl:{count + 1}: has a "):
        read()
