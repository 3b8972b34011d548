"""Tests of tables.py; every text here was written for them."""

import gzip
import re

import numpy as np
import pytest

from data_pipeline.classification import tables
from data_pipeline.tables import text_rows

Layout = tables.Layout


@pytest.fixture
def read(tmp_path):
    """Writes bytes to a file of the given name and reads it as a table."""

    def write_and_read(content, name="t.tsv", *, required=True, empty=False, **layout):
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        (tmp_path / name).write_bytes(data)
        return tables.read_table(
            str(tmp_path / name),
            Layout(**layout),
            labels_required=required,
            allow_empty_text=empty,
        )

    return write_and_read


def refused(*parts):
    """Expects a one-line ValueError that holds the parts in this order."""
    return pytest.raises(
        ValueError, match="^[^\n]*" + "[^\n]*".join(map(re.escape, parts)) + "[^\n]*$"
    )


def test_tsv_with_usual_names(read):
    table = read("label\tid\tText\nyes\tx\tone two\nno\ty\tthree\n")
    assert table.text_a == ["one two", "three"]
    assert table.text_b is None
    assert table.labels == ["yes", "no"]
    assert table.example_ids == ["0", "1"]
    assert table.lines == [2, 3]
    assert table.header == ("label", "id", "Text")
    assert table.path.endswith("t.tsv")


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ("sentence1\tsentence2\tlabel", ("a", "b")),
        ("text_a\ttext_b\tlabel", ("a", "b")),
        ("question\tsentence\tlabel", ("a", "b")),
        ("sentence\tquestion\tgold_label", ("b", "a")),
        ("QUESTION1\tquestion2\tClass", ("a", "b")),
        ("sentence\tindex\tlabel", ("a", None)),
        ("idx\ttext_a\tscore", ("b", None)),
        ("text\tsentence\tlabel", ("a", None)),
    ],
)
def test_usual_names_are_tried_in_order(read, header, texts):
    table = read(f"{header}\na\tb\tc\n")
    assert (table.text_a, table.text_b) == ([texts[0]], texts[1] and [texts[1]])
    assert table.labels == ["c"]


def test_named_columns_beat_usual_names(read):
    table = read(
        "text\ttweet\tlabel\tmood\tkey\na\tb\tc\td\te\n",
        text_a="tweet",
        text_b="text",
        label="mood",
        example_id="key",
    )
    assert (table.text_a, table.text_b) == (["b"], ["a"])
    assert (table.labels, table.example_ids) == (["d"], ["e"])


def test_columns_of_flags_are_counted_from_0(read):
    with refused("column -1: columns are counted from 0; give the column's name, or 0"):
        read("x\ta\ny\tc\n", text_a="1", label="-1")


def test_capitals_of_columns_are_named(read):
    with refused("no column 'text' (text_a); there is 'TEXT' (capitals count); its "):
        read("TEXT\tLABEL\nx\ta\n", text_a="text")


def test_a_named_text_does_not_bring_a_second_one(read):
    table = read("sentence1\tsentence2\tlabel\na\tb\tc\n", text_a="sentence1")
    assert table.text_b is None


@pytest.mark.parametrize("columns", [(1, 2, 0), ("1", "2", "0"), (-2, -1, -3)])
def test_columns_by_number(read, columns):
    text_a, text_b, label = columns
    table = read(
        "x\ta\tb\ny\tc\td\nx\te\tf\ny\tg\th\n",
        text_a=text_a,
        text_b=text_b,
        label=label,
    )
    assert table.text_a == ["a", "c", "e", "g"]
    assert table.text_b == ["b", "d", "f", "h"]
    assert table.labels == ["x", "y", "x", "y"]
    assert table.lines == [1, 2, 3, 4]
    assert table.header == ()


def test_quotes_are_ordinary_in_tsv(read):
    table = read(
        'text\tlabel\n"open\t1\n"both"\t0\na "b" c\t1\n""\t0\nend"\t1\n', empty=True
    )
    assert table.text_a == ['"open', '"both"', 'a "b" c', '""', 'end"']
    assert table.labels == ["1", "0", "1", "0", "1"]


def test_tsv_equals_pythons_csv_reader_as_the_original_called_it(read):
    import csv

    content = 'text\tlabel\ta\n"q\t1\t"x\n \t\t\n\'s\' "t" \t2\t\tmore\n'
    expected = list(csv.reader(content.splitlines(), delimiter="\t", quotechar=None))
    table = read(content, empty=True)
    assert table.text_a == [row[0] for row in expected[1:]]
    assert table.labels == [row[1] for row in expected[1:]]


