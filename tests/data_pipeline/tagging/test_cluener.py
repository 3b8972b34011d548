"""Tests of CLUENER2020: its files, its score, and its submission."""

import json
import random

import numpy as np
import pytest

from contract import outcomes
from data_pipeline.tagging import files, scores

TEXT = "王明 在ABC公司"
LABEL = {"name": {"王明": [[0, 1]]}, "company": {"ABC公司": [[4, 8]]}}
LAYOUT = files.Layout(file_format="cluener")


def write(path, *rows):
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), "utf-8")
    return str(path)


def test_each_character_has_a_tag(tmp_path):
    rows = {"text": TEXT, "label": LABEL}, {"text": "他", "label": {}}
    read = files.read(write(tmp_path / "dev.json", *rows), LAYOUT, tags_required=True)
    assert read.words == [["王", "明", *"在ABC公司"], ["他"]]
    company = ["B-company", *["M-company"] * 3, "E-company"]
    assert read.tags == [["B-name", "E-name", "O", *company], ["O"]]
    single = {"text": "他", "label": {"name": {"他": [[0, 0]]}}}
    read = files.read(write(tmp_path / "a.json", single), LAYOUT, tags_required=True)
    assert read.tags == [["S-name"]]
    secret = write(tmp_path / "test.json", {"id": 0, "text": TEXT})
    assert files.read(secret, LAYOUT, tags_required=False).tags is None


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (
            {"name": {"王明": [[0, 2]]}},
            "name is '王明', and the text has '王明 ' at 0 to 2",
        ),
        ({"name": {"王明": [[-1, 1]]}}, "at -1 to 1; correct"),
        ({"name": ["王明"]}, r"label is .*; give {type"),
        (
            {"a": {"王明": [[0, 1]]}, "b": {"明": [[1, 1]]}},
            "b '明', .* overlaps another span",
        ),
    ],
)
def test_entities_that_are_not_in_the_text(tmp_path, label, message):
    path = write(tmp_path / "dev.json", {"text": TEXT, "label": label})
    with pytest.raises(ValueError, match=f"dev.json:1: .*{message}"):
        files.read(path, LAYOUT, tags_required=True)


def test_other_formats_name_the_flag(tmp_path):
    path = write(tmp_path / "dev.json", {"text": TEXT, "label": LABEL})
    with pytest.raises(ValueError, match="--file_format=cluener"):
        files.read(path, files.Layout(), tags_required=True)


def entities_of(text, tags):
    """{(type, entity)} of BMES tags, one character after another."""
    places = [i for i, c in enumerate(text) if not c.isspace()]
    entities, start = set(), None
    for place, tag in zip(places, tags, strict=True):
        mark, _, name = tag.partition("-")
        if mark in ("B", "S"):
            start = place
        if mark in ("E", "S"):
            entities.add((name, text[start : place + 1]))
    return entities


def random_tags(values, count):
    tags = []
    while len(tags) < count:
        size, name = values.randint(1, 3), values.choice(["x", "y", None])
        size = min(size, count - len(tags))
        if name is None:
            tags += ["O"] * size
        elif size == 1:
            tags.append(f"S-{name}")
        else:
            tags += [f"B-{name}", *[f"M-{name}"] * (size - 2), f"E-{name}"]
    return tags


def test_the_score_counts_texts_of_a_row_once():
    values = random.Random(3)
    texts = ["天 上天上天鸟" for _ in range(60)]
    gold, predicted = ([random_tags(values, 6) for _ in texts] for _ in range(2))
    sentences = files.Sentences(
        path="",
        tag_path="",
        file_format="cluener",
        words=[list("天上天上天鸟")] * 60,
        tags=gold,
        documents=np.zeros(60, np.int32),
        lines=[[i] * 6 for i in range(60)],
        texts=texts,
    )
    f1s = []
    for name in "xy":
        right = proposed = expected = 0
        for text, *both in zip(texts, gold, predicted, strict=True):
            one, other = (
                {e for e in entities_of(text, t) if e[0] == name} for t in both
            )
            right += len(one & other)
            expected, proposed = expected + len(one), proposed + len(other)
        precision, recall = right / proposed, right / expected
        f1s.append(2 * precision * recall / (precision + recall))
    score = scores.f1_cluener(sentences, predicted, "BMES")
    assert score == pytest.approx(sum(f1s) / 2, abs=1e-12)
    assert score != pytest.approx(scores.score(gold, predicted, "BMES")["f1"])


def test_the_submission_has_ends_included(tmp_path):
    path = write(tmp_path / "test.json", {"id": 5, "text": TEXT}, {"text": "他"})
    sentences = files.read(path, LAYOUT, tags_required=False)
    company = ["B-company", *["M-company"] * 3, "E-company"]
    tags = [["B-name", "E-name", "O", *company], ["O"]]
    ones = [[1.0] * len(row) for row in tags]
    scored = outcomes.Scored(predictions=tags, probabilities=ones)
    name, _ = scores.write_all(str(tmp_path), sentences, scored, "BMES")
    lines = (tmp_path / "cluener_predict.json").read_text("utf-8").splitlines()
    assert name.endswith("cluener_predict.json")
    assert [*map(json.loads, lines)] == [
        {"id": 0, "label": LABEL},
        {"id": 1, "label": {}},
    ]


def test_real_rows_keep_their_entities(shared_file):
    path = shared_file("data/clue/cluener2020/train.json")
    read = files.read(str(path), LAYOUT, tags_required=True)
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    assert len(read) == len(rows) == 300
    for text, tags, row in zip(read.texts, read.tags, rows, strict=True):
        given = {(name, text) for name, e in row["label"].items() for text in e}
        assert entities_of(text, tags) == given
