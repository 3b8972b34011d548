"""Text files that appear under their names when all of them are whole."""

import os
from collections.abc import Iterable, Mapping

import tensorflow as tf


def write(files: Mapping[str, Iterable[str]]) -> None:
    """Writes files beside their names, and gives them their names in the end.

    Args:
        files: {path: parts of its text}, which may be read from the file that is
            replaced. Directories are made.

    Raises:
        OSError: one cannot be written; none has its name then, and nothing else stays.
    """
    temporary = {path: f"{path}.incomplete" for path in files}
    path = ""
    try:
        for path, parts in files.items():
            tf.io.gfile.makedirs(os.path.dirname(path) or ".")
            with tf.io.gfile.GFile(temporary[path], "w") as file:
                for part in parts:
                    file.write(part)
        for path in files:
            tf.io.gfile.rename(temporary[path], path, overwrite=True)
    except tf.errors.OpError as error:
        raise OSError(
            f"{path}: cannot be written ({error.message}); make room there, or name "
            "another place"
        ) from error
    finally:
        for left in filter(tf.io.gfile.exists, temporary.values()):
            tf.io.gfile.remove(left)
