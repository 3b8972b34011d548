"""The REST API of TensorFlow Serving: requests to arrays, and outputs to JSON.

As its documentation (RESTful API): status, metadata and `:predict`, rows as `instances`
or columns as `inputs`, errors as `{"error": ...}`.
"""

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib import parse

import tensorflow as tf
from google.protobuf import json_format

from contract import atomic_files
from serving.protocol import json_tensors, servables

_MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?"
_PREDICTION = re.compile(f"{_MODEL}:(classify|regress|predict)", re.IGNORECASE)
_STATUS = re.compile(f"{_MODEL}(/metadata)?", re.IGNORECASE)
_MAX_VERSION = 2**63 - 1
_MAX_MESSAGE = 1000  # characters


class TooManyRowsError(tf.errors.InvalidArgumentError):
    """A request has more rows than the server takes."""


_CODES = {
    TooManyRowsError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    tf.errors.InvalidArgumentError: HTTPStatus.BAD_REQUEST,
    tf.errors.FailedPreconditionError: HTTPStatus.BAD_REQUEST,
    tf.errors.OutOfRangeError: HTTPStatus.BAD_REQUEST,
    tf.errors.NotFoundError: HTTPStatus.NOT_FOUND,
    tf.errors.ResourceExhaustedError: HTTPStatus.TOO_MANY_REQUESTS,
    tf.errors.UnimplementedError: HTTPStatus.NOT_IMPLEMENTED,
    tf.errors.UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    tf.errors.DeadlineExceededError: HTTPStatus.GATEWAY_TIMEOUT,
}


class Prediction(NamedTuple):
    """A request for outputs of a signature; `write` makes JSON of them."""

    version: servables.Version
    signature_name: str
    arrays: servables.Arrays
    write: Callable[[servables.Arrays], str]


def explain(error: Exception) -> tuple[int, str]:
    """The HTTP status and the JSON text of an error.

    It is one of this module or of a model, or a library's InputError.
    """
    status, text = HTTPStatus.BAD_REQUEST, atomic_files.reason(error)
    if isinstance(error, tf.errors.OpError):
        status = _CODES.get(type(error), HTTPStatus.INTERNAL_SERVER_ERROR)
    elif isinstance(error, RecursionError):
        text = "JSON Parse error: lists or objects are nested too deep"
    return status, error_text(text)


def error_text(message: str) -> str:
    """The JSON of an error, at most 6 KB of ASCII, for half a surrogate pair."""
    return json.dumps({"error": message[:_MAX_MESSAGE]})


def read(model: servables.Model, path: str, body: bytes, max_rows: int) -> Prediction:
    """The prediction that a POST requests, with at most `max_rows` instances.

    Raises:
        tf.errors.OpError, RecursionError: see `explain`.
    """
    match = _PREDICTION.fullmatch(path)
    if not match:
        raise _malformed(model, "POST", path)
    name, number = _model_version(match)
    if match[4].lower() != "predict":
        raise servables.invalid(
            f"the signatures of {model.name} are for :predict, not for :{match[4]}"
        )
    return _read_prediction(model, name, number, read_object(body), max_rows)


def describe(model: servables.Model, method: str, path: str) -> str:
    """The JSON text of a status or of metadata; errors as of `read`."""
    match = _STATUS.fullmatch(path) if method in ("GET", "HEAD") else None
    if not match:
        raise _malformed(model, method, path)
    name, number = _model_version(match)
    return (_metadata if match[4] else _status)(model, name, number)


def _malformed(model, method, path):
    return servables.invalid(
        f"Malformed request: {method:.80} {path:.80}; to ask, POST "
        f'{{"instances": [...]}} to /v1/models/{model.name}:predict; GET '
        f"/v1/models/{model.name}/metadata names the inputs"
    )


def _model_version(match):
    """Name and version, or None, in an address."""
    if match[3]:
        raise servables.invalid(f"Unrecognized servable version label: {match[3]:.80}")
    digits = (match[2] or "").lstrip("0")
    if len(digits) > len(str(_MAX_VERSION)) or int(digits or 0) > _MAX_VERSION:
        raise servables.invalid(
            f"Failed to convert version: {match[2]:.80} to numeric."
        )
    return parse.unquote(match[1]), int(digits or 0) if match[2] else None


def _status(model, name, number):
    model.version(name, number)
    versions = sorted(model.versions, reverse=True) if number is None else [number]
    ok = {"error_code": "OK", "error_message": ""}
    states = [{"version": str(v), "state": "AVAILABLE", "status": ok} for v in versions]
    return json.dumps({"model_version_status": states}, indent=1)


