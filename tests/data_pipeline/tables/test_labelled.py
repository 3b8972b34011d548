import gzip
import json

import numpy as np
import pytest

from data_pipeline.tables import labelled, text_rows
from tests.refusals import refused
from tests.shown import shown

Layout = labelled.Layout


@pytest.fixture
def read(tmp_path):
    """Writes bytes to a file of the given name and reads it as a table."""

    def write_and_read(content, name="t.tsv", *, required=True, empty=False, **layout):
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        (tmp_path / name).write_bytes(data)
        table = labelled.read_table(
            str(tmp_path / name),
            Layout(allow_empty_text=empty, **layout),
            labels_required=required,
        )
        return shown(table)

    return write_and_read


def test_tsv_with_usual_names(read):
    table = read("label\tid\tText\nyes\tx\tone two\nno\ty\tthree")
    assert table.text_a == ["one two", "three"]
    assert table.text_b is None
    assert table.labels == ["yes", "no"]
    assert table.example_ids == ["x", "y"]
    assert table.lines == [2, 3]
    assert table.header == ("label", "id", "Text")
    assert table.path.endswith("t.tsv")


def test_line_1_of_rows_to_predict_is_named(read, capsys):
    content = "We are very glad.,4\nNot so good,5\n"
    table = read(content, "t.csv", text_a=0, required=False)
    assert table.text_a == ["We are very glad.", "Not so good"]
    assert "line 1 is an example: ['We are very glad.', '4']" in capsys.readouterr().out
    for has_header in (True, False):
        read(content, "t.csv", text_a=0, required=False, has_header=has_header)
        assert "line 1" not in capsys.readouterr().out
    table = read("id,review\n7,good\n", "t.csv", text_a=1, required=False)
    assert table.text_a == ["good"]


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ("text_a\ttext_b\tlabel", ("a", "b")),
        ("sentence\tquestion\tgold_label", ("b", "a")),
        ("QUESTION1\tquestion2\tClass", ("a", "b")),
        ("idx\ttext_a\tscore", ("b", None)),
        ("text\ttext_pair\tlabel", ("a", "b")),
        ("Text_pair\tSentence\tlabel", ("b", "a")),
        ("sentence\tsentence2\tlabel", ("a", "b")),
        ("sentence2\ttext\tscore", ("b", "a")),
        ("content\ttext_b\tlabel", ("a", "b")),
        ("text_pair\tnumber\tcategory", None),
        ("text\ts2\tlabel", None),  # maybe a number
    ],
)
def test_usual_names_are_tried_in_order(read, header, texts):
    if texts is None:
        with refused("--text_a_column"):
            read(f"{header}\na\tb\tc\n")
        return
    table = read(f"{header}\na\tb\tc\n")
    assert (table.text_a, table.text_b) == ([texts[0]], texts[1] and [texts[1]])
    assert table.labels == ["c"]


ODD = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x00h"  # a line feed alone ends a line
PAIR = {"text_a": "1", "text_b": "2", "label": "0"}


