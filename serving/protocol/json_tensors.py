"""Tensors as TensorFlow Serving's REST API writes them in JSON.

A string that is not text is `{"b64": ...}`; numbers have six digits, or nine (17 of
float64) where six do not give the same number again.
"""

import base64
import binascii
import functools
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
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
    texts = {
        name: _text(values.tolist(), _writer(name, values.dtype))
        for name, values in arrays.items()
    }
    return next(iter(texts.values())) if len(texts) == 1 else _object(texts)


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
    columns = []
    for name, values in arrays.items():
        write = _writer(name, values.dtype)
        columns.append([_text(value, write) for value in values.tolist()])
    rows = zip(*columns, strict=True)
    objects = [_object(dict(zip(arrays, texts, strict=True))) for texts in rows]
    return f"[{', '.join(objects)}]"


def _object(texts: Mapping[str, str]) -> str:
    parts = (f"{json.dumps(name)}: {texts[name]}" for name in sorted(texts))
    return "{" + ", ".join(parts) + "}"


def _text(value: Any, write: Callable[[Any], str]) -> str:
    """The JSON of nested lists; `write` gives that of their elements."""
    if isinstance(value, list):
        return f"[{', '.join([_text(part, write) for part in value])}]"
    return write(value)


def _writer(name: str, dtype: np.dtype) -> Callable[[Any], str]:
    """The function of an element of an output to its JSON."""
    if dtype.kind == "O" and name.endswith(_BYTES_SUFFIX):
        return lambda raw: json.dumps({_BASE64: base64.b64encode(raw).decode()})
    if dtype.kind == "O":
        return lambda raw: json.dumps(raw.decode(errors="replace"), ensure_ascii=False)
    if dtype.kind == "f":
        kind, digits = (np.float64, 17) if dtype.itemsize == 8 else (np.float32, 9)
        return lambda value: _decimal(value, kind, digits)
    return json.dumps


def _decimal(value: float, kind: type[np.floating], digits: int) -> str:
    if not math.isfinite(value):
        return json.dumps(value)
    text = f"{value:.6g}"
    if kind(text) != value:
        text = f"{value:.{digits}g}"
    return text if set(".e") & {*text} else f"{text}.0"
