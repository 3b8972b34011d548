"""Files of any file system that TensorFlow reads, with Python's errors."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


@contextlib.contextmanager
def open_file(path: str, mode: str = "rb") -> Iterator[Any]:
    """Opens a local or remote file as `open` does.

    Raises:
        FileNotFoundError, OSError: there is no such file, or it cannot be read.
    """
    try:
        with tf.io.gfile.GFile(path, mode) as file:
            yield file
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(path) from error
    except tf.errors.OpError as error:  # of a directory, say
        raise OSError(error.message) from error
