"""Files that are whole under their names, or absent, whenever a process ends.

A file grows beside its name, with a suffix, and is renamed last. Files and directories
that TensorFlow writes do the same in
modeling/checkpoints/{google,output_directory}.py and serving/export.py.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from contract import errors
from contract.tensorflow_later import tf

SUFFIX = ".incomplete"


@contextlib.contextmanager
def replacing(*paths: str, shared: bool = False) -> Iterator[list[str]]:
    """Yields a path to write to for each of `paths`, renamed to it if all goes well.

    The files are replaced together, in this order; missing directories are made.
    Set `shared` where another process may be writing the same file. Devices, pipes and
    the like are written to directly, never replaced.

    Raises:
        OSError: one cannot be written; then, as after any exception, nothing stays.
    """
    suffix = f"{SUFFIX}-{uuid.uuid4().hex[:12]}" if shared else SUFFIX
    temporary = [path if is_special(path) else f"{path}{suffix}" for path in paths]
    renamed = [pair for pair in zip(temporary, paths, strict=True) if len({*pair}) == 2]
    try:
        for directory in {os.path.dirname(path) or "." for path in paths}:
            tf.io.gfile.makedirs(directory)
        yield temporary
        for source, path in renamed:
            tf.io.gfile.rename(source, path, overwrite=True)
    except tf.errors.OpError as error:
        named = (p for p, t in zip(paths, temporary, strict=True) if t in error.message)
        raise unwritable(next(named, paths[0]), error) from error
    finally:
        for left, _ in renamed:
            remove(left)


def is_special(path: str) -> bool:
    """Whether a path is a device, pipe, socket, or a link of the system to a file.

    /dev/stdout is a link to what standard output is, which may be a regular file.
    """
    if "://" in path or not os.path.exists(path):
        return False
    folder = os.path.realpath(os.path.dirname(path)) + os.sep
    if os.path.islink(path) and folder.startswith(("/dev/", "/proc/")):
        return True
    return not (os.path.isfile(path) or os.path.isdir(path))


def write(files: Mapping[str, Iterable[str]]) -> None:
    """Writes text files, {path: parts of its text}, that take their names together."""
    with replacing(*files) as temporary:
        for path, parts in zip(temporary, files.values(), strict=True):
            with tf.io.gfile.GFile(path, "w") as file:
                for part in parts:
                    file.write(part)


def write_text(path: str, text: str) -> None:
    """Writes one text file; raises as `replacing`."""
    write({path: [text]})


def write_bytes(path: str, data: bytes, *, shared: bool = False) -> None:
    """Writes one file; as `replacing`."""
    with (
        replacing(path, shared=shared) as (temporary,),
        tf.io.gfile.GFile(temporary, "wb") as file,
    ):
        file.write(data)


def write_json(path: str, value: Mapping[str, Any], *, shared: bool = False) -> None:
    """Writes an object on one line, keys sorted; as `replacing`."""
    line = json.dumps(value, sort_keys=True) + "\n"
    write_bytes(path, line.encode(), shared=shared)


def check_writable(path: str) -> None:
    """Raises OSError or InputError where no file can be written, before long work."""
    if path.endswith("/") or tf.io.gfile.isdir(path):
        raise errors.InputError(f"{path} is a directory; name the file to write in it")
    if is_special(path):
        if not os.access(path, os.W_OK):
            raise unwritable(path, PermissionError("Permission denied"))
        return
    trial = f"{path}{SUFFIX}-trial"
    try:
        tf.io.gfile.makedirs(os.path.dirname(path) or ".")
        with tf.io.gfile.GFile(trial, "w") as file:
            file.write("")
        remove(trial)
    except tf.errors.OpError as error:
        raise unwritable(path, error) from error


def remove(path: str) -> None:
    """Removes a file, if it is there."""
    if tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)


def unwritable(path: str, error: Exception) -> OSError:
    """The error of a file that cannot be written."""
    return OSError(
        f"{path}: cannot be written ({reason(error)}); make room there, or name "
        "another place"
    )


def reason(error: Exception) -> str:
    """The message of an error, in one line and without the operation."""
    text = getattr(error, "message", str(error))  # that of TensorFlow's errors
    text = text.split("<stack traces unavailable>\n")[-1]  # of a loaded graph
    return text.split("}} ")[-1].split(" [Op:")[0].split("\n")[0]
