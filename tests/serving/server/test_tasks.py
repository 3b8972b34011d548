"""Tests of serving/server/tasks.py and page.py: what clients of other APIs send."""

import base64
import json
import re
import threading

import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from serving.server import limits, tasks
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


@pytest.mark.parametrize("form", ["float", "base64"])
def test_usage_counts_each_text_and_no_padding(server, form):
    """[CLS], a token for 4 bytes, and [SEP], of each text."""

    def usage(*texts):
        body = {"input": texts, "encoding_format": form}
        return server.request(tasks.EMBEDDINGS, body)[2]["usage"]["total_tokens"]

    assert usage("four", "four" * 100) == 3 + 102
    assert usage(*["a"] * 31, "é" * 2000) == 31 * 3 + 1002
    assert usage("four") + usage("four" * 100) == usage("four" * 100, "four")


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


def test_texts_are_classified_by_name(server):
    body = {"text_a": ["a", "b"], "text_b": ["cab", "cat"]}
    status, _, actual = server.request(tasks.CLASSIFY, body)
    assert status == 200 and actual == {
        "model": "echo",
        "results": [
            {"probabilities": {"no": 0.25, "yes": 0.75}},
            {"probabilities": {"no": 0.75, "yes": 0.25}},
        ],
    }
    one = {"text_a": "a", "text_b": "cab", "model": None}
    assert server.request(tasks.CLASSIFY, one)[2]["results"] == actual["results"][:1]
    for change, message in (
        ({"text_b": "x"}, "there are 2 text_a, 1 text_b; give as many of each"),
        ({"text_b": None}, "text_b is None; give a text, or several"),
        ({"text_a": ["a", ""]}, "text_a[1] is ''; give a text with words"),
        ({"text_a": ["a", ["b"]]}, "text_a[1] is ['b']; give a text"),
        ({"text": "x"}, "'text' is no key of this path; give model, text_a, text_b"),
    ):
        status, _, answer = server.request(tasks.CLASSIFY, {**body, **change})
        assert status == 400 and message in answer["error"]
    assert server.request(tasks.CLASSIFY, {**body, "model": "no"})[0] == 404


LABELLED = test_rest.definition(
    TEXT, {"probabilities": (tf.float32, [None, 3]), "label": (tf.string, [None])}
)
NAMES = ["a", "b", 'c"\\\n']


def by_size(_, arrays):
    places = [len(text) % 3 for text in arrays["text"]]
    labels = [NAMES[place].encode() for place in places]
    shares = np.eye(3, dtype=np.float32)[places]
    return {"probabilities": shares, "label": np.array(labels, object)}


def count_labels(server):
    text = server.request("/metrics")[2]
    pattern = r'^bert_predictions_total\{label="(.*)"\} (\d+)\.0$'
    return dict(re.findall(pattern, text, re.M))


def test_predictions_are_counted_by_label():
    model = running.echo(by_size, signatures={"serving_default": LABELLED})
    with running.running(model._replace(labels=NAMES)) as server:
        assert count_labels(server) == {}
        body = {"text": ["xxx", "x", "xxxx", "xx"]}
        actual = server.request(tasks.CLASSIFY, body)[2]["results"]
        assert [row["label"] for row in actual] == ["a", "b", "b", NAMES[2]]
        assert actual[3]["probabilities"] == {"a": 0, "b": 0, NAMES[2]: 1}
        assert count_labels(server) == {"a": "1", "b": "2", 'c\\"\\\\\\n': "1"}
        assert server.predict("x")[0] == 200
        assert count_labels(server)["b"] == "3"
    # A label that no file names is no value of the metric.
    with running.running(model._replace(labels=["b", "d"])) as server:
        server.predict("x", "xx", "xxx")
        assert count_labels(server) == {"b": "1", "d": "0"}


