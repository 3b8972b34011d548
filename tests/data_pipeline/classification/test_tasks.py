"""Tests of data_pipeline/classification/tasks.py.

original_tasks/ holds tables written for this project in the original's layouts, and in
expected_examples.json what the original's processors (commit eedf571) made of them:
[guid, text_a, text_b, label] of each example.
"""

import json
import pathlib

import numpy as np
import pytest

from data_pipeline.classification import labels, tasks

ORIGINAL = pathlib.Path(__file__).parents[1] / "original_tasks"
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


def test_mnli_mismatched_is_a_row_of_its_own(tmp_path):
    for split in ("dev", "test"):
        content = (ORIGINAL / "mnli" / f"{split}_matched.tsv").read_bytes()
        (tmp_path / f"{split}_mismatched.tsv").write_bytes(content)
    task = tasks.task_named("mnli-mm")
    dev = tasks.read_split(task, str(tmp_path), "dev")
    assert dev.example_ids[0] == "dev_mismatched-0"
    assert dev.labels[:2] == ["contradiction", "entailment"]
    assert tasks.read_split(task, str(tmp_path), "test").labels is None
    assert task.splits["train"] == tasks.TASKS["mnli"].splits["train"]


def test_cola_with_a_header_loses_only_the_header(tmp_path):
    row = ("gj04", "1", "", "A cat sat.")
    write(tmp_path, "train.tsv", ("source", "label", "mark", "sentence"), row, row)
    table = tasks.read_split(tasks.task_named("cola"), str(tmp_path), "train")
    assert table.text_a == ["A cat sat."] * 2
    assert table.example_ids == ["train-1", "train-2"]


@pytest.mark.parametrize("language", ["zh", "fr"])
def test_xnli_in_any_language(tmp_path, language):
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
    numbers = {"fr": (1, 3), "zh": (2, 4)}[language]
    assert dev.example_ids == [f"dev-{number}" for number in numbers]
    test = tasks.read_split(task, str(tmp_path), "test")
    assert test.labels == dev.labels
    with pytest.raises(ValueError, match=r"no row has 'th' .* one of \['fr', 'zh'\]"):
        tasks.read_split(tasks.task_named("xnli", "th"), str(tmp_path), "dev")


GLUE_ROWS = {
    "sst-2": (("sentence", "label"), ("good", "1"), ("good", None, "1")),
    "sts-b": (
        ("index", "genre", "sentence1", "sentence2", "score"),
        ("0", "g", "a", "b", "3.80"),
        ("a", "b", "3.80"),
    ),
    "qqp": (
        ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
        ("9", "1", "2", "a?", 'b "c?', "1"),
        ("a?", 'b "c?', "1"),
    ),
    "qnli": (
        ("index", "question", "sentence", "label"),
        ("0", "a?", "b", "not_entailment"),
        ("a?", "b", "not_entailment"),
    ),
    "rte": (
        ("index", "sentence1", "sentence2", "label"),
        ("0", "a", "b", "entailment"),
        ("a", "b", "entailment"),
    ),
    "wnli": (
        ("index", "sentence1", "sentence2", "label"),
        ("0", "a", "b", "0"),
        ("a", "b", "0"),
    ),
}


@pytest.mark.parametrize("name", GLUE_ROWS)
def test_tasks_with_named_columns(tmp_path, name):
    header, row, (text_a, text_b, label) = GLUE_ROWS[name]
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
    header, row, _ = GLUE_ROWS["qqp"]
    write(tmp_path, "train.tsv", header, row, row[:4], ("rest of it", "b?", "0"), row)
    table = tasks.read_split(tasks.task_named("qqp"), str(tmp_path), "train")
    assert table.lines == [2, 5]


def test_empty_text_is_kept_as_in_the_original(tmp_path):
    write(tmp_path, "train.tsv", ("x", "1", "", ""), ("x", "0", "", "b"))
    table = tasks.read_split(tasks.task_named("cola"), str(tmp_path), "train")
    assert table.text_a == ["", "b"]


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
        ("CoLA", "cola"),
        ("sst2", "sst-2"),
        ("SST-2", "sst-2"),
        ("stsb", "sts-b"),
        ("sts_b", "sts-b"),
        ("STS-B", "sts-b"),
        ("mnli-matched", "mnli"),
        ("mnli_mm", "mnli-mm"),
        ("MNLI-mismatched", "mnli-mm"),
        ("diagnostic", "ax"),
    ],
)
def test_spellings_of_task_names(spelling, name):
    assert tasks.task_named(spelling) is tasks.TASKS[name]


def test_unknown_task_lists_the_known():
    with pytest.raises(ValueError, match=r"^Task not found: squad; choose .*'ax', 'co"):
        tasks.task_named("squad")


def test_rows_of_the_table():
    assert set(tasks.TASKS) == {
        *("ax", "cola", "mnli", "mnli-mm", "mrpc", "qnli", "qqp", "rte", "sst-2"),
        *("sts-b", "wnli", "xnli"),
        *("copa", "race", "story_cloze", "swag"),
    }
    metrics = {name: task.metrics for name, task in tasks.TASKS.items()}
    assert metrics["cola"] == ("mcc", "accuracy")
    assert metrics["mrpc"] == metrics["qqp"] == ("accuracy", "f1")
    assert metrics["sts-b"] == ("pearson", "spearman")
    assert metrics["mnli"] == metrics["rte"] == ("accuracy",)
    assert all(name == task.name for name, task in tasks.TASKS.items())
    for task in tasks.TASKS.values():
        labels.Labels(task.labels, task.problem_type)  # fit together


def test_missing_file_is_named_with_its_alternatives(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"train\.tsv: no such file; put the tr"
    ):
        tasks.read_split(tasks.task_named("rte"), str(tmp_path), "train")
    with pytest.raises(
        FileNotFoundError, match=r"diagnostic\.tsv or .*AX\.tsv: no suc"
    ):
        tasks.read_split(tasks.task_named("ax"), str(tmp_path), "test")


def test_training_file_without_labels_is_refused(tmp_path):
    write(tmp_path, "train.tsv", ("index", "sentence"), ("0", "a"))
    with pytest.raises(ValueError, match=r"train\.tsv: no column 'label' \(label\); "):
        tasks.read_split(tasks.task_named("sst-2"), str(tmp_path), "train")


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("cola", (8551, 1043, 1063)),
        ("rte", (2490, 277, 3000)),
        ("sts-b", (5749, 1500, 1379)),
    ],
)
def test_published_files(shared_file, name, sizes):
    data_dir = str(shared_file(f"data/{name.replace('-', '')}"))
    task = tasks.task_named(name)
    train, dev, test = (
        tasks.read_split(task, data_dir, split) for split in ("train", "dev", "test")
    )
    assert tuple(len(table.text_a) for table in (train, dev, test)) == sizes
    assert test.labels is None
    targets = labels.Labels(task.labels, task.problem_type).encode(dev)
    assert targets.shape == (sizes[1],)
    if name == "sts-b":
        assert targets.dtype == np.float32
        assert targets[:2].tolist() == [5.0, 4.75]
    else:
        assert set(targets.tolist()) == {0, 1}
    if name == "cola":
        assert targets.mean() == pytest.approx(721 / 1043)  # acceptable sentences
