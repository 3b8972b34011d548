"""JSON texts and files that any program may have written, as values."""

import json
import re
from collections.abc import Callable
from typing import Any

from contract import characters, errors, remote_files

_COPY = "copy it again"
# An escape of half a surrogate pair; of two that belong together, too.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def check(path: str, value: Any, form: Any, *, remedy: str, name: str = "") -> None:
    """Raises InputError for the first part of a value that has another form.

    Args:
        value: read from `path`, where it is called `name`.
        form: {key: form} of an object, a range of integers, a type, or a tuple of forms
            and values, of which one fits. An absent key is None.
    """
    if isinstance(form, dict) and isinstance(value, dict):
        for key in {**form, **value}:
            part = f"{name}.{key:.40}".lstrip(".")
            check(path, value.get(key), form.get(key), remedy=remedy, name=part)
    elif not _fits(value, form):
        wanted = _spell(form)
        raise errors.InputError(
            f"{path}: {name}={value!r:.40} is not {wanted}; {remedy}"
        )


def _fits(value, form):
    if isinstance(form, tuple):
        return any(_fits(value, each) for each in form)
    if isinstance(form, range):
        return type(value) is int and value in form
    return type(value) is form or value == form


def _spell(form):
    if isinstance(form, tuple):
        return " or ".join(map(_spell, form))
    if isinstance(form, range):
        return f"a whole number from {form[0]} to {form[-1]}"
    names = {str: "a text", bool: "true or false", None: "absent"}
    return "an object" if isinstance(form, dict) else names.get(form, f"{form}")


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its keys and values; InputError for a key that is there twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        count = keys.count(twice)
        raise errors.InputError(
            f"the key {twice!r:.60} is there {count} times in one object; remove all "
            "but one"
        )
    return made


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
        is_known = isinstance(error, json.JSONDecodeError | errors.InputError)
        if is_known or "digits" not in str(error):
            raise  # the latter two of `from_pairs`
        raise errors.InputError(
            "an integer of it has more than 4300 digits; write it as a string"
        ) from None
    if _SURROGATE.search(text):
        characters.check(json.dumps(value, ensure_ascii=False), "its text")
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
    except FileNotFoundError as error:
        text = f"{path}: cannot be read (no such file); {remedy}"
        raise errors.InputError(text) from error
    except (OSError, ValueError) as error:
        raise errors.InputError(
            f"{path}: cannot be read ({error}); {remedy}"
        ) from error