def test_only_line_feeds_end_lines(read):
    odd = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x00h"
    table = read(f"text\tlabel\n{odd}\t1\nplain\t0\n")
    assert table.text_a == [odd, "plain"]
    assert table.lines == [2, 3]


def test_carriage_returns_are_dropped_as_by_the_original_reader(read):
    table = read("text\tlabel\r\none\ttrue\r\ntw\ro\tfalse\r\n")
    assert table.text_a == ["one", "two"]
    assert table.labels == ["true", "false"]


@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.jsonl"])
def test_byte_order_mark_is_no_part_of_the_first_cell(read, name):
    content = {
        "t.tsv": "2\tone\n1\ttwo\n",
        "t.csv": "2,one\n1,two\n",
        "t.jsonl": '{"0": 2, "1": "one"}\n{"0": 1, "1": "two"}\n',
    }[name]
    table = read("\ufeff" + content, name, text_a=1, label=0)
    assert table.labels == ["2", "1"]


def test_last_line_needs_no_end_and_blank_lines_at_the_end_are_ignored(read):
    assert read("text\tlabel\na\t1\nb\t0").text_a == ["a", "b"]
    assert read("text\tlabel\na\t1\nb\t0\n\n\r\n\n").text_a == ["a", "b"]


def test_lines_that_cross_a_read_boundary(read, monkeypatch):
    monkeypatch.setattr(text_rows, "_CHUNK_BYTES", 3)
    table = read("text\tlabel\n好好好\t1\n長い文\t0\n")
    assert table.text_a == ["好好好", "長い文"]


@pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz", "t.txt", "t.TXT"])
def test_gzip_and_names_that_mean_tsv(read, name):
    data = b"text\tlabel\na,b\t1\nc\t0\n"
    table = read(gzip.compress(data) if name.endswith("gz") else data, name)
    assert table.text_a == ["a,b", "c"]


def test_csv_quoting_and_line_numbers(read):
    table = read(
        'text,label\r\n"one, ""two""\r\nthree",yes\r\nplain,no\r\n"x\n\n\ny",no\n'
        "last,yes\n\n",
        "t.csv",
    )
    assert table.text_a == ['one, "two"\r\nthree', "plain", "x\n\n\ny", "last"]
    assert table.labels == ["yes", "no", "no", "yes"]
    assert table.lines == [2, 4, 5, 9]


def test_csv_keeps_unicode_line_separators(read):
    assert read("text,label\na\u2028b,1\n", "t.csv").text_a == ["a\u2028b"]


@pytest.mark.parametrize("bad", ['"never closed,1\nmore,0\n', '"a"b,1\n'])
def test_csv_with_a_stray_quote_is_refused(read, bad):
    with refused("t.csv:3: not a row of CSV", "close each quote"):
        read("text,label\nfine,1\n" + bad, "t.csv")


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


def test_a_cell_of_any_length_is_read(read):
    text = "word " * 30_000
    table = read(f'text,label\n"{text}",a\nb,b\n', "t.csv")
    assert table.text_a == [text, "b"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("ID;Text;Label\n1;well, yes;a\n2;no;b\n", "semicolons"),
        ('ID;Text;Label\n1;"well, yes";a\n2;no;b\n' * 20, "semicolons"),
        ("Text\tLabel\nwell, yes\ta\nno\tb\n", "tabs"),
        ("Text,Label;\nwell; yes,a\nno,b\n", ""),
    ],
)
def test_separators_of_spreadsheets_are_recognised(read, capsys, content, said):
    asked = {"text_a": "Text", "label": "Label" if said else 1}
    table = read(content, "t.csv", **asked)
    texts = ["well, yes", "no"] if said else ["well; yes", "no"]
    assert (table.text_a[:2], table.labels[:2]) == (texts, ["a", "b"])
    printed = capsys.readouterr().out
    assert printed.endswith(
        f"t.csv: its cells are separated by {said}\n" if said else ""
    )
    assert bool(printed) == bool(said)


