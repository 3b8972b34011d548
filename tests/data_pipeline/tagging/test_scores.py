import json
import random
import types

import numpy as np
import pytest

from contract import atomic_files, outcomes
from data_pipeline.tagging import files, schemes
from data_pipeline.tagging import scores as tag_scores


def split(text):
    return [row.split() for row in text.split("|")]


def score(given, predicted, scheme="BIO"):
    return tag_scores.score(split(given), split(predicted), scheme)


def test_scores_by_hand():
    given = "B-per I-per O B-loc | O B-loc I-loc | O O"
    predicted = "B-per I-per O B-per | O B-loc O | O B-loc"
    # 3 spans, of 4 predicted ones the first is right; 6 of 9 tags are.
    assert score(given, predicted) == {
        "precision": 1 / 4,
        "recall": 1 / 3,
        "f1": pytest.approx(2 / 7),
        "accuracy": pytest.approx(6 / 9),
    }
    assert tag_scores.score_types(split(given), split(predicted), "BIO") == {
        "loc": {"f1": 0.0, "precision": 0.0, "recall": 0.0, "support": 2},
        "per": {
            "f1": pytest.approx(2 / 3),
            "precision": 0.5,
            "recall": 1.0,
            "support": 1,
        },
    }


def test_nothing_to_find_is_zero_without_a_warning():
    nothing = dict.fromkeys(("f1", "precision", "recall"), 0.0)
    assert score("O O", "O O") == {**nothing, "accuracy": 1.0}
    assert score("O O", "O B-x")["precision"] == 0.0
    assert score("B-x O", "O O")["recall"] == 0.0
    assert tag_scores.score_types(split("O"), split("O"), "BIO") == {}
    nameless = tag_scores.score_types(split("B I B-x"), split("B I O"), "BIO")
    assert {name: row["recall"] for name, row in nameless.items()} == {"_": 1, "x": 0}


# The results of seqeval 1.2.2: micro averages, then each type.
RECORDED = {
    "BIO": (
        (0.8299319727891157, 0.820627802690583, 0.8394495412844036, 0.8495297805642633),
        (0.8508771929824562, 0.8362068965517241, 0.8660714285714286, 112),
        (0.807511737089202, 0.8037383177570093, 0.8113207547169812, 106),
    ),
    "BIOES": (
        (0.8355387523629489, 0.8215613382899628, 0.85, 0.8307210031347962),
        (0.862453531598513, 0.8787878787878788, 0.8467153284671532, 137),
        (0.8076923076923077, 0.7664233576642335, 0.8536585365853658, 123),
    ),
}


@pytest.mark.parametrize("scheme", RECORDED)
def test_scores_are_those_of_seqeval(scheme):
    rng = random.Random(7)
    names = schemes.all_tags(["loc", "per"], scheme)
    given = [rng.choices(names, k=rng.randrange(1, 12)) for _ in range(50)]
    predicted = [
        [tag if rng.random() < 0.8 else rng.choice(names) for tag in row]
        for row in given
    ]
    micro, *types = RECORDED[scheme]
    measures = "f1", "precision", "recall", "accuracy"
    scores = tag_scores.score(given, predicted, scheme)
    assert scores == dict(zip(measures, micro, strict=True))
    assert tag_scores.score_types(given, predicted, scheme) == {
        name: dict(zip(("f1", "precision", "recall", "support"), row, strict=True))
        for name, row in zip(("loc", "per"), types, strict=True)
    }


def test_other_tags_are_refused():
    with pytest.raises(ValueError, match="'E-x' is not of the scheme BIO"):
        score("B-x E-x", "O O")
    with pytest.raises(ValueError, match="differ in number of words"):
        score("O O", "O")


WORDS = [["Ada", "Byron", "wrote"], ["in", "London"], ["hello"]]
GIVEN = [["B-x", "I-x", "O"], ["O", "B-y"], ["O"]]
TAGS = [["B-x", "O", "O"], ["O", "B-y"], ["B-x"]]


def collect(given=GIVEN, tags=TAGS, scheme="BIO"):
    counts = [len(words) for words in WORDS]
    data = types.SimpleNamespace(
        sentences=types.SimpleNamespace(words=WORDS, tags=given),
        word_splits=np.cumsum([0, *counts]),
    )
    losses = np.array([0.3, 3.0, 0.0, 0.1, 0.5, 2.0])
    probabilities = [[0.9] * count for count in counts]
    tagged = outcomes.Scored(
        predictions=tags,
        probabilities=probabilities,
        scores={"f1": 0.5},
        losses=losses,
    )
    return tag_scores.outcomes("dev", data, tagged, scheme)


