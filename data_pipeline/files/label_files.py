"""Files of label names, one a line. Plain Python.

Functions that open files take what opens them, so that `tf.io.gfile.GFile` can be
handed over for remote ones.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any


def read_labels(spec: str, open_file: Callable[..., Any] = open) -> tuple[str, ...]:
    """Reads a `--labels` value; the order gives the ids.

    Args:
        spec: labels between commas, or the path of a file with one label a line.
        open_file: opens the file, as `open` does.

    Raises:
        FileNotFoundError: `spec` looks like a path, and there is no such file.
        ValueError: an empty or repeated label, or no label at all.
    """
    is_remote = "://" in spec
    if not is_remote and not os.path.isfile(spec):
        if "," not in spec and (os.sep in spec or spec.endswith(".txt")):
            raise FileNotFoundError(
                f"--labels={spec}: no such file; correct the path, or give the labels "
                "themselves with commas between them"
            )
        return _checked((part.strip() for part in spec.split(",")), f"--labels={spec}")
    text = read_text(spec, open_file).removeprefix("\ufeff")
    # Only a line feed ends a line: a label may hold U+2028.
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    return _checked(lines, spec, numbered=True)


def _checked(
    names: Iterable[str], source: str, *, numbered: bool = False
) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        place = f"{source}:{number}" if numbered else source
        if not name:
            raise ValueError(f"{place}: label {number} is empty; remove or name it")
        if name in seen:
            raise ValueError(
                f"{place}: label {name!r} is already label {seen[name]}; remove one"
            )
        seen[name] = number
    return tuple(seen)


def read_text(path: str, open_file: Callable[..., Any]) -> str:
    """The text of a file in UTF-8.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not UTF-8.
    """
    try:
        with open_file(path, "rb") as file:
            return file.read().decode("utf-8")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: no such file; check the path") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: byte {error.start + 1} is not UTF-8; convert the file to UTF-8"
        ) from None