@pytest.mark.parametrize(
    ("name", "content", "layout", "texts", "labels"),
    [
        ("t.tsv", 'text\tlabel\n"a\t1\n"b"\t0\n""\t0', {}, ['"a', '"b"', '""'], "100"),
        ("t.tsv", f"text\tlabel\n{ODD}\t1\nb\t0\n", {}, [ODD, "b"], "10"),
        # Carriage returns vanish, as in the original's reader.
        (
            "t.tsv",
            "text\tlabel\r\na\t1\r\ntw\ro\t0\r\n\n\r\n\n",
            {},
            ["a", "two"],
            "10",
        ),
        ("t.tsv", "\ufeff2\ta\n1\tb\n", {"text_a": 1, "label": 0}, ["a", "b"], "21"),
        ("t.csv", "\ufeff2,a\n1,b\n", {"text_a": 1, "label": 0}, ["a", "b"], "21"),
        ("t.json", '\ufeff{"text": "a", "label": 2}', {}, ["a"], "2"),
        ("t.TXT", "text\tlabel\na,b\t1\n", {}, ["a,b"], "1"),
        (
            "t.tsv.gz",
            gzip.compress(b"text\tlabel\na,b\t1\n", mtime=0),
            {},
            ["a,b"],
            "1",
        ),
        ("t.part", "text,label\na,1\n", {"file_format": "csv"}, ["a"], "1"),
        ("t.tsv", "x\ta\tb\ny\tc\td\n", PAIR, ["a", "c"], "xy"),
        (
            "t.tsv",
            "x\ta\tb\ny\tc\td\n",
            {"text_a": -2, "text_b": -1, "label": -3},
            ["a", "c"],
            "xy",
        ),
        # Names beat usual names, and bring no second text.
        (
            "t.tsv",
            "text_a\ttext_b\tlabel\tmood\na\tb\tc\td\n",
            {"text_a": "text_b", "label": "mood"},
            ["b"],
            "d",
        ),
        # Labels by which line 1 is no header.
        ("t.tsv", "a\tx\n", {"text_a": 0, "label": 1}, ["a"], "x"),
        ("t.tsv", "a\tx\nb\ty\n", {"text_a": 0, "label": 1}, ["a", "b"], "xy"),
        (
            "t.tsv",
            "a\t1\nb\t2\nc\t2",
            {"text_a": 0, "label": 1},
            ["a", "b", "c"],
            "122",
        ),
    ],
)
def test_tables_are_read(read, name, content, layout, texts, labels):
    table = read(content, name, empty=True, **layout)
    assert (table.text_a, table.labels) == (texts, list(labels))
    assert table.lines[-1] == len(texts) + bool(table.header)
    assert table.text_b == (["b", "d"] if "text_b" in layout else None)


def test_lines_that_cross_a_read_boundary(read, monkeypatch):
    monkeypatch.setattr(text_rows, "_CHUNK_BYTES", 3)
    table = read("text\tlabel\n好好好\t1\n長い文\t0\n")
    assert table.text_a == ["好好好", "長い文"]


def test_csv_quoting_and_line_numbers(read):
    book = "word " * 30_000
    table = read(
        f'text,label\r\n"one, ""two""\r\nthree",yes\r\n{book},no\r\n"x\n\n\ny",no\n'
        "a\u2028b,yes\n\n",
        "t.csv",
    )
    assert table.text_a == ['one, "two"\r\nthree', book, "x\n\n\ny", "a\u2028b"]
    assert table.labels == ["yes", "no", "no", "yes"]
    assert table.lines == [2, 4, 5, 9]


def test_jsonl_values(read):
    table = read(
        '{"text": "a", "label": -2, "key": 7}\n'
        '{"label": 3, "text": "b\\nc", "key": "k", "more": null}\r\n'
        '{"text": "c", "label": 3.8, "key": true}\n'
        '{"text": "d", "label": 1e2, "key": 1}\n'
        '{"text": "e", "label": [5, 2], "key": 1}\n'
        '{"text": "f", "label": [], "key": 1}\n\n',
        "t.jsonl",
        example_id="key",
    )
    assert table.text_a == ["a", "b\nc", "c", "d", "e", "f"]
    assert table.labels == ["-2", "3", "3.8", "100.0", ("5", "2"), ()]
    assert table.example_ids == ["7", "k", "true", "1", "1", "1"]
    assert table.lines == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("content", "separators"),
    [
        ("ID;Text;Label\n1;well, yes;a\n2;no;b\n", "semicolons"),
        ("ID;Text;Label\n" + '1;"well, yes";a\n2;no;b\n' * 20, "semicolons"),
        ("Text\tLabel\nwell, yes\ta\nno\tb\n", "tabs"),
        ("Text,Label;\nwell; yes,a\nno,b\n", ""),
    ],
)
def test_separators_of_spreadsheets_are_recognised(read, capsys, content, separators):
    table = read(content, "t.csv", text_a="Text", label="Label" if separators else 1)
    texts = ["well, yes", "no"] if separators else ["well; yes", "no"]
    assert (table.text_a[:2], table.labels[:2]) == (texts, ["a", "b"])
    printed = capsys.readouterr().out
    assert printed.count("its cells are separated by") == bool(separators)
    assert f"its cells are separated by {separators}\n" in printed or not separators


