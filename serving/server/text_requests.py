"""Requests that hold texts, and what a model in service computes of them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import numpy as np
import orjson
from starlette import requests, responses

from contract import errors
from data_pipeline.classification import labels
from modeling.features import vectors as text_vectors
from serving import answers, search_index
from serving.protocol import json_tensors, rest, servables
from serving.server import app, openapi, service

Body = Mapping[str, Any]
SEVERAL = openapi.one_or_several(openapi.TEXT)  # the schema of a text, or of several


async def vectors(
    server: service.Service,
    request: requests.Request,
    body: Body,
    texts: Sequence[str],
    *,
    normalize: bool = False,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The inputs of texts by name, and their vectors, float32 [N, D].

    `dimensions` of the body cuts vectors. These are then scaled to the length 1, and
    so are others if `normalize`.
    """
    asked = signature(server, body, "vector", [1])
    inputs = {asked.inputs[0]: as_array(texts)}
    values = (await asked.compute(server, request, inputs))["vector"]
    if "dimensions" in body:
        width = read_count(body, "dimensions", values.shape[1], values.shape[1])
        values, normalize = values[:, :width], True
    if normalize:
        values = np.asarray(text_vectors.normalize(values))
    return inputs, values


async def relevance(
    server: service.Service, request: requests.Request, body: Body, texts: Sequence[str]
) -> np.ndarray:
    """How relevant texts are to `query` of the body, float32 [N].

    It is the probability of `label`, by default that of the last of two, or the number
    of a regression.
    """
    query = read_text(body, "query")
    asked = signature(server, body, "probabilities", [2])
    names = asked.labels or map(str, range(asked.width))
    classes = labels.Labels(tuple(names), "multi_label")
    try:
        column = classes.ranking_column(body.get("label"))
    except errors.InputError as error:
        raise servables.invalid(str(error)) from error
    # One object for all, as a long query may be asked of a thousand texts.
    queries = np.array([json_tensors.encode(query)] * len(texts), object)
    pairs = queries, as_array(texts)
    inputs = dict(zip(asked.inputs, pairs, strict=True))
    outputs = await asked.compute(server, request, inputs)
    return outputs["probabilities"][:, column]


async def classes(
    server: service.Service,
    request: requests.Request,
    asked: "Asked",
    columns: Sequence[Sequence[str]],
) -> list[answers.Answer]:
    """The answers of run_predictor.py to texts: `columns` are those of each input."""
    inputs = dict(zip(asked.inputs, map(as_array, columns), strict=True))
    outputs = await asked.compute(server, request, inputs)
    server.metrics.count_labels(asked.labels, outputs)
    return answers.rows(outputs, asked.labels or None)


def answer(
    server: service.Service, key: str, function: Callable[..., Awaitable[Any]]
) -> app.Answer:
    """An Answer made of a function of a request, its JSON object and its texts.

    A key whose value is null is absent, as clients of OpenAI's API send it. The texts
    are under `key`, and None of "".
    """

    def read(content):
        body = rest.read_object(content).items()
        body = {name: value for name, value in body if value is not None}
        most = server.limits.max_request_rows
        return body, read_texts(body, key, most) if key else None

    async def answered(request: requests.Request, content: bytes) -> responses.Response:
        body, texts = await server.run(read, len(content), content)
        value = await function(request, body, texts)
        text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
        return responses.Response(text, media_type=app.JSON)

    return answered


class Asked(NamedTuple):
    """The signature that computes a request, and the labels that belong to it.

    A request keeps both to its end, though another model comes into service meanwhile.
    """

    version: servables.Version
    name: str  # of the signature
    inputs: Sequence[str]
    width: int  # of the output
    labels: Sequence[str]

    async def compute(
        self,
        server: service.Service,
        request: requests.Request,
        arrays: servables.Arrays,
    ) -> Mapping[str, Any]:
        """The outputs; errors as of Service.compute."""
        return await server.compute(request, self.version, self.name, arrays)


def signature(
    server: service.Service, body: Body, output: str, numbers: Sequence[int]
) -> Asked:
    """The first signature with an output that takes as many texts as a number."""
    model = server.require_model()
    if not isinstance(name := body.get("model", model.name), str):
        raise servables.invalid(f"model is {name!r:.80}; give a name")
    version = model.version(name)
    if named := version.find_texts(output, numbers):
        return Asked(version, *named, model.labels)
    raise service.refuse(
        HTTPStatus.NOT_FOUND,
        f"{model.name} has no signature of {' or '.join(map(str, numbers))} texts with "
        f"the output {output}",
    )


def described(
    server: service.Service,
    output: str,
    numbers: Sequence[int],
    optional: str,
    **required: openapi.Schema,
) -> Callable[[], openapi.Schema | None]:
    """A function that returns the schema of a request, as of app.Route.

    By default the inputs of the signature are required, as `signature` finds it.
    """

    def request():
        model = server.model
        version = model and model.version(model.name)
        if not (named := version and version.find_texts(output, numbers)):
            return None
        texts = required or dict.fromkeys(named[1], SEVERAL)
        return openapi.fields("", optional, **texts)

    return request


def check_keys(body: Body, *known: str) -> None:
    """Refuses other keys, which clients of other APIs send to the other paths alone."""
    if unknown := body.keys() - known:
        text = f"{min(unknown)!r:.80} is no key of this path; give {', '.join(known)}"
        raise servables.invalid(text)


def read_text(body: Body, key: str) -> str:
    """The text under a key."""
    text = body.get(key)
    if not isinstance(text, str) or not search_index.has_content(text):
        raise servables.invalid(f"{key} is {text!r:.80}; give a text with words")
    return text


def read_texts(body: Body, key: str, most: int) -> list[str]:
    """The texts under a key, which may be one; those of documents may be objects."""
    texts = body.get(key)
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts:
        raise servables.invalid(f"{key} is {texts!r:.80}; give a text, or several")
    rest.check_rows(len(texts), most)
    if key == "documents":
        texts = [text.get("text") if isinstance(text, dict) else text for text in texts]
    return [read_text({f"{key}[{i}]": t}, f"{key}[{i}]") for i, t in enumerate(texts)]


def read_count(body: Body, key: str, default: int, most: int | None = None) -> int:
    """The number under a key: 1, 2 and so on, at most `most`."""
    count = body.get(key, default)
    is_number = isinstance(count, int) and not isinstance(count, bool)
    if not is_number or not 1 <= count <= (most or count):
        limit = f"1 to {most}" if most else "1 or more"
        raise servables.invalid(f"{key} is {count!r:.80}; give {limit}")
    return count


def read_choice(body: Body, key: str, choices: Sequence[Any]) -> Any:
    """The value under a key, one of the choices; the first where the key is absent."""
    value = body.get(key, choices[0])
    if type(value) is not type(choices[0]) or value not in choices:
        known = ", ".join(
            c if isinstance(c, str) else orjson.dumps(c).decode() for c in choices
        )
        raise servables.invalid(f"{key} is {value!r:.80}; give one of {known}")
    return value


def as_array(texts: Sequence[str]) -> np.ndarray:
    """Texts as an input of a signature."""
    return np.array([json_tensors.encode(text) for text in texts], object)
