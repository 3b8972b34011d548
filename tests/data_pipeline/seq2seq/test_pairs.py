import gzip
import json
import re

import pytest

from data_pipeline.seq2seq import pairs as text_pairs


@pytest.fixture
def read(tmp_path):
    """A function of a file's name and text, or rows of JSON: (PairRows, its pairs)."""

    def read_file(name, content, *, targets_required=True, **layout):
        path = tmp_path / name
        if not isinstance(content, str):
            content = "".join(json.dumps(row) + "\n" for row in content)
        data = content.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        rows = text_pairs.open_rows(
            path, text_pairs.Layout(**layout), targets_required=targets_required
        )
        return rows, [tuple(pair) for pair in rows.rows]

    return read_file


@pytest.mark.parametrize(
    ("name", "content", "columns", "first"),
    [
        ("a.tsv", 'Target\tid\tSOURCE\nc\t1\ta b\ne "f\t2\td\n', "SOURCE", 2),
        ("a.tsv.gz", 'a b\tc\nd\te "f\n', "0", 1),
        ("a.csv", 'id,Answer,Question\n1,c,a b\n2,"e ""f",d\n', "Question", 2),
        # Without the usual names, the first two.
        ("a.jsonl", [{"x": "a b", "y": "c"}, {"y": 'e "f', "x": "d"}], "x", 1),
    ],
)
def test_usual_columns_are_recognised(read, name, content, columns, first):
    is_header = False if columns == "0" else None
    rows, pairs = read(name, content, has_header=is_header)
    assert pairs == [(first, "a b", "c"), (first + 1, "d", 'e "f')]
    assert rows.has_targets and columns in rows.columns


def test_columns_and_headers_of_flags(read):
    text = "id\ten\tde\n1\ta\tb\n"
    for source, target in (("de", "en"), (2, "1")):
        wanted = {"source": source, "target": target}
        _, pairs = read("a.tsv", text, has_header=True, **wanted)
        assert pairs == [(2, "b", "a")]
    # One is given, the other has the usual name.
    rows, pairs = read("a.tsv", "target\tde\nx\ty\n", source="de")
    assert pairs == [(2, "y", "x")]
    assert rows.columns == "reads 'de' (source), 'target'"
    # A number beyond does not make a header of line 1.
    assert read("a.tsv", "a\tb\tc\n", source=1, target=2)[1] == [(1, "b", "c")]
    # A header that nobody could tell from a row is one where it is said.
    assert read("a.tsv", "en\tde\na\tb\n", has_header=True)[1] == [(2, "a", "b")]
    assert len(read("a.tsv", "en\tde\na\tb\n", has_header=False)[1]) == 2
    assert len(read("a.tsv", "source\tde\na\tb\n", has_header=False)[1]) == 2


def test_a_first_line_without_usual_names_needs_a_flag(read):
    rows = "Wann kommt er?,Morgen um drei.\nWer ist das?,Anna\n"
    message = r"a\.csv:1: \['Frage', 'Kurze Antwort'\] are not the usual names"
    with pytest.raises(ValueError, match=message):
        read("a.csv", f"Frage,Kurze Antwort\n{rows}")
    forced = read("a.csv", f"Frage,Kurze Antwort\n{rows}", has_header=True)
    assert [pair[0] for pair in forced[1]] == [2, 3]
    assert [pair[0] for pair in read("a.csv", rows, has_header=False)[1]] == [1, 2]
    with pytest.raises(
        ValueError, match=r"a\.csv:1: \['question', 'antwort'\] are not"
    ):
        read("a.csv", f"question,antwort\n{rows}")


@pytest.mark.parametrize(
    "content", ["source\na\nb\n", "a\nb\n", "source\ttarget\na\t\nb\t\n"]
)
def test_test_rows_need_no_targets(read, content):
    form = {} if content.startswith("source") else {"has_header": False}
    rows, pairs = read("a.tsv", content, targets_required=False, **form)
    assert not rows.has_targets
    assert [texts for _, *texts in pairs] == [["a", None], ["b", None]]
    with pytest.raises(ValueError, match=r"a\.tsv"):
        read("a.tsv", content, **form)


def test_test_rows_may_lack_the_column_that_others_have(read):
    layout = {"targets_required": False, "has_header": True, "source": "en"}
    for target in ("de", 1):
        rows, _ = read("a.tsv", "en\na\n", target=target, **layout)
        assert (rows.columns, rows.has_targets) == ("reads 'en' (source)", False)
    with pytest.raises(ValueError, match=r"a\.tsv:3: has a target, and the first row"):
        read("a.tsv", "source\ttarget\na\t\nb\tc\n", targets_required=False)
    keyed = [{"en": "a", "de": None}]
    assert read("a.jsonl", keyed, targets_required=False)[1] == [(1, "a", None)]


FIRST_TWO = {"has_header": False}


@pytest.mark.parametrize(
    ("content", "layout", "message"),
    [
        ("a\tb\nc\t \n", FIRST_TWO, "a.tsv:2: the target is empty; fill it, or remo"),
        ("a\tb\n\tc\n", FIRST_TWO, "a.tsv:2: the source is empty"),
        ("a\tb\nc\n", FIRST_TWO, "a.tsv:2: 1 cells, line 1 has 2"),
        ("a ||| b\n", FIRST_TWO, r"a.tsv: the target's column .* with 3 '\|': see --d"),
        ("a ||| b\n", {}, r"a.tsv:1: .*; line 1 is one cell with 3 '\|': see --delim"),
        ("source\na,b\n", {}, "target's column is not given .*; pass --target_column"),
        ("target\tx\na\tb\n", {"has_header": True}, r"source's column is not given"),
        ("", {}, "a.tsv: is empty; give it one row"),
        ("source\ttarget\n", {}, "a.tsv: no rows but a header"),
        ("source\ttarget\ttarget\na\tb\tc\n", {}, "2 columns are called 'target'"),
        ("a\tb\nc\td\n", {"source": 0, "target": "0"}, "are both column 0; give two"),
        ("a\tb\n", {"source": "a", "has_header": False}, "column 'a' is a name, but"),
        ("a\tb\nc\td\n", {"source": "b", "target": "z"}, r"no column 'z' \(target\)"),
    ],
)
def test_rows_that_are_no_pairs_are_refused(read, content, layout, message):
    with pytest.raises(ValueError, match=message):
        read("a.tsv", content, **layout)


def test_what_is_no_text_is_refused(read):
    rows = [{"source": "a", "target": "b"}, {"source": "a", "target": 5}]
    with pytest.raises(
        ValueError, match=re.escape("jsonl:2: the target is 5, and must be a string")
    ):
        read("a.jsonl", rows)
    with pytest.raises(ValueError, match="2: no value under 'target'"):
        read("a.jsonl", [rows[0], {"source": "a"}])
    with pytest.raises(ValueError, match=r"2: its text has '\\ud83d', which is half"):
        read("a.jsonl", [rows[0], {"source": "a \ud83d", "target": "b"}])
