"""Vectors of lines as the original of ELMo dumps them: a data set of HDF5 a line."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np
import tensorflow as tf


@contextlib.contextmanager
def hdf5(path: str, layout: Any) -> Iterator[Callable[[Any], None]]:
    """Data sets "0", "1", ..., float32 [K, S, W] of tokens, or [K, W] of lines.

    The special tokens around a line are left out, so S is 0 where it has no other.

    Differs from bilm-tf: a line of more than `--max_seq_length` tokens is cut.
    """
    first, last = layout.frame

    def write_line(result):
        values = result.values
        if layout.of_tokens:
            values = values[first : len(values) - last].swapaxes(0, 1)
        data.create_dataset(str(result.unique_id), data=values, dtype=np.float32)
        stream.check()

    with _opened(path) as file:
        stream = _Stream(file)
        with h5py.File(stream, "w", track_order=False) as data:
            yield write_line
        stream.check()


@contextlib.contextmanager
def _opened(path):
    """A file that can be read and written anywhere, also where only GFile writes."""
    if "://" not in path:
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(b"")  # makes it, with the errors of the other formats
        with open(path, "r+b") as local:
            yield local
        return
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        with tf.io.gfile.GFile(path, "wb") as remote:
            shutil.copyfileobj(file, remote)


class _Stream:
    """A file for HDF5 that keeps the first error, after which it writes no more.

    HDF5 fails again with every object that it lets go of, and at the end of the process
    with a segmentation fault; so whoever writes calls `check`.
    """

    def __init__(self, file):
        self._error = None
        self.seek, self.tell = file.seek, file.tell
        self.read, self.readinto = file.read, file.readinto
        self.write, self.truncate, self.flush = map(
            self._kept, (file.write, file.truncate, file.flush)
        )

    def check(self):
        """Raises the error that was kept, if any."""
        if self._error is not None:
            raise _of_tensorflow(self._error) from self._error

    def _kept(self, call):
        def kept(*arguments):
            try:
                return None if self._error else call(*arguments)
            except OSError as error:
                self._error = error
                return None

        return kept


def _of_tensorflow(error):
    """As it is raised for the other formats, whose files TensorFlow writes."""
    return tf.errors.UnknownError(None, None, error.strerror or str(error))
