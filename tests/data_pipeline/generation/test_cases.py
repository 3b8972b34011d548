import json

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.generation import cases, windows
from tests import byte_tokenizer

TOKENIZER = byte_tokenizer.ByteTokenizer()


def case(*alternatives, label=None):
    return cases.Case("a:1", [cases.Alternative(*each) for each in alternatives], label)


def encode(*rows, tokenizer=TOKENIZER, context=20, truncate_left=False):
    return cases.encode(rows, tokenizer, context, truncate_left=truncate_left)


def test_the_scored_end_begins_where_the_text_before_ends():
    ((first, second),) = encode(case(("ab", " c"), ("a", "bcd")))
    assert first == ([256, *b"ab c"], 3)
    assert second == ([256, *b"abcd"], 2)
    without = byte_tokenizer.ByteTokenizer(has_end=False)
    (((ids, start),),) = encode(case(("", "ab")), tokenizer=without)
    assert (ids, start) == (list(b"ab"), 1)


def test_a_token_that_holds_some_of_both_is_scored():
    class Pairs(byte_tokenizer.ByteTokenizer):
        def tokenize(self, texts):
            pairs = [
                [sum(t[i : i + 2].encode()) for i in range(0, len(t), 2)] for t in texts
            ]
            return tf.ragged.constant(pairs, tf.int32, 1)

    (((ids, first),),) = encode(case(("abc", "de")), tokenizer=Pairs())
    assert len(ids) == 4 and first == 2  # ab, cd, e


def test_what_does_not_fit_is_refused_or_loses_its_beginning():
    long = case(("0123456789", "abc"))
    with pytest.raises(
        ValueError, match=r"a:1: a text of 14 tokens .* of 10; .*--keep"
    ):
        encode(long, context=10)
    (((ids, first),),) = encode(long, context=10, truncate_left=True)
    assert ids == list(b"3456789abc") and first == 7
    with pytest.raises(ValueError, match="of 14 tokens"):
        encode(long, context=3, truncate_left=True)
    with pytest.raises(ValueError, match="has no token that could be scored"):
        encode(case(("ab", "")))


def run_of(losses):
    def run(cut):
        return [
            windows.Scores(
                np.array([losses[index] for index in window.ids[window.first :]]),
                np.array([losses[index] < 1 for index in window.ids[window.first :]]),
            )
            for window in cut
        ]

    return run


def test_choices_by_the_whole_the_end_and_its_tokens():
    losses = dict(zip(b"abxy", (0.5, 3.0, 1.0, 2.0), strict=True))
    # Whole: 1.5 against 5. End: 1 against 2. By token: 1 against 2, and so on.
    rows = [
        case(("a", "x"), ("b", "y"), label=0),
        case(("b", "x"), ("a", "y"), label=0),
        case(("a", "xxx"), ("a", "y"), label=0),
        case(("a", "x"), ("a", "b")),
    ]
    judged = list(cases.judge(rows, encode(*rows), run_of(losses)))
    assert judged[0].whole == [1.5, 5.0] and judged[0].part == [1.0, 2.0]
    assert judged[2].part == [3.0, 2.0] and judged[2].by_token == [1.0, 2.0]
    choices = [tuple(each.choices().values()) for each in judged]
    assert choices == [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 0, 0)]
    assert cases.accuracies(judged) == {
        "accuracy_whole": pytest.approx(1 / 3),
        "accuracy_part": pytest.approx(2 / 3),
        "accuracy_by_token": 1.0,
    }
    assert cases.accuracies(judged[3:]) == {}
    row = json.loads(judged[2].line())
    assert row["texts"] == ["axxx", "ay"]
    assert row["choice"] == {"whole": 1, "part": 1, "by_token": 0}
    assert row["nll"] == [3.0, 2.0] and row["label"] == 0


def test_the_last_word_is_right_if_all_its_tokens_are(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "b ab"}\n{"text": "b  a\\n"}\n{"text": "y b a"}\n')
    rows = cases.last_words(str(path))
    assert [each.alternatives[0] for each in rows] == [
        ("b", " ab"),
        ("b ", " a"),
        ("y b", " a"),
    ]
    losses = {ord(" "): 0.5, ord("a"): 0.25, ord("b"): 3.0, ord("y"): 1.0}
    judged = list(cases.judge(rows, encode(*rows), run_of(losses)))
    results = cases.word_results(judged)
    assert results["accuracy"] == pytest.approx(2 / 3)
    assert results["perplexity"] == pytest.approx(np.exp((3.75 + 0.75 + 0.75) / 3))
    path.write_text('{"text": "word"}\n')
    with pytest.raises(ValueError, match=r":1: \['word'\] is one word"):
        cases.last_words(str(path))
