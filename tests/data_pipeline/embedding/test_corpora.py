import gzip
import json

import pytest

from data_pipeline.embedding import corpora
from tests.shown import shown


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


CORPUS = [
    {"_id": "p1", "title": "Rivers", "text": "The Rhine is long."},
    {"_id": "p2", "title": "", "text": "The Alps\u2028are high."},
    {"_id": 3, "text": "Snow falls.", "metadata": {}},
]
QUERIES = [
    {"_id": "q1", "text": "What is long?"},
    {"_id": "q2", "text": "Who?"},
    {"_id": "q3", "text": "What falls?"},
]
TABLE = "q1\tWhat is long?\nq2\tWho?\nq3\tWhat falls?\n"
CORPUS_FILE, QUERIES_FILE = jsonl(CORPUS), jsonl(QUERIES)
JUDGEMENTS = (
    "query-id\tcorpus-id\tscore\n"
    "q3\t3\t1\nq1\tp1\t2\nq1\t3\t0\nq1\tp2\t0.5\nq2\tp2\t0\n"
)


@pytest.fixture
def read(tmp_path):
    def write_and_read(
        corpus=CORPUS_FILE, queries=QUERIES_FILE, judgements=JUDGEMENTS, kind="jsonl"
    ):
        texts = {
            f"corpus.{kind}": corpus,
            f"queries.{kind}": queries,
            "test.tsv": judgements,
        }
        for name, text in texts.items():
            (tmp_path / name).write_text(text, "utf-8")
        return shown(corpora.read(*(str(tmp_path / name) for name in texts)))

    return write_and_read


def test_beir_files(read):
    assert read() == corpora.RetrievalData(
        query_ids=["q1", "q3"],  # q2 has no relevant passage
        queries=["What is long?", "What falls?"],
        passage_ids=["p1", "p2", "3"],
        passages=[
            "Rivers The Rhine is long.",
            "The Alps\u2028are high.",
            "Snow falls.",
        ],
        relevant=[{0: 2.0, 1: 0.5}, {2: 1.0}],
    )


def test_tables_of_texts_and_judgements_of_trec(read, tmp_path):
    data = read()
    tables = read(
        "p1\tRivers The Rhine is long.\n"
        "p2\tThe Alps\u2028are high.\r\n3\t Snow falls. \n",
        "q1\tWhat is long?\nq2\tWho?\nq3\tWhat falls?\n",
        "q3\t0\t3\t1\nq1\t0\tp1\t2\nq1\t0\tp2\t0.5\n",
        kind="tsv",
    )
    assert tables == data
    # Judgements between spaces, as TREC has its own.
    assert data == read(judgements="q3 0 3 1\nq1 Q0  p1 2\nq1 0 p2 0.5\n")
    for names in ("id\ttext", "_id\tText", "docid\tpassage", "query-id\tquery"):
        corpus = f"{names}\np1\tRivers The Rhine is long.\np2\tThe Alps\u2028are high."
        assert read(f"{corpus}\n3\tSnow falls.\n", kind="tsv", queries=TABLE) == data
    # Twins: what is no header, and JSONL whose ids have the other usual name.
    assert read("id\tof it\np1\tone\n3\ttwo\n", kind="tsv", queries=TABLE).passages == [
        "of it",
        "one",
        "two",
    ]
    assert read(CORPUS_FILE.replace('"_id"', '"id"')) == data
    lines = [{"id": own, "text": "a"} for own in (None, 1.5, 7)]
    (tmp_path / "texts.jsonl").write_text(jsonl(lines))
    texts = corpora.read_texts(str(tmp_path / "texts.jsonl"), prefix="f:")
    assert [text.text_id for text in texts] == ["f:1", "f:2", "7"]
    assert read(judgements=JUDGEMENTS + "q1\tp1\t2.0\n") == data  # as it was
    # Without a header, line 1 is a judgement.
    assert read(judgements="q3\tp1\t1\n").relevant == [{0: 1.0}]


def test_gzip(read, tmp_path):
    data = read()
    paths = []
    for name in ("corpus.jsonl", "queries.jsonl", "test.tsv"):
        paths.append(tmp_path / f"{name}.gz")
        paths[-1].write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert corpora.read(*map(str, paths)) == data


