"""The files that a flag names: names and globs, separated by commas."""

import os
from collections.abc import Callable, Iterable

import tensorflow as tf


def find(
    patterns: str,
    *,
    flag: str,
    wanted: str,
    accepts: Callable[[str], bool] = lambda path: True,
) -> list[str]:
    """Lists accepted files by comma-separated names and globs, sorted within each.

    Raises:
        ValueError: one stands for no file; names `flag` and what is `wanted`.
    """
    files: list[str] = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        try:
            found = sorted(tf.io.gfile.glob(pattern))
        except tf.errors.OpError as error:
            raise ValueError(
                f"--{flag}={pattern}: cannot be listed ({error.message})"
            ) from error
        if not found and tf.io.gfile.exists(pattern):
            found = [pattern]  # a name with brackets, say, that is no glob
        found = [p for p in found if accepts(p) and not tf.io.gfile.isdir(p)]
        if not found:
            raise ValueError(
                f"--{flag}={pattern}: there is no such file; give {wanted}"
            )
        files += found
    if not files:
        raise ValueError(f"--{flag} is empty; give {wanted}")
    return files


def among(paths: Iterable[str], files: Iterable[str]) -> list[str]:
    """Those paths that are one of the files, however local ones are spelled."""
    known = {_canonical(file) for file in files}
    return [path for path in paths if _canonical(path) in known]


def _canonical(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)
