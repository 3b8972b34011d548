"""JSON texts and files that any program may have written, as values."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from contract import errors, remote_files

_COPY = "copy it again"
# An escape of half a surrogate pair; of two that belong together, too.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Field(NamedTuple):
    """A value of an object; one that is absent is None."""

    description: str  # "a text"
    fits: Callable[[Any], bool]


TEXT = Field("a text", lambda value: isinstance(value, str))
BOOL = Field("true or false", lambda value: isinstance(value, bool))


def whole_number(least: int, most: int) -> Field:
    """An integer of a range; a bool is none."""
    return Field(
        f"a whole number from {least} to {most}",
        lambda value: type(value) is int and least <= value <= most,
    )


def optional(field: Field) -> Field:
    """A field that may be absent or null."""
    return Field(
        f"{field.description} or null",
        lambda value: value is None or field.fits(value),
    )


def check(
    path: str, value: Any, fields: Mapping[str, Any], *, remedy: str, place: str = ""
) -> None:
    """Raises InputError for the first field that is unknown or does not fit.

    Args:
        value: read from `path`, at `place`, such as "model.".
        fields: {key: Field, or the fields of an object}.
    """
    if not isinstance(value, dict):
        name = place.rstrip(".")
        raise errors.InputError(f"{path}: {name}={value!r:.40} is no object; {remedy}")
    for key in {**fields, **value}:
        field, part = fields.get(key), value.get(key)
        name = f"{place}{key}"
        if isinstance(field, Mapping):
            check(path, part, field, remedy=remedy, place=f"{name}.")
        elif field is None or not field.fits(part):
            problem = "is unknown" if field is None else f"is not {field.description}"
            raise errors.InputError(
                f"{path}: {name:.80}={part!r:.40} {problem}; {remedy}"
            )


def parse(
    text: str | bytes, from_pairs: Callable[[list[tuple[str, Any]]], Any] = dict
) -> Any:
    """The value of a JSON text; bytes may be UTF-8, UTF-16 or UTF-32.

    `from_pairs` makes an object of its keys and values, in the order of the text.

    Raises:
        ValueError: it is not JSON, or has half a surrogate pair, an integer of
            thousands of digits, or very deep nesting. The message names no file.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text))
        value = json.loads(text, object_pairs_hook=from_pairs)
    except RecursionError:
        raise errors.InputError(
            "its brackets are nested too deeply; remove some"
        ) from None
    except UnicodeDecodeError as error:
        raise errors.InputError(
            f"byte {error.start + 1} is not UTF-8; convert it to UTF-8"
        ) from None
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError) or "digits" not in str(error):
            raise  # the latter of `from_pairs`
        raise errors.InputError(
            "an integer of it has more than 4300 digits; write it as a string"
        ) from None
    if _SURROGATE.search(text):
        whole = json.dumps(value, ensure_ascii=False)
        try:
            whole.encode("utf-8")
        except UnicodeEncodeError as error:
            before = whole[max(error.start - 20, 0) : error.start]
            raise errors.InputError(
                f"its text has {whole[error.start]!a}, which is half a character, "
                f"after {before!r}; remove it"
            ) from None
    return value


def read_object(
    path: str,
    from_pairs: Callable[[list[tuple[str, Any]]], Any] = dict,
    *,
    remedy: str = _COPY,
) -> dict[str, Any]:
    """Reads the object in a local or remote file; `from_pairs` as in `parse`.

    Raises:
        InputError: there is none, or it cannot be read; ends with the remedy.
    """
    raw = read(path, from_pairs, remedy=remedy)
    if not isinstance(raw, dict):
        raise errors.InputError(f"{path}: the file holds no JSON object; {remedy}")
    return raw


def read(
    path: str,
    from_pairs: Callable[[list[tuple[str, Any]]], Any] = dict,
    *,
    remedy: str = _COPY,
) -> Any:
    """Reads any value; as `read_object`."""
    try:
        with remote_files.open_file(path) as file:
            return parse(file.read(), from_pairs)
    except (OSError, ValueError) as error:
        raise errors.InputError(
            f"{path}: cannot be read ({error}); {remedy}"
        ) from error
