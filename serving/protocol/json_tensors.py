"""Tensors as TensorFlow Serving's REST API writes them in JSON.

A string that is not text is `{"b64": ...}`; numbers have the fewest digits, of six or
nine (17), that give the same number again.
"""

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from serving.protocol import servables

_BASE64 = "b64"
_BYTES_SUFFIX = "_bytes"  # of an output whose strings are not text
_MAX_AXES = 32  # more than any input has
_SHOWN = 80  # characters of a wrong value that an error repeats
# The largest integer up to which a type of floating-point numbers has all.
_EXACT = {tf.float32: 2**24 - 1, tf.float64: 2**53 - 1}


def is_bytes(value: Any) -> bool:
    """Whether a JSON value stands for a string of bytes."""
    return isinstance(value, dict) and [*value] == [_BASE64]


def array(value: Any, dtype: tf.DType) -> np.ndarray:
    """The tensor that a value, or lists of lists of values, stand for.

    Raises:
        tf.errors.InvalidArgumentError: lists differ in length, or a value in type.
    """
    shape = _shape(value)
    values = list(_values(value, shape, dtype))
    found = np.array(values, object if dtype == tf.string else dtype.as_numpy_dtype)
    return found.reshape(shape)


def rows(values: Sequence[Any], dtype: tf.DType) -> np.ndarray:
    """The tensor of values of equal shape, one a row; raises as `array`."""
    shape: list[int] | None = None
    found: list[Any] = []
    for i, value in enumerate(values):
        row_shape = _shape(value)
        if shape is None:
            shape = row_shape
        if row_shape != shape:
            raise servables.invalid(
                f"element {i} of 'instances' has shape {row_shape}, those before have "
                f"{shape}"
            )
        try:
            found += _values(value, shape, dtype)
        except tf.errors.InvalidArgumentError as error:
            raise servables.invalid(
                f"Failed to process element: {i} of 'instances' list. Error: "
                f"{error.message}"
            ) from error
    kind = object if dtype == tf.string else dtype.as_numpy_dtype
    return np.array(found, kind).reshape([len(values), *(shape or [])])


def _shape(value):
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        if len(shape) > _MAX_AXES:
            raise servables.invalid("JSON Parse error: lists are nested too deep")
        value = value[0]
    return shape


def _values(value: Any, shape: Sequence[int], dtype: tf.DType) -> Iterator[Any]:
    """What lists of this shape hold, in order."""
    if not shape:
        yield _scalar(value, dtype)
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        given = f"a list of {len(value)}" if isinstance(value, list) else shown(value)
        raise servables.invalid(f"{given} stands where a list of {shape[0]} has to")
    for part in value:
        yield from _values(part, shape[1:], dtype)


def _scalar(value, dtype):
    if dtype == tf.string:
        if is_bytes(value):
            return _decoded(value[_BASE64])
        if isinstance(value, str):
            return _encoded(value)
    elif dtype == tf.bool:
        if isinstance(value, bool):
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value, dtype)
    raise servables.invalid(
        f"JSON Value: {shown(value)} Type: {_type_name(value)} is not of expected "
        f"type: {dtype.name}"
    )


def _number(value, dtype):
    if dtype.is_floating:
        limit = _EXACT[dtype] if isinstance(value, int) else float(dtype.max)
        # NaN and infinities are numbers for TensorFlow Serving, too.
        is_odd = isinstance(value, float) and not math.isfinite(value)
        fits = is_odd or abs(value) <= limit
    else:
        fits = isinstance(value, int) and dtype.min <= value <= dtype.max
    if not fits:
        raise servables.invalid(
            f"JSON Value: {shown(value)} is not of expected type: {dtype.name}, which "
            "has no such number"
        )
    return value


def _encoded(text):
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise servables.invalid(
            f"{shown(text)} has half of a surrogate pair at {error.start}, which is "
            f'not Unicode; bytes are {{"{_BASE64}": ...}}'
        ) from error


def _decoded(text):
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise servables.invalid(
            f"JSON Value: {shown(text)} not formatted correctly for base64 data"
        ) from error


def _type_name(value):
    if value is None or isinstance(value, bool):
        return {None: "Null", False: "False", True: "True"}[value]
    names = {str: "String", list: "Array", dict: "Object"}
    return names.get(type(value), "Number")


def check_finite(value: Any) -> None:
    """Refuses NaN and infinities, which are no JSON, where no tensor has them."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise servables.invalid(
            f"JSON Value: {shown(value)} has a number that is not JSON"
        ) from error


def shown(value: Any) -> str:
    """The beginning of a value, for an error."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def by_column(arrays: Mapping[str, np.ndarray]) -> str:
    """An object of tensors, or the one there is."""
    texts = {name: _text(found, _is_bytes(name)) for name, found in arrays.items()}
    return next(iter(texts.values())) if len(texts) == 1 else _object(texts)


def by_row(arrays: Mapping[str, np.ndarray]) -> str:
    """A list of objects, one a row of the tensors, or of rows of the one there is.

    Raises:
        tf.errors.InvalidArgumentError: the tensors have no rows, or not as many.
    """
    sizes = {found.shape[:1] for found in arrays.values()}
    if len(sizes) > 1 or sizes == {()}:
        raise servables.invalid(
            f"the outputs {', '.join(sorted(arrays))} do not have a row for each "
            "instance; ask with 'inputs', by column"
        )
    columns = {name: _parts(found, _is_bytes(name)) for name, found in arrays.items()}
    rows_of_texts = zip(*columns.values(), strict=True)
    if len(columns) == 1:
        return f"[{', '.join(text for (text,) in rows_of_texts)}]"
    objects = (dict(zip(columns, row, strict=True)) for row in rows_of_texts)
    return f"[{', '.join(map(_object, objects))}]"


def _is_bytes(name):
    return name.endswith(_BYTES_SUFFIX)


def _object(texts):
    parts = (f"{json.dumps(name)}: {texts[name]}" for name in sorted(texts))
    return "{" + ", ".join(parts) + "}"


def _text(found: np.ndarray, as_bytes: bool) -> str:
    if not found.ndim:
        return _texts(found.reshape(1), as_bytes)[0]
    return f"[{', '.join(_parts(found, as_bytes))}]"


def _parts(found: np.ndarray, as_bytes: bool) -> list[str]:
    if found.ndim == 1:
        return _texts(found, as_bytes)
    return [_text(row, as_bytes) for row in found]


def _texts(values: np.ndarray, as_bytes: bool) -> list[str]:
    if values.dtype == object and as_bytes:
        encoded = (base64.b64encode(value).decode() for value in values)
        return [json.dumps({_BASE64: text}) for text in encoded]
    if values.dtype == object:
        decoded = (value.decode(errors="replace") for value in values)
        return [json.dumps(text, ensure_ascii=False) for text in decoded]
    if values.dtype.kind == "f":
        return _decimals(values)
    return [json.dumps(value) for value in values.tolist()]


def _decimals(values: np.ndarray) -> list[str]:
    kind = np.promote_types(values.dtype, np.float32)
    digits = 9 if kind == np.float32 else 17
    found = []
    for value, number in zip(values.tolist(), values.astype(kind), strict=True):
        text = f"{value:.6g}"
        if not np.isfinite(value):
            found.append(json.dumps(value))
            continue
        if kind.type(text) != number:
            text = f"{value:.{digits}g}"
        found.append(text if set(".e") & {*text} else f"{text}.0")
    return found
