"""sample_data/: the counts of its README.md, and places of answers and tags."""

import csv
import datetime
import itertools
import json
import pathlib
import random

import pytest

from sample_data import write_dates

SAMPLES = pathlib.Path(__file__).resolve().parents[1] / "sample_data"
TYPES = {"person", "place", "date"}
SPLITS = ("train", "dev")
BATCH = 32  # default of all scripts


def questions(split):
    """[(context, question)] of a file."""
    data = json.loads((SAMPLES / "questions" / f"{split}.json").read_text("utf-8"))
    return [
        (paragraph["context"], question)
        for article in data["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def documents(split):
    """[[[(word, tag)]]] of a file: documents of sentences."""
    text = (SAMPLES / "tags" / f"{split}.conll").read_text("utf-8")
    begin, *parts = text.split("-DOCSTART-\tO\n")
    assert begin == ""
    return [
        [
            [tuple(line.split("\t")) for line in sentence.splitlines()]
            for sentence in document.strip("\n").split("\n\n")
        ]
        for document in parts
    ]


def sentences(split):
    return [tuple(s) for document in documents(split) for s in document]


def faults(pairs):
    """Mistakes in [(context, question)] of one or several files."""
    wrong = []
    ids = [question["id"] for _, question in pairs]
    for context, question in pairs:
        for answer in question["answers"]:
            text, start = answer["text"], answer["answer_start"]
            if not text or context[start : start + len(text)] != text:
                wrong.append(f"{question['id']}: {text!r} is not at {start}")
        if question["is_impossible"] == bool(question["answers"]):
            wrong.append(f"{question['id']}: answers and is_impossible disagree")
        if ids.count(question["id"]) > 1:
            wrong.append(f"{question['id']}: twice")
    return wrong


def breaks(sentence):
    """The tags of a sentence, [(word, tag)], that BIO does not allow."""
    tags = ["O", *(tag for _, tag in sentence)]
    allowed = {"O", *(f"{letter}-{kind}" for letter in "BI" for kind in TYPES)}
    return [
        tag
        for before, tag in itertools.pairwise(tags)
        if tag not in allowed or (tag[0] == "I" and before[1:] != tag[1:])
    ]


def test_answers_are_at_their_places():
    pairs = [*questions("train"), *questions("dev")]
    assert faults(pairs) == []
    # The twin: a wrong place, is_impossible or id is a mistake.
    context, first = pairs[0]
    (answer,) = first["answers"]
    moved = {**answer, "answer_start": answer["answer_start"] + 1}
    assert len(faults([(context, {**first, "answers": [moved]})])) == 1
    assert len(faults([(context, {**first, "answers": []})])) == 1
    assert len(faults([pairs[0], pairs[0]])) == 2


def test_tags_are_spans_of_three_types():
    both = [*sentences("train"), *sentences("dev")]
    assert [s for s in both if breaks(s)] == []
    for split in SPLITS:
        tags = {tag for sentence in sentences(split) for _, tag in sentence}
        assert tags == {"O"} | {f"{b}-{kind}" for b in "BI" for kind in TYPES}
    assert breaks([("a", "I-place")]) == ["I-place"]
    assert breaks([("a", "B-person"), ("b", "I-place"), ("c", "I-place")]) == [
        "I-place"
    ]
    assert breaks([("a", "B-person"), ("b", "I-person"), ("c", "x")]) == ["x"]


def test_there_is_a_batch_to_train_on_and_other_rows_to_score():
    assert len(sentences("train")) >= 2 * BATCH and len(questions("train")) > BATCH
    assert not {*sentences("train")} & {*sentences("dev")}
    contexts = [{context for context, _ in questions(split)} for split in SPLITS]
    assert not contexts[0] & contexts[1]


@pytest.mark.parametrize("split", SPLITS)
def test_readme_counts_what_is_there(split):
    readme = " ".join((SAMPLES / "README.md").read_text("utf-8").split())
    pairs = questions(split)
    unanswered = sum(question["is_impossible"] for _, question in pairs)
    contexts = {context for context, _ in pairs}
    assert (
        f"`questions/{split}.json`: {len(pairs)} questions about {len(contexts)} "
        f"texts, {unanswered} of them without an answer"
    ) in readme
    with open(SAMPLES / "choices" / f"{split}.csv", encoding="utf-8") as file:
        events = list(csv.DictReader(file))
    assert {"train": "36 and", "dev": "and 12 events"}[split] in readme
    assert len(events) == {"train": 36, "dev": 12}[split]
    assert sum(row["label"] == "first" for row in events) * 2 == len(events)
    assert len({row["text"] for row in events}) == len(events)
    assert (
        f"`tags/{split}.conll`: {len(sentences(split))} sentences in "
        f"{len(documents(split))} documents"
    ) in readme


def dates(split):
    """[(words, digits)] of a file."""
    text = (SAMPLES / "dates" / f"{split}.tsv").read_text("utf-8")
    header, *rows = (tuple(line.split("\t")) for line in text.splitlines())
    assert header == ("source", "target")
    return rows


def test_dates_are_what_their_script_writes():
    there = {path.name for path in (SAMPLES / "dates").iterdir()}
    assert there == set(write_dates.files())
    for name, text in write_dates.files().items():
        assert (SAMPLES / "dates" / name).read_text("utf-8") == text


def test_dates_are_written_as_people_say_them():
    year = write_dates.year_words
    assert [year(n, 0.5) for n in (1900, 1905, 1984, 2000, 2007, 2012)] == [
        "nineteen hundred",
        "nineteen oh five",
        "nineteen eighty four",
        "two thousand",
        "two thousand and seven",
        "twenty twelve",
    ]
    assert year(2012, 0.1) == "two thousand and twelve"
    assert [write_dates.ordinal(n) for n in (1, 2, 12, 20, 23, 31)] == [
        "first",
        "second",
        "twelfth",
        "twentieth",
        "twenty third",
        "thirty first",
    ]
    # The digits are the date of the words, and the weekday is right.
    rng = random.Random(3)
    for words, digits in (write_dates.pair(rng) for _ in range(300)):
        date = datetime.datetime.strptime(digits, "%Y %m %d")
        assert write_dates.MONTHS[date.month - 1] in words
        named = [day for day in write_dates.WEEKDAYS if day in words]
        assert named in ([], [write_dates.WEEKDAYS[date.weekday()]])


def test_dates_have_a_vocabulary_and_are_not_seen_before():
    vocab = set((SAMPLES / "dates" / "vocab.txt").read_text("utf-8").split("\n"))
    rows = {split: dates(split) for split in write_dates.COUNTS}
    texts = [source for pairs in rows.values() for source, _ in pairs]
    assert len(set(texts)) == len(texts) == 2400
    assert {word for source in texts for word in source.split()} <= vocab
    readme = " ".join((SAMPLES / "README.md").read_text("utf-8").split())
    for split, pairs in rows.items():
        assert f"`dates/{split}.tsv`: {len(pairs):,} dates" in readme
