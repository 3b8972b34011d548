import json
import re

import pytest

from data_pipeline.classification import labels, tasks
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
    return list(published.LAYOUTS[layout](str(path)))


COPA_ROWS = [
    (4, "The shop was & stayed shut.", "because", "It was noon.", "2", "7"),
    (10, "It rained.", "so", "I got wet.", "1", "8"),
]


@pytest.mark.parametrize(
    ("layout", "name", "content", "expected"),
    [
        ("copa", "copa-dev.xml", COPA, COPA_ROWS),
        # SuperGLUE counts labels from 0, and the publisher from 1.
        (
            "copa",
            "val.jsonl",
            json.dumps(SUPERGLUE) + "\n" + json.dumps(SUPERGLUE | {"label": None}),
            [
                (1, "It rained.", "so", "I got wet.", 1, 3),
                (2, "It rained.", "so", "I got wet.", None, 3),
            ],
        ),
        ("story_cloze", "s.csv", STORY, [(2, "A. B. C. D.", None, "Good.", "1", "x1")]),
        ("swag", "t.csv", SWAG, [(2, "A man sits.", "He", "eats.", "2", None)]),
    ],
)
def test_layouts_become_rows(tmp_path, layout, name, content, expected):
    actual = rows(tmp_path, name, content, layout)
    keys = "context", "question", "label", "id"
    shown = [[line, *map(row.get, keys)] for line, row in actual]
    assert shown == [[a, b, c, label, key] for a, b, c, _, label, key in expected]
    assert [row["choices"][0] for _, row in actual] == [each[3] for each in expected]
    last = {"copa": "I sang.", "story_cloze": "Bad.", "swag": "melts."}[layout]
    assert actual[-1][1]["choices"][-1] == last


def test_race_has_an_article_for_several_questions(tmp_path):
    (tmp_path / "train" / "high").mkdir(parents=True)
    for number, answer in ((2, "B"), (1, "C")):
        article = {**RACE, "answers": [answer, "A"], "id": f"high{number}.txt"}
        path = tmp_path / "train" / "high" / f"{number}.txt"
        path.write_text(json.dumps(article, indent=1))
    numbered = list(published.LAYOUTS["race"](str(tmp_path / "train")))
    assert [(line, row["id"], row["label"]) for line, row in numbered] == [
        (1, "high1.txt-0", "C"),
        (2, "high1.txt-1", "A"),
        (3, "high2.txt-0", "B"),
        (4, "high2.txt-1", "A"),
    ]
    assert numbered[1][1]["question"] == "Where?"
    assert numbered[1][1]["choices"] == ["e", "f", "g", "h"]


THREE = {**RACE, "options": [["a", "b", "c"]] * 2}


@pytest.mark.parametrize(
    ("layout", "name", "content", "message"),
    [
        ("copa", "a.xml", COPA.replace("effect", "reason"), "a.xml:10: asks for 'reas"),
        ("copa", "a.xml", COPA.replace("a1>", "a3>"), "a.xml:4: choice1 is None, no"),
        ("copa", "a.xml", COPA[:-9], ": not XML ("),
        ("story_cloze", "s.csv", STORY + "x2,A.\n", "s.csv:3: 2 cells; a story has 8"),
        ("swag", "t.csv", SWAG.replace("ending1", "e"), "t.csv:1: no column ending1; "),
        ("race", "1.txt", json.dumps(THREE), "1.txt: question 0 has ['a', 'b', 'c']"),
        ("race", "1.txt", json.dumps({**RACE, "answers": ["A"]}), "not an article of"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path, layout, name, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
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
    ("name", "path", "content", "label"),
    [
        ("copa", "val.jsonl", json.dumps(SUPERGLUE), "1"),
        ("story_cloze", "dev.csv", STORY, "1"),
        ("swag", "val.csv", SWAG, "2"),
        ("race", "dev/1.txt", json.dumps(RACE), "C"),
    ],
)
def test_tasks_read_their_files(tmp_path, name, path, content, label):
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(content)
    table = tasks.read_split(tasks.task_named(name), str(tmp_path), "dev")
    assert table.labels[0] == label
    assert len(table.choices[0]) == len(tasks.task_named(name).labels)