def test_numbers_and_labels_without_names_are_classified():
    number = test_rest.definition(TEXT, {"probabilities": (tf.float32, [None, 1])})
    for call, signature, expected in (
        (by_size, LABELLED, {"label": "b", "probabilities": {"0": 0, "1": 1, "2": 0}}),
        (lambda *_: {"probabilities": np.array([[2.5]])}, number, {"score": 2.5}),
    ):
        model = running.echo(call, signatures={"serving_default": signature})
        with running.running(model) as server:
            actual = server.request(tasks.CLASSIFY, {"text": "x"})[2]["results"]
            assert actual == [expected] and count_labels(server) == {}


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
        assert "one label of ['yes', 'no', 'odd'], and not by None" in actual["error"]


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
        (
            tasks.EMBEDDINGS,
            {"input": "a", "model": {}},
            400,
            "model is {}; give a name",
        ),
        (
            tasks.CLASSIFY,
            {"text_a": "a", "model": [1]},
            400,
            "model is [1]; give a name",
        ),
        (tasks.RERANK, {"query": "a"}, 400, "documents is None"),
        (tasks.RERANK, {"documents": ["a"]}, 400, "query is None"),
        (tasks.RERANK, {"query": "a", "documents": [{"b": 1}]}, 400, "documents[0]"),
        (tasks.RERANK, {"query": "a", "documents": ["b"], "top_n": 0}, 400, "1 or"),
        (
            tasks.RERANK,
            {"query": "a", "documents": ["b"], "label": "maybe"},
            400,
            "one label of ['no', 'yes'], and not by 'maybe'; set label",
        ),
        (tasks.RERANK, b"[1]", 400, "Is not object"),
        (tasks.RERANK, b"{", 400, "Parse error"),
    ],
)
def test_wrong_request_is_an_error_object(server, path, body, status, message):
    actual, _, answer = server.request(path, body)
    assert (actual, [*answer]) == (status, ["error"])
    assert message in answer["error"] and len(answer["error"]) < 300


def test_wrong_label_is_refused_before_the_model_computes():
    calls = []
    model = running.echo(lambda *_: calls.append(1), signatures=SIGNATURES)
    with running.running(model._replace(labels=["no", "yes"])) as server:
        body = {"query": "a", "documents": ["b"], "label": "maybe"}
        assert server.request(tasks.RERANK, body)[0] == 400 and not calls
        assert server.request(tasks.RERANK, {**body, "label": "yes"})[0] == 500
        assert calls == [1]


def test_a_query_is_one_object_however_many_documents_there_are():
    """A long one, asked of a thousand, would take gigabytes before any limit."""
    seen = []

    def shares(_, arrays):
        seen.append({*map(id, arrays["text_a"])})
        return {"probabilities": np.ones([len(arrays["text_a"]), 2], np.float32)}

    with running.running(running.echo(shares, signatures=SIGNATURES)) as server:
        body = {"query": "a" * 1000, "documents": ["b"] * 100}
        assert server.request(tasks.RERANK, body)[0] == 200
    assert [*map(len, seen)] == [1]


def test_request_keeps_the_labels_of_the_model_that_it_began_with():
    """A version with other labels comes into service while the first computes."""

    def change(name, arrays):
        server.service.model = second
        return call(name, arrays)

    first = running.echo(change, signatures=SIGNATURES)._replace(labels=["no", "yes"])
    second = running.echo(call, 2, SIGNATURES)._replace(labels=["yes", "no", "new"])
    for path, body in (
        (tasks.CLASSIFY, {"text_a": ["a"], "text_b": ["cab"]}),
        (tasks.RERANK, {"query": "a", "documents": ["cab"], "label": "yes"}),
    ):
        with running.running(first) as server:
            status, _, actual = server.request(path, body)
            assert server.service.model is second
        ((row),) = actual["results"]
        assert status == 200
        assert (row.get("probabilities") or {"yes": row["relevance_score"]})["yes"] == (
            0.75
        )


def test_model_of_words_is_no_classifier():
    """A tagger has probabilities, too, as many as each text has words."""
    words = {"probabilities": (tf.float32, [None, None]), "tags": (tf.string, None)}
    signatures = {"serving_default": test_rest.definition(TEXT, words)}
    with running.running(running.echo(signatures=signatures)) as server:
        status, _, actual = server.request(tasks.CLASSIFY, {"text": "a"})
        assert status == 404 and "the output probabilities" in actual["error"]
        assert server.request("/")[0] == 200


