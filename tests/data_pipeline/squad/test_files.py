import dataclasses
import json
import pathlib

import numpy as np
import pytest

from data_pipeline import findings
from data_pipeline.squad import files

CONTEXT = "The fair opens on 3 May (a Monday)."


def question(name, *answers, **more):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": f"{name}?", "answers": answers, **more}


def write(directory, *paragraphs):
    rows = [{"context": context, "qas": list(qas)} for context, qas in paragraphs]
    path = directory / "squad.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": rows}]}))
    return str(path)


def train(path, version_2_with_negative=False, multiple_answers=""):
    return files.read_for_training(
        path,
        version_2_with_negative=version_2_with_negative,
        multiple_answers=multiple_answers,
    )


def predict(path, version_2_with_negative=False):
    return files.read_for_prediction(
        path, version_2_with_negative=version_2_with_negative
    )


def test_words_are_split_at_the_five_characters_of_the_original():
    assert files.split_words("  Är\t\r\nder, 3\u202f000 ") == ["Är", "der,", "3", "000"]
    words = ["3\u00a0000", "a\u2028b\vc\u3000d"]
    assert files.split_words(" ".join(words)) == words
    assert files.split_words(" \n") == []


def test_prediction_reads_every_column(tmp_path):
    path = write(
        tmp_path,
        (CONTEXT, [question("a", ("3 May", 18), ("3", 18)), question("b")]),
        ("Rain fell.", [question(7, is_impossible=True)]),
        (CONTEXT, [question("d", is_impossible=False)]),
    )
    actual = predict(path, version_2_with_negative=True)
    assert actual.path == path
    assert actual.contexts == [CONTEXT, "Rain fell."]
    assert actual.ids == ["a", "b", "7", "d"]
    assert actual.context_index.tolist() == [0, 0, 1, 0]
    assert actual.answer_texts == [["3 May", "3"], [], [], []]
    assert actual.answer_starts == [[18, 18], [], [], []]
    assert actual.is_impossible == [False, False, True, False]
    assert actual.answer_words is None
    # Answers may be missing, and a byte-order mark is no part of the JSON.
    path = write(tmp_path, (CONTEXT, [{"id": "a", "question": "When?"}]))
    pathlib.Path(path).write_bytes(b"\xef\xbb\xbf" + pathlib.Path(path).read_bytes())
    actual = predict(path)
    assert (actual.ids, actual.texts, actual.answer_texts) == (["a"], ["When?"], [[]])
    assert not actual.is_version_2


def test_training_finds_the_words_of_answers(tmp_path):
    answers = {
        "a": ("The", 0),
        "b": ("3 May", 18),
        "c": ("Monday", 27),  # of the word "Monday)."
        "d": ("3  \n May", 18),  # white space does not count, its length does
        "e": ("onda", 28),
    }
    records = [question(*item) for item in answers.items()]
    blank = (" a", [question("f", (" a", 0))])  # begins before the first word
    questions = train(write(tmp_path, (CONTEXT, records), blank))
    expected = [[0, 0], [4, 5], [7, 7], [4, 6], [7, 7], [0, 0]]
    assert questions.answer_words.tolist() == expected
    assert questions.answer_texts[:5] == [[text] for text, _ in answers.values()]


@pytest.mark.parametrize("start", [17, 24, 34, -1])
def test_answer_that_is_elsewhere_is_left_out(tmp_path, caplog, start):
    answers = [question("a", ("3 May (a", start)), question("b", ("The", 0))]
    with caplog.at_level("WARNING"):
        actual = train(write(tmp_path, (CONTEXT, answers)))
    expected = ["a", "b"] if start == 17 else ["b"]
    assert actual.ids == expected
    assert ("the first is of 'a'" in caplog.text) == (start != 17)