def test_a_semicolon_in_a_text_separates_nothing(read):
    table = read("text\nGood; not bad\nGood\n", "t.csv", required=False)
    assert table.text_a == ["Good; not bad", "Good"]
    for content in ("Good; not bad\nfine\n", "Good; not bad\n"):
        table = read(content, "t.csv", required=False, text_a=0)
        assert table.text_a == content.splitlines()
    with refused("t.csv: no column 'C' (text_a)", "line 1 has no comma and 2 semic"):
        read("A;B;C\n1;2\n", "t.csv", text_a="C", label=0)
    with refused("no usual name", "line 1 has no comma and 2 semicolons: separate"):
        read("A;B;C\n1;2\n", "t.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\na,b\n".encode("utf-16"), "looks like UTF-16: save it as"),
        ("text,label\nun café noir,b\n".encode("cp1252"), "iconv -f WINDOWS-1252 -t"),
        ("text,label\n好好好,b\n".encode("gbk"), "is not UTF-8; convert the file"),
        (b"PK\x03\x04\x14\xff", "looks like a workbook (.xlsx): save the table as"),
    ],
)
def test_encodings_are_named(read, content, message):
    with refused("t.csv:", "is not UTF-8; ", message.removeprefix("is not UTF-8; ")):
        read(content, "t.csv")


def test_workbooks_are_refused_by_name(read):
    with refused('t.xlsx: is a workbook; save its table as "CSV UTF-8" and give'):
        read("a", "t.xlsx")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("true", "false", "1"), "t.jsonl:3: label 1 is a number, and that of "),
        (("1", '"1"'), 't.jsonl:2: label "1" is a string, and that of '),
        (('["a"]', '["b", true]'), "label true is true or false, and that of "),
        (('"a"', '"b"', "NaN"), "t.jsonl:3: label NaN is a number, and that of "),
        (("1", "NaN"), "t.jsonl:2: label is nan, no finite number; correct it"),
    ],
)
def test_labels_of_several_types_are_refused(read, labels, message):
    rows = [f'{{"text": "a", "label": {label}}}\n' for label in labels]
    with refused(message):
        read("".join(rows), "t.jsonl")


def test_json_file_name_means_jsonl_and_format_beats_name(read):
    assert read('{"text": "a", "label": 1}', "t.json").text_a == ["a"]
    table = read("text,label\na,1\n", "data.part", file_format="csv")
    assert table.text_a == ["a"]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ('{"text": "a", "label": 1}\n[1]\n', ("t.jsonl:2: [1]", "not a JSON object")),
        ('{"text": "a", "label": 1}\n{"text"\n', ("t.jsonl:2:", "one per line")),
        ('[\n{"text": "a"}\n]', ("t.jsonl:1: [", "not a JSON object")),
        ('{"text": "good \\ud83d film", "label": 1}', ("l:1: its text has '\\ud83d'",)),
        ('{"text": "a", "label": "\\udc00"}', ("t.jsonl:1: its text has '\\udc00'",)),
        ('{"text": "a", "label": ' + "[" * 50_000, ("t.jsonl:1: its brackets are",)),
        ('{"a": ' + "1" * 5000 + "}", ("t.jsonl:1:", "more than 4300 digits")),
        (
            '{"text": "a", "label": 1}\n{"text": "b"}\n',
            ("t.jsonl:2:", "no value under 'label' (label)"),
        ),
        (
            '{"text": "a", "label": 1}\n{"text": null, "label": 1}\n',
            ("t.jsonl:2:", "no value under 'text' (text_a)"),
        ),
        ('{"text": 12, "label": 1}', ("t.jsonl:1: text_a is 12", "quote it")),
        ('{"text": "a", "label": {"b": 1}}', ("t.jsonl:1: label is {'b': 1};",)),
        ('{"text": "a", "label": [[1]]}', ("t.jsonl:1:", "item of label is [1];")),
        (
            '{"text": "a", "label": 1}\n\n{"text": "b", "label": 1}\n',
            ("t.jsonl:2: blank line between rows; remove it",),
        ),
    ],
)
def test_bad_jsonl_is_refused(read, content, parts):
    with refused(*parts):
        read(content, "t.jsonl")


def test_too_few_columns_name_file_line_and_column(read):
    with refused("t.tsv:2: 2 columns, column 3 (text_a) is needed", "counted from 0;"):
        read("a\tb\tc\td\na\tb\n", text_a=3, label=1)
    with refused("t.tsv:3: 1 columns, column 1 (label) is needed", "correct the row"):
        read("text\tlabel\na\t1\nb\n")
    with refused("t.tsv:1: 2 columns, column -3 (text_a) is needed"):
        read("a\tb\n", text_a=-3, label=0)


def test_short_rows_can_be_left_out_with_a_count(read, caplog):
    with caplog.at_level("WARNING"):
        table = read("text\tlabel\na\t1\nb\nc\nd\t0\n", skip_short_rows=True)
    assert (table.text_a, table.lines) == (["a", "d"], [2, 5])
    assert "left out 2 rows with too few columns, the first in line 3" in caplog.text