def _metadata(model, name, number):
    version = model.version(name, number)
    number = max(model.versions) if number is None else number
    form = {
        "preserving_proto_field_name": True,
        "always_print_fields_with_no_presence": True,
    }
    definitions = {
        key: json_format.MessageToDict(definition, **form)
        for key, definition in version.signatures.items()
    }
    spec = {"name": name, "signature_name": "", "version": str(number)}
    metadata = {"signature_def": {"signature_def": definitions}}
    return json.dumps({"model_spec": spec, "metadata": metadata}, indent=1)


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body; errors as of `read`."""
    try:
        request = json.loads(body.decode())
    except UnicodeDecodeError as error:
        raise servables.invalid(
            f"JSON Parse error: byte {error.start} is not UTF-8; text that is not is "
            'given as {"b64": ...}'
        ) from error
    except ValueError as error:
        raise servables.invalid(f"JSON Parse error: {error}") from error
    if not isinstance(request, dict):
        raise servables.invalid(
            f"JSON Value: {json_tensors.shown(request)} Is not object"
        )
    for key in request.keys() - {"instances", "inputs"}:
        json_tensors.check_finite(request[key])
    return request


def _read_prediction(model, name, number, request, max_rows):
    signature_name = request.get("signature_name", "")
    if not isinstance(signature_name, str):
        raise servables.invalid(
            f"JSON Value: {json_tensors.shown(signature_name)} not formatted "
            "correctly. 'signature_name' key must be a string value."
        )
    version = model.version(name, number)
    specs = version.inputs(signature_name)
    dtypes = {key: specs[key].dtype for key in sorted(specs)}
    if "instances" in request and "inputs" in request:
        raise servables.invalid(
            "expecting only one of 'inputs' or 'instances' keys to exist"
        )
    if "instances" in request:
        arrays = _read_rows(request["instances"], dtypes, max_rows)
        key, write = "predictions", json_tensors.by_row
    elif "inputs" in request:
        arrays = _read_columns(request["inputs"], dtypes)
        key, write = "outputs", json_tensors.by_column
    else:
        raise servables.invalid("Missing 'inputs' or 'instances' key")
    return Prediction(
        version,
        signature_name,
        arrays,
        lambda outputs: f'{{"{key}":{write(outputs)}}}',
    )


def check_rows(count: int, limit: int) -> None:
    """Raises TooManyRowsError before each of too many rows is looked at."""
    if count > limit:
        text = f"a request of {count} rows, the limit is {limit}; send several"
        raise TooManyRowsError(None, None, text)


def _read_rows(instances, dtypes, max_rows):
    if not isinstance(instances, list):
        raise servables.invalid("Excepting 'instances' to be an list/array")
    check_rows(len(instances), max_rows)
    if not instances:
        raise servables.invalid(
            "No values in 'instances' array; a batch of no rows is given as 'inputs'"
        )
    are_objects = _is_object(instances[0])
    if not are_objects and len(dtypes) > 1:
        raise servables.invalid(
            "'instances' is a plain list, but the inputs are several: give an object "
            f"with {', '.join(dtypes)} for each"
        )
    for i, instance in enumerate(instances):
        if _is_object(instance) != are_objects:
            raise servables.invalid(
                f"element {i} of 'instances' is {json_tensors.shown(instance)}; the "
                f"first is {'an' if are_objects else 'no'} object"
            )
        if are_objects and set(instance) != set(dtypes):
            raise servables.invalid(
                f"Failed to process element: {i} of 'instances' list. JSON object: "
                f"{json_tensors.shown(instance)} keys must be equal to: "
                f"{','.join(dtypes)}"
            )
    if not are_objects:
        ((name, dtype),) = dtypes.items()
        return {name: json_tensors.rows(instances, dtype)}
    return {
        name: json_tensors.rows([instance[name] for instance in instances], dtype)
        for name, dtype in dtypes.items()
    }


def _read_columns(inputs, dtypes):
    if not _is_object(inputs):
        if len(dtypes) > 1:
            raise servables.invalid(
                "'inputs' is a plain value/list, but the inputs are several: give an "
                f"object with {', '.join(dtypes)}"
            )
        inputs = dict.fromkeys(dtypes, inputs)
    if missing := [name for name in dtypes if name not in inputs]:
        raise servables.invalid(
            f"Missing named input: {missing[0]} in 'inputs' object."
        )
    return {n: json_tensors.array(inputs[n], dtype) for n, dtype in dtypes.items()}


def _is_object(value):
    return isinstance(value, dict) and not json_tensors.is_bytes(value)
