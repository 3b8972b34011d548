"""Tests of published.py: the layouts in which tasks of choice are published."""

import json
import re

import pytest

from data_pipeline.classification import labels, tables, tasks
from data_pipeline.tables import published

COPA = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE copa-corpus SYSTEM "copa.dtd">
<copa-corpus version="1.0">
  <item id="7" asks-for="cause" most-plausible-alternative="2">
    <p>The shop was &amp; stayed shut.</p>
    <a1>It was noon.</a1>
    <a2>It was a
      holiday.</a2>
  </item>
  <item id="8" asks-for="effect" most-plausible-alternative="1">
    <p>It rained.</p>
    <a1>I got wet.</a1>
    <a2>I sang.</a2>
  </item>
</copa-corpus>
"""
SUPERGLUE = {
    "premise": "It rained.",
    "choice1": "I got wet.",
    "choice2": "I sang.",
    "question": "effect",
    "idx": 3,
    "label": 0,
}
STORY = "id,one,two,three,four,first,second,right\nx1,A.,B.,C.,D.,Good.,Bad.,1\n"
SWAG = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
    "ending0,ending1,ending2,ending3,label\n"
    "5,v,1,A man sits. He,A man sits.,He,gold,eats.,flies.,swims.,melts.,2\n"
)
RACE = {
    "article": "A long text.",
    "questions": ["Who _ ?", "Where?"],
    "options": [["a", "b", "c", "d"], ["e", "f", "g", "h"]],
    "answers": ["C", "A"],
    "id": "high1.txt",
}


def rows(tmp_path, name, content, layout):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return list(published.file_rows(str(path), layout))


def test_copa_of_the_publisher(tmp_path):
    first, second = rows(tmp_path, "copa-dev.xml", COPA, "copa")
    assert first == (
        4,
        {
            "context": "The shop was & stayed shut.",
            "question": "because",
            "choices": ["It was noon.", "It was a holiday."],
            "label": "2",
            "id": "7",
        },
    )
    assert second[0] == 10 and second[1]["question"] == "so"


def test_copa_of_superglue_counts_as_the_publisher_does(tmp_path):
    unlabelled = {k: v for k, v in SUPERGLUE.items() if k != "label"}
    content = json.dumps(SUPERGLUE) + "\n" + json.dumps(unlabelled) + "\n"
    (_, first), (line, second) = rows(tmp_path, "val.jsonl", content, "copa")
    assert first["label"] == 1 and first["question"] == "so" and first["id"] == 3
    assert first["choices"] == ["I got wet.", "I sang."]
    assert line == 2 and "label" not in second


def test_story_cloze_joins_its_four_sentences(tmp_path):
    ((line, row),) = rows(tmp_path, "s.csv", STORY, "story_cloze")
    assert line == 2
    assert row == {
        "id": "x1",
        "context": "A. B. C. D.",
        "choices": ["Good.", "Bad."],
        "label": "1",
    }


def test_swag_has_a_beginning_that_each_ending_continues(tmp_path):
    ((line, row),) = rows(tmp_path, "train.csv", SWAG, "swag")
    assert line == 2
    assert row == {
        "context": "A man sits.",
        "question": "He",
        "choices": ["eats.", "flies.", "swims.", "melts."],
        "label": "2",
    }


def test_race_has_an_article_for_several_questions(tmp_path):
    (tmp_path / "train" / "high").mkdir(parents=True)
    for number, answer in ((2, "B"), (1, "C")):
        article = {**RACE, "answers": [answer, "A"], "id": f"high{number}.txt"}
        path = tmp_path / "train" / "high" / f"{number}.txt"
        path.write_text(json.dumps(article, indent=1))
    found = list(published.file_rows(str(tmp_path / "train"), "race"))
    assert [(line, row["id"], row["label"]) for line, row in found] == [
        (1, "high1.txt-0", "C"),
        (2, "high1.txt-1", "A"),
        (3, "high2.txt-0", "B"),
        (4, "high2.txt-1", "A"),
    ]
    assert found[1][1]["question"] == "Where?"
    assert found[1][1]["choices"] == ["e", "f", "g", "h"]


WRONG = {
    "an unknown question": (
        *("copa", "a.xml", COPA.replace("effect", "reason")),
        ["a.xml:10", "'reason'", "cause, effect"],
    ),
    "no alternative": (
        *("copa", "a.xml", COPA.replace("a1>", "a3>")),
        ["a.xml:4", "a1 is None", "give the row one"],
    ),
    "cut XML": ("copa", "a.xml", COPA[:-9], ["a.xml:", "not XML", "restore"]),
    "short story": (
        *("story_cloze", "s.csv", STORY + "x2,A.,B.\n"),
        ["s.csv:3", "3 cells", "has 8"],
    ),
    "no endings": (
        *("swag", "t.csv", SWAG.replace("ending1", "end1")),
        ["t.csv:1", "no column ending1"],
    ),
    "three options": (
        *("race", "1.txt", json.dumps({**RACE, "options": [["a", "b", "c"]] * 2})),
        ["1.txt", "question 0", "['a', 'b', 'c']", "give 4 texts"],
    ),
    "no article": ("race", "1.txt", "{}", ["1.txt", "not an article of RACE"]),
    "an answer too few": (
        *("race", "1.txt", json.dumps({**RACE, "answers": ["A"]})),
        ["1.txt", "not an article of RACE"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_place(tmp_path, case):
    layout, name, content, parts = WRONG[case]
    with pytest.raises(ValueError, match=".*".join(map(re.escape, parts))):
        rows(tmp_path, name, content, layout)


def test_published_copa(shared_file):
    task = tasks.task_named("COPA")
    data_dir = str(shared_file("data/others/copa"))
    table = tasks.read_split(task, data_dir, "train")
    assert len(table.text_a) == len(table.choices) == 500
    assert table.text_a[0] == "My body cast a shadow over the grass."
    assert table.choices[0] == ("The sun was rising.", "The grass was cut.")
    assert table.example_ids[:2] == ["train-1", "train-2"]
    ids = labels.Labels(task.labels, "choice").encode(table)
    assert ids[:6].tolist() == [0, 0, 1, 0, 0, 1]
    assert ids.mean() == 0.5  # balanced by its makers


@pytest.mark.parametrize(
    ("name", "files", "label"),
    [
        ("copa", {"val.jsonl": json.dumps(SUPERGLUE) + "\n"}, "1"),
        ("story_cloze", {"dev.csv": STORY}, "1"),
        ("swag", {"val.csv": SWAG}, "2"),
        ("race", {"dev/1.txt": json.dumps(RACE)}, "C"),
    ],
)
def test_tasks_find_their_files(tmp_path, name, files, label):
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    table = tasks.read_split(tasks.task_named(name), str(tmp_path), "dev")
    assert table.labels[0] == label and isinstance(table, tables.Table)
    assert len(table.choices[0]) == len(tasks.task_named(name).labels)