def test_unknown_and_repeated_names_list_the_header(read):
    with refused("no column 'tweet' (text_a); its columns are ['text', 'label']"):
        read("text\tlabel\na\t1\n", text_a="tweet")
    with refused(
        "2 columns are called 'text' (text_a), among ['text', 'text', 'label'];"
    ):
        read("text\ttext\tlabel\na\tb\t1\n", text_a="text")
    with refused("no column 'mood' (label); its columns are ['text', 'label']"):
        read('{"text": "a", "label": 1}', "t.jsonl", label="mood")


def test_columns_are_not_guessed_without_a_header(read):
    with refused("t.tsv:1: ['nice', '1']", "--text_a_column and --label_column"):
        read("nice\t1\nbad\t0\n")
    with refused("pass --text_a_column"):
        read("nice\t1\nbad\t0\n", has_header=True)
    with refused("pass --text_a_column"):
        read("text\tlabel\nbad\t0\n", text_b="label")
    with refused("label's column is not given", "pass --label_column"):
        read("text\tmood\nnice\t1\n")
    with refused("label's column is not given", "pass --label_column"):
        read("nice\t1\nbad\t0\n", text_a=0)


def test_names_without_header_are_refused(read):
    with refused("column 'text' is a name, but --has_header=false", "by number"):
        read("text\tlabel\na\t1\n", text_a="text", has_header=False)


@pytest.mark.parametrize(
    ("header", "layout"),
    [
        ("sentence\twhat", {}),
        ("Tweet\tLABEL", {}),
        ("tweet\tmood", {"has_header": True}),
    ],
)
def test_header_is_recognised_with_columns_by_number(read, header, layout):
    table = read(f"{header}\na\tx\nb\ty\nc\tx\nd\ty\n", text_a=0, label=1, **layout)
    assert table.lines == [2, 3, 4, 5]
    assert table.header == tuple(header.split("\t"))


@pytest.mark.parametrize(
    "more", ["a\tx\nb\ty\nc\tx\nd\ty\n", "a\t1\nb\t0.5\n", "a\t1\nb\t1\nc\t0\n"]
)
def test_line_that_may_be_a_header_is_asked_about(read, more):
    with refused("t.tsv:1: 'mood' is the label of no other row", "--has_header=true"):
        read(f"tweet\tmood\n{more}", text_a=0, label=1)
    table = read(f"tweet\tmood\n{more}", text_a=0, label=1, has_header=False)
    assert table.labels[0] == "mood"


@pytest.mark.parametrize(
    "labels", [["x"], ["x", "y"], ["1.5", "2.5", "2.5"], ["x", "y", "z", "z"]]
)
def test_labels_that_say_nothing_about_a_header_pass(read, labels):
    content = "".join(f"text {label}\t{label}\n" for label in labels)
    assert read(content, text_a=0, label=1).labels == labels


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


@pytest.mark.parametrize("text", ["", "  ", "\u3000"])
def test_empty_text_is_refused_unless_allowed(read, text):
    content = f"text_a\ttext_b\tlabel\na\tb\t1\na\t{text}\t0\n"
    with refused("t.tsv:3: text_b is empty", "--allow_empty_text"):
        read(content)
    assert read(content, empty=True).text_b == ["b", text]


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


def test_blank_line_between_rows_is_refused(read):
    with refused("t.tsv:3: blank line between rows; remove it"):
        read("text\tlabel\na\t1\n\nb\t0\n")
    with refused("t.csv:3: blank line between rows; remove it"):
        read("text,label\na,1\n\nb,0\n", "t.csv")


@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.jsonl", "t.tsv.gz"])
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_empty_file_is_refused(read, name, content):
    data = gzip.compress(content) if name.endswith("gz") else content
    with refused(f"{name}: the file is empty; give it one row per example"):
        read(data, name)


def test_file_with_only_a_header_is_refused(read):
    with refused("t.tsv: no rows but a header; give one per example"):
        read("text\tlabel\n")


def test_missing_and_unreadable_files_are_named(read, tmp_path):
    options = {"labels_required": True, "allow_empty_text": False}
    with pytest.raises(FileNotFoundError, match=r"nowhere\.tsv: no such file"):
        tables.read_table(str(tmp_path / "nowhere.tsv"), Layout(), **options)
    with refused(": cannot be read (", "; check that it is a complete"):
        tables.read_table(str(tmp_path), Layout(file_format="tsv"), **options)
    with refused("t.gz: cannot be read (", "; check that it is a complete"):
        read(gzip.compress(b"text\tlabel\na\t1\n" * 9)[:-12], "t.gz", file_format="tsv")
    with refused("t.gz: cannot be read (", "; check that it is a complete"):
        read(b"text\tlabel\n", "t.gz", file_format="tsv")


