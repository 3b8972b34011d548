"""Tells files from others of the same names and sizes, at a bounded cost."""

import concurrent.futures
import zlib
from collections.abc import Sequence

import tensorflow as tf

_BLOCK_BYTES = 1 << 16  # read at each end of a file; an .index of weights is smaller
_MOST_FILES = 100  # that are read, of thousands on a remote disk
_READERS = 16


def digest(paths: Sequence[str]) -> str:
    """Eight hexadecimal digits that differ where the files differ in size or ends.

    Names do not count. At most 100 files are read, at equal distances in the list.
    Raises tf.errors.OpError where one cannot be read.
    """
    step = -(-len(paths) // _MOST_FILES) or 1
    with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(_ends, paths[::step]))
    return f"{zlib.crc32(repr((len(paths), found)).encode()):08x}"


def _ends(path):
    """Size of a file, and checksum of its first and last bytes."""
    size = tf.io.gfile.stat(path).length
    with tf.io.gfile.GFile(path, "rb") as file:
        first = file.read(_BLOCK_BYTES)
        file.seek(max(size - _BLOCK_BYTES, 0))
        return size, zlib.crc32(file.read(_BLOCK_BYTES), zlib.crc32(first))