def test_rows_are_sentences_and_decisions_words():
    seen = collect()
    assert seen.texts == [("Ada Byron wrote",), ("in London",), ("hello",)]
    assert seen.expected == ["Byron/I-x", "London/B-y", "hello/O"]
    assert seen.predicted == ["Byron/O", "London/B-y", "hello/B-x"]
    assert seen.is_correct.tolist() == [False, True, False]
    assert seen.losses.tolist() == pytest.approx([1.1, 0.3, 2.0])
    decisions = seen.decisions
    assert decisions.class_names == ["O", "B-x", "B-y", "I-x"]
    assert decisions.labels.tolist() == [1, 3, 0, 0, 2, 0]
    assert decisions.predictions.tolist() == [1, 0, 0, 0, 2, 1]
    assert decisions.confidences.tolist() == [0.9] * 6
    for scheme in ("BIO", "plain"):
        seen = collect(scheme=scheme)
        for rows in ([0, 1, 2], [1, 1, 2], [0, 0]):
            chosen = [GIVEN[i] for i in rows], [TAGS[i] for i in rows]
            expected = tag_scores.score(*chosen, scheme)
            assert seen.rescore(np.array(rows)) == pytest.approx(expected), rows
        assert seen.rescore(np.array([0]))["accuracy"] == 2 / 3
    assert collect(given=None) is None


def test_lone_tag_is_warned_of():
    nothing = [["O"] * len(words) for words in WORDS]
    warning = "every word is predicted as 'O'; train longer"
    assert collect(tags=nothing).warning.startswith(warning)
    # twins: another tag, and words that have none
    assert collect().warning is None
    assert collect(given=nothing, tags=nothing).warning is None


PREDICTED = [["O", "B-x"], ["I-x"]]


def read(path, *, tags_required=False):
    return files.read(str(path), files.Layout(), tags_required=tags_required)


@pytest.fixture
def rewritten(tmp_path):
    def write(text, name="a.conll", again="b.conll"):
        (tmp_path / name).write_bytes(text.encode())
        sentences = read(tmp_path / name)
        lines = tag_scores.tag_lines(sentences, PREDICTED)
        atomic_files.write({str(tmp_path / again): lines})
        if again != "seq.out":
            actual = read(tmp_path / again, tags_required=True)
            assert (actual.words, actual.tags) == (sentences.words, PREDICTED)
        return (tmp_path / again).read_bytes().decode()

    return write


def test_columns_get_one_more(rewritten):
    text = "# id 1\n-DOCSTART- O\n\na O\r\n# B-x\n\n\nb\u3000 O\n"
    assert rewritten(text) == (
        "# id 1\n-DOCSTART- O\n\na O O\n# B-x B-x\n\n\nb\u3000 O I-x\n"
    )
    assert rewritten("a b\tO\n#\tO\n \nc\tO") == "a b\tO\tO\n#\tO\tB-x\n \nc\tO\tI-x\n"
    assert rewritten("a\nb\n\nc\n") == "a O\nb B-x\n\nc I-x\n"


@pytest.mark.parametrize(
    ("name", "text", "changed", "line"),
    [
        ("a.conll", "a O\nb O\n\nc O\n", "x O\na O\nb O\n\nc O\n", 1),
        ("a.conll", "a O\nb O\n\nc O\n", "a O\nb O\n", 4),
        ("seq.in", "a b\n\nc\n", "a b\nc\n", 2),
        ("seq.in", "a b\n\nc\n", "a b\n\n", 3),
        (
            "a.jsonl",
            '{"words": ["a", "b"]}\n{"words": ["c"]}\n',
            '{"words": ["c"]}\n',
            1,
        ),
        ("a.jsonl", '{"text": "a b"}\n{"text": "c"}\n', '{"text": "a b"}\n', 2),
    ],
)
def test_file_that_has_changed_gets_no_tags(tmp_path, name, text, changed, line):
    (tmp_path / name).write_text(text)
    sentences = read(tmp_path / name)
    assert [*tag_scores.tag_lines(sentences, PREDICTED)]
    (tmp_path / name).write_text(changed)
    with pytest.raises(ValueError, match=f"{name}:{line}: has changed since it was re"):
        [*tag_scores.tag_lines(sentences, PREDICTED)]


