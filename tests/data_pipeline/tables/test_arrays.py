"""A JSON array where JSONL is read, and Label Studio's export, for every reader."""

import json
import os
import threading

import pytest

from contract import remote_files
from data_pipeline.classification import label_checks
from data_pipeline.embedding import corpora
from data_pipeline.generation import perplexity, prompts
from data_pipeline.seq2seq import pairs
from data_pipeline.tables import clue, labelled, text_rows
from data_pipeline.tagging import files, scores
from serving import streaming
from tasks import prediction
from tests.refusals import refused


def of_table(path):
    table = labelled.read_table(path, labelled.Layout(), labels_required=True)
    return table.lines, table.text_a, table.labels


def of_embedding(path):
    table = corpora.open_rows(
        path, labelled.Layout(usual_texts=corpora.USUAL_TEXTS)
    ).read()
    return table.lines, table.text_a, table.labels


def of_pairs(path):
    layout = pairs.Layout(source="text", target="label")
    return list(pairs.open_rows(path, layout, targets_required=True).rows)


def of_tags(path):
    read = files.read(path, files.Layout(), tags_required=True)
    again = list(scores.tag_lines(read, [["X"] * len(w) for w in read.words]))
    return read.words, read.tags, read.lines, [json.loads(line) for line in again]


def of_clue(path):
    return list(clue.rows(path, "clue"))


def of_texts(path):
    return [text for text, _ in perplexity.read(path, as_one=False)]


def of_predictor(path):
    read = prediction._reader(path, has_arrays=True)
    lines = enumerate(streaming.split(read), start=1)
    return [streaming.parse(line, n, ["text"], "jsonl") for n, line in lines]


ROWS = [
    {"text": "Ann is\nnice", "label": "pos", "tags": ["B-PER", "O", "O"]},
    {"text": "no, \u2028 Ünne", "label": "neg", "tags": ["O", "B-PER"]},
    {"text": "[ok]", "label": "pos", "tags": ["O"], "n": {"a": [1, 2]}},
]
DOORS = {
    "classification": of_table,
    "embedding": of_embedding,
    "search": lambda path: list(corpora.read_texts(path)),
    "seq2seq": of_pairs,
    "tagging": of_tags,
    "clue": of_clue,
    "perplexity": of_texts,
    "prompts": lambda path: [prompt.text for prompt in prompts.read((), path)],
    "predictor": of_predictor,
}


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("spelling", [{}, {"indent": 1}, {"ensure_ascii": False}])
def test_an_array_is_read_as_lines(tmp_path, name, spelling):
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    (tmp_path / "t.json").write_text("\ufeff " + json.dumps(ROWS, **spelling) + "\n")
    read = DOORS[name]
    expected = read(str(tmp_path / "t.jsonl"))
    assert "Ann is" in str(expected)
    assert read(str(tmp_path / "t.json")) == expected


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (
            '[{"text": "a", "label": 1}, ["b", 2]]',
            ('t.json:2: ["b", 2]', "is not a JSON object"),
        ),
        ('[{"text": "a", "label": 1},\n{"text"}\n]', ("t.json:2: is no JSON array (",)),
        ('[{"text": "a", "label": 1}', ("t.json:1: is no JSON array (", "restore")),
        (
            '["a", 1]\n["b", 0]\n',
            ("t.json:2: is no JSON array (Extra data); restore it, or write",),
        ),
        ("[]", ("t.json: is empty; give it one row per example",)),
        ("[" * 100_000, ("t.json:1: is no JSON array (its brackets are nested",)),
    ],
)
def test_other_arrays_are_refused(tmp_path, content, parts):
    (tmp_path / "t.json").write_text(content)
    with refused(*parts):
        of_table(str(tmp_path / "t.json"))


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b'{"text": "a"}\n{"text": "b"}\n', text_rows.Form(file_format="jsonl")),
        (
            b'a,x\n"b,\nc",x\n',
            text_rows.Form(file_format="csv", delimiter=",", quote='"'),
        ),
    ],
)
def test_a_pipe_is_read_once(tmp_path, monkeypatch, content, form):
    opened, open_file = [], remote_files.open_file

    def open_once(path):
        assert not opened, "a second time it waits without end"
        opened.append(path)
        return open_file(path)

    monkeypatch.setattr(remote_files, "open_file", open_once)
    os.mkfifo(tmp_path / "pipe")
    path = str(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[content])
    writer.start()
    rows = [row for _, row in text_rows.file_rows(path, form)]
    writer.join(timeout=9)
    assert rows in ([{"text": "a"}, {"text": "b"}], [["a", "x"], ["b,\nc", "x"]])