def test_a_semicolon_in_a_text_separates_nothing(read):
    table = read("text\nGood; not bad\nGood\n", "t.csv", required=False)
    assert table.text_a == ["Good; not bad", "Good"]
    for content in ("Good; not bad\nfine\n", "Good; not bad\n"):
        table = read(content, "t.csv", required=False, text_a=0)
        assert table.text_a == content.splitlines()
    with refused(
        "t.csv: no column 'C' (text_a)", "1 is one cell with 2 ';'", "--delim"
    ):
        read("A;B;C\n1;2\n", "t.csv", text_a="C", label=0)
    with refused("usual names", "line 1 is one cell with 2 '|': see --delimiter"):
        read("A|B|C\n1|2\n", "t.csv")


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ('{"text": "a", "label": 1}\n[1]\n', ("t.jsonl:2: [1]", "not a JSON object")),
        ('{"text": "a", "label": 1}\n{"text"\n', ("t.jsonl:2:", "on one line")),
        ('[\n{"text": "a"}\n]', ("t.jsonl: the label's column is not given",)),
        ('{"text": "a", "label": "\\udc00"}', ("t.jsonl:1: its text has '\\udc00'",)),
        ('{"text": "a", "label": ' + "[" * 50_000, ("t.jsonl:1: its brackets are",)),
        (
            '{"text": "a", "label": 1}\n{"text": "b", "label": "1"}\n',
            ('t.jsonl:2: label "1" is a string, and that of ',),
        ),
        (
            '{"text": "a", "label": ["a"]}\n{"text": "a", "label": ["b", true]}',
            ("label true is true or false, and that of ",),
        ),
        ('{"text": "a", "label": NaN}', ("label is nan; write a finite",)),
        (
            '{"text": "a", "label": 1}\n{"text": "b"}\n',
            ("t.jsonl:2:", "no value under 'label' (label)"),
        ),
        (
            '{"text": "a", "label": 1}\n{"text": null, "label": 1}\n',
            ("t.jsonl:2: text_a is empty; fill it",),
        ),
        (
            '{"text": "a", "label": 1}\n{"text": "b", "label": 1, "label": 2}\n',
            ("t.jsonl:2: the key 'label' is there 2 times", "remove all but one"),
        ),
        (
            '[{"text": "a", "text": "b", "label": 1}]',
            ("t.jsonl:1:", "the key 'text' is there 2 times"),
        ),
        ('{"text": "a", "label": 1, "x": {"digits": 1, "digits": 2}}', ("'digits'",)),
        ('{"text": 12, "label": 1}', ("t.jsonl:1: text_a is 12", "write a string")),
        ('{"text": "a", "label": {"b": 1}}', ("t.jsonl:1: label is {'b': 1};",)),
        ('{"text": "a", "label": [[1]]}', ("t.jsonl:1:", "item of label is [1];")),
    ],
)
def test_bad_jsonl_is_refused(read, content, parts):
    with refused(*parts):
        read(content, "t.jsonl")


def test_short_rows_can_be_left_out_with_a_count(read, caplog):
    with caplog.at_level("WARNING"):
        how = {"skip_short_rows": True, "is_published": True}
        table = read("text\tlabel\na\t1\nb\nc\nd\t0\n", **how)
    assert (table.text_a, table.lines) == (["a", "d"], [2, 5])
    assert "left out 2 rows with too few columns, the first in line 3" in caplog.text


