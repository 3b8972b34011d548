"""JSON files that other programs have written."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from contract import json_text


def read_object(
    path: str, from_pairs: Callable[[list[tuple[str, Any]]], Any] = dict
) -> dict[str, Any]:
    """The object in a local or remote file; a ValueError says what is wrong.

    `from_pairs` makes an object of its keys and values, as they stand in the file.
    """
    raw = read(path, from_pairs)
    if not isinstance(raw, dict):
        raise ValueError(f"{path}: the file holds no JSON object; copy it again")
    return raw


def read(path: str, from_pairs: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    """As `read_object`, of any value."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return json_text.parse(file.read(), from_pairs)
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); copy it again") from error
