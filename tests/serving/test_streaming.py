"""Tests of serving/streaming.py with a model of a few lines, without TensorFlow."""

import itertools
import json
import os
import time

import pytest

from serving import streaming


def upper(texts):
    return [{"upper": text.upper()} for text in texts]


def ask(lines, names=("text",), predict=upper, **options):
    return list(streaming.answers(iter(lines), names, predict, **options))


def test_answers_keep_the_order_of_lines_of_any_length():
    texts = [f"{i} " + "x" * (i * 7919 % 300) for i in range(5000)]
    calls = []

    def predict(texts):
        calls.append([len(text) for text in texts])
        return upper(texts)

    lines = [json.dumps({"text": t, "id": i}).encode() for i, t in enumerate(texts)]
    actual = ask(lines, predict=predict)
    assert [row["id"] for row in actual] == [*range(5000)]
    assert [row["upper"] for row in actual] == [text.upper() for text in texts]
    # Grouped: what is padded to the longest of a batch is little.
    padded = sum(max(lengths) * len(lengths) for lengths in calls)
    assert padded < 1.1 * sum(map(len, texts)) and max(map(len, calls)) == 32
    calls.clear()
    ask(lines, predict=predict, look_ahead_lines=32)
    padded = sum(max(lengths) * len(lengths) for lengths in calls)
    assert padded > 1.5 * sum(map(len, texts))


def test_stream_of_millions_needs_the_memory_of_a_look_ahead():
    read = [0]

    def lines():
        for i in itertools.count():
            read[0] += 1
            yield b'"%d"' % i

    actual = streaming.answers(lines(), ("text",), upper, look_ahead_lines=64)
    ahead = 0
    for done, row in enumerate(itertools.islice(actual, 20000), start=1):
        assert row["text"] == str(done - 1)
        ahead = max(ahead, read[0] - done)
    actual.close()
    # One look-ahead that is asked, one that waits, and the line in the thread's hand.
    assert 32 < ahead <= 2 * 64 + 1
    time.sleep(0.05)
    seen = read[0]
    time.sleep(0.05)
    assert read[0] == seen  # the thread has ended


def test_answer_comes_while_the_input_waits():
    reader, writer = os.pipe()
    actual = streaming.answers(
        streaming.split(lambda: os.read(reader, 2**16)), ("text",), upper
    )
    for text in ("one", "two", "three"):
        os.write(writer, json.dumps(text).encode() + b"\n")
        began = time.monotonic()
        assert next(actual)["upper"] == text.upper()
        assert time.monotonic() - began < 2
    os.write(writer, b'"no end of line"')
    os.close(writer)
    assert [row["upper"] for row in actual] == ["NO END OF LINE"]
    os.close(reader)


WRONG = [
    (b"", "not JSON"),
    (b"plain text", "--input_format=lines"),
    (b'{"text": "a"', "not JSON"),
    (b"[" * 100000, "nested too deep"),
    (b'{"text": "a", "id": NaN}', "NaN is no number of JSON"),
    (b'{"text": "a", "text": "b"}', "the key 'text' is there 2 times"),
    (b"[1]", "'[1]' is no object with text"),
    (b"{}", "text is absent; give a string"),
    (b'{"text": ["a"]}', 'text is ["a"]; give a string'),
    (b'{"text": "a\xff"}', "not UTF-8 at byte 11"),
    (b'{"text": "\\ud83d"}', "half of a surrogate pair"),
    (b'{"text": "a", "id": "\\uDE00"}', "half of a surrogate pair"),
    (b'{"text": "a", "upper": 1}', "upper is a key of the answer"),
    (b'{"text": "a", "error": "E12"}', "error is a key of the answer"),
    (b'{"text": "a", "error": "E12", "line": 9}', "error is a key of the answer"),
    (b'"' + b"x" * streaming.MAX_LINE_BYTES + b'"', "longer than 16777216 bytes"),
]


def test_broken_line_is_an_error_in_its_place():
    lines = [line for wrong, _ in WRONG for line in (wrong, b'"good"')]
    actual = ask(lines)
    for i, (_, text) in enumerate(WRONG):
        row = actual[2 * i]
        assert [*row] == ["error", "line"] and row["line"] == 2 * i + 1
        assert text in row["error"] and len(row["error"]) < 200
        assert actual[2 * i + 1] == {"text": "good", "upper": "GOOD"}


def test_row_that_fails_alone_fails_alone():
    def predict(texts):
        if "bad" in texts:
            raise ValueError("no room")
        return upper(texts)

    actual = ask([b'"a"', b'"bad"', b'"c"'], predict=predict)
    assert actual == [
        {"text": "a", "upper": "A"},
        {"error": "no room", "line": 2},
        {"text": "c", "upper": "C"},
    ]


def test_pairs_have_both_texts_and_no_context_is_repeated():
    def join(firsts, seconds):
        return [{"upper": a + b} for a, b in zip(firsts, seconds, strict=True)]

    row = b'{"id": 3, "text_b": "d", "text_a": "c"}'
    assert ask([row], ("text_a", "text_b"), join) == [
        {"id": 3, "text_a": "c", "text_b": "d", "upper": "cd"}
    ]
    row = b'{"question": "q", "context": "c"}'
    names = ("question", "context")
    assert ask([row], names, join) == [{"question": "q", "upper": "qc"}]
    assert "question is absent" in ask([b'{"context": "c"}'], names, join)[0]["error"]
    assert "no object with question" in ask([b'"q"'], names, join)[0]["error"]


def test_plain_lines_are_texts_and_tabs_part_them():
    lines = [b"\xef\xbb\xbf{\r", b"", b'"quoted"', b"a\tb", b"\xff"]
    actual = ask(lines, input_format="lines")
    assert [row.get("upper") for row in actual] == ["{", "", '"QUOTED"', None, None]
    assert actual[3]["error"].startswith("2 texts; give text, with a tab")
    pairs = ask([b"a\tb", b"c"], ("x", "y"), lambda *c: [{}], input_format="lines")
    assert pairs[0] == {"x": "a", "y": "b"} and pairs[1]["line"] == 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_split_wherever_blocks_end(size):
    text = b'"a"\n\n"\xc3\xa9"\r\nlast'
    blocks = [text[i : i + size] for i in range(0, len(text), size)] + [b""]
    actual = list(streaming.split(iter(blocks).__next__))
    assert actual == [b'"a"', b"", b'"\xc3\xa9"\r', b"last"]


def test_line_without_end_is_not_kept_whole(monkeypatch):
    monkeypatch.setattr(streaming, "MAX_LINE_BYTES", 100)
    blocks = iter([b"x" * 60] * 50 + [b"\nnext\n", b""])
    first, second = streaming.split(blocks.__next__)
    assert 100 < len(first) <= 160 and second == b"next"


def test_failure_to_read_comes_after_the_answers_before_it():
    def lines():
        yield b'"a"'
        raise OSError("the disk is gone")

    actual = streaming.answers(lines(), ("text",), upper)
    assert next(actual)["upper"] == "A"
    with pytest.raises(OSError, match="the disk is gone"):
        next(actual)
