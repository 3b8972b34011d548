"""Rows of CSV that a stray quote makes one cell, and texts of several lines."""

import csv

import pytest

from data_pipeline.classification import sources
from data_pipeline.embedding import corpora
from data_pipeline.seq2seq import pairs
from data_pipeline.tables import labelled
from tests import shown
from tests.refusals import refused


def of_table(path):
    table = labelled.read_table(path, labelled.Layout(), labels_required=True)
    return list(zip(table.text_a, table.labels, strict=True))


def of_embedding(path):
    layout = labelled.Layout(usual_texts=corpora.USUAL_TEXTS)
    table = corpora.open_rows(path, layout).read()
    return list(zip(table.text_a, table.labels or table.text_b, strict=True))


def of_pairs(path):
    rows = pairs.open_rows(path, pairs.Layout(), targets_required=True).rows
    return [(row.source, row.target) for row in rows]


READERS = {
    "classification": (of_table, "text,label", ["pos", "neg"]),
    "embedding of labels": (of_embedding, "text,label", ["pos", "neg"]),
    "embedding of pairs": (of_embedding, "anchor,positive", None),
    "seq2seq": (of_pairs, "source,target", None),
}


def rows_of(labels, delimiter=","):
    """60 rows without a quote; the second cell is one of the labels, or a text."""
    return [
        f"some text {n}{delimiter}{labels[n % 2] if labels else f'Antwort {n}'}"
        for n in range(60)
    ]


@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("last", [21, 23, 40])
@pytest.mark.parametrize("name", READERS)
def test_a_stray_quote_that_swallows_rows_is_refused(tmp_path, name, last, delimiter):
    read, header, labels = READERS[name]
    rows = rows_of(labels, delimiter)
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header.replace(",", delimiter), *rows]))
    assert len(read(str(path))) == 60
    rows[20] = '"' + rows[20]
    text, cell = rows[last].split(delimiter)
    rows[last] = f'{text}"{delimiter}{cell}'
    path.write_text("\r\n".join([header.replace(",", delimiter), *rows]))
    if last == 21 and not labels:  # two lines of texts are a text of two lines
        assert len(read(str(path))) == 59
        return
    with refused("t.csv:22: a quote", f"line {last + 2}", "--quote=none", "JSONL"):
        read(str(path))


@pytest.mark.parametrize("place", [0, 1, 20])
def test_labels_that_come_later_show_rows_in_a_cell(tmp_path, place):
    rows = [f"some text {n},{'pos' if n % 2 else 'neg'}" for n in range(60)]
    rows[place : place + 2] = ['"5 inch,odd', '7 inch",odd']
    path = tmp_path / "t.csv"

    def write():
        path.write_text("\n".join(["text,label", *rows]))
        return str(path)

    assert len(of_table(write())) == 59  # a label that no other row has
    rows[50] = "some text 50,odd"
    with refused(f"t.csv:{place + 2}: a quote opens a cell that", f"line {place + 3}"):
        of_table(write())


@pytest.mark.parametrize("text", ["some text", "很好"])
def test_numbers_show_rows_that_have_no_other_value_in_common(tmp_path, text):
    rows = [f"{text} {n},{n}.5" for n in range(60)]
    rows[20], rows[40] = '"' + rows[20], f'{text} 40",40.5'
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["text,score", *rows]))
    with refused("t.csv:22: a quote", "line 42"):
        of_table(str(path))


TEXTS = {
    "a letter": "Dear Sir,\nthe parcel came late, and open.\nYours, Ann",
    "words with a comma each": "good, bad\nold, new\nbig, small\nfar, near\na, b",
    "Chinese": "很好,不错\n床前明月光,疑是地上霜\n举头望明月,低头思故乡\n好,好\n坏,坏",
    "numbers": "2,5\n3,00\n4,10\n5,99\n1,20",
    "prices": "Apfel 2,50\nBirne 3,00\nKirsche 4,10\nPflaume 5,99\nQuitte 1,20",
    "the end of a line": "first,\nsecond,\nthird,\nfourth,\nfifth",
    "a row in a text": 'I wrote "good film,pos" there,\nand it\nis\nwrong',
    "blank lines": "one\n\n\ntwo, three\n",
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_texts_of_several_lines_are_right(tmp_path, name, text):
    read, header, labels = READERS[name]
    rows = [row.split(",") for row in rows_of(labels)]
    rows = [[text, "neg"], *rows, [text, "pos"], [text, "neg"]]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    assert read(str(tmp_path / "t.csv")) == [tuple(row) for row in rows]


def test_a_look_prints_the_number_of_rows_and_the_swallowed_ones(tmp_path, capsys):
    rows = rows_of(["pos", "neg"])
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["text,label", *rows]))
    files = {"train": str(path), "test": str(path)}
    source = sources.Source(files=files, dev_share=0.2)
    assert shown.look(source, ["train", "dev", "test"]) == 0
    printed = capsys.readouterr().out
    for split, count in (("train", 48), ("dev", 12), ("test", 60)):
        assert f"{split}: {count} rows from {path}\n" in printed
    rows[20], rows[40] = '"' + rows[20], rows[40].replace(",", '",')
    path.write_text("\n".join(["text,label", *rows]))
    assert shown.look(sources.Source(files={"train": str(path)}), ["train"]) == 1
    assert f"fault: {path}:22: a quote opens a cell" in capsys.readouterr().out