@pytest.mark.parametrize("header", ["sentence\tgold_label", "Text\tLABEL", "a\tmood"])
def test_header_is_recognised_with_columns_by_number(read, header):
    has_header = True if "mood" in header else None
    content = f"{header}\na\tx\nb\ty\nc\tx\nd\ty\n"
    table = read(content, text_a=0, label=1, has_header=has_header)
    assert table.lines == [2, 3, 4, 5]
    assert table.header == tuple(header.split("\t"))


def test_missing_labels_are_none_unless_required(read):
    assert read("text\na\n", required=False).labels is None
    assert read("a\nb\n", required=False, text_a=0, label=1).labels is None
    assert read("text\tid\na\t1\n", required=False, label="label").labels is None
    assert read('{"text": "a"}', "t.jsonl", required=False).labels is None
    nulls = '{"text": "a", "label": null}'
    assert read(nulls, "t.jsonl", required=False).labels is None
    assert read("text\tlabel\na\t1\n", required=False).labels == ["1"]
    with refused("no column 'label' (label); its columns are ['text']"):
        read("text\na\n", label="label")


def test_empty_text_is_refused_unless_allowed(read):
    content = "text_a\ttext_b\tlabel\na\tb\t1\na\t\u3000\t0\n"
    with refused("t.tsv:3: text_b is empty; fill it", "--allow_empty_text"):
        read(content)
    with refused("t.tsv:3: text_b is empty, as in lines 4, 6; fill it"):
        read(content + "\tb\t1\na\tb\t1\n \t \t1\n")
    with refused("t.tsv:3: text_b is empty, as in line 4; fill it"):
        read(content + "\tb\t1\n")
    assert read(content, empty=True).text_b == ["b", "\u3000"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.tsv", "text_a\ttext_b\tlabel\na\tb\t1\na\t\u3000\t0\n\tb\t1\nc\td\t0\n"),
        (
            "t.jsonl",
            '{"text_a": "a", "text_b": "b", "label": 1}\n'
            '{"text_a": "a", "text_b": "", "label": 0}\n'
            '{"text_a": null, "text_b": "b", "label": 1}\n'
            '{"text_a": "c", "text_b": "d", "label": 0}\n',
        ),
    ],
)
def test_rows_without_text_can_be_left_out_with_a_count(read, capsys, name, content):
    table = read(content, name, leaves_out=True)
    assert table.texts() == [("a", "b"), ("c", "d")] and table.labels == ["1", "0"]
    first = table.lines[0]
    assert table.lines == [first, first + 3]
    line = f"{name}: left out 2 rows without text, lines {first + 1}, {first + 2}\n"
    assert line in capsys.readouterr().out
    with refused(f"{name}:{first + 1}: text_b is empty"):
        read(content.replace("null", '""'), name)
    with refused("a.csv: has 2 rows and no text; give it some"):
        read("text,label\n,1\n,0\n", "a.csv", leaves_out=True)


def test_rows_are_kept_by_value(read):
    content = "lang\ttext\tlabel\nde\teins\t1\nzh\t一\t0\nde\tzwei\t0\n"
    table = read(content, keep_rows=("lang", "de"))
    assert (table.text_a, table.lines) == (["eins", "zwei"], [2, 4])
    assert table.example_ids == ["0", "1"]
    with refused("no row has 'fr' in column lang; choose one of ['de', 'zh']"):
        read(content, keep_rows=("lang", "fr"))
    content = (
        '{"text": "a", "label": 1, "ok": true}\n{"text": "b", "label": 1, "ok": 0}'
    )
    assert read(content, "t.jsonl", keep_rows=("ok", "true")).text_a == ["a"]


