"""Files that are whole under their names, or absent, whenever a process ends.

What grows lies beside its name, with a suffix that says so, and is renamed last. What
TensorFlow writes as several files or a directory does the same in its own place:
modeling/checkpoints/{google,output_directory}.py and serving/export.py.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

SUFFIX = ".incomplete"


@contextlib.contextmanager
def replacing(*paths: str, shared: bool = False) -> Iterator[list[str]]:
    """Yields a path to write to for each of `paths`, renamed to it if all goes well.

    The files are replaced together, in this order; missing directories are made.
    Set `shared` where another process may be writing the same file.

    Raises:
        OSError: one cannot be written; then, as after any exception, nothing stays.
    """
    suffix = f"{SUFFIX}-{uuid.uuid4().hex[:12]}" if shared else SUFFIX
    temporary = [f"{path}{suffix}" for path in paths]
    try:
        for directory in {os.path.dirname(path) or "." for path in paths}:
            tf.io.gfile.makedirs(directory)
        yield temporary
        for source, path in zip(temporary, paths, strict=True):
            tf.io.gfile.rename(source, path, overwrite=True)
    except tf.errors.OpError as error:
        named = (p for p, t in zip(paths, temporary, strict=True) if t in error.message)
        raise unwritable(next(named, paths[0]), error) from error
    finally:
        for left in filter(tf.io.gfile.exists, temporary):
            tf.io.gfile.remove(left)


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


def read_json(path: str) -> dict[str, Any]:
    """Reads what `write_json` wrote."""
    with tf.io.gfile.GFile(path) as file:
        return json.loads(file.read())


def check_writable(path: str) -> None:
    """Raises OSError or ValueError where no file can be written, before long work."""
    if path.endswith("/") or tf.io.gfile.isdir(path):
        raise ValueError(f"{path} is a directory; name the file to write in it")
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
    """What to raise where a file cannot be written."""
    return OSError(
        f"{path}: cannot be written ({reason(error)}); make room there, or name "
        "another place"
    )


def reason(error: Exception) -> str:
    """What went wrong, in one line and without the operation that met it."""
    text = error.message if isinstance(error, tf.errors.OpError) else str(error)
    text = text.split("<stack traces unavailable>\n")[-1]  # of a loaded graph
    return text.split("}} ")[-1].split(" [Op:")[0].split("\n")[0]