def test_rows_of_conllu_that_are_no_words_keep_their_columns(tmp_path):
    rows = ["1-2\tdu\t_", "1\tde\tADP", "2\tle\tDET", "2.1\tbu\tVERB"]
    text = "".join(f"{row}{7 * chr(9)}\n" for row in ["# text = du", *rows])
    (tmp_path / "a.conllu").write_text(text)
    layout = files.Layout(word_column=1, tag_column=2)
    sentences = files.read(str(tmp_path / "a.conllu"), layout, tags_required=False)
    lines = list(tag_scores.tag_lines(sentences, [["X", "Y"]]))
    actual = [line.rstrip("\n").split("\t")[-1] for line in lines]
    assert actual[1:] == ["_", "X", "Y", "_"]
    (tmp_path / "b.conllu").write_text("".join(lines))
    layout = files.Layout(word_column=1, tag_column=-1)
    again = files.read(str(tmp_path / "b.conllu"), layout, tags_required=True)
    assert (again.words, again.tags) == ([["de", "le"]], [["X", "Y"]])


def test_lines_of_words_get_lines_of_tags(rewritten, tmp_path):
    assert rewritten("a b \n\nc\n", "seq.in", "seq.out") == "O B-x\n\nI-x\n"
    spaces = "a \u3000\n\nb\xa0c\u2028d\n"  # of which none parts words
    assert rewritten(spaces, "seq.in", "seq.out") == "O B-x\n\nI-x\n"
    assert read(tmp_path, tags_required=True).tags == PREDICTED


def test_objects_keep_what_was_given(rewritten):
    rows = [
        {"id": "é", "words": ["a", "b"], "tags": ["O", "O"]},
        {"words": [], "tags": []},
        {"tokens": ["c"], "tags": ["O"]},
    ]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    actual = rewritten(text, "a.jsonl", "b.jsonl")
    assert [json.loads(line) for line in actual.splitlines()] == [
        {**rows[0], "tags": ["O", "B-x"], "given": ["O", "O"]},
        {**rows[1], "given": []},
        {**rows[2], "tags": ["I-x"], "given": ["O"]},
    ]
    assert "é" in actual
    actual = rewritten('{"text": "a b"}\n{"text": "c"}\n', "a.jsonl", "b.jsonl")
    assert actual.splitlines()[1] == '{"text": "c", "tags": ["I-x"]}'


def test_header_gets_a_column_and_texts_with_spans_their_words(rewritten):
    actual = rewritten("word tag\na O\nb O\n\nc O\n")
    assert actual == "word tag tag\na O O\nb O B-x\n\nc O I-x\n"
    rows = '{"text": "a,", "label": [[0, 1, "y"]]}\n{"text": "c", "label": []}\n'
    actual = rewritten(rows, "a.jsonl", "b.jsonl").splitlines()
    assert json.loads(actual[0]) == {
        "text": "a,",
        "label": [[0, 1, "y"]],
        "words": ["a", ","],
        "tags": ["O", "B-x"],
    }


def spans(tmp_path, text, tags, probabilities, scheme):
    (tmp_path / "a.conll").write_text(text)
    sentences = read(tmp_path / "a.conll")
    lines = tag_scores.span_lines(sentences, tags, probabilities, scheme)
    return list(map(json.loads, lines))


def test_spans_are_written_with_their_words(tmp_path):
    text = "Ada B-per\nByron I-per\nsleeps O\n\nRome O\n"
    tags = [["B-per", "I-per", "O"], ["B-loc"]]
    probabilities = [[0.5, 0.25, 1.0], [0.1234567]]
    first, second = spans(tmp_path, text, tags, probabilities, "BIO")
    assert first == {
        "words": ["Ada", "Byron", "sleeps"],
        "tags": tags[0],
        "probabilities": [0.5, 0.25, 1.0],
        "spans": [
            {
                "start": 0,
                "end": 2,
                "type": "per",
                "text": "Ada Byron",
                "probability": 0.125,
            }
        ],
        "given": ["B-per", "I-per", "O"],
        "correct": True,
    }
    assert second["spans"][0]["probability"] == 0.123457
    assert second["given"] == ["O"] and second["correct"] is False
    rows = spans(tmp_path, "a\nb\n", [["NN", "VB"]], [[0.5, 0.75]], "plain")
    assert rows == [
        {"words": ["a", "b"], "tags": ["NN", "VB"], "probabilities": [0.5, 0.75]}
    ]
