"""Files of any file system that TensorFlow reads, with Python's errors.

Local files need no TensorFlow, which takes seconds to import.
"""

import concurrent.futures
import contextlib
import glob
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from contract import errors
from contract.tensorflow_later import tf

_BLOCK_BYTES = 1 << 16  # read at each end of a file; an .index of weights is smaller
_MOST_FILES = 100  # that are read, of thousands on a remote disk
_READERS = 16


@contextlib.contextmanager
def open_file(path: str | os.PathLike[str], mode: str = "rb") -> Iterator[Any]:
    """Opens a local or remote file as `open` does.

    Raises:
        FileNotFoundError, OSError: there is no such file, or it cannot be read.
    """
    if not is_remote(path):
        if is_pipe(path):
            sys.stderr.write(
                f"{path}: waiting for what a program writes to this pipe\n"
            )
        try:
            with open(path, mode, encoding=None if "b" in mode else "utf-8") as file:
                yield file
        except FileNotFoundError as error:
            raise FileNotFoundError(path) from error
        except OSError as error:  # of a directory, say
            raise OSError(error.strerror or error) from error
        return
    try:
        with tf.io.gfile.GFile(path, mode) as file:
            yield file
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(path) from error
    except tf.errors.OpError as error:  # of a directory, say
        raise OSError(error.message) from error


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Whether a local path is a FIFO, which is read once and has no size."""
    return os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode)


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is for TensorFlow to open, such as gs://bucket/file.

    Raises:
        InputError: TensorFlow has no file system of this name.
    """
    path = os.fspath(path)
    check_scheme(path, path)
    return "://" in path


def check_scheme(path: str, place: str) -> None:
    """Raises InputError for `place` where a path is of an unknown file system."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9.]*)://", path)  # others are no schemes
    if scheme and scheme[1] not in (known := tf.io.gfile.get_registered_schemes()):
        names = ", ".join(f"{name}://" for name in sorted(filter(None, known)))
        raise errors.InputError(
            f"{place}: TensorFlow has no {scheme[1]}:// here, but {names}; give a "
            "local path (in Python, `import tensorflow_io` may add others)"
        )


def expand(path: str | os.PathLike[str]) -> str:
    """A path with the directory of a user in the place of ~ or ~name.

    Bash leaves it in --flag=~/file. What has such a name, literally, stays.
    """
    path = os.fspath(path)
    return path if os.path.lexists(path) else os.path.expanduser(path)


def resolve(path: Any, name: str) -> str:
    """The path that an argument of Python is, as `expand` has it.

    InputError is raised for what is no path, and as in `check_scheme`.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise errors.InputError(
            f"{name} is of type {type(path).__name__}; give a path as text"
        )
    path = expand(text)
    check_scheme(path, f"{name}={path}")
    return path


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether a local or remote file or directory is there."""
    return (tf.io.gfile if is_remote(path) else os.path).exists(path)


def is_dir(path: str | os.PathLike[str]) -> bool:
    """Whether a local or remote directory is there."""
    return (tf.io.gfile if is_remote(path) else os.path).isdir(path)


def matching(directory: str, pattern: str) -> list[str]:
    """The local or remote paths in a directory that a pattern matches, sorted.

    Brackets and stars in the name of the directory stand for themselves.
    """
    pattern = os.path.join(glob.escape(directory), pattern)
    return sorted((tf.io.gfile if is_remote(pattern) else glob).glob(pattern))


def refuse_patterns(path: str | os.PathLike[str], name: str) -> None:
    """Refuses a path for checkpoints that TensorFlow would read as a pattern.

    Raises:
        InputError: the path has brackets, stars or question marks.
    """
    path = os.fspath(path)
    if glob.escape(path) != path:
        raise errors.InputError(
            f"{name}={path}: TensorFlow reads brackets, stars and question marks in "
            "the path of a checkpoint as a pattern; rename the directory"
        )


def digest(paths: Sequence[str]) -> str:
    """Eight hexadecimal digits that differ where the files differ in size or ends.

    Names do not count. At most 100 files are read, at equal distances in the list.
    Raises tf.errors.OpError where one cannot be read.
    """
    step = -(-len(paths) // _MOST_FILES) or 1
    with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
        ends = list(pool.map(_ends, paths[::step]))
    return f"{zlib.crc32(repr((len(paths), ends)).encode()):08x}"


def digest_of_tree(directory: str) -> str:
    """`digest` of all files below a directory."""
    walk = tf.io.gfile.walk(directory)
    paths = [os.path.join(folder, file) for folder, _, files in walk for file in files]
    return digest(sorted(paths))


def _ends(path):
    """Size of a file, and checksum of its first and last bytes."""
    size = tf.io.gfile.stat(path).length
    with tf.io.gfile.GFile(path, "rb") as file:
        first = file.read(_BLOCK_BYTES)
        file.seek(max(size - _BLOCK_BYTES, 0))
        return size, zlib.crc32(file.read(_BLOCK_BYTES), zlib.crc32(first))
