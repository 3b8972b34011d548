"""Tests of data_pipeline/classification/tasks.py.

original_tasks/ holds tables written for this project in the original's layouts, and in
expected_examples.json what the original's processors (commit eedf571) made of them:
[guid, text_a, text_b, label] of each example.
"""

import json
import pathlib
import re

import pytest

from data_pipeline.classification import labels, tasks
from data_pipeline.tables import labelled
from tests.refusals import refused

ORIGINAL = pathlib.Path(__file__).parents[1] / "original_tasks"
PAGE = pathlib.Path(__file__).parents[3] / "docs" / "classification.md"
EXPECTED = json.loads((ORIGINAL / "expected_examples.json").read_text("utf-8"))


def write(folder, name, *rows):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize("name", ["cola", "mnli", "mrpc"])
def test_examples_equal_the_originals(name, split):
    task = tasks.task_named(name)
    table = tasks.read_split(task, str(ORIGINAL / name), split)
    expected = EXPECTED[name][split]
    assert list(task.labels) == EXPECTED[name]["labels"]
    assert table.example_ids == [guid for guid, *_ in expected]
    assert table.text_a == [text for _, text, _, _ in expected]
    text_b = [text for _, _, text, _ in expected]
    assert (table.text_b or [None] * len(text_b)) == text_b
    if split == "test":
        assert table.labels is None
    else:
        assert table.labels == [label for *_, label in expected]
        label_ids = labels.Labels(task.labels).encode(table)
        assert label_ids.tolist() == [task.labels.index(row[3]) for row in expected]


def test_xnli_in_any_language(tmp_path, language="fr"):
    header = ["language", "gold_label", *"abcd", "sentence1", "sentence2", "promptID"]
    rows = [
        (code, label, *"wxyz", f"{code} one", f"{code} two", "7")
        for label in ("neutral", "contradiction")
        for code in ("fr", "zh")
    ]
    write(tmp_path, "xnli.dev.tsv", header, *rows)
    write(tmp_path, "xnli.test.tsv", header, *rows)
    write(
        tmp_path,
        f"multinli/multinli.train.{language}.tsv",
        ("premise", "hypo", "label"),
        ("p", "h", "contradictory"),
        ("q", "i", "entailment"),
    )
    task = tasks.task_named("XNLI", language)
    train = tasks.read_split(task, str(tmp_path), "train")
    assert (train.text_a, train.text_b) == (["p", "q"], ["h", "i"])
    assert train.labels == ["contradiction", "entailment"]
    assert train.example_ids == ["train-1", "train-2"]
    dev = tasks.read_split(task, str(tmp_path), "dev")
    assert dev.text_a == [f"{language} one"] * 2
    assert dev.text_b == [f"{language} two"] * 2
    assert dev.labels == ["neutral", "contradiction"]
    assert dev.example_ids == ["dev-1", "dev-3"]
    test = tasks.read_split(task, str(tmp_path), "test")
    assert test.labels == dev.labels
    with pytest.raises(ValueError, match=r"no row has 'th' .* one of \['fr', 'zh'\]"):
        tasks.read_split(tasks.task_named("xnli", "th"), str(tmp_path), "dev")


NLI = ("a", "b", "entailment")
# Header, row, and the texts and label in it.
GLUE_ROWS = {
    "sst-2": ("sentence|label", "good|1", ("good", None, "1")),
    "sts-b": (
        "index|genre|sentence1|sentence2|score",
        "0|g|a|b|3.80",
        ("a", "b", "3.80"),
    ),
    "qqp": (
        "id|qid1|qid2|question1|question2|is_duplicate",
        '9|1|2|a?|b "c?|1',
        ("a?", 'b "c?', "1"),
    ),
    "qnli": ("index|question|sentence|label", "0|a|b|entailment", NLI),
    "rte": ("index|sentence1|sentence2|label", "0|a|b|entailment", NLI),
    "wnli": ("index|sentence1|sentence2|label", "0|a|b|0", ("a", "b", "0")),
}


@pytest.mark.parametrize("name", GLUE_ROWS)
def test_tasks_with_named_columns(tmp_path, name):
    header, row, (text_a, text_b, label) = GLUE_ROWS[name]
    header, row = header.split("|"), row.split("|")
    task = tasks.task_named(name)
    write(tmp_path, "train.tsv", header, row)
    write(tmp_path, "test.tsv", header[:-1], row[:-1])
    train = tasks.read_split(task, str(tmp_path), "train")
    assert (train.text_a, train.text_b) == ([text_a], text_b and [text_b])
    assert (train.labels, train.example_ids) == ([label], ["train-1"])
    test = tasks.read_split(task, str(tmp_path), "test")
    assert (test.text_a, test.labels) == ([text_a], None)
    assert test.example_ids == ["test-1"]
    write(tmp_path, "test.tsv", header, row)
    assert tasks.read_split(task, str(tmp_path), "test").labels == [label]
    label_set = labels.Labels(task.labels, task.problem_type)
    assert label_set.encode(train).shape == (1,)


def test_broken_qqp_rows_are_left_out(tmp_path):
    header, row = (cells.split("|") for cells in GLUE_ROWS["qqp"][:2])
    write(tmp_path, "train.tsv", header, row, row[:4], ("rest of it", "b?", "0"), row)
    table = tasks.read_split(tasks.task_named("qqp"), str(tmp_path), "train")
    assert table.lines == [2, 5]