def test_unknown_format_is_refused(read):
    with refused("t.dat: format 'dat' is not one of ['csv', 'jsonl', 'tsv']", "--file"):
        read("text\tlabel\na\t1\n", "t.dat")


@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.jsonl"])
def test_bytes_that_are_not_utf8_are_named(read, name):
    with refused(f"{name}:2: byte 0xe9, number 4 of the line", "convert the file"):
        read(b'{"0": "a", "1": 1}\ncaf\xe9\t1\n', name, text_a=0, label=0)


def test_messages_stay_short(read):
    header = "\t".join(f"column{n}" for n in range(500))
    with pytest.raises(ValueError, match=r"column19' and 480 more\]") as caught:
        read(f"{header}\n", text_a="text")
    assert len(str(caught.value)) < 600


def test_tfds(tmp_path):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    def classes(*names):
        return tfds.features.ClassLabel(names=names)

    features = {
        "sentence": tfds.features.Text(),
        "label": classes("bad", "good"),
        "tags": tfds.features.Sequence(classes("long", "short")),
        "score": np.float32,
        "flag": np.bool_,
        "hidden": classes("a", "b"),
        "idx": np.int32,
    }
    rows = {
        "sentence": ["one 好", "two"],
        "label": [1, 0],
        "tags": [[0, 1], [1, 1]],
        "score": [3.8, 0.1],
        "flag": [True, False],
        "hidden": [-1, -1],  # of test splits
        "idx": [7, 8],
    }
    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny_reviews",
        version="1.0.0",
        data_dir=str(tmp_path),
        features=tfds.features.FeaturesDict(features),
        split_datasets={"train": tf.data.Dataset.from_tensor_slices(rows)},
        disable_shuffling=True,
    )

    def read(split="train", name="tiny_reviews", *, required=True, **layout):
        return tables.read_tfds(
            name,
            split,
            Layout(**layout),
            data_dir=str(tmp_path),
            labels_required=required,
            allow_empty_text=False,
        )

    table = read("train[:2]", example_id="idx")
    assert table.text_a == ["one 好", "two"] and table.labels == ["good", "bad"]
    assert table.example_ids == ["7", "8"] and table.lines == [1, 2]
    assert table.path == "tfds:tiny_reviews:train[:2]"
    assert read(label="tags").labels == [("long", "short"), ("short", "short")]
    assert read(label="score").labels == ["3.8", "0.1"]
    assert read(label="flag").labels == ["true", "false"]
    assert read(label="hidden", required=False).labels is None
    assert read("train[:1]").text_a == ["one 好"]
    with refused("tfds:tiny_reviews:train:1: no value under 'hidden' (label)"):
        read(label="hidden")
    with refused("no column 'tweet' (text_a); its columns are ["):
        read(text_a="tweet")
    with refused("tfds:tiny_reviews:nope: TensorFlow Datasets cannot load it", "check"):
        read("nope")
    with refused("tfds:no_such_set:train: TensorFlow Datasets cannot load it", "check"):
        read(name="no_such_set")


@pytest.mark.parametrize(
    ("path", "layout", "rows", "first"),
    [
        ("sst2/train.tsv", {"text_a": 0, "label": 1}, 6920, ("a stirring", "1")),
        ("sst2/test.tsv", {"text_a": 0, "label": 1}, 1821, ("no movement", "0")),
        ("cola/dev.tsv", {"text_a": 3, "label": 1}, 1043, ("The sailors", "1")),
        ("rte/dev.tsv", {}, 277, ("Dana Reeve", "not_entailment")),
        ("stsb/dev.tsv", {}, 1500, ("A man with", "5.000")),
        ("chnsenticorp/dev.tsv", {}, 1200, ("這間酒店", "1")),
    ],
)
def test_published_tables(shared_file, path, layout, rows, first):
    table = tables.read_table(
        str(shared_file(f"data/{path}")),
        Layout(**layout),
        labels_required=True,
        allow_empty_text=False,
    )
    assert len(table.text_a) == len(table.labels) == len(table.lines) == rows
    assert table.text_a[0].startswith(first[0])
    assert table.labels[0] == first[1]
