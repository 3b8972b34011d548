"""Vectors in the form of OpenAI's API, labels, reranking, and search in an index."""

import base64
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import numpy as np
import orjson
from starlette import requests, responses

from contract import wording
from data_pipeline.classification import predictions
from modeling.features import vectors as text_vectors
from serving import answers, search_index
from serving.protocol import json_tensors, rest, servables
from serving.server import app, batching, openapi, service

_TOP_K = 5  # where a request has none
EMBEDDINGS, RERANK = "/v1/embeddings", "/v1/rerank"
CLASSIFY, SEARCH = app.CLASSIFY, app.SEARCH
_TEXTS = openapi.one_or_several(openapi.TEXT)
# Queries, a count, and whether somebody still waits -> {"query", "texts"} of each.
Search = Callable[[Sequence[str], int, Callable[[], bool]], Sequence[Mapping[str, Any]]]


def of_models(server: service.Service) -> Mapping[str, app.Route]:
    """The answers of a server of exports, by path.

    `/v1/classify` takes `text`, or `text_a` and `text_b`, a text or several each, and
    returns what run_predictor.py does. `/v1/embeddings` takes `input`, a text or
    several, `dimensions`, to which vectors are cut, and `encoding_format`, float or
    base64. `/v1/rerank` takes `query`, `documents`, `top_n` and `label`, whose
    probability is the score; by default it is the last of two. A regression's score is
    its number.
    """

    async def embed(request, body, texts):
        as_base64 = _choice(body, "encoding_format", ("float", "base64")) == "base64"
        version, name, (column,) = _signature(server, body, "vector", [1])
        inputs = {column: _array(texts)}
        outputs = await server.compute(request, version, name, inputs)
        vectors = outputs["vector"]
        if "dimensions" in body:
            count = _count(body, "dimensions", vectors.shape[1], vectors.shape[1])
            vectors = np.asarray(text_vectors.normalize(vectors[:, :count]))
        if as_base64:
            vectors = [base64.b64encode(v.astype("<f4")).decode() for v in vectors]
        # Of each text alone: padding, which a batch has, is not billed.
        rows = inputs[column][:, np.newaxis]
        tokens = sum(batching.measure({column: row}).tokens for row in rows)
        return {
            "object": "list",
            "model": server.require_model().name,
            "data": [
                {"object": "embedding", "index": i, "embedding": vector}
                for i, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    async def classify(request, body, _):
        version, name, columns = _signature(server, body, "probabilities", [1, 2])
        _check_keys(body, "model", *columns)
        most, names = server.limits.max_request_rows, server.require_model().labels
        texts = {column: _texts(body, column, most) for column in columns}
        if len({*map(len, texts.values())}) > 1:
            counts = ", ".join(f"{len(t)} {column}" for column, t in texts.items())
            raise servables.invalid(f"there are {counts}; give as many of each")
        inputs = {column: _array(rows) for column, rows in texts.items()}
        outputs = await server.compute(request, version, name, inputs)
        server.metrics.count_labels(names, outputs)
        results = answers.rows(outputs, names or None)
        return {"model": server.require_model().name, "results": results}

    async def rerank(request, body, texts):
        query, count = _text(body, "query"), _count(body, "top_n", len(texts))
        version, name, columns = _signature(server, body, "probabilities", [2])
        inputs = dict(
            zip(columns, (_array([query] * len(texts)), _array(texts)), strict=True)
        )
        outputs = await server.compute(request, version, name, inputs)
        shares, label = outputs["probabilities"], body.get("label")
        names = [*server.require_model().labels] or [*map(str, range(shares.shape[1]))]
        if label not in (names if shares.shape[1] > 2 else [*names, None]):
            known = wording.listing(names)
            raise servables.invalid(f"label is {label!r:.80}; give one of {known}")
        scores = shares[:, -1 if label is None else names.index(label)]
        results = [
            {"index": place, "relevance_score": score}
            for place, score in predictions.ranked(scores)[:count]
        ]
        return {"model": server.require_model().name, "results": results}

    vector = openapi.array(openapi.fields("index", "object", embedding={}))
    document = {"anyOf": [openapi.TEXT, openapi.fields("", text=openapi.TEXT)]}
    labelled = openapi.array(openapi.fields("", "label probabilities score"))
    ranked = openapi.array(openapi.fields("index relevance_score"))
    documents = openapi.one_or_several(document)

    def described(output, numbers, optional, **required):
        """A function that returns the schema of a request, as of app.Route."""

        def request():
            model = server.model
            version = model and model.version(model.name)
            if not (named := version and version.find_texts(output, numbers)):
                return None
            texts = required or dict.fromkeys(named[1], _TEXTS)
            return openapi.fields("", optional, **texts)

        return request

    return {
        CLASSIFY: app.Route(
            _answer(server, "", classify),
            "Labels of texts, or of pairs",
            described("probabilities", [1, 2], "model"),
            openapi.fields("model", results=labelled),
        ),
        EMBEDDINGS: app.Route(
            _answer(server, "input", embed),
            "Vectors of texts",
            described("vector", [1], "model dimensions encoding_format", input=_TEXTS),
            openapi.fields("model", data=vector),
        ),
        RERANK: app.Route(
            _answer(server, "documents", rerank),
            "Documents in the order of their relevance to a query",
            described(
                "probabilities",
                [2],
                "top_n label model",
                query=openapi.TEXT,
                documents=documents,
            ),
            openapi.fields("model", results=ranked),
        ),
    }


def of_index(
    server: service.Service,
    search: Search,
    count_rows: Callable[[int], int] = lambda top_k: 1,
) -> Mapping[str, app.Route]:
    """The answer of a server of an index: `query`, a text or several, and `top_k`.

    `count_rows` returns the rows that a query with `top_k` answers stands for.
    """

    async def find(request, body, queries):
        _check_keys(body, "query", "top_k")
        most = server.limits.max_top_k
        count = _count(body, "top_k", min(_TOP_K, most), most)
        size = batching.measure({"query": _array(queries)})
        size = size._replace(rows=len(queries) * count_rows(count))
        work = batching.Work(
            lambda _: search(queries, count, lambda: work.is_wanted), {}, size
        )
        return {"results": await server.wait(request, work)}

    texts = openapi.array(openapi.fields("id line cosine text", "score start end"))
    results = openapi.array(openapi.fields("query", texts=texts))
    most = {"properties": {"top_k": {"maximum": server.limits.max_top_k}}}
    request = {"allOf": [openapi.fields("", "top_k", query=_TEXTS), most]}
    return {
        SEARCH: app.Route(
            _answer(server, "query", find),
            "Texts that are nearest to queries",
            lambda: request,
            openapi.fields("", results=results),
        )
    }


def _answer(server, key, function):
    """An Answer made of a function of a request, its JSON object and its texts.

    A key whose value is null is absent, as clients of OpenAI's API send it. The texts
    are under `key`, and None of "".
    """

    def read(content):
        body = rest.read_object(content).items()
        body = {name: value for name, value in body if value is not None}
        most = server.limits.max_request_rows
        return body, _texts(body, key, most) if key else None

    async def answer(request: requests.Request, content: bytes) -> responses.Response:
        body, texts = await server.run(read, len(content), content)
        value = await function(request, body, texts)
        text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
        return responses.Response(text, media_type=app.JSON)

    return answer


def _signature(server, body, output, numbers):
    """A version, and the name and inputs of its first signature with an output.

    It takes as many texts as one of the numbers.
    """
    model = server.require_model()
    if not isinstance(name := body.get("model", model.name), str):
        raise servables.invalid(f"model is {name!r:.80}; give a name")
    version = model.version(name)
    if named := version.find_texts(output, numbers):
        return version, *named
    raise service.refuse(
        HTTPStatus.NOT_FOUND,
        f"{model.name} has no signature of {' or '.join(map(str, numbers))} texts with "
        f"the output {output}",
    )


def _check_keys(body, *known):
    """Refuses other keys, which clients of other APIs send to the other paths alone."""
    if unknown := body.keys() - known:
        text = f"{min(unknown)!r:.80} is no key of this path; give {', '.join(known)}"
        raise servables.invalid(text)


def _text(body, key):
    text = body.get(key)
    if not isinstance(text, str) or not search_index.has_content(text):
        raise servables.invalid(f"{key} is {text!r:.80}; give a text with words")
    return text


def _texts(body, key, most):
    """The texts under a key, which may be one; those of documents may be objects."""
    texts = body.get(key)
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts:
        raise servables.invalid(f"{key} is {texts!r:.80}; give a text, or several")
    rest.check_rows(len(texts), most)
    if key == "documents":
        texts = [text.get("text") if isinstance(text, dict) else text for text in texts]
    return [_text({f"{key}[{i}]": t}, f"{key}[{i}]") for i, t in enumerate(texts)]


def _array(texts):
    return np.array([json_tensors.encode(text) for text in texts], object)


def _count(body, key, default, most=None):
    count = body.get(key, default)
    is_number = isinstance(count, int) and not isinstance(count, bool)
    if not is_number or not 1 <= count <= (most or count):
        limit = f"1 to {most}" if most else "1 or more"
        raise servables.invalid(f"{key} is {count!r:.80}; give {limit}")
    return count


def _choice(body, key, choices):
    if (value := body.get(key, choices[0])) not in choices:
        raise servables.invalid(
            f"{key} is {value!r:.80}; give one of {', '.join(choices)}"
        )
    return value