@pytest.mark.parametrize(
    ("content", "layout", "parts"),
    [
        ("x\ta\ny\tc\n", {"text_a": "1", "label": "-1"}, ("column -1: give the",)),
        ("TEXT\tLABEL\nx\ta\n", {"text_a": "text"}, ("there is 'TEXT' (capitals",)),
        ("text\tlabel\na\t1\n", {"text_a": "tweet"}, ("'tweet' (text_a); its",)),
        ("text\ttext\tlabel\na\tb\t1\n", {"text_a": "text"}, ("are called 'text'",)),
        (
            "text\tlabel\na\t1\n",
            {"text_a": "text", "has_header": False},
            ("column 'text' is a name, but --has_header=false", "number from 0"),
        ),
        ("nice\t1\nbad\t0\n", {}, ("t.tsv:1: ['nice', '1']", "--text_a_column, ")),
        ("nice\t1\nbad\t0\n", {"has_header": True}, ("pass --text_a_column",)),
        ("text\tlabel\nbad\t0\n", {"text_b": "label"}, ("pass --text_a_column",)),
        ("text\tmood\nnice\t1\n", {}, ("label's column is not", "--label_column")),
        ("nice\t1\nbad\t0\n", {"text_a": 0}, ("label's column is not given",)),
        (
            "a\tb\tc\td\na\tb\n",
            {"text_a": 3, "label": 1},
            ("t.tsv:2: 2 cells, line 1 has 4; quote", "--delimiter"),
        ),
        ("text\tlabel\na\t1\nb\n", {}, ("t.tsv:3: 1 cells, line 1 has 2",)),
        ("a\tb\n", {"text_a": -3, "label": 0}, ("t.tsv:1: 2 columns", "column -3")),
        ("text\tlabel\n", {}, ("t.tsv: no rows but a header; give one per example",)),
        ("text\tlabel\na\t1\n\nb\t0\n", {}, ("t.tsv:3: is blank; remove",)),
        ("\ufeff\n\n", {}, ("t.tsv: is empty; give it one",)),
    ],
)
def test_tables_that_lack_something_are_refused(read, content, layout, parts):
    with refused(*parts):
        read(content, **layout)


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("t.xlsx", "a", ('t.xlsx: is a workbook; save its table as "CSV UTF-8" and',)),
        ("t.dat", "text\n", ("t.dat: format 'dat'", "'csv'", "--file")),
        (
            "t.csv",
            'text,label\nfine,1\n"never closed,1\nmore,0\n',
            ("t.csv:3: not a row of CSV", "--quote"),
        ),
        ("t.csv", 'text,label\nfine,1\n"a"b,1\n', ("t.csv:3: not a row of CSV",)),
        (
            "t.csv",
            "text,label\na,b\n".encode("utf-16"),
            ("t.csv:1:", "looks like UTF-16: save it as"),
        ),
        (
            "t.csv",
            "text,label\na,b\n".encode("utf-16-le"),  # without a mark
            ("t.csv:1:", "iconv -f UTF-16 -t UTF-8"),
        ),
        (
            "t.csv.gz",
            gzip.compress("text,label\na,b\n".encode("utf-16"), mtime=0),
            ("t.csv.gz:1:", "iconv -f UTF-16 -t UTF-8"),
        ),
        (
            "t.csv",
            "text,label\nun café noir,b\n".encode("cp1252"),
            (
                "t.csv:2: byte 0xe9, number 7 of the line",
                "iconv -f WINDOWS-1252 -t UTF-8",
            ),
        ),
        (
            "t.csv",
            "text,label\n好好好,b\n".encode("gbk"),
            ("t.csv:2:", "is not UTF-8; convert the file"),
        ),
        ("t.csv", b"PK\x03\x04\x14\xff", ("looks like a workbook (.xlsx): save",)),
    ],
)
def test_files_that_are_no_tables_are_refused(read, name, content, parts):
    with refused(*parts):
        read(content, name)


