"""Tests of data_pipeline/squad/files.py."""

import json
import pathlib
import random

import pytest

from data_pipeline.squad import files

SAMPLE = pathlib.Path(__file__).resolve().parents[3] / "sample_data" / "questions"
CONTEXT = "The fair opens on 3 May (a Monday)."


def question(name, *answers, **more):
    """A record with (text, start) answers."""
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": f"{name}?", "answers": found, **more}


def write(directory, *paragraphs):
    """A file with one article of (context, questions) paragraphs."""
    found = [{"context": context, "qas": list(qas)} for context, qas in paragraphs]
    return write_json(directory, {"version": "1.1", "data": [{"paragraphs": found}]})


def write_json(directory, content):
    path = directory / "squad.json"
    path.write_text(json.dumps(content), encoding="utf-8")
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


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ("a b", ["a", "b"]),
        ("  a\t\r\nb ", ["a", "b"]),
        ("3\u202f000 m", ["3", "000", "m"]),
        ("3\u00a0000 m", ["3\u00a0000", "m"]),  # not of the original's five
        ("a\u2028b\vc\u3000d", ["a\u2028b\vc\u3000d"]),
        ("Är der, 中文!", ["Är", "der,", "中文!"]),
        (" \n", []),
    ],
)
def test_words_are_split_at_five_characters(context, words):
    assert files.split_words(context) == words


def test_prediction_reads_every_column(tmp_path):
    path = write(
        tmp_path,
        (CONTEXT, [question("a", ("3 May", 18), ("3", 18)), question("b")]),
        ("Rain fell.", [question(7, is_impossible=True)]),
        (CONTEXT, [question("d", is_impossible=False)]),
    )
    found = predict(path, version_2_with_negative=True)
    assert found.path == path
    assert found.contexts == [CONTEXT, "Rain fell."]
    assert found.ids == ["a", "b", "7", "d"]
    assert found.context_index.tolist() == [0, 0, 1, 0]
    assert found.answer_texts == [["3 May", "3"], [], [], []]
    assert found.answer_starts == [[18, 18], [], [], []]
    assert found.is_impossible == [False, False, True, False]
    assert found.answer_words is None
    assert files.split_words(found.contexts[1]) == ["Rain", "fell."]


def test_prediction_needs_no_answers(tmp_path):
    record = {"id": "a", "question": "When?"}
    found = predict(write(tmp_path, (CONTEXT, [record])))
    assert (found.ids, found.texts, found.answer_texts) == (["a"], ["When?"], [[]])
    assert not found.is_version_2


def test_training_finds_the_words_of_answers(tmp_path):
    answers = {
        "a": ("The", 0),
        "b": ("3 May", 18),
        "c": ("Monday", 27),  # of the word "Monday)."
        "d": ("3  \n May", 18),  # white space does not count, its length does
        "e": ("onda", 28),
    }
    path = write(tmp_path, (CONTEXT, [question(*item) for item in answers.items()]))
    found = train(path)
    expected = [[0, 0], [4, 5], [7, 7], [4, 6], [7, 7]]
    assert found.answer_words.tolist() == expected
    assert found.answer_texts == [[text] for text, _ in answers.values()]


def words_by_characters(context, text, start):
    """The original's rule, character by character; None where it skips the question."""
    words, word_of = [], []
    between = True
    for character in context:
        is_space = character in " \t\r\n\u202f"
        if not is_space and between:
            words.append("")
        if not is_space:
            words[-1] += character
        between = is_space
        word_of.append(len(words) - 1)
    first, last = word_of[start], word_of[start + len(text) - 1]
    if " ".join(text.split()) not in " ".join(words[first : last + 1]):
        return None
    return [first % len(words), last % len(words)]  # -1 is Python's last


def test_training_finds_the_words_that_the_original_finds(tmp_path, caplog):
    rng = random.Random(5)
    paragraphs, expected = [], []
    for number in range(150):
        length = rng.randint(1, 12)
        context = "".join(rng.choices("ab \t\u202f\u00a0", k=length)) + "a"
        records = []
        for index in range(4):
            start = rng.randrange(len(context))
            end = rng.randint(start + 1, len(context))
            text = context[start:end]
            if not text.strip():
                continue
            if rng.random() < 0.2:
                text = text[::-1]
            records.append(question(f"{number}-{index}", (text, start)))
            expected.append(words_by_characters(context, text, start))
        paragraphs.append((context, records))
    with caplog.at_level("WARNING"):
        found = train(write(tmp_path, *paragraphs))
    kept = [words for words in expected if words]
    assert found.answer_words.tolist() == kept
    assert 50 < len(kept) < len(expected) - 20  # both happen often
    message = f"{len(expected) - len(kept)} of {len(expected)} answers are left out"
    assert caplog.text.count("are left out") == 1
    assert message in caplog.text


@pytest.mark.parametrize("start", [17, 24, 34, 1000, -1])
def test_answer_that_is_elsewhere_is_left_out(tmp_path, caplog, start):
    """17: its last word is cut off; 34: it would end after the context."""
    answers = [question("a", ("3 May (a", start)), question("b", ("The", 0))]
    with caplog.at_level("WARNING"):
        found = train(write(tmp_path, (CONTEXT, answers)))
    expected = ["a", "b"] if start == 17 else ["b"]
    assert found.ids == expected
    assert ("the first is that of question 'a'" in caplog.text) == (start != 17)


