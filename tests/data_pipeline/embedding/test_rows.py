"""Columns of a table that are texts, and the kind of its rows."""

import dataclasses

import pytest

from data_pipeline import findings
from data_pipeline.embedding import corpora, split
from data_pipeline.tables import labelled
from data_pipeline.text import wordpiece

LAYOUT = labelled.Layout(usual_texts=corpora.USUAL_TEXTS)


@pytest.fixture
def read(tmp_path):
    def write_and_read(header, layout=LAYOUT, name="rows.tsv"):
        cells = [f"text {i}" for i in range(len(header))]
        cells[-1] = "0.5" if header[-1] == "score" else cells[-1]
        path = tmp_path / name
        path.write_text("".join("\t".join(row) + "\n" for row in (header, cells)))
        table = corpora.open_rows(str(path), layout).read()
        return (corpora.kind_of(table, has_teacher=True), table.texts()[0], table)

    return write_and_read


@pytest.mark.parametrize(
    ("header", "kind", "places"),
    [
        (("question", "passage"), "pairs", (0, 1)),
        (("passage", "id", "query"), "pairs", (2, 0)),
        (("Query", "Answer"), "pairs", (0, 1)),
        (("question", "answer"), "pairs", (0, 1)),
        (("negative", "anchor", "positive"), "triplets", (1, 2, 0)),
        (("anchor", "positive"), "pairs", (0, 1)),
        (("query", "positive", "negative"), "triplets", (0, 1, 2)),
        (("sentence1", "sentence2", "score"), "scored", (0, 1)),
        (("premise", "hypothesis"), "pairs", (0, 1)),
        (("text", "label"), "labelled", (0,)),
        (("question", "title"), "texts", (0,)),
    ],
)
def test_usual_names_are_texts(read, header, kind, places):
    actual, texts, table = read(header)
    assert actual == kind and table.lines == [2]
    assert texts == tuple(f"text {place}" for place in places)


def test_names_that_are_passed_come_first(read):
    layout = dataclasses.replace(LAYOUT, text_a="passage", text_b="question")
    assert read(("question", "passage"), layout)[1] == ("text 1", "text 0")
    layout = dataclasses.replace(LAYOUT, text_a="passage", label="question")
    assert read(("question", "passage"), layout)[0] == "labelled"
    layout = dataclasses.replace(LAYOUT, choices=("positive", "other"))
    header = ("anchor", "positive", "negative", "other")
    assert read(header, layout)[1] == ("text 0", "text 1", "text 3")


def test_classifiers_know_the_same_pairs(read):
    _, texts, table = read(("question", "passage", "label"), labelled.Layout())
    assert texts == ("text 0", "text 1") and table.labels == ["text 2"]


def test_other_names_are_to_be_passed(read):
    with pytest.raises(ValueError, match=r"rows.tsv:1: .* are not the usual names"):
        read(("positive", "negative"))


def test_lists_of_one_label_are_that_label_in_all_splits():
    tokenizer = wordpiece.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abc"])
    names: tuple[str, ...] = ()
    for name in ("train", "test"):
        rows = [{"text": text, "label": [label]} for text, label in ("ax", "by", "cx")]
        table = labelled.open_memory(name, rows, LAYOUT, labels_required=True).read()
        data = split.load(name, table, tokenizer, 16, label_names=names)
        names = data.label_names
        assert names == ("x", "y") and data.labels.tolist() == [0, 1, 0]


def test_a_first_pair_without_a_score_makes_no_pairs_of_scored_ones(capsys):
    scored = [{"text_a": f"a {i}", "text_b": "b", "score": i % 2 / 2} for i in range(9)]
    tokenizer = wordpiece.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abc"])
    for more in ({"score": None}, {"score": float("nan")}, {}):
        rows = [{"text_a": "a", "text_b": "b", **more}, *scored]
        opened = labelled.open_memory("t", rows, LAYOUT, labels_required=False)
        data = split.load("train", opened.read(), tokenizer, 16, show=findings.show)
        assert (data.kind, len(data.labels)) == (corpora.SCORED, 9)
        assert "t: left out 1 row without a label ('null' 1)" in capsys.readouterr().out
    pairs = [{**row, "score": None} for row in scored]
    opened = labelled.open_memory("t", pairs, LAYOUT, labels_required=False)
    assert corpora.kind_of(opened.read()) == corpora.PAIRS
