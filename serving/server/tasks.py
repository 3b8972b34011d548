"""Vectors in the form of OpenAI's API, labels, reranking, and search in an index."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from data_pipeline.classification import predictions
from serving.protocol import servables
from serving.server import app, batching, openapi, service, text_requests

_TOP_K = 5  # where a request has none
EMBEDDINGS, RERANK = "/v1/embeddings", "/v1/rerank"
CLASSIFY, SEARCH = app.CLASSIFY, app.SEARCH
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
        formats = ("float", "base64")
        as_base64 = text_requests.read_choice(body, "encoding_format", formats)
        inputs, vectors = await text_requests.vectors(server, request, body, texts)
        if as_base64 == "base64":
            vectors = [base64.b64encode(v.astype("<f4")).decode() for v in vectors]
        # Of each text alone: padding, which a batch has, is not billed.
        ((column, values),) = inputs.items()
        rows = values[:, np.newaxis]
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
        asked = text_requests.signature(server, body, "probabilities", [1, 2])
        columns, most = asked.inputs, server.limits.max_request_rows
        text_requests.check_keys(body, "model", *columns)
        texts = [text_requests.read_texts(body, column, most) for column in columns]
        if len({*map(len, texts)}) > 1:
            counts = zip(map(len, texts), columns, strict=True)
            known = ", ".join(f"{count} {column}" for count, column in counts)
            raise servables.invalid(f"there are {known}; give as many of each")
        results = await text_requests.classes(server, request, asked, texts)
        return {"model": server.require_model().name, "results": results}

    async def rerank(request, body, texts):
        count = text_requests.read_count(body, "top_n", len(texts))
        scores = await text_requests.relevance(server, request, body, texts)
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

    return {
        CLASSIFY: app.Route(
            text_requests.answer(server, "", classify),
            "Labels of texts, or of pairs",
            text_requests.described(server, "probabilities", [1, 2], "model"),
            openapi.fields("model", results=labelled),
        ),
        EMBEDDINGS: app.Route(
            text_requests.answer(server, "input", embed),
            "Vectors of texts",
            text_requests.described(
                server,
                "vector",
                [1],
                "model dimensions encoding_format",
                input=text_requests.SEVERAL,
            ),
            openapi.fields("model", data=vector),
        ),
        RERANK: app.Route(
            text_requests.answer(server, "documents", rerank),
            "Documents in the order of their relevance to a query",
            text_requests.described(
                server,
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
        text_requests.check_keys(body, "query", "top_k")
        most = server.limits.max_top_k
        count = text_requests.read_count(body, "top_k", min(_TOP_K, most), most)
        size = batching.measure({"query": text_requests.as_array(queries)})
        size = size._replace(rows=len(queries) * count_rows(count))
        work = batching.Work(
            lambda _: search(queries, count, lambda: work.is_wanted), {}, size
        )
        return {"results": await server.wait(request, work)}

    texts = openapi.array(openapi.fields("id line cosine text", "score start end"))
    results = openapi.array(openapi.fields("query", texts=texts))
    most = {"properties": {"top_k": {"maximum": server.limits.max_top_k}}}
    request = {
        "allOf": [openapi.fields("", "top_k", query=text_requests.SEVERAL), most]
    }
    return {
        SEARCH: app.Route(
            text_requests.answer(server, "query", find),
            "Texts that are nearest to queries",
            lambda: request,
            openapi.fields("", results=results),
        )
    }