def test_impossible_questions_are_trained_on_in_version_2(tmp_path, caplog):
    path = write(
        tmp_path,
        (
            CONTEXT,
            [
                question("a", ("fair", 4), is_impossible=False),
                question("b", is_impossible=True),
                question("c", ("fair", 4), is_impossible=True),
            ],
        ),
    )
    found = train(path, version_2_with_negative=True)
    assert found.is_impossible == [False, True, True]
    assert found.answer_texts == [["fair"], [], []]
    assert found.answer_words.tolist() == [[1, 1], [-1, -1], [-1, -1]]
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
def test_version_1_with_the_flag_of_version_2_warns(tmp_path, caplog, read):
    path = write(tmp_path, (CONTEXT, [question("a", ("fair", 4))]))
    with caplog.at_level("WARNING"):
        read(path, version_2_with_negative=True)
    assert "this is SQuAD 1.1" in caplog.text
    caplog.clear()
    read(path, version_2_with_negative=False)
    assert not caplog.text


@pytest.mark.parametrize("read", [train, predict])
def test_version_2_without_its_flag_warns(tmp_path, caplog, read):
    marked = question("a", ("fair", 4), is_impossible=True)
    path = write(tmp_path, (CONTEXT, [marked]))
    with caplog.at_level("WARNING"):
        found = read(path, version_2_with_negative=False)
    assert "1 of 1 questions are marked is_impossible" in caplog.text
    assert found.answer_texts == [["fair"]]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            question("a", ("The", 0), ("fair", 4)),
            "question 'a' has 2 answers, and training takes exactly 1; set "
            "--multiple_answers=first or",
        ),
        (question("a"), "question 'a' has 0 answers, .* give it one"),
        (
            question("a", is_impossible=True),
            "question 'a' has 0 answers, .* set --version_2_with_negative",
        ),
        (question("a", (" ", 3)), "question 'a' has an empty answer; write"),
        (question("a", ("fair", 0)), "none of 1 questions is left for training"),
    ],
)
def test_question_that_cannot_be_trained_on_is_refused(tmp_path, record, message):
    path = write(tmp_path, (CONTEXT, [record]))
    with pytest.raises(ValueError, match=message) as error:
        train(path)
    assert str(error.value).startswith(path)
    assert predict(path).ids == ["a"]


LAYOUT = "SQuAD's layout is data"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], f": 'data' is missing, and must be a list; {LAYOUT}"),
        ({"data": {}}, f": 'data' is {{}}, and must be a list; {LAYOUT}"),
        ({"data": [{}]}, r": data\[0\]: 'paragraphs' is missing"),
        (
            {"data": [{"paragraphs": [{"qas": []}]}]},
            r": data\[0\].paragraphs\[0\]: 'context' is missing, and must be text",
        ),
        (
            {"data": [{"paragraphs": [{"context": "a"}]}]},
            r": data\[0\].paragraphs\[0\]: 'qas' is missing",
        ),
        ({"data": []}, ": there is no question in it; give it at least one"),
    ],
)
def test_file_of_another_layout_is_refused(tmp_path, content, message):
    path = write_json(tmp_path, content)
    with pytest.raises(ValueError, match=message) as error:
        predict(path)
    assert str(error.value).startswith(path)


@pytest.mark.parametrize(
    ("context", "records", "message"),
    [
        ("a", ["what?"], r"data\[0\].paragraphs\[0\].qas\[0\]: 'id' is missing"),
        ("a", [{"question": "?"}], r"qas\[0\]: 'id' is missing"),
        ("a", [{"id": "x"}], "question 'x': 'question' is missing"),
        (
            "a",
            [question("x") | {"answers": {}}],
            "question 'x': 'answers' is {}, and must be a list",
        ),
        ("a", [question("x") | {"answers": [{}]}], "'x': 'text' is missing"),
        ("a", [question("x", ("a", "0"))], "'x': 'answer_start' is '0', and must be"),
        ("a", [question("x", is_impossible="no")], "'is_impossible' is 'no', and"),
        ("a", [question("x"), question("x")], "question 'x' stands there twice"),
        (" \n", [question("x")], "question 'x' has an empty context; give one or"),
        ("a\ud800", [question("x")], r"its text has '\\ud800', .* after .*: \"a"),
    ],
)
def test_wrong_question_is_refused(tmp_path, context, records, message):
    path = write(tmp_path, (context, records))
    with pytest.raises(ValueError, match=message) as error:
        predict(path)
    assert str(error.value).startswith(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b'{"data": [', b'{"data": "\xff"}'])
def test_file_that_is_not_json_is_refused(tmp_path, content):
    path = tmp_path / "squad.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"json: cannot be read as JSON \("):
        predict(str(path))


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file; check the path"):
        predict(str(tmp_path / "absent.json"))
    with pytest.raises(ValueError, match="cannot be read"):
        predict(str(tmp_path))


def test_byte_order_mark_is_no_part_of_the_json(tmp_path):
    path = pathlib.Path(write(tmp_path, (CONTEXT, [question("a")])))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert predict(str(path)).ids == ["a"]


def test_sample_data_is_trained_on_and_predicted(caplog):
    found = train(str(SAMPLE / "train.json"), version_2_with_negative=True)
    assert (len(found), sum(found.is_impossible), len(found.contexts)) == (48, 12, 12)
    dev = predict(str(SAMPLE / "dev.json"), version_2_with_negative=True)
    assert (len(dev), sum(dev.is_impossible), len(dev.contexts)) == (18, 5, 5)
    for row, (texts, starts) in enumerate(
        zip(dev.answer_texts, dev.answer_starts, strict=True)
    ):
        context = dev.contexts[dev.context_index[row]]
        for text, start in zip(texts, starts, strict=True):
            assert context[start:].startswith(text)
    assert not caplog.text