def test_impossible_questions_are_trained_on_in_version_2(tmp_path, caplog):
    records = [
        question("a", ("fair", 4), is_impossible=False),
        question("b", is_impossible=True),
        question("c", ("fair", 4), is_impossible=True),
    ]
    questions = train(write(tmp_path, (CONTEXT, records)), version_2_with_negative=True)
    assert questions.is_impossible == [False, True, True]
    assert questions.answer_texts == [["fair"], [], []]
    assert questions.answer_words.tolist() == [[1, 1], [-1, -1], [-1, -1]]
    assert not caplog.text


def test_first_or_all_of_several_answers(tmp_path):
    several = question("a", ("3 May", 18), ("3", 18), ("3 May", 18))
    path = write(tmp_path, (CONTEXT, [several, question("b", ("fair", 4))]))
    first = train(path, multiple_answers="first")
    assert first.ids == ["a", "b"]
    assert first.answer_texts == [["3 May"], ["fair"]]
    every = train(path, multiple_answers="all")
    assert every.ids == ["a", "a", "b"]
    assert every.texts == ["a?", "a?", "b?"]
    assert every.context_index.tolist() == [0, 0, 0]
    assert every.answer_texts == [["3 May"], ["3"], ["fair"]]
    assert every.answer_words.tolist() == [[4, 5], [4, 4], [1, 1]]


@pytest.mark.parametrize("read", [train, predict])
def test_flag_of_the_other_version_warns(tmp_path, caplog, read):
    path = write(tmp_path, (CONTEXT, [question("a", ("fair", 4))]))
    with caplog.at_level("WARNING"):
        read(path, version_2_with_negative=True)
    assert "this is SQuAD 1.1" in caplog.text
    caplog.clear()
    read(path, version_2_with_negative=False)
    assert not caplog.text
    marked = question("a", ("fair", 4), is_impossible=True)
    path = write(tmp_path, (CONTEXT, [marked]))
    with caplog.at_level("WARNING"):
        questions = read(path, version_2_with_negative=False)
    assert "1 of 1 is_impossible" in caplog.text
    assert questions.answer_texts == [["fair"]]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            question("a", ("The", 0), ("fair", 4)),
            "question 'a' has 2 answers, not 1; set --multiple_answers=first or",
        ),
        (question("a"), "question 'a' has 0 answers, .* --version_2_with_negative"),
        (
            question("a", is_impossible=True),
            "question 'a' has 0 answers, .* set --version_2_with_negative",
        ),
        (question("a", (" ", 3)), "question 'a' has an empty answer; write"),
        (question("a", ("fair", 0)), "none of 1 questions is left"),
    ],
)
def test_question_that_cannot_be_trained_on_is_refused(tmp_path, record, message):
    path = write(tmp_path, (CONTEXT, [record]))
    with pytest.raises(ValueError, match=message) as error:
        train(path)
    assert str(error.value).startswith(path)
    assert predict(path).ids == ["a"]


LAYOUT = "give paragraphs"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("7", f": 'data' is missing, and must be a list; {LAYOUT}"),
        ("[]", ": there is no question in it; give it one"),
        (
            '[{"context_text": "a", "qas": []}]',
            r": \[0\]: 'paragraphs' is missing among \['context_text', 'qas'\], and",
        ),
        ('{"story": "a"}', r"'data' is missing among \['story'\].* or rows {id, con"),
        ('{"data": {}}', f": 'data' is {{}}, and must be a list; {LAYOUT}"),
        (
            '{"data": [{"paragraphs": [{"qas": []}]}]}',
            r": data\[0\].paragraphs\[0\]: 'context' is missing among \['qas'\], and",
        ),
        ('{"data": []}', ": there is no question in it; give it one"),
        ('{"data": [', r": cannot be read \("),
    ],
)
def test_file_of_another_layout_is_refused(tmp_path, content, message):
    path = tmp_path / "squad.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        predict(str(path))
    assert str(error.value).startswith(str(path))
    for absent in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(ValueError, match=f"{absent}: cannot be read"):
            predict(str(absent))


def row(name, *answers, context=CONTEXT):
    texts, starts = map(list, zip(*answers, strict=True)) if answers else ([], [])
    columns = {"text": texts, "answer_start": starts}
    return {
        "id": name,
        "title": "Fairs",
        "context": context,
        "question": f"{name}?",
        "answers": columns,
    }


