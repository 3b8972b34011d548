"""Files that are whole under their names, or absent, whenever a process ends.

A file grows beside its name, with a suffix, and is renamed last; until then it is
locked. Files and directories that TensorFlow writes do the same in
modeling/checkpoints/{google,output_directory}.py and serving/export.py.
"""

import contextlib
import errno
import json
import os
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from contract import errors, locks
from contract.tensorflow_later import tf

SUFFIX = ".incomplete"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def replacing(*paths: str, shared: bool = False) -> Iterator[list[str]]:
    """Yields a path to write to for each of `paths`, renamed to it if all goes well.

    The files are replaced together, in this order; missing directories are made.
    Set `shared` where another process may be writing the same file, which is refused
    otherwise. Devices, pipes and the like are written to directly, never replaced.

    Raises:
        OSError: one cannot be written; then, as after any exception, nothing stays.
        InputError: another process writes one of them.
    """
    suffix = f"{SUFFIX}-{uuid.uuid4().hex[:12]}" if shared else SUFFIX
    temporary = [path if is_special(path) else f"{path}{suffix}" for path in paths]
    renamed = [pair for pair in zip(temporary, paths, strict=True) if len({*pair}) == 2]
    try:
        for directory in {os.path.dirname(path) or "." for path in paths}:
            tf.io.gfile.makedirs(directory)
        waiting = {source for source, _ in renamed}
        with contextlib.ExitStack() as stack:
            for source, path in sorted(renamed):  # of two such, one gets them all
                stack.enter_context(locks.held(source, path))
                stack.callback(_remove_own, source, waiting)
            yield temporary
            for source, path in renamed:
                tf.io.gfile.rename(source, path, overwrite=True)
                waiting.remove(source)
    except tf.errors.OpError as error:
        named = (p for p, t in zip(paths, temporary, strict=True) if t in error.message)
        raise unwritable(next(named, paths[0]), error) from error


def _remove_own(source: str, waiting: Collection[str]) -> None:
    if source in waiting:  # or it has its name, and the next writer may have begun
        remove(source)


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


def check_writable(path: str, name: str = "") -> None:
    """Raises OSError or InputError where no file can be written, before long work.

    The message has `name`, if there is one, for a place where several files will be.
    """
    if path.endswith("/") or tf.io.gfile.isdir(path):
        raise errors.InputError(f"{path} is a directory; name the file to write in it")
    if is_special(path):
        if not os.access(path, os.W_OK):
            raise unwritable(path, PermissionError("Permission denied"))
        return
    trial = f"{path}{SUFFIX}-{uuid.uuid4().hex[:12]}"
    try:
        tf.io.gfile.makedirs(os.path.dirname(path) or ".")
        with tf.io.gfile.GFile(trial, "w") as file:
            file.write("")
        remove(trial)
    except tf.errors.OpError as error:
        raise unwritable(name or path, error) from error
    if os.path.isfile(growing := f"{path}{SUFFIX}"):  # perhaps of a killed command
        with locks.held(growing, path):
            pass


def remove(path: str) -> None:
    """Removes a file, if it is there; another process may be faster."""
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(path)


def unwritable(path: str, error: BaseException) -> OSError:
    """The error of a place that cannot be written, with the remedy for its reason.

    Of an error that was raised so before, further down, the first reason counts.
    """
    while isinstance(error, OSError) and not error.errno and error.__cause__:
        error = error.__cause__
    text = reason(error)
    is_full = any(os.strerror(number) in text for number in _FULL)
    room = "make room there, or " if is_full else ""
    return OSError(f"{path}: cannot be written ({text}); {room}name another place")


def reason(error: BaseException) -> str:
    """The message of an error, in one line and without the operation."""
    text = getattr(error, "message", str(error))  # that of TensorFlow's errors
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}; {error.strerror}"
    text = text.split("<stack traces unavailable>\n")[-1]  # of a loaded graph
    return text.split("}} ")[-1].split(" [Op:")[0].split("\n")[0]
