"""Rows that tools of annotation discard, and what pandas and spreadsheets write."""

import csv
import json

import pytest

from data_pipeline.classification import sources
from data_pipeline.embedding import corpora
from data_pipeline.seq2seq import pairs
from data_pipeline.squad import files as squad_files
from data_pipeline.tables import labelled, other_programs
from data_pipeline.tagging import files
from tests.refusals import refused
from tests.shown import shown

ANSWERS = ["accept", "reject", "accept", "ignore", "accept", "reject"]
KEPT = ["text 0", "text 2", "text 4"]
COUNTED = "that a tool of annotation discards (answer=reject 2, answer=ignore 1), line"


def records(answers=ANSWERS, name="answer"):
    return [
        {"text": f"text {n}", "label": "ab"[n % 4 // 2], name: answer}
        for n, answer in enumerate(answers)
    ]


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as opened:
        if path.suffix == ".csv":
            writer = csv.DictWriter(opened, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        else:
            opened.writelines(json.dumps(row) + "\n" for row in rows)
    return str(path)


def from_table(ending, split):
    def read(folder, rows):
        path = write(folder / f"rows.{ending}", rows)
        return shown(sources.Source(files={split: path}).read(split)).text_a

    return read


def from_memory(folder, rows):
    return shown(sources.Source(files={"train": rows}).read("train")).text_a


def from_embedding(folder, rows):
    path = write(folder / "rows.jsonl", rows)
    layout = labelled.Layout(usual_texts=corpora.USUAL_TEXTS)
    return shown(corpora.open_rows(path, layout).read()).text_a


def from_pairs(folder, rows):
    rows = [
        {"source": row["text"], "target": row["label"], **dict([[*row.items()][-1]])}
        for row in rows
    ]
    path = write(folder / "rows.csv", rows)
    opened = pairs.open_rows(path, pairs.Layout(), targets_required=True)
    rows = [pair.source for pair in opened.rows]
    shown(opened)
    return rows


def from_questions(folder, rows):
    rows = [{"context": row["text"], "question": "?", **row} for row in rows]
    path = write(
        folder / "rows.jsonl", [{"id": str(i), **r} for i, r in enumerate(rows)]
    )
    read = squad_files.read_for_prediction(path, version_2_with_negative=False)
    return shown(read).contexts


def from_tags(folder, rows):
    rows = [{"tags": ["O", "O"], "words": row["text"].split(), **row} for row in rows]
    path = write(folder / "rows.jsonl", rows)
    read = shown(files.read(path, files.Layout(), tags_required=True))
    return [" ".join(words) for words in read.words]


TABLES = {
    "JSONL": from_table("jsonl", "train"),
    "CSV": from_table("csv", "train"),
    "dev": from_table("csv", "dev"),
    "test": from_table("jsonl", "test"),
    "memory": from_memory,
    "embedding": from_embedding,
}
DOORS = {**TABLES, "pairs": from_pairs, "tags": from_tags}
DOORS["questions"] = from_questions
every_door = pytest.mark.parametrize("read", DOORS.values(), ids=DOORS)


@every_door
def test_rows_that_prodigy_discards_are_left_out(read, tmp_path, capsys):
    """No door takes the column for a text, whether or not the first row is kept."""
    assert read(tmp_path, records()) == KEPT
    assert COUNTED in capsys.readouterr().out
    assert read(tmp_path, records(["ignore", *ANSWERS[1:]])) == KEPT[1:]
    assert read(tmp_path, records(["accept"] * 6)) == [f"text {n}" for n in range(6)]
    assert read(tmp_path, records(["", *ANSWERS[1:]])) == KEPT
    with refused(
        "has only 6 rows that a tool of annotation discards (answer=reject 6)"
    ):
        read(tmp_path, records(["reject"] * 6))


@every_door
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("status", ["Validated", "Discarded", "Edited", "Default"]),
        ("status", ["completed", "discarded", "submitted", "completed"]),
        ("was_cancelled", [False, True, False, False]),
    ],
)
def test_marks_of_other_tools(read, name, values, tmp_path, capsys):
    assert read(tmp_path, records(values, name)) == ["text 0", "text 2", "text 3"]
    assert "left out 1 row that a tool of annotation" in capsys.readouterr().out


@pytest.mark.parametrize("read", TABLES.values(), ids=TABLES)
def test_words_of_other_columns_discard_nothing(read, tmp_path, capsys):
    every = [f"text {n}" for n in range(4)]
    for name, values in (
        ("status", ["open", "discarded", "closed", "discarded"]),
        ("verdict", ["accept", "reject", "ignore", "accept"]),
    ):
        assert read(tmp_path, records(values, name)) == every
    assert "left out" not in capsys.readouterr().out
    answers = [*enumerate(records(["ignore", "yes", "reject", "no"]))]
    assert other_programs.marks((), answers) == {}


def test_a_column_that_is_read_holds_no_marks(tmp_path):
    rows = records(["accept", "reject", "ignore", "accept"])
    for role in ("label", "text_b"):
        layout = labelled.Layout(text_a="text", **{role: "answer"})
        for table in (
            labelled.read_table(
                write(tmp_path / "rows.csv", rows), layout, labels_required=True
            ),
            labelled.open_memory("rows", rows, layout, labels_required=True).read(),
        ):
            assert len(table.lines) == 4
            column = table.labels if role == "label" else table.text_b
            assert column == ["accept", "reject", "ignore", "accept"]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_rows_without_labels_are_all_predicted(ending, tmp_path):
    rows = [{"text": row["text"], "answer": row["answer"]} for row in records()]
    assert from_table(ending, "test")(tmp_path, rows) == [f"text {n}" for n in range(6)]
    path = write(tmp_path / "rows.jsonl", rows)
    assert len(files.read(path, files.Layout(), tags_required=False)) == 6


def test_pairs_that_are_code_of_a_spreadsheet_are_warned_of(tmp_path, capsys):
    rows = [{"text": text, "label": "x", "id": "1"} for text in ("a", "#NAME?", "b")]
    assert from_pairs(tmp_path, rows) == ["a", "#NAME?", "b"]
    assert "rows.csv:3: text '#NAME?' is a spreadsheet's error (line 3)" in (
        capsys.readouterr().out
    )


def test_shapes_of_formulas_and_errors_are_code_in_all_languages():
    for cell in ("=B2", "=VLOOKUP(A1;B;2)", "=1+1", "=-A1", "=$A$1", "=(1)"):
        assert other_programs.shape(cell) == "a spreadsheet's formula", cell
    for cell in ("#SPILL!", "#WERT!", "#BEZUG!", "#DIV/0!", "#N/A"):
        assert other_programs.shape(cell) == "a spreadsheet's error", cell


def test_shapes_of_words_are_no_code():
    for cell in (
        "=)",
        "==",
        "=> b",
        "=good",
        "#1",
        "#good",
        "=",
        "= 3",
        "a=b",
        '"a"',
        "{x: y}",
        "#ref",
        "#NAME",
    ):
        assert other_programs.shape(cell) == "", cell


def test_numbers_of_labels_are_no_tags(tmp_path):
    span = {"label": 7, "start_offset": 0, "end_offset": 3}
    path = write(tmp_path / "rows.jsonl", [{"text": "Ada", "annotations": [span]}])
    with refused(
        "rows.jsonl:1: has no tags; give it some (in JSONL under tags, ner_tags"
    ):
        files.read(path, files.Layout(), tags_required=True)
    assert files.read(path, files.Layout(), tags_required=False).words == [["Ada"]]