def test_missing_and_unreadable_files_are_named(read, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.tsv: no such file"):
        labelled.read_table(
            str(tmp_path / "nowhere.tsv"), Layout(), labels_required=True
        )
    with refused("t.gz: cannot be read (", "; restore the file"):
        read(
            gzip.compress(b"text\tlabel\na\t1\n" * 9, mtime=0)[:-12],
            "t.gz",
            file_format="tsv",
        )
    with refused("t.gz: cannot be read (", "; restore the file"):
        read(b"text\tlabel\n", "t.gz", file_format="tsv")


def test_tfds(tmp_path):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    def classes(*names):
        return tfds.features.ClassLabel(names=names)

    columns = {
        "sentence": (tfds.features.Text(), ["one 好", "two"]),
        "label": (classes("bad", "good"), [1, 0]),
        "tags": (tfds.features.Sequence(classes("long", "short")), [[0, 1], [1, 1]]),
        "score": (np.float32, [3.8, 0.1]),
        "flag": (np.bool_, [True, False]),
        "hidden": (classes("a", "b"), [-1, -1]),  # of test splits
        "idx": (np.int32, [7, 8]),
    }
    rows = {name: values for name, (_, values) in columns.items()}
    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny_reviews",
        version="1.0.0",
        data_dir=str(tmp_path),
        features=tfds.features.FeaturesDict({k: v[0] for k, v in columns.items()}),
        split_datasets={"train": tf.data.Dataset.from_tensor_slices(rows)},
        disable_shuffling=True,
    )

    def read(split="train", name="tiny_reviews", *, required=True, **layout):
        return labelled.open_tfds(
            name,
            split,
            Layout(**layout),
            data_dir=str(tmp_path),
            labels_required=required,
        ).read()

    table = read("train[:2]", example_id="idx")
    assert table.text_a == ["one 好", "two"] and table.labels == ["good", "bad"]
    assert table.example_ids == ["7", "8"] and table.lines == [1, 2]
    assert table.path == "tfds:tiny_reviews:train[:2]"
    for column, expected in {
        "tags": [("long", "short"), ("short", "short")],
        "score": ["3.8", "0.1"],
        "flag": ["true", "false"],
        "hidden": None,
    }.items():
        assert read(label=column, required=False).labels == expected
    assert read(label="hidden").labels == ["null", "null"]  # label_checks leaves out
    with refused("tfds:tiny_reviews:nope: TensorFlow Datasets cannot load it", "check"):
        read("nope")
    with refused("tfds:no_such_set:train: TensorFlow Datasets cannot load it", "check"):
        read(name="no_such_set")


MARKED = "id,text,toxic,obscene\n1,a,0,1\n2,b,true,FALSE\n3,c,1.0,1\n4,d,0,0\n"


@pytest.mark.parametrize("columns", [("toxic", "obscene"), ("2", "3"), [2, -1]])
def test_columns_of_0_and_1_are_the_labels_that_they_are_named_after(read, columns):
    table = read(MARKED, "t.csv", text_a="text", label=columns)
    assert table.label_names == ("toxic", "obscene")
    assert table.labels == [("obscene",), ("toxic",), ("toxic", "obscene"), ()]
    turned = read(MARKED, "t.csv", text_a="text", label=("obscene", "toxic"))
    assert turned.label_names == ("obscene", "toxic")
    assert turned.labels == [("obscene",), ("toxic",), ("obscene", "toxic"), ()]


def test_columns_of_0_and_1_in_json_memory_and_files_without_a_header(read):
    rows = [{"text": "a", "x": 1, "y": False}, {"text": "b", "x": 0, "y": True}]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    for table in (
        read(lines, "t.jsonl", label=("x", "y")),
        labelled.open_memory(
            "rows", rows, Layout(label=["x", "y"]), labels_required=True
        ).read(),
    ):
        assert table.labels == [("x",), ("y",)] and table.label_names == ("x", "y")
    plain = read("a\t1\t0\nb\t0\t1\n", text_a=0, label=(1, 2))
    assert plain.labels == [("1",), ("2",)]


