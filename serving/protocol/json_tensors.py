"""Tensors as TensorFlow Serving's REST API writes them in JSON.

A string that is not text is `{"b64": ...}`. Numbers have as few digits as give the same
number again.
"""

import base64
import binascii
import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import tensorflow as tf

from serving.protocol import servables

_BASE64 = "b64"
_BYTES_SUFFIX = "_bytes"  # of an output whose strings are not text
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS
_MAX_AXES = 32  # more than any input has
_SHOWN = 80  # characters of a wrong value that an error repeats
# The largest integer up to which a type of floating-point numbers has all.
_EXACT = {tf.float32: 2**24 - 1, tf.float64: 2**53 - 1}


def is_bytes(value: Any) -> bool:
    """Whether a JSON value stands for a string of bytes."""
    return isinstance(value, dict) and [*value] == [_BASE64]


def array(value: Any, dtype: tf.DType) -> np.ndarray:
    """The tensor of a value, or of lists of lists of values.

    Raises:
        tf.errors.InvalidArgumentError: lists differ in length, or a value in type.
    """
    shape: list[int] = []
    values = [value]
    while isinstance(values[0], list):
        shape.append(len(values[0]))
        if len(shape) > _MAX_AXES:
            raise servables.invalid("JSON Parse error: lists are nested too deep")
        for part in values:
            if not isinstance(part, list) or len(part) != shape[-1]:
                text = f"a list of {len(part)}" if isinstance(part, list) else None
                raise servables.invalid(
                    f"{text or shown(part)} stands where a list of {shape[-1]} has to"
                )
        if not shape[-1]:
            values = []
            break
        values = list(itertools.chain.from_iterable(values))
    flat = [_scalar(each, dtype) for each in values]
    kind = object if dtype == tf.string else dtype.as_numpy_dtype
    return np.array(flat, kind).reshape(shape)


def rows(values: Sequence[Any], dtype: tf.DType) -> np.ndarray:
    """The tensor of values of equal shape, one a row; raises as `array`."""
    arrays: list[np.ndarray] = []
    for i, value in enumerate(values):
        try:
            arrays.append(array(value, dtype))
        except tf.errors.InvalidArgumentError as error:
            raise servables.invalid(
                f"Failed to process element: {i} of 'instances' list. Error: "
                f"{error.message}"
            ) from error
        if arrays[i].shape != arrays[0].shape:
            raise servables.invalid(
                f"element {i} of 'instances' has shape {list(arrays[i].shape)}, those "
                f"before have {list(arrays[0].shape)}"
            )
    return np.stack(arrays)


def _scalar(value, dtype):
    if dtype == tf.string:
        if is_bytes(value):
            return _decode(value[_BASE64])
        if isinstance(value, str):
            return encode(value)
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
    least, most = _range(dtype)
    if dtype.is_integer:
        fits = isinstance(value, int) and least <= value <= most
    elif isinstance(value, int):
        fits = abs(value) <= _EXACT[dtype]
    else:  # NaN and infinities are numbers for TensorFlow Serving, too
        fits = least <= value <= most or not math.isfinite(value)
    if not fits:
        raise servables.invalid(
            f"JSON Value: {shown(value)} is not of expected type: {dtype.name}, which "
            "has no such number"
        )
    return value


@functools.cache
def _range(dtype):
    kind = float if dtype.is_floating else int
    return kind(dtype.min), kind(dtype.max)


def encode(text: str) -> bytes:
    """UTF-8; InvalidArgumentError where a text is not Unicode."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise servables.invalid(
            f"{shown(text)} has half of a surrogate pair at {error.start}, which is "
            f'not Unicode; bytes are {{"{_BASE64}": ...}}'
        ) from error


def _decode(text):
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise servables.invalid(
            f"JSON Value: {shown(text)} not formatted correctly for base64 data"
        ) from error


def _type_name(value):
    if value is None or isinstance(value, bool):
        return "Null" if value is None else str(value)
    names = {str: "String", list: "Array", dict: "Object"}
    return names.get(type(value), "Number")


def check_finite(value: Any) -> None:
    """Refuses NaN and infinities, which are not JSON, where no tensor has them."""
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
    """An object of tensors, or the only one."""
    values = {name: _values(name, array) for name, array in arrays.items()}
    return _text(next(iter(values.values())) if len(values) == 1 else values, arrays)


def by_row(arrays: Mapping[str, np.ndarray]) -> str:
    """A list of objects, one a row of the tensors, or of rows of the only tensor.

    Raises:
        tf.errors.InvalidArgumentError: the tensors have no rows, or not as many.
    """
    sizes = {values.shape[:1] for values in arrays.values()}
    if len(sizes) > 1 or sizes == {()}:
        raise servables.invalid(
            f"the outputs {', '.join(sorted(arrays))} do not have a row for each "
            "instance; ask with 'inputs', by column"
        )
    if len(arrays) == 1:
        return by_column(arrays)
    columns = [_values(name, array) for name, array in arrays.items()]
    rows = [dict(zip(arrays, row, strict=True)) for row in zip(*columns, strict=True)]
    return _text(rows, arrays)


def _values(name: str, array: np.ndarray) -> Any:
    """What orjson writes: numbers as they are, lists of text or of base64."""
    if array.dtype.kind != "O":
        return np.asarray(array, order="C")[()]
    return _strings(array.tolist(), is_text=not name.endswith(_BYTES_SUFFIX))


def _strings(value: Any, is_text: bool) -> Any:
    if isinstance(value, list):
        return [_strings(part, is_text) for part in value]
    if is_text:
        return value.decode(errors="replace")
    return {_BASE64: base64.b64encode(value).decode()}


def _text(value: Any, arrays: Mapping[str, np.ndarray]) -> str:
    kinds = (array for array in arrays.values() if array.dtype.kind == "f")
    if all(np.isfinite(array).all() for array in kinds):
        return orjson.dumps(value, option=_OPTIONS).decode()
    # NaN and Infinity, which orjson writes as null.
    return json.dumps(value, default=lambda array: array.tolist(), sort_keys=True)
