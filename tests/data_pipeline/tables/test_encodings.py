"""Tables in other encodings than UTF-8, by --encoding."""

import csv
import io
import json

import pytest

from data_pipeline.embedding import corpora
from data_pipeline.seq2seq import pairs
from data_pipeline.tables import labelled, text_rows
from tests.refusals import refused

GERMAN = [("Größe paßt", "süß"), ("„für 5 €“; naja", "bäh"), ("zwei\nZeilen", "süß")]
CHINESE = [("很好 好好好", "好评"), ("不行", "差评")]


def of_table(path, **form):
    table = labelled.read_table(path, labelled.Layout(**form), labels_required=True)
    assert [tuple(row)[:2] for row in table.input_rows()] or path.endswith("jsonl")
    return list(zip(table.text_a, table.labels, strict=True))


def of_embedding(path, **form):
    table = corpora.open_rows(path, labelled.Layout(**form)).read()
    return list(zip(table.text_a, table.labels, strict=True))


def of_pairs(path, **form):
    layout = pairs.Layout(source="text", target="label", **form)
    rows = pairs.open_rows(path, layout, targets_required=True).rows
    return [(row.source, row.target) for row in rows]


def of_choices(path, **form):
    layout = labelled.Layout(text_a="text", label="", choices=("label", "text"), **form)
    table = labelled.read_table(path, layout, labels_required=False)
    return [
        (text, choices[0])
        for text, choices in zip(table.text_a, table.choices, strict=True)
    ]


READERS = [of_table, of_embedding, of_pairs, of_choices]


def as_jsonl(rows):
    objects = [{"text": text, "label": label} for text, label in rows]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects)


def as_cells(rows, delimiter):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerows([("text", "label"), *rows])
    return file.getvalue()


FILES = {
    "t.csv": lambda rows: as_cells(rows, ","),
    "semicolons.csv": lambda rows: as_cells(rows, ";"),
    "t.jsonl": as_jsonl,
    "array.json": lambda rows: json.dumps(
        [{"text": text, "label": label} for text, label in rows], ensure_ascii=False
    ),
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("block", [1, 1 << 20])  # bytes; characters are cut in two
@pytest.mark.parametrize(
    ("encoding", "rows"),
    [
        ("cp1252", GERMAN),
        ("UTF-16", GERMAN + CHINESE),
        ("utf-16-le", CHINESE),
        ("gb18030", CHINESE),
        ("utf-8", GERMAN),
        ("Utf8", CHINESE),
    ],
)
def test_tables_are_read_in_their_encoding(
    tmp_path, monkeypatch, read, name, block, encoding, rows
):
    monkeypatch.setattr(text_rows, "_CHUNK_BYTES", block)
    path = tmp_path / name
    path.write_bytes(FILES[name](rows).encode(encoding))
    assert read(str(path), encoding=encoding) == rows
    if encoding == "cp1252":  # as the programs of a project write their own
        path.write_bytes(FILES[name](rows).encode("utf-8-sig"))
        assert block == 1 or read(str(path), encoding=encoding) == rows


@pytest.mark.parametrize("read", READERS)
def test_what_is_in_another_encoding_is_refused(tmp_path, read):
    path = tmp_path / "t.csv"
    text = as_cells(GERMAN, ",")
    path.write_bytes(text.encode())
    with refused("t.csv: is UTF-8 and not cp1252; leave --encoding out"):
        read(str(path), encoding="cp1252")
    path.write_bytes(text.encode("cp1252"))
    with refused("t.csv:2: byte 0xf6", ", or pass --encoding, such as cp1252 or gb18"):
        read(str(path), encoding="utf-8")
    with pytest.raises(ValueError, match=r"t\.csv:2: .* convert the file to UTF-8$"):
        read(str(path))
    with refused("t.csv:2: is not ascii (", "; correct --encoding"):
        read(str(path), encoding="ascii")
    path.write_bytes("text,label\nzu viele Leute in der Höhle,x\n".encode("cp1252"))
    with refused("t.csv:2:", "-f WINDOWS-1252", "or pass --encoding=windows-1252"):
        read(str(path), encoding="utf-8")
    assert read(str(path), encoding="windows-1252")[0][1] == "x" or read is of_choices
    path.write_bytes(b"text,label\nfine,x\nbad \x81,y\n")
    with refused("t.csv:3: is not cp1252 (", "; correct --encoding"):
        read(str(path), encoding="cp1252")
    path.write_bytes(text.encode("utf-16"))
    with refused("t.csv:1: is not UTF-8; it looks like UTF-16", "--encoding=utf-16"):
        read(str(path), encoding="utf-8")


@pytest.mark.parametrize("block", [8, 1 << 20])
def test_one_accent_shows_that_a_file_is_utf_8(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text_rows, "_CHUNK_BYTES", block)
    (tmp_path / "t.tsv").write_bytes("text\tlabel\nö\t0\n".encode())
    with refused("t.tsv: is UTF-8 and not latin-1; leave --encoding out"):
        of_table(str(tmp_path / "t.tsv"), encoding="latin-1")


@pytest.mark.parametrize("layout", [labelled.Layout, pairs.Layout, text_rows.Form])
@pytest.mark.parametrize("encoding", ["cp12520", "base64", "rot13", "undefined", "a\0"])
def test_no_encoding_of_text_is_refused_at_once(layout, encoding):
    with refused(f"--encoding={encoding} is no encoding of text; give one such as cp"):
        layout(encoding=encoding)


def test_other_files_name_no_flag(tmp_path):
    (tmp_path / "t.txt").write_bytes("Größe".encode("cp1252"))
    for read in (text_rows.lines, corpora.read_texts):
        with pytest.raises(
            ValueError, match=r"^[^\n]*t\.txt:1: byte 0xf6, (?!.*--enc)"
        ):
            list(read(str(tmp_path / "t.txt")))


def test_carriage_returns_alone_are_no_ends_of_lines(tmp_path):
    """Of a file of an old Mac one row would be read, or none."""
    files = {
        "t.tsv": b"text\tlabel\ra b\tx\rc\ty\r",
        "t.csv": b"text,label\ra b,x\rc,y",
        "t.conll": b"Ada B-per\rwrites O\r",
        "t.jsonl": b'{"text": "a", "label": "x"}\r{"text": "b", "label": "y"}\r',
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        with refused(
            f"{name}:1: carriage returns alone end its lines", "tr '\\r' '\\n'"
        ):
            list(text_rows.lines(str(tmp_path / name)))
        for whole in (data.replace(b"\r", b"\r\n"), b"a\rb", data + b"\n"):
            (tmp_path / name).write_bytes(whole)
            assert list(text_rows.lines(str(tmp_path / name)))