def test_wrong_columns_of_0_and_1_are_refused(read):
    settings = {"text_a": "text", "label": ("toxic", "obscene")}
    for old, new in (("4,d,0,0", "4,d,2,0"), ("4,d,0,0", "4,d,,0")):
        with refused("t.csv:5: ", "in the column 'toxic' is not 0 or 1"):
            read(MARKED.replace(old, new), "t.csv", **settings)
    with refused("no column 'insult'"):
        read(MARKED, "t.csv", text_a="text", label=("toxic", "insult"))
    # Rows that nobody marked have no label, and not none of the labels.
    for mark in ("-1", ""):
        table = read(
            MARKED.replace("4,d,0,0", f"4,d,{mark},{mark}"), "t.csv", **settings
        )
        assert table.labels[3] == "null"
    # Rows to predict need none of the columns, but not some of them.
    texts = "id,text\n1,a\n"
    table = read(texts, "t.csv", required=False, **settings)
    assert (table.labels, table.label_names) == (None, ())
    with refused("no column 'obscene'"):
        read("text,toxic\na,1\n", "t.csv", required=False, **settings)


def test_null_is_no_label(read):
    rows = '{"text": "a", "label": 1}\n{"text": "b", "label": null}\n'
    assert read(rows, "t.jsonl").labels == ["1", "null"]
    with refused("t.jsonl:2: no value under 'label'"):
        read(rows.replace(', "label": null', ""), "t.jsonl")
    frame = [{"text": "a", "label": 1.0}, {"text": "b", "label": float("nan")}]
    assert (
        labelled.open_memory("rows", frame, Layout(), labels_required=True)
        .read()
        .labels[1]
        == "null"
    )


@pytest.mark.parametrize(
    ("mark", "delimiter", "name", "options"),
    [
        ("sep=;", ";", "t.csv", {}),
        ("sep=,", ",", "t.csv", {}),
        ('"sep=;"', ";", "t.csv", {}),
        ("sep=;", ",", "t.csv", {"delimiter": ","}),
        ("sep=\t", "\t", "t.tsv", {}),
    ],
)
def test_mark_of_excel_is_named_as_the_cause(read, mark, delimiter, name, options):
    rows = "\r\n".join(
        delimiter.join(row) for row in (("text", "label"), ("a", "x"), ("b", "y"))
    )
    with refused(f"{name}:1: is Excel's mark of the delimiter", "remove the line"):
        read(f"{mark}\r\n{rows}\r\n", name, **options)
    assert read(f"{rows}\r\n", name, **options).text_a == ["a", "b"]  # the twin


def test_other_first_lines_are_no_mark_of_excel(read):
    table = read("sep=12,x\nb,y\nc,x\n", "t.csv", text_a=0, label=1, has_header=False)
    assert table.text_a == ["sep=12", "b", "c"]


def test_longer_rows_of_own_files_are_refused_and_those_of_published_ones_read(read):
    content = "text\tlabel\na\t1\nb\tc\t0\nd\t0\n"
    with refused("t.tsv:3: 3 cells, line 1 has 2; quote cells"):
        read(content)
    options = {"skip_short_rows": True, "is_published": True}
    assert read(content, **options).lines == [2, 3, 4]


def test_parquet_is_read_as_jsonl(read, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"text": f"text {i} é\n", "label": i % 2, "id": f"x{i}"}
        for i in range(700)  # more than are read at a time
    ]
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    content = path.read_bytes()
    actual = read(content, "t.parquet")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    expected = read(lines, "t.jsonl")
    assert actual.example_ids == expected.example_ids
    assert actual.text_a == expected.text_a and actual.lines == expected.lines
    assert actual.labels == expected.labels and len({*actual.labels}) == 2
    parquet.write_table(pyarrow.Table.from_pylist([rows[0], {"text": "a"}]), path)
    with refused("t.parquet:2: no value under 'id'", "give the row one"):
        read(path.read_bytes(), "t.parquet")
    with refused("t.parquet: cannot be read (", "; restore the file"):
        read(content[:-9], "t.parquet")
    with refused("t.parquet: --delimiter=; is not one character of CSV, TSV"):
        read(content, "t.parquet", delimiter=";")
    with pytest.raises(FileNotFoundError, match=r"no\.parquet: no such file"):
        labelled.read_table(
            str(tmp_path / "no.parquet"), Layout(), labels_required=True
        )
