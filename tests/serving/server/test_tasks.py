"""Tests of serving/server/tasks.py and page.py: what clients of other APIs send."""

import base64
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from serving.server import tasks
from tests.serving.protocol import test_rest
from tests.serving.server import running

TEXT = {"text": (tf.string, [None])}
PAIR = {"text_a": (tf.string, [None]), "text_b": (tf.string, [None])}
SIGNATURES = {
    "embed": test_rest.definition(TEXT, {"vector": (tf.float32, [None, 3])}),
    "serving_default": test_rest.definition(
        PAIR, {"probabilities": (tf.float32, [None, 2])}
    ),
}


def call(name, arrays):
    if name == "embed":
        sizes = [[len(text), 1.0, 0.0] for text in arrays["text"]]
        return {"vector": np.array(sizes, np.float32) / 7}
    same = [float(a in b) for a, b in zip(arrays["text_a"], arrays["text_b"])]  # noqa: B905
    scores = np.array(same, np.float32) * 0.5 + 0.25
    return {"probabilities": np.stack([1 - scores, scores], axis=1)}


@pytest.fixture(scope="module")
def server():
    model = running.echo(call, signatures=SIGNATURES)
    with running.running(model._replace(labels=["no", "yes"])) as server:
        yield server


def test_vectors_come_as_openai_has_them(server):
    body = {"input": ["a", "four"], "model": "echo"}
    status, _, actual = server.request(tasks.EMBEDDINGS, body)
    assert status == 200 and (actual["object"], actual["model"]) == ("list", "echo")
    rows = actual["data"]
    assert [row["index"] for row in rows] == [0, 1]
    assert {row["object"] for row in rows} == {"embedding"}
    vectors = np.array([row["embedding"] for row in rows], np.float32)
    expected = call("embed", {"text": [b"a", b"four"]})["vector"]
    np.testing.assert_array_equal(vectors, expected)  # every digit
    assert actual["usage"] == {"prompt_tokens": 6, "total_tokens": 6}
    one = server.request(tasks.EMBEDDINGS, {"input": "four"})[2]["data"]
    assert one[0]["embedding"] == rows[1]["embedding"]


def test_vectors_come_as_bytes_and_shorter(server):
    body = {"input": "four", "encoding_format": "base64", "dimensions": 2}
    ((row),) = server.request(tasks.EMBEDDINGS, body)[2]["data"]
    vector = np.frombuffer(base64.b64decode(row["embedding"]), "<f4")
    np.testing.assert_allclose(vector, np.array([4, 1]) / np.sqrt(17), rtol=1e-6)


def test_documents_are_ranked(server):
    documents = ["no", {"text": "the word"}, "other", "a word"]
    body = {"query": "word", "documents": documents}
    status, _, actual = server.request(tasks.RERANK, body)
    assert status == 200 and actual["results"] == [
        {"index": 1, "relevance_score": 0.75},
        {"index": 3, "relevance_score": 0.75},
        {"index": 0, "relevance_score": 0.25},
        {"index": 2, "relevance_score": 0.25},
    ]
    best = server.request(tasks.RERANK, {**body, "top_n": 1})[2]["results"]
    assert best == actual["results"][:1]
    first = server.request(tasks.RERANK, {**body, "label": "no"})[2]["results"]
    scores = [(row["index"], row["relevance_score"]) for row in first]
    assert scores == [(0, 0.75), (2, 0.75), (1, 0.25), (3, 0.25)]


