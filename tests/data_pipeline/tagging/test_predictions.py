import json

import pytest

from contract import atomic_files
from data_pipeline.tagging import files, predictions

PREDICTED = [["O", "B-x"], ["I-x"]]


def read(path, *, tags_required=False):
    return files.read(str(path), files.Layout(), tags_required=tags_required)


@pytest.fixture
def rewritten(tmp_path):
    def write(text, name="a.conll", again="b.conll"):
        (tmp_path / name).write_bytes(text.encode())
        sentences = read(tmp_path / name)
        lines = predictions.tag_lines(sentences, PREDICTED)
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


def test_rows_of_conllu_that_are_no_words_keep_their_columns(tmp_path):
    rows = ["1-2\tdu\t_", "1\tde\tADP", "2\tle\tDET", "2.1\tbu\tVERB"]
    text = "".join(f"{row}{7 * chr(9)}\n" for row in ["# text = du", *rows])
    (tmp_path / "a.conllu").write_text(text)
    layout = files.Layout(word_column=1, tag_column=2)
    sentences = files.read(str(tmp_path / "a.conllu"), layout, tags_required=False)
    lines = list(predictions.tag_lines(sentences, [["X", "Y"]]))
    actual = [line.rstrip("\n").split("\t")[-1] for line in lines]
    assert actual[1:] == ["_", "X", "Y", "_"]
    (tmp_path / "b.conllu").write_text("".join(lines))
    layout = files.Layout(word_column=1, tag_column=-1)
    again = files.read(str(tmp_path / "b.conllu"), layout, tags_required=True)
    assert (again.words, again.tags) == ([["de", "le"]], [["X", "Y"]])


def test_lines_of_words_get_lines_of_tags(rewritten, tmp_path):
    assert rewritten("a b \n\nc\n", "seq.in", "seq.out") == "O B-x\n\nI-x\n"
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
    lines = predictions.span_lines(sentences, tags, probabilities, scheme)
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
