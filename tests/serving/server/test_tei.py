"""Tests of serving/server/tei.py: what clients of text-embeddings-inference send."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.features import vectors as text_vectors
from serving.server import tei
from tests.serving.protocol import test_rest
from tests.serving.server import running, test_tasks


@pytest.fixture(scope="module")
def server():
    model = running.echo(test_tasks.call, signatures=test_tasks.SIGNATURES)
    model = model._replace(labels=["no", "yes"])
    with running.running(model, answers=tei.of_models) as server:
        yield server


def ask(server, path, **body):
    status, _, actual = server.request(path, body)
    assert status == 200, actual
    return actual


def refusal(server, path, **body):
    status, _, actual = server.request(path, body)
    assert status in (400, 404), actual
    return actual["error"]


def test_vectors_are_a_list_of_lists(server):
    stored = test_tasks.call("embed", {"text": [b"a", b"four"]})["vector"]
    raw = ask(server, tei.EMBED, inputs=["a", "four"], normalize=False)
    np.testing.assert_array_equal(np.array(raw, np.float32), stored)
    unit = np.array(ask(server, tei.EMBED, inputs=["a", "four"], truncate=True))
    np.testing.assert_allclose(unit, text_vectors.normalize(stored), rtol=1e-6)
    assert not np.allclose(unit, stored)
    one = ask(server, tei.EMBED, inputs="four", normalize=False)
    assert one == raw[1:]
    cut = ask(server, tei.EMBED, inputs="four", dimensions=2)
    np.testing.assert_allclose(cut, [np.array([4, 1]) / np.sqrt(17)], rtol=1e-6)


def test_texts_are_ranked(server):
    texts = ["no", "the word", "a word"]
    ranks = ask(server, tei.RERANK, query="word", texts=texts, raw_scores=False)
    assert ranks == [
        {"index": 1, "score": 0.75},
        {"index": 2, "score": 0.75},
        {"index": 0, "score": 0.25},
    ]
    shown = ask(server, tei.RERANK, query="word", texts=texts, return_text=True)
    assert [row.pop("text") for row in shown] == [texts[i] for i in (1, 2, 0)]
    assert shown == ranks


def test_labels_come_by_score(server):
    yes = [{"score": 0.75, "label": "yes"}, {"score": 0.25, "label": "no"}]
    no = [{"score": 0.75, "label": "no"}, {"score": 0.25, "label": "yes"}]
    assert ask(server, tei.PREDICT, inputs=["a", "cab"]) == yes
    assert ask(server, tei.PREDICT, inputs=[["a", "cab"], ["b", "cat"]]) == [yes, no]
    assert ask(server, tei.PREDICT, inputs=[["a", "cab"]]) == [yes]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_single_texts_and_labels_without_names(columns):
    """A regression, as the library has it, is of one label."""
    output = {"probabilities": (tf.float32, [None, columns])}

    def call(name, arrays):
        lengths = np.array([*map(len, arrays["text"])], np.float32)
        return {"probabilities": lengths[:, None] * np.float32([1, 4, 2])[:columns]}

    signatures = {"serving_default": test_rest.definition(test_tasks.TEXT, output)}
    model = running.echo(call, signatures=signatures)
    with running.running(model, answers=tei.of_models) as server:
        expected = [
            {"score": 3.0, "label": "LABEL_0"},
            {"score": 12.0, "label": "LABEL_1"},
            {"score": 6.0, "label": "LABEL_2"},
        ][:columns]
        expected.sort(key=lambda row: -row["score"])
        assert ask(server, tei.PREDICT, inputs="abc") == expected
        assert ask(server, tei.PREDICT, inputs=["abc"]) == expected
        text = refusal(server, tei.PREDICT, inputs=["abc", "d"])
        assert "no signature of 2 texts" in text


@pytest.mark.parametrize(
    ("path", "change", "message"),
    [
        (tei.EMBED, {"inputs": [[1, 2]]}, "inputs[0] is [1, 2]; give a text with"),
        (tei.EMBED, {"truncate": False}, "truncate is false, and longer texts are cut"),
        (tei.EMBED, {"truncation_direction": "Left"}, "texts are cut on the right"),
        (tei.EMBED, {"prompt_name": "query"}, "'prompt_name' is no key of this path"),
        (tei.EMBED, {"normalize": "no"}, "normalize is 'no'; give one of true, false"),
        (tei.EMBED, {"normalize": 1}, "normalize is 1; give one of true, false"),
        (tei.RERANK, {"raw_scores": True}, "raw_scores is true, and an export has no"),
        (tei.RERANK, {"texts": []}, "texts is []; give a text, or several"),
        (tei.RERANK, {"top_n": 1}, "'top_n' is no key of this path"),
        (tei.PREDICT, {"inputs": []}, "inputs is []; give a text, a pair of texts"),
        (tei.PREDICT, {"inputs": "a"}, "no signature of 1 texts with the output"),
        (tei.PREDICT, {"inputs": [["a", "b"], ["c"]]}, "inputs[1] has 1 texts, the fi"),
        (tei.PREDICT, {"inputs": ["a", "b", "c"]}, "inputs is ['a', 'b', 'c']; give"),
        (tei.PREDICT, {"inputs": [["a", ""]]}, "inputs[0] is ''; give a text with"),
        (tei.PREDICT, {"inputs": [["a", "b"], "c"]}, "inputs[1] is 'c'; give a text,"),
    ],
)
def test_what_is_not_done_is_refused(server, path, change, message):
    usual = {
        tei.EMBED: {"inputs": "a"},
        tei.RERANK: {"query": "a", "texts": ["b"]},
        tei.PREDICT: {"inputs": ["a", "b"]},
    }
    assert message in refusal(server, path, **{**usual[path], **change})
    ask(server, path, **usual[path], truncate=True, truncation_direction="right")