def test_documents_are_ranked_by_one_named_label_of_three():
    def shares(name, arrays):
        two = call(name, arrays)["probabilities"]
        return {"probabilities": np.concatenate([two, two[:, :1] / 2], axis=1)}

    pair = test_rest.definition(PAIR, {"probabilities": (tf.float32, [None, 3])})
    model = running.echo(shares, signatures={"serving_default": pair})
    body = {"query": "word", "documents": ["no", "a word"]}
    with running.running(model._replace(labels=["yes", "no", "odd"])) as server:
        for label, best in (("yes", 0), ("no", 1), ("odd", 0)):
            actual = server.request(tasks.RERANK, {**body, "label": label})[2]
            assert actual["results"][0]["index"] == best
        status, _, actual = server.request(tasks.RERANK, body)
        assert status == 400
        assert "label is None; give one of ['yes', 'no', 'odd']" in actual["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (tasks.EMBEDDINGS, {}, 400, "input is None; give a text, or several"),
        (tasks.EMBEDDINGS, {"input": []}, 400, "input is []"),
        (tasks.EMBEDDINGS, {"input": ["a", " "]}, 400, "input[1] is ' '"),
        (tasks.EMBEDDINGS, {"input": [1]}, 400, "input[0] is 1; give a text"),
        (tasks.EMBEDDINGS, {"input": "a", "dimensions": 4}, 400, "4; give 1 to 3"),
        (tasks.EMBEDDINGS, {"input": "a", "dimensions": True}, 400, "True; give 1"),
        (
            tasks.EMBEDDINGS,
            {"input": "a", "encoding_format": "int8"},
            400,
            "'int8'; give one of float, base64",
        ),
        (tasks.EMBEDDINGS, {"input": "a", "model": "no"}, 404, "Latest(no)"),
        (tasks.RERANK, {"query": "a"}, 400, "documents is None"),
        (tasks.RERANK, {"documents": ["a"]}, 400, "query is None"),
        (tasks.RERANK, {"query": "a", "documents": [{"b": 1}]}, 400, "documents[0]"),
        (tasks.RERANK, {"query": "a", "documents": ["b"], "top_n": 0}, 400, "1 or"),
        (
            tasks.RERANK,
            {"query": "a", "documents": ["b"], "label": "maybe"},
            400,
            "label is 'maybe'; give one of ['no', 'yes']",
        ),
        (tasks.RERANK, b"[1]", 400, "Is not object"),
        (tasks.RERANK, b"{", 400, "Parse error"),
    ],
)
def test_wrong_request_is_an_error_object(server, path, body, status, message):
    actual, _, answer = server.request(path, body)
    assert (actual, [*answer]) == (status, ["error"])
    assert message in answer["error"] and len(answer["error"]) < 300


def test_model_of_another_kind_is_named():
    with running.running() as server:
        status, _, actual = server.request(tasks.EMBEDDINGS, {"input": "a"})
        assert status == 404 and "the output vector" in actual["error"]


def test_index_is_searched():
    def search(queries, count):
        return [{"query": q, "texts": [q.upper()] * count} for q in queries]

    def load():
        pass

    def answers(server):
        return tasks.of_index(server, search)

    with running.running(load=load, answers=answers) as server:
        running.until(lambda: server.service.state == "ready")
        actual = server.request(tasks.SEARCH, {"query": "a", "top_k": 2})[2]
        assert actual == {"results": [{"query": "a", "texts": ["A", "A"]}]}
        three = server.request(tasks.SEARCH, {"query": ["a"] * 3})[2]["results"]
        assert [len(row["texts"]) for row in three] == [5, 5, 5]
        assert server.request(tasks.SEARCH, {"query": "a", "top_k": "x"})[0] == 400
        assert server.request("/v1/models/m")[2]["error"] == "no model is served here"
        page = server.request("/")[2]
        assert model_of(page)["signatures"]["search"]["path"] == tasks.SEARCH


def model_of(page):
    text = re.search(r'<script id="model" [^>]*>(.*?)</script>', page).group(1)
    return json.loads(text)


def test_page_has_the_texts_and_labels_of_the_model(server):
    status, head, page = server.request("/")
    assert status == 200 and head["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in head["Content-Security-Policy"]
    assert model_of(page) == {
        "signatures": {
            "embed": {
                "inputs": {"text": 1},
                "path": running.PREDICT,
                "only": "vector",
            },
            "serving_default": {
                "inputs": {"text_a": 1, "text_b": 1},
                "path": running.PREDICT,
                "only": "probabilities",
            },
        },
        "labels": ["no", "yes"],
        "predict": running.PREDICT,
    }
    assert "://" not in page  # nothing comes from elsewhere


def test_labels_cannot_break_out_of_the_page():
    label = '</script><img src=x onerror="alert(1)">'
    model = running.echo(call, signatures=SIGNATURES)
    model = model._replace(labels=[label], name="<b>&")
    with running.running(model) as server:
        page = server.request("/")[2]
    assert "<img" not in page and "<b>" not in page
    assert model_of(page)["labels"] == [label]