def test_model_of_another_kind_is_named():
    with running.running() as server:
        status, _, actual = server.request(tasks.EMBEDDINGS, {"input": "a"})
        assert status == 404 and "the output vector" in actual["error"]


def search_upper(queries, count, is_wanted):
    if "broken" in queries:
        raise errors.InputError("query 1: " + "x" * 5000)
    return [{"query": q, "texts": [q.upper()] * count} for q in queries]


def of_index(server):
    return tasks.of_index(server, search_upper)


def no_model():
    pass


@pytest.fixture(scope="module")
def searching():
    bounds = limits.Limits(max_request_rows=3, max_request_tokens=40, max_top_k=7)
    with running.running(limits=bounds, load=no_model, answers=of_index) as server:
        running.until(lambda: server.service.state == "ready")
        yield server


def test_index_is_searched(searching):
    actual = searching.request(tasks.SEARCH, {"query": "a", "top_k": 2})[2]
    assert actual == {"results": [{"query": "a", "texts": ["A", "A"]}]}
    body = {"query": ["a"] * 3, "top_k": None}
    three = searching.request(tasks.SEARCH, body)[2]["results"]
    assert [len(row["texts"]) for row in three] == [5, 5, 5]
    assert searching.request("/v1/models/m")[2]["error"] == "no model is served here"
    page = searching.request("/")[2]
    assert model_of(page)["signatures"]["search"]["path"] == tasks.SEARCH


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"query": ["a"] * 4}, 413, "4 rows, the limit is 3; send several"),
        ({"query": "a" * 153}, 413, "41 tokens, padding included, the limit is 40"),
        ({"query": "a", "top_k": 8}, 400, "top_k is 8; give 1 to 7"),
        ({"query": "a", "top_k": 10**30}, 400, "give 1 to 7"),
        ({"query": "a", "top_k": "x"}, 400, "top_k is 'x'; give 1 to 7"),
        ({"query": "a", "k": 2}, 400, "'k' is no key of this path; give query, top_k"),
        ({"query": "broken"}, 400, "query 1: xxx"),
    ],
)
def test_limits_hold_for_searches(searching, body, status, message):
    actual, _, answer = searching.request(tasks.SEARCH, body)
    assert actual == status and message in answer["error"]
    assert len(answer["error"]) <= 1000
    assert searching.request(tasks.SEARCH, {"query": "a" * 152, "top_k": 7})[0] == 200


def test_candidates_of_a_reranker_count_as_rows():
    bounds = limits.Limits(max_request_rows=10)
    with running.running(
        limits=bounds,
        load=no_model,
        answers=lambda one: tasks.of_index(one, search_upper, lambda top_k: 2 * top_k),
    ) as server:
        running.until(lambda: server.service.state == "ready")
        assert server.request(tasks.SEARCH, {"query": "a", "top_k": 5})[0] == 200
        status, _, answer = server.request(tasks.SEARCH, {"query": "a", "top_k": 6})
        assert status == 413 and "12 rows, the limit is 10" in answer["error"]
        body = {"query": ["a"] * 3, "top_k": 2}
        assert server.request(tasks.SEARCH, body)[0] == 413


WORDLESS = ["", " ", "\u200b", "\0", "\1\t", "\ufeff\u2060"]


@pytest.mark.parametrize("text", WORDLESS)
def test_texts_without_words_are_refused_by_one_rule(server, searching, text):
    """TensorFlow Serving's API takes every text: a model has an answer to it."""
    wanted = "give a text with words"
    for one, path, body in (
        (searching, tasks.SEARCH, {"query": ["a", text]}),
        (server, tasks.EMBEDDINGS, {"input": ["a", text]}),
        (server, tasks.RERANK, {"query": text, "documents": ["a"]}),
        (server, tasks.RERANK, {"query": "a", "documents": [text]}),
    ):
        status, _, answer = one.request(path, body)
        assert status == 400 and wanted in answer["error"], (path, body)
    body = {"signature_name": "embed", "instances": [text]}
    assert server.request(running.PREDICT, body)[0] == 200