ROWS = [
    row("a", ("3 May", 18), ("3", 18)),
    row("b", context="Rain fell."),
    row("c", ("opens", 9)),
]


def write_rows(directory, rows, form):
    lines = "\n".join(json.dumps(each) for each in rows)
    whole = {"lines": lines, "list": json.dumps(rows)}
    whole["data"] = json.dumps({"version": "1", "data": rows})
    path = directory / f"{form}.json"
    path.write_text(whole[form])
    return str(path)


@pytest.mark.parametrize("form", ["lines", "list", "data"])
def test_rows_are_read_as_paragraphs_are(tmp_path, form):
    path = write_rows(tmp_path, ROWS, form)
    paragraphs = write(
        tmp_path,
        (CONTEXT, [question("a", ("3 May", 18), ("3", 18), is_impossible=False)]),
        ("Rain fell.", [question("b", is_impossible=True)]),
        (CONTEXT, [question("c", ("opens", 9), is_impossible=False)]),
    )
    for read in (
        lambda path: predict(path, version_2_with_negative=True),
        lambda path: train(path, True, "first"),
    ):
        actual, expected = read(path), read(paragraphs)
        assert actual.noticed == (findings.Finding(path, "3 rows, 1 have no answer"),)
        for field in dataclasses.fields(files.Questions):
            values = [getattr(each, field.name) for each in (actual, expected)]
            if field.name not in ("path", "noticed"):
                np.testing.assert_array_equal(*map(str, values))
    with pytest.raises(ValueError, match=r"'b' has 0 answers.*--version_2_with_neg"):
        train(path, False, "first")


def test_rows_without_any_answer_are_to_be_answered(tmp_path):
    path = write_rows(tmp_path, [row("a"), row("b")], "lines")
    actual = predict(path)
    assert actual.is_impossible == [False, False] and not actual.is_version_2
    one_line = write_rows(tmp_path, [row("a", ("3", 18))], "lines")
    assert predict(one_line).answer_texts == [["3"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": {"text": ["3"]}}, ":3: 'answer_start' is missing among"),
        ({"answers": {"text": ["3"], "answer_start": [18, 18]}}, ":3: 1 texts and 2"),
        ({"answers": {"text": "3", "answer_start": 18}}, ":3: 'text' is '3', and must"),
        ({"id": None}, ":3: 'id' is missing among"),
        ({"id": "a"}, "'a' stands there twice"),
    ],
)
def test_wrong_row_is_refused_by_line(tmp_path, changes, message):
    path = write_rows(tmp_path, [*ROWS[:2], ROWS[2] | changes], "lines")
    with pytest.raises(ValueError, match=message):
        predict(path)


@pytest.mark.parametrize(
    ("context", "records", "message"),
    [
        ("a", ["what?"], r"data\[0\].paragraphs\[0\].qas\[0\]: 'id' is missing"),
        ("a", [{"id": "x"}], "question 'x': 'question' is missing"),
        ("a", [question("x") | {"answers": {}}], "question 'x': 'answers' is {}, and"),
        ("a", [question("x") | {"answers": [{}]}], "'x': 'text' is missing"),
        ("a", [question("x", ("a", "0"))], "'x': 'answer_start' is '0', and must be"),
        ("a", [question("x", is_impossible="no")], "'is_impossible' is 'no', and"),
        ("a", [question("x"), question("x")], "question 'x' stands there twice"),
        (" \n", [question("x")], "question 'x' has an empty context; remove"),
        ("a\ud800", [question("x")], r"its text has '\\ud800', .* after .*: \"a"),
    ],
)
def test_wrong_question_is_refused(tmp_path, context, records, message):
    path = write(tmp_path, (context, records))
    with pytest.raises(ValueError, match=message) as error:
        predict(path)
    assert str(error.value).startswith(path)
    assert "\n" not in str(error.value)
