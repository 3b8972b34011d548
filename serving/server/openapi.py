"""The paths of a server as a document of OpenAPI 3.1, with JSON Schemas of bodies."""

from collections.abc import Mapping
from typing import Any

from serving.protocol import servables

Schema = Mapping[str, Any]
JSON = "application/json"
TEXT = {"type": "string", "minLength": 1, "description": "a text with words"}
_NUMBER, _INTEGER = {"type": "number"}, {"type": "integer"}
_SWITCH = {"type": "boolean"}
_COUNT = {**_INTEGER, "minimum": 1}
_TYPES = {  # of fields by name; others are strings
    **dict.fromkeys(("cosine", "score", "relevance_score"), _NUMBER),
    **dict.fromkeys(("index", "start", "end"), _INTEGER),
    **dict.fromkeys(("line", "top_n", "top_k", "dimensions"), _COUNT),
    **dict.fromkeys(("normalize", "return_text", "truncate", "raw_scores"), _SWITCH),
    "probabilities": {"type": "object", "additionalProperties": _NUMBER},
    "encoding_format": {"enum": ["float", "base64"]},
}


def array(items: Schema, least: int = 0) -> Schema:
    """The schema of a list."""
    return {"type": "array", "items": items, "minItems": least}


def one_or_several(items: Schema) -> Schema:
    """The schema of a value, or of a list of such values."""
    return {"anyOf": [items, array(items, 1)]}


def fields(required: str, optional: str = "", /, **others: Schema) -> Schema:
    """The schema of an object; names stand between spaces, `others` are required."""
    names = f"{required} {optional}".split()
    properties = {name: _TYPES.get(name, {"type": "string"}) for name in names}
    known = {"type": "object", "properties": {**properties, **others}}
    return {**known, "required": [*required.split(), *others]}


_ERROR = fields("error")


def get(summary: str, media_type: str, schema: Schema = {}) -> Schema:  # noqa: B006
    """A path that is read."""
    return {"get": {"summary": summary, "responses": _responses(media_type, schema)}}


def post(summary: str, request: Schema, response: Schema) -> Schema:
    """A path that takes a body."""
    body = {"required": True, "content": {JSON: {"schema": request}}}
    answers = _responses(JSON, response)
    return {"post": {"summary": summary, "requestBody": body, "responses": answers}}


def of_model(model: servables.Model) -> Mapping[str, Schema]:
    """The paths of TensorFlow Serving's API, those of the newest version."""
    place, anything = f"/v1/models/{model.name}", fields("")
    request = {
        **fields("", "signature_name"),
        "oneOf": [fields("", instances=array({}, 1)), fields("", inputs={})],
    }
    answer = {"anyOf": [fields("", predictions=array({})), fields("", outputs={})]}
    status = fields("", model_version_status=array(anything))
    metadata = fields("", model_spec=anything, metadata=anything)
    return {
        place: get("State of the versions", JSON, status),
        f"{place}/metadata": get("Inputs and outputs", JSON, metadata),
        f"{place}:predict": post("Outputs", request, answer),
    }


def document(name: str, paths: Schema, has_key: bool) -> Schema:
    """The whole document; `has_key` is whether a server may want a key."""
    whole: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": name, "version": "1"},
        "paths": paths,
    }
    if has_key:
        scheme = {"type": "http", "scheme": "bearer"}
        whole["components"] = {"securitySchemes": {"key": scheme}}
        whole["security"] = [{"key": []}]
    return whole


def _responses(media_type, schema):
    error = {"description": "refused", "content": {JSON: {"schema": _ERROR}}}
    content = {media_type: {"schema": schema}}
    return {"200": {"description": "the answer", "content": content}, "default": error}
