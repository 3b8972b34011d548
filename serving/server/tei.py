"""The addresses of Hugging Face's text-embeddings-inference, for its clients.

Differs from text-embeddings-inference: texts that are too long are cut, vectors are
those of the export, and scores those of its labels; see docs/server.md.
"""

from collections.abc import Mapping

import numpy as np

from data_pipeline.classification import predictions
from modeling.checkpoints import hugging_face
from serving.protocol import rest, servables
from serving.server import app, openapi, service, text_requests

EMBED, RERANK, PREDICT = "/embed", "/rerank", "/predict"
_DONE = "truncate", "truncation_direction", "raw_scores"  # with one value each


def of_models(server: service.Service) -> Mapping[str, app.Route]:
    """The answers of a server of exports, by path.

    `/embed` takes `inputs`, a text or several, `normalize` and `dimensions`; `/rerank`
    takes `query`, `texts` and `return_text`; `/predict` takes `inputs`: a text, a pair
    of texts, or a list of lists of one or two texts.
    """

    async def embed(request, body, texts):
        _check(body, "inputs", "normalize", "dimensions")
        scales = text_requests.read_choice(body, "normalize", (True, False))
        read = text_requests.vectors
        return (await read(server, request, body, texts, normalize=scales))[1]

    async def rerank(request, body, texts):
        _check(body, "query", "texts", "return_text")
        shows = text_requests.read_choice(body, "return_text", (False, True))
        scores = await text_requests.relevance(server, request, body, texts)
        return [
            {
                "index": place,
                **({"text": texts[place]} if shows else {}),
                "score": score,
            }
            for place, score in predictions.ranked(scores)
        ]

    async def predict(request, body, _):
        _check(body, "inputs")
        rows, is_batch = _read_rows(body.get("inputs"), server.limits.max_request_rows)
        asked = text_requests.signature(server, body, "probabilities", [len(rows[0])])
        results = await text_requests.classes(
            server, request, asked, [*zip(*rows, strict=True)]
        )
        scored = [_by_score(each, asked.labels) for each in results]
        return scored if is_batch else scored[0]

    text, described = openapi.TEXT, text_requests.described
    pair = {**openapi.array(text, 1), "maxItems": 2}
    classes = openapi.array(openapi.fields("score label"))
    done = " ".join(_DONE)
    number, several = {"type": "number"}, text_requests.SEVERAL
    return {
        EMBED: app.Route(
            text_requests.answer(server, "inputs", embed),
            "Vectors of texts, as text-embeddings-inference has them",
            described(
                server, "vector", [1], f"normalize dimensions {done}", inputs=several
            ),
            openapi.array(openapi.array(number)),
        ),
        RERANK: app.Route(
            text_requests.answer(server, "texts", rerank),
            "Ranks of texts, as text-embeddings-inference has them",
            described(
                server,
                "probabilities",
                [2],
                f"return_text {done}",
                query=text,
                texts=openapi.array(text, 1),
            ),
            openapi.array(openapi.fields("index score", "text")),
        ),
        PREDICT: app.Route(
            text_requests.answer(server, "", predict),
            "Labels of texts, as text-embeddings-inference has them",
            described(
                server,
                "probabilities",
                [1, 2],
                done,
                inputs={"anyOf": [text, pair, openapi.array(pair, 1)]},
            ),
            {"anyOf": [classes, openapi.array(classes)]},
        ),
    }


def _check(body, *known):
    """Refuses what is not done, and takes what is done anyway."""
    cuts = text_requests.read_choice(body, "truncate", (True, False))
    if not cuts:
        raise servables.invalid(
            "truncate is false, and longer texts are cut; leave it out, or cut them"
        )
    side = body.get("truncation_direction", "Right")
    if str(side).lower() != "right":
        raise servables.invalid(
            f"truncation_direction is {side!r:.80}, and texts are cut on the right; "
            "leave it out"
        )
    if text_requests.read_choice(body, "raw_scores", (False, True)):
        raise servables.invalid(
            "raw_scores is true, and an export has no scores but those it gives; "
            "leave it out"
        )
    text_requests.check_keys(body, *known, *_DONE)


def _read_rows(inputs, most):
    """Lists of one or two texts, equally many; and whether there may be several."""
    is_batch = isinstance(inputs, list) and bool(inputs) and isinstance(inputs[0], list)
    rows = inputs if is_batch else [inputs if isinstance(inputs, list) else [inputs]]
    rest.check_rows(len(rows), most)
    names = [f"inputs[{i}]" for i in range(len(rows))] if is_batch else ["inputs"]
    for name, row in zip(names, rows, strict=True):
        if not isinstance(row, list) or not 1 <= len(row) <= 2:
            raise servables.invalid(
                f"{name} is {row!r:.80}; give a text, a pair of texts, or a list of "
                "lists of one or two texts"
            )
        if len(row) != len(rows[0]):
            raise servables.invalid(
                f"{name} has {len(row)} texts, the first {len(rows[0])}; give as many "
                "in each"
            )
        for text in row:
            text_requests.read_text({name: text}, name)
    return rows, is_batch


def _by_score(answer, names):
    """The labels of an answer and their scores, the largest first."""
    shares = answer.get("probabilities", {}).values()
    shares = [*shares] or answer.get("scores") or [answer["score"]]
    names = names or hugging_face.placeholder_labels(len(shares))
    ranked = predictions.ranked(np.array(shares))
    return [{"score": score, "label": names[place]} for place, score in ranked]