@pytest.mark.parametrize("name", ["diagnostic.tsv", "AX.tsv"])
def test_ax_has_only_a_test_split(tmp_path, name):
    task = tasks.task_named("ax")
    write(tmp_path, name, ("index", "sentence1", "sentence2"), ("0", "a", "b"))
    table = tasks.read_split(task, str(tmp_path), "test")
    assert (table.text_a, table.text_b, table.labels) == (["a"], ["b"], None)
    with pytest.raises(ValueError, match="task ax has no dev split; it has test"):
        tasks.read_split(task, str(tmp_path), "dev")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("MRPC", "mrpc"),
        ("sst2", "sst-2"),
        ("STS_B", "sts-b"),
        ("mnli-matched", "mnli"),
        ("MNLI-mismatched", "mnli-mm"),
    ],
)
def test_spellings_of_task_names(spelling, name):
    assert tasks.task_named(spelling) is tasks.TASKS[name]


def test_missing_files_and_columns_are_named(tmp_path):
    def read(name, split):
        return tasks.read_split(tasks.task_named(name), str(tmp_path), split)

    with pytest.raises(
        FileNotFoundError, match=r"train\.tsv: no such file; see --data_dir"
    ):
        read("rte", "train")
    with pytest.raises(FileNotFoundError, match=r"diagnostic\.tsv or .*AX\.tsv: no su"):
        read("ax", "test")
    write(tmp_path, "train.tsv", ("index", "sentence"), ("0", "a"))
    with pytest.raises(ValueError, match=r"train\.tsv: no column 'label' \(label\); "):
        read("sst-2", "train")
    # An empty text stays, as in the original; so does a header of CoLA.
    header = ("source", "label", "mark", "sentence")
    write(tmp_path, "train.tsv", header, ("x", "1", "", ""), ("x", "0", "", "b"))
    table = read("cola", "train")
    assert (table.text_a, table.example_ids) == (["", "b"], ["train-1", "train-2"])


def test_rows_of_the_table():
    with pytest.raises(
        ValueError, match=r"^Task not found: squad; choose .*'afqmc', 'ax"
    ):
        tasks.task_named("squad")
    mismatched = tasks.TASKS["mnli-mm"].splits
    assert mismatched["train"] == tasks.TASKS["mnli"].splits["train"]
    assert mismatched["dev"].files == ("dev_mismatched.tsv",)
    assert mismatched["dev"].prefix == "dev_mismatched"
    assert mismatched["test"].files == ("test_mismatched.tsv",)
    names = "ax cola mnli mnli-mm mrpc qnli qqp rte sst-2 sts-b wnli xnli"
    clue = "afqmc tnews iflytek cmnli ocnli cluewsc csl c3 chid clue_diagnostics"
    assert sorted(tasks.TASKS) == sorted([*names.split(), *clue.split()])
    metrics = {name: task.metrics for name, task in tasks.TASKS.items()}
    assert metrics["cola"] == ("mcc", "accuracy")
    assert metrics["mrpc"] == metrics["qqp"] == ("accuracy", "f1")
    assert metrics["sts-b"] == ("pearson", "spearman")
    assert metrics["mnli"] == metrics["rte"] == ("accuracy",)
    assert all(name == task.name for name, task in tasks.TASKS.items())
    for task in tasks.TASKS.values():
        labels.Labels(task.labels, task.problem_type)  # fit together


# Files of SWAG, COPA (SuperGLUE) and RACE, and rows of choices in them.
CHOICES = {
    "swag.csv": (
        ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
        "ending0,ending1,ending2,ending3,label\n"
        '5,v,1,"Ah, a man. He","Ah, a man.",He,gold,eats.,flies.,swims.,melts.,2\n'
        "6,v,2,A dog. It,A dog.,It,gen,eats.,flies.,swims.,melts.,0\n",
        ("Ah, a man.", "He", ("eats.", "flies.", "swims.", "melts."), "2"),
    ),
    "copa.jsonl": (
        '{"premise": "It rained.", "choice1": "I got wet.", "choice2": "I sang.", '
        '"question": "effect", "idx": 3, "label": 0}\n',
        ("It rained.", "effect", ("I got wet.", "I sang."), "0"),
    ),
    "RACE/train/high/1.txt": (
        '{"article": "A text.", "questions": ["Who _ ?", "Where?"], "options": '
        '[["a", "b", "c", "d"], ["e", "f", "g", "h"]], "answers": ["C", "A"]}',
        ("A text.", "Who _ ?", ("a", "b", "c", "d"), "C"),
    ),
}


def test_tables_of_choices_are_read_as_the_page_shows(tmp_path, monkeypatch):
    section = PAGE.read_text("utf-8").split("## A choice of answers")[1]
    columns = re.findall(
        r"--text_a_column=(\w+)\s+--text_b_column=(\w+)\s+--choice_columns=([\w,]+)",
        section,
    )
    for path, (content, _) in CHOICES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?RACE.*?)^```", section, re.M | re.S)
    exec(code, {})
    files = "swag.csv", "copa.jsonl", "race_train.jsonl"
    counts = []
    for path, (_, row), (text_a, text_b, choices) in zip(
        files, CHOICES.values(), columns, strict=True
    ):
        layout = labelled.Layout(
            text_a=text_a, text_b=text_b, choices=tuple(choices.split(","))
        )
        table = labelled.read_table(path, layout, labels_required=True)
        assert row == (
            *(table.text_a[0], table.text_b[0]),
            *(table.choices[0], table.labels[0]),
        )
        counts.append(len(table.lines))
    assert counts == [2, 1, 2]


@pytest.mark.parametrize("name", ["COPA", "Story_Cloze", "SWAG", "race"])
def test_tables_of_choices_are_no_tasks(name):
    with refused(f"Task not found: {name}; ", "--choice_columns", "classification.md"):
        tasks.task_named(name)
