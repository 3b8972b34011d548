"""JSON files that other programs have written, one object each."""

import json
from typing import Any

import tensorflow as tf


def read_object(path: str) -> dict[str, Any]:
    """The object in a local or remote file; a ValueError says what is wrong."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            raw = json.loads(file.read())
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); copy it again") from error
    if not isinstance(raw, dict):
        raise ValueError(f"{path}: the file holds no JSON object; copy it again")
    return raw
