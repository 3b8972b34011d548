"""sample_data/: the counts of its README.md, places of answers and tags, and what is
learned from the Chinese messages."""

import csv
import itertools
import json
import pathlib
import re

import pytest

import bert_reborn as bert
from sample_data import write_dates
from tests import test_documentation, tiny

SAMPLES = pathlib.Path(__file__).resolve().parents[1] / "sample_data"
TYPES = {"person", "place", "date"}
SERVICES = (
    *("Sparrow", "Heron", "Pebble", "Larder", "Otter"),
    *("Moss", "Kestrel", "Bramble", "Thistle", "Wren"),
)
README = " ".join((SAMPLES / "README.md").read_text("utf-8").split())


def questions(split):
    """[(context, question)] of a file."""
    data = json.loads((SAMPLES / "questions" / f"{split}.json").read_text("utf-8"))
    return [
        (paragraph["context"], question)
        for article in data["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


@pytest.mark.parametrize("split", ["train", "dev"])
def test_answers_are_at_their_places(split):
    pairs = questions(split)
    for context, question in pairs:
        assert question["is_impossible"] != bool(question["answers"])
        for answer in question["answers"]:
            start, text = answer["answer_start"], answer["text"]
            assert text and context[start : start + len(text)] == text
    assert len({question["id"] for _, question in pairs}) == len(pairs)
    unanswered = sum(question["is_impossible"] for _, question in pairs)
    assert (
        f"`questions/{split}.json`: {len(pairs)} questions about "
        f"{len({context for context, _ in pairs})} texts, {unanswered} of them without "
        "an answer"
    ) in README


def test_passages_have_names_that_questions_lack():
    texts = []
    for split, count in (("train", 6), ("dev", 2)):
        text = (SAMPLES / "questions" / f"{split}.tsv").read_text("utf-8")
        header, *rows = (line.split("\t") for line in text.splitlines())
        assert header == ["question", "passage"]
        assert f"`questions/{split}.tsv`: {len(rows)} questions" in README
        texts += [text for row in rows for text in row]
        questions, passages = zip(*rows, strict=True)
        for name in SERVICES:
            assert sum(name in passage for passage in passages) >= count
            assert not any(name in question for question in questions)
        assert len(rows) == count * len(SERVICES)
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_tags_are_spans_of_three_types(split):
    text = (SAMPLES / "tags" / f"{split}.conll").read_text("utf-8")
    begin, *documents = text.split("-DOCSTART-\tO\n")
    assert begin == ""
    sentences = [s for d in documents for s in d.strip("\n").split("\n\n")]
    every = set()
    for sentence in sentences:
        tags = [line.split("\t")[1] for line in sentence.splitlines()]
        every.update(tags)
        for before, tag in itertools.pairwise(["O", *tags]):
            assert tag[0] != "I" or before[1:] == tag[1:], sentence
    assert every == {"O"} | {f"{letter}-{kind}" for letter in "BI" for kind in TYPES}
    counts = f"{len(sentences)} sentences in {len(documents)} documents"
    assert f"`tags/{split}.conll`: {counts}" in README


@pytest.mark.parametrize(
    ("split", "count", "text"), [("train", 36, "36 and"), ("dev", 12, "and 12 events")]
)
def test_half_of_the_events_have_their_cause_first(split, count, text):
    with open(SAMPLES / "choices" / f"{split}.csv", encoding="utf-8") as file:
        events = list(csv.DictReader(file))
    assert text in README
    assert len({row["text"] for row in events}) == len(events) == count
    assert sum(row["label"] == "first" for row in events) * 2 == count


def test_chinese_messages_are_distinct_and_evenly_labelled():
    texts = []
    for split, count in (("train", 40), ("dev", 15), ("test", 10)):
        text = (SAMPLES / "zh" / f"{split}.tsv").read_text("utf-8")
        header, *rows = (line.split("\t") for line in text.splitlines())
        labels = [label for _, label in rows]
        assert header == ["text", "label"]
        assert {label: labels.count(label) for label in labels} == dict.fromkeys(
            ("物流", "退款", "账号", "好评"), count
        )
        assert f"`zh/{split}.tsv`: {len(rows)} rows, {count} per label" in README
        texts += [text for text, _ in rows]
    assert len({re.sub(r"\W", "", text) for text in texts}) == len(texts) == 260


@pytest.mark.slow
def test_chinese_tutorial_trains_what_it_shows(tmp_path, monkeypatch):
    """Its commands as they are, and the answers of its predictor and its server."""
    monkeypatch.chdir(SAMPLES.parent)
    page = (SAMPLES.parent / "docs" / "zh" / "tutorial.md").read_text("utf-8")
    for script, words in test_documentation.programs(page):
        is_of_zh = "--output_dir=output/zh" in words and "--do_train" in words
        if script == "build_vocab.py" or is_of_zh:
            moved = [
                test_documentation.relocated(word, {}, "", tmp_path) for word in words
            ]
            moved += ["--num_workers=1"] if script == "build_vocab.py" else []
            tiny.succeed(script.removesuffix(".py"), *moved)
    run = tmp_path / "output" / "zh"
    assert tiny.eval_results(run)["eval_accuracy"] > 0.55  # a quarter by chance
    loaded = bert.load(run)
    printed = re.findall(r"^(\S+)\n    (\S+) 0\.\d{3}, ", page, re.M)
    body = json.loads(re.search(r"curl -d '(.*?)'", page)[1])
    rows = json.loads(re.search(r'^\{"predictions":.*', page, re.M)[0])["predictions"]
    printed += zip(body["instances"], [row["label"] for row in rows], strict=True)
    assert len(printed) == 5
    for text, label in printed:
        assert loaded.predict([text])[0]["label"] == label
    labels = json.loads((run / "label_map.json").read_text("utf-8"))
    for row in rows:  # in the order of the file
        place = row["probabilities"].index(max(row["probabilities"]))
        assert labels[str(place)] == row["label"]


def test_dates_are_what_their_script_writes():
    paths = (SAMPLES / "dates").iterdir()
    assert {path.name: path.read_text("utf-8") for path in paths} == write_dates.files()
    year = write_dates.year_words
    assert [year(n, 0.5) for n in (1900, 1905, 1984, 2000, 2007, 2012)] == [
        "nineteen hundred",
        "nineteen oh five",
        "nineteen eighty four",
        "two thousand",
        "two thousand and seven",
        "twenty twelve",
    ]
    ordinals = [write_dates.ordinal(n) for n in (1, 12, 20, 23)]
    assert ordinals == ["first", "twelfth", "twentieth", "twenty third"]
    vocab = set((SAMPLES / "dates" / "vocab.txt").read_text("utf-8").split("\n"))
    texts = []
    for split in write_dates.COUNTS:
        text = (SAMPLES / "dates" / f"{split}.tsv").read_text("utf-8")
        header, *rows = (line.split("\t") for line in text.splitlines())
        assert header == ["source", "target"]
        assert f"`dates/{split}.tsv`: {len(rows):,} dates" in README
        texts += [source for source, _ in rows]
    assert len(set(texts)) == len(texts) == 2400  # none is seen before
    assert {word for source in texts for word in source.split()} <= vocab