def test_halves_of_characters_are_refused_by_one_rule(server, searching):
    for one, path, body in (
        (searching, tasks.SEARCH, {"query": "a\ud800"}),
        (server, tasks.EMBEDDINGS, {"input": ["a", "\udc00b"]}),
        (server, tasks.RERANK, {"query": "a\ud800", "documents": ["a"]}),
        (server, tasks.RERANK, {"query": "a", "documents": [{"text": "a\udfff"}]}),
        (server, running.PREDICT, {"signature_name": "embed", "inputs": ["a\ud800"]}),
    ):
        status, _, answer = one.request(path, body)
        assert status == 400 and "half of a surrogate pair" in answer["error"], path


def test_keys_of_other_clients_are_ignored(server):
    for path, body, key in (
        (tasks.EMBEDDINGS, {"input": "four"}, {"user": "a", "input_type": "query"}),
        (tasks.RERANK, {"query": "a", "documents": ["b"]}, {"return_documents": True}),
    ):
        expected = server.request(path, body)[2]
        assert server.request(path, body | key)[::2] == (200, expected)


def test_keys_with_null_are_absent(server):
    """As OpenAI's client sends what its caller leaves out."""
    plain = {"input": "four"}
    nulls = dict.fromkeys(("model", "dimensions", "encoding_format", "user"))
    expected = server.request(tasks.EMBEDDINGS, plain)[2]
    assert server.request(tasks.EMBEDDINGS, plain | nulls)[2] == expected
    plain = {"query": "a", "documents": ["b"]}
    nulls = dict.fromkeys(("model", "top_n", "label"))
    expected = server.request(tasks.RERANK, plain)[2]
    assert expected["results"]
    assert server.request(tasks.RERANK, plain | nulls)[2] == expected
    assert server.request(tasks.EMBEDDINGS, {"input": None})[0] == 400


def test_errors_quote_little_of_what_was_sent(server, searching):
    long = "é" * 500_000
    names = [
        (server, running.PREDICT, {"signature_name": long, "instances": ["a"]}),
        (server, running.PREDICT, {"signature_name": "embed", "inputs": {long: 1}}),
        (
            server,
            running.PREDICT,
            {"signature_name": "embed", "instances": [{long: 1}]},
        ),
        (server, running.PREDICT, {"signature_name": "embed", "instances": [[long]]}),
        (server, f"/v1/models/{'m' * 9000}:predict", {"instances": ["a"]}),
        (server, f"/v1/models/m/labels/{'m' * 9000}:predict", {"instances": ["a"]}),
        (server, f"/{'m' * 9000}", None),
        (searching, tasks.SEARCH, {"query": [long, long, long, long]}),
        (searching, tasks.SEARCH, {"query": "a", "top_k": long}),
        (server, tasks.RERANK, {"query": "a", "documents": ["a"], "label": long}),
    ]
    for key in ("model", "dimensions", "encoding_format"):
        names.append((server, tasks.EMBEDDINGS, {"input": "a", key: long}))
    for one, path, body in names:
        status, _, answer = one.request(path, body)
        assert 400 <= status < 500 and len(answer["error"]) < 350, (path, status)


def test_search_that_nobody_waits_for_is_stopped():
    batches, may_look = [], threading.Event()

    def search(queries, count, is_wanted):
        assert may_look.wait(running.WAIT_SECONDS)
        batches.append(is_wanted())
        return []

    bounds = limits.Limits(request_seconds=0.2)
    with running.running(
        limits=bounds, load=no_model, answers=lambda one: tasks.of_index(one, search)
    ) as server:
        running.until(lambda: server.service.state == "ready")
        assert server.request(tasks.SEARCH, {"query": "a"})[0] == 504
        may_look.set()
        assert server.request(tasks.SEARCH, {"query": "a"})[0] == 200
        running.until(lambda: len(batches) == 2)
    assert sorted(batches) == [False, True]  # in either order, by two threads


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
                "curl": running.PREDICT,
            },
            "serving_default": {
                "inputs": {"text_a": 1, "text_b": 1},
                "path": running.PREDICT,
                "only": "probabilities",
                "curl": tasks.CLASSIFY,
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
