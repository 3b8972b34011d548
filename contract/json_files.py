"""JSON files, whoever has written them."""

from collections.abc import Callable
from typing import Any

from contract import errors, json_text, remote_files

_COPY = "copy it again"


def read_object(
    path: str,
    from_pairs: Callable[[list[tuple[str, Any]]], Any] = dict,
    *,
    remedy: str = _COPY,
) -> dict[str, Any]:
    """Reads the object in a local or remote file.

    `from_pairs` makes an object of its keys and values, as they stand in the file.

    Raises:
        ValueError: there is none, or it cannot be read; ends with the remedy.
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
    """As `read_object`, of any value."""
    try:
        with remote_files.open_file(path) as file:
            return json_text.parse(file.read(), from_pairs)
    except (OSError, ValueError) as error:
        raise errors.InputError(
            f"{path}: cannot be read ({error}); {remedy}"
        ) from error
