"""Files of any file system that TensorFlow reads, with Python's errors.

Local files need no TensorFlow, which takes seconds to import.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def open_file(path: str | os.PathLike[str], mode: str = "rb") -> Iterator[Any]:
    """Opens a local or remote file as `open` does.

    Raises:
        FileNotFoundError, OSError: there is no such file, or it cannot be read.
    """
    if not is_remote(path):
        try:
            with open(path, mode, encoding=None if "b" in mode else "utf-8") as file:
                yield file
        except FileNotFoundError as error:
            raise FileNotFoundError(path) from error
        except OSError as error:  # of a directory, say
            raise OSError(error.strerror or error) from error
        return
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(path, mode) as file:
            yield file
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(path) from error
    except tf.errors.OpError as error:  # of a directory, say
        raise OSError(error.message) from error


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is for TensorFlow to open, such as gs://bucket/file."""
    return "://" in os.fspath(path)