def test_wrong_lines_still_have_an_answer_of_the_predictor(tmp_path):
    (tmp_path / "t.json").write_text('["a", 1]\n{"text": "b"}\n')
    first, second = of_predictor(str(tmp_path / "t.json"))
    assert first.error and second.texts == ("b",)
    (tmp_path / "t.json").write_text('[broken\n{"text": "b"}\n')
    first, second = of_predictor(str(tmp_path / "t.json"))
    assert first.error and second.texts == ("b",)


def chosen(control, *values):
    return {"type": "choices", "from_name": control, "value": {"choices": [*values]}}


def span(start, end, text, *names):
    value = {"start": start, "end": end, "text": text, "labels": [*names]}
    return {"type": "labels", "from_name": "ner", "value": value}


def task(text, *results, **more):
    annotations = [{"result": result} for result in results]
    return {"id": 7, "data": {"text": text}, "annotations": annotations, **more}


FORMS = {
    "array": json.dumps,
    "lines": lambda tasks: "".join(json.dumps(each) + "\n" for each in tasks),
}


@pytest.fixture(params=FORMS)
def write(tmp_path, request):
    def write_tasks(*tasks):
        (tmp_path / "t.json").write_text(FORMS[request.param](tasks))
        return str(tmp_path / "t.json")

    return write_tasks


@pytest.mark.parametrize("name", ["classification", "embedding"])
def test_choices_of_label_studio_are_labels(write, name):
    cancelled = {"was_cancelled": True, "result": [chosen("mood", "neg")]}
    tasks = [
        task("good", [chosen("mood", "pos")], predictions=[]),
        task("none", [chosen("mood", "neg")], [chosen("mood", "neg")]),
        {**task("bad"), "annotations": [cancelled]},
        task("odd", []),
    ]
    lines, texts, labels = DOORS[name](write(*tasks))
    assert texts == ["good", "none", "odd"] and lines == [1, 2, 4]
    assert labels == [("pos",), ("neg",), ()]
    rows = labelled.open_memory(
        "t", tasks, labelled.Layout(), labels_required=True
    ).read()
    assert rows.labels == labels and rows.example_ids == ["7"] * 3
    each = label_checks.one_label_each(rows, "classification")
    assert each.labels == ["pos", "neg", "null"]


def test_several_choices_are_lists_and_several_controls_keep_their_names(write):
    path = write(
        task("a", [chosen("topic", "x, y", "z"), chosen("mood", "pos")]),
        task("b", [chosen("mood", "neg")]),
        task("c", [chosen("topic", "z"), {"type": "relation", "from_id": "1"}]),
        task("d"),
    )
    with refused("label's column is not given", "'mood'", "--label_column"):
        of_table(path)
    for column, wanted in (
        ("topic", [("x, y", "z"), (), ("z",), "null"]),
        ("mood", [("pos",), ("neg",), (), "null"]),
    ):
        layout = labelled.Layout(label=column)
        assert labelled.read_table(path, layout, labels_required=True).labels == wanted


def test_spans_of_label_studio_are_tags(write):
    path = write(
        task("Ann Lee ran", [span(0, 7, "Ann Lee", "PER"), chosen("mood", "x")]),
        task("nobody", []),
    )
    words, tags, lines, _ = of_tags(path)
    assert words == [["Ann", "Lee", "ran"], ["nobody"]] and lines == [[1] * 3, [2]]
    assert tags == [["B-PER", "I-PER", "O"], ["O"]]
    skipped = {**task("no one"), "annotations": [{"was_cancelled": True, "result": []}]}
    path = write(task("Ann", [span(0, 3, "Ann", "PER")]), skipped)
    assert of_tags(path)[0] == [["Ann"]]


@pytest.mark.parametrize(
    ("tasks", "parts"),
    [
        (
            [task("a", [{"type": "rectanglelabels"}])],
            ("1: 'rectanglelabels' of Label",),
        ),
        (
            [task("a", [{"type": "textarea"}])],
            ("t.json:1: 'textarea' of Label Studio",),
        ),
        (
            [task("a"), task("b", [span(0, 1, "x", "P")])],
            ("2: a span is 'x'", "'b' at"),
        ),
        ([task("a"), {"text": "b"}], ("t.json:2: is no task of Label Studio",)),
        (
            [task("a", [chosen("m", "x")], [chosen("m", "y")])],
            ("t.json:1: has 2 annotations that differ; keep one",),
        ),
        (
            [task("", [span(0, 1, "x", "P")]) | {"data": {"review": "x"}}],
            ("t.json:1: 'labels' of Label Studio is no choice and no span of a",),
        ),
    ],
)
def test_other_tasks_of_label_studio_are_refused_by_what_they_are(write, tasks, parts):
    for read in (of_table, of_tags):
        with refused(*parts):
            read(write(*tasks))