def judged(cells):
    return {"judgements": JUDGEMENTS.replace("p1\t2", cells)}


def changed(rows, place, **values):
    return jsonl([row | values if i == place else row for i, row in enumerate(rows)])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"corpus": changed(CORPUS, 2, _id="p1")}, r"corpus.jsonl:3: .* of line 1;"),
        ({"queries": changed(QUERIES, 1, _id="q1")}, r"queries.jsonl:2: id 'q1'"),
        ({"corpus": changed(CORPUS, 2, text=None)}, r"corpus.jsonl:3: .* or no text"),
        ({"corpus": changed(CORPUS, 0, title=4)}, r"corpus.jsonl:1: .* or no text"),
        ({"queries": changed(QUERIES, 0, _id="")}, r"queries.jsonl:1: .* has no id"),
        ({"queries": changed(QUERIES, 0, _id=True)}, r"queries.jsonl:1: .* has no id"),
        ({"queries": changed(QUERIES, 0, _id=[1])}, r"queries.jsonl:1: .* has no id"),
        ({"queries": '"q1"\n'}, r"queries.jsonl:1: .* is not a JSON object"),
        (
            judged("3\t2"),
            r"test.tsv:4: the score of 'q1' and '3' is 0, and in line 3 2;",
        ),
        (judged("p1\thigh"), r"test.tsv:3: score 'high' is not a finite number;"),
        (judged("p1\tnan"), r"test.tsv:3: score 'nan' is not a finite"),
        (judged("p1\tinf"), r"test.tsv:3: score 'inf' is not a finite"),
        (judged("p1\tscore"), r"test.tsv:3: score 'score' is not a finite number"),
        (judged("p1 2"), r"test.tsv:3: 2 cells,"),
        (
            {"judgements": "query-id\tcorpus-id\tscore\nq1\tp1\t0\n"},
            r"test.tsv: no query has a passage with a score above 0; give one",
        ),
        ({"judgements": ""}, r"test.tsv: no query has a passage with a score above 0"),
    ],
)
def test_bad_files_are_refused_by_line(read, files, message):
    with pytest.raises(ValueError, match=message) as raised:
        read(**files)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("row", ["p2", "\ta text", "p2\ta\ttext"])
def test_bad_rows_of_tables_are_refused(read, row):
    queries = "q1\tWhat?\nq3\tWho?\nq2\tHow?\n"
    corpus = "p1\tone\n{}\n3\ttwo\n"
    read(corpus.format("p2\ta text"), queries, kind="tsv")
    with pytest.raises(
        ValueError,
        match=r"corpus.tsv:2: (.* has no id or no text|\d cells, line 1 has 2;)",
    ):
        read(corpus.format(row), queries, kind="tsv")


def test_rows_without_text_and_judgements_of_absent_ones_are_left_out(read, capsys):
    whole = read()
    assert capsys.readouterr().out == ""
    empty = [{"_id": "p0", "title": "", "text": " "}, {"_id": "p9", "text": ""}]
    queries = jsonl([*QUERIES, {"_id": "q0", "text": ""}])
    judgements = JUDGEMENTS + "q1\tp0\t1\nq1\tnowhere\t1\nnobody\tp1\t1\n"
    assert read(CORPUS_FILE + jsonl(empty), queries, judgements) == whole
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2] for line in lines] == [
        "left out 2 rows without text, the first in line 4",
        "left out 1 row without text, the first in line 4",
        "left out 3 rows of queries or passages that are absent, the first in line 7",
    ]
    with pytest.raises(ValueError, match=r"no query has a passage"):
        read(judgements="q1\tp9\t1\n")


def test_a_query_that_is_a_passage_has_an_own_passage(read):
    assert read().own_passages() is None
    ids = [{"_id": "p2", "text": "The Alps"}, {"_id": "q2", "text": "b"}]
    queries = jsonl([*ids, {"_id": 3, "text": "c"}])
    data = read(queries=queries, judgements="p2\tp1\t1\nq2\tp2\t1\n3\t3\t1\n")
    assert data.query_ids == ["p2", "q2", "3"]
    # A passage that is relevant to the query of its id is another text.
    assert data.own_passages().tolist() == [1, -1, -1]
