"""The files that a flag names: names and globs, separated by commas."""

import concurrent.futures
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from contract import errors, remote_files

READERS = 16  # files looked at at a time; a remote one takes many milliseconds


def find(
    patterns: str,
    *,
    flag: str,
    wanted: str,
    accepts: Callable[[str], bool] = lambda path: True,
) -> list[str]:
    """Lists accepted files by comma-separated names and globs, sorted within each.

    Messages have the `flag` and what is `wanted`.

    Differs from google-research/bert: a file that several of them name is listed once.
    """
    files: list[str] = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        try:
            matches = sorted(tf.io.gfile.glob(pattern))  # noqa: TID251 a pattern
        except tf.errors.OpError as error:
            raise errors.InputError(
                f"--{flag}={pattern}: cannot be listed ({error.message})"
            ) from error
        if not matches and tf.io.gfile.exists(pattern):
            matches = [pattern]  # a name with brackets, say, that is no glob
        matches = list(filter(accepts, matches))
        is_dir = dict(zip(matches, _each(tf.io.gfile.isdir, matches), strict=True))
        matches = [path for path in matches if not is_dir[path]]
        if pipe := next(filter(remote_files.is_pipe, matches), None):
            raise errors.InputError(
                f"--{flag}={pipe}: is a pipe, which has no places to begin at; write "
                "it to a file, and give that"
            )
        if not matches:
            raise errors.InputError(
                f"--{flag}={pattern}: there is no such file; give {wanted}"
            )
        files += matches
    if not files:
        raise errors.InputError(f"--{flag} is empty; give {wanted}")
    return list(dict.fromkeys(files))


def sizes(files: Sequence[str]) -> list[int]:
    """The bytes of each file."""
    return [status.length for status in _each(tf.io.gfile.stat, files)]


def _each(function: Callable[[str], Any], paths: Sequence[str]) -> list[Any]:
    with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(function, paths))


def among(paths: Iterable[str], files: Iterable[str]) -> list[str]:
    """Those paths that are one of the files, however local ones are spelled."""
    known = {_canonical(file) for file in files}
    return [path for path in paths if _canonical(path) in known]


def refuse_overwriting(output_file: str | None, **inputs: str | None) -> None:
    """Raises InputError where an output is one of the inputs {flag: path}."""
    for flag, path in inputs.items():
        if output_file and path and among([output_file], [path]):
            raise errors.InputError(
                f"--output_file={output_file} is --{flag} and would be overwritten; "
                "choose another name"
            )


def _canonical(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)
