"""The paths of a server as a document of OpenAPI 3.1, with JSON Schemas of bodies."""

from collections.abc import Mapping
from typing import Any

from serving.protocol import servables

Schema = Mapping[str, Any]
JSON = "application/json"
STRING, NUMBER, INTEGER = ({"type": t} for t in ("string", "number", "integer"))
COUNT = {"type": "integer", "minimum": 1}
TEXT = {"type": "string", "minLength": 1, "description": "a text with words"}


def array(items: Schema, least: int = 0) -> Schema:
    """The schema of a list."""
    return {"type": "array", "items": items, "minItems": least}


def one_or_several(items: Schema) -> Schema:
    """The schema of a value, or of a list of such values."""
    return {"anyOf": [items, array(items, 1)]}


def fields(*required: str, **properties: Schema) -> Schema:
    """The schema of an object."""
    return {"type": "object", "properties": properties, "required": [*required]}


_ERROR = fields("error", error=STRING)


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
    place, rows = f"/v1/models/{model.name}", {"predictions": array({})}
    request = {
        **fields(signature_name=STRING, instances=array({}, 1), inputs={}),
        "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}],
    }
    status = fields("model_version_status", model_version_status=array(fields()))
    metadata = fields("model_spec", "metadata", model_spec=fields(), metadata=fields())
    return {
        place: get("State of the versions", JSON, status),
        f"{place}/metadata": get("Inputs and outputs", JSON, metadata),
        f"{place}:predict": post("Outputs", request, fields(**rows, outputs={})),
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
