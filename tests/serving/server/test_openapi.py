"""Tests of /openapi.json: it has the paths of the server, and its answers fit it."""

import json
import re

import pytest

from serving.server import app, tasks, tei
from tests.serving.server import running, test_attacks, test_tasks

jsonschema = pytest.importorskip("jsonschema")
MODEL_PATHS = {"/v1/models/echo", "/v1/models/echo/metadata", running.PREDICT}
# A body for each path that takes one, and what makes it wrong.
BODIES = {
    tasks.CLASSIFY: {"text_a": ["a", "b"], "text_b": ["ab", "c"]},
    tasks.EMBEDDINGS: {"input": ["a"], "dimensions": 2},
    tasks.RERANK: {"query": "a", "documents": ["b", {"text": "a"}], "top_n": 2},
    tasks.SEARCH: {"query": ["a", "b"], "top_k": 3},
    tei.EMBED: {"inputs": ["a"], "normalize": False},
    tei.RERANK: {"query": "a", "texts": ["b"], "return_text": True},
    tei.PREDICT: {"inputs": [["a", "b"]], "truncate": True},
    running.PREDICT: {"instances": ["a"], "signature_name": "embed"},
}


def find(queries, count, is_wanted):
    whole = {"id": "x", "line": 1, "cosine": 0.5, "text": "a"}
    texts = [whole, {**whole, "score": 0.25, "start": 3, "end": 4}]
    return [{"query": query, "texts": texts} for query in queries]


def answers(server):
    models = {**tasks.of_models(server), **tei.of_models(server)}
    return {**models, **tasks.of_index(server, find)}


@pytest.fixture(scope="module")
def server():
    model = running.echo(test_tasks.call, signatures=test_tasks.SIGNATURES)
    with running.running(model._replace(labels=["no", "yes"]), answers=answers) as one:
        yield one


@pytest.fixture(scope="module")
def document(server):
    status, head, document = server.request("/openapi.json")
    assert status == 200 and head["Content-Type"] == "application/json"
    return document


def test_document_has_every_path_of_the_server(document):
    paths = set(test_attacks.application().paths)
    assert {"/", "/metrics", "/openapi.json", *BODIES} - {running.PREDICT} <= paths
    assert {*document["paths"]} == paths | MODEL_PATHS
    assert document["openapi"] == "3.1.0" and document["info"]["title"] == "echo"
    for path, item in document["paths"].items():
        assert [*item] == ["post" if path in BODIES else "get"], path


def test_answers_fit_the_document(server, document):
    check = jsonschema.Draft202012Validator
    for path, item in document["paths"].items():
        (operation,) = item.values()
        body = BODIES.get(path)
        ((media, content),) = operation["responses"]["200"]["content"].items()
        check.check_schema(content["schema"])
        status, head, actual = server.request(path, body)
        kinds = [kind.partition(";")[0] for kind in (head["Content-Type"], media)]
        assert status == 200 and kinds[0] == kinds[1], path
        check(content["schema"]).validate(actual)
        (content,) = operation["responses"]["default"]["content"].values()
        path = "/nothing" if body is None else path
        status, _, actual = server.request(path, {"nothing": 1})
        assert status == 400
        check(content["schema"]).validate(actual)
        with pytest.raises(jsonschema.ValidationError):
            check(content["schema"]).validate({"predictions": []})
        if body is None:
            continue
        (content,) = operation["requestBody"]["content"].values()
        check.check_schema(content["schema"])
        request = check(content["schema"])
        request.validate(body)
        assert not request.is_valid({"nothing": 1}), path


def test_document_has_the_paths_that_the_model_answers():
    one = {"serving_default": test_tasks.LABELLED}
    vector = {"embed": test_tasks.SIGNATURES["embed"]}
    embedding = {"model", "dimensions", "encoding_format", "input"}
    for signatures, expected in (
        (one, {tasks.CLASSIFY: {"model", "text"}}),
        (vector, {tasks.EMBEDDINGS: embedding}),
        (running.LINE, {}),
    ):
        with running.running(running.echo(signatures=signatures)) as server:
            paths = server.request("/openapi.json")[2]["paths"]
        posts = {
            path: {*json_body["content"][app.JSON]["schema"]["properties"]}
            for path, item in paths.items()
            if (json_body := item.get("post", {}).get("requestBody"))
        }
        posts.pop(running.PREDICT)
        assert posts == expected


def test_other_methods_are_not_allowed(server):
    for path, wanted in ((tasks.SEARCH, "POST"), ("/metrics", "GET, HEAD")):
        method = "GET" if wanted == "POST" else "POST"
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
        answer = server.speak(f"{head}Connection: close\r\n\r\n".encode())
        assert answer.startswith("HTTP/1.1 405 "), answer
        assert f"allow: {wanted}\r\n" in answer and f"send {wanted}" in answer


def test_document_needs_no_key_and_names_it():
    with running.running(access=app.Access(key="secret")) as server:
        status, _, document = server.request("/openapi.json")
        assert status == 200 and document["security"] == [{"key": []}]
        assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
        assert "secret" not in json.dumps(document)
        assert server.request("/openapi.json", Host="a.example")[0] == 403
        assert server.request("/v1/models/echo")[0] == 401
        page = server.request("/")[2]
        assert re.search(r'<a href="openapi.json">', page)


def test_index_has_no_paths_of_models():
    with running.running(
        load=test_tasks.no_model, answers=lambda one: tasks.of_index(one, find)
    ) as server:
        running.until(lambda: server.service.state == "ready")
        document = server.request("/openapi.json")[2]
        assert {*document["paths"]} == {*document["paths"]} - {tasks.RERANK}
        assert not [path for path in document["paths"] if "models" in path]
        assert "security" not in document and document["info"]["title"] == "search"
        schema = document["paths"][tasks.SEARCH]["post"]["requestBody"]["content"]
        (content,) = schema.values()
        request = jsonschema.Draft202012Validator(content["schema"])
        assert request.is_valid({"query": "a", "top_k": 100})
        assert not request.is_valid({"query": "a", "top_k": 101})
