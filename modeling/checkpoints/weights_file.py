"""The base of open files of weights, one class a format."""

import contextlib
import functools
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from contract import errors
from modeling.checkpoints import names


class WeightsFile:
    """An open checkpoint.

    Attributes:
        format: google, hugging_face, hdf5 or keras; see `names.Name.key`.
        source: the path that messages name.
        shapes: {key: shape as stored}.
        states: {key: kind} of moments, buffers and copies, which are no weights of a
            model; a kind is such as adam_m or position_ids.
        prefixes: such as module., which the names in the file have and keys have not.
    """

    format: str
    source: str
    shapes: Mapping[str, tuple[int, ...]]
    states: Mapping[str, str] = types.MappingProxyType({})
    global_step: int | None = None
    prefixes: tuple[str, ...] = ()

    def sizes(self) -> Mapping[str, Any]:
        """{key of the config: value}, as far as shapes show it; {} if of no network."""
        return names.sizes(self.shapes, self.format)

    def read(self, name: names.Name) -> np.ndarray:
        """The array of a variable as a model holds it, in the dtype stored."""
        raise NotImplementedError


def matches(pattern: re.Pattern[str], keys: Iterable[str]) -> dict[str, str]:
    """{key: the part that matches, without separators}, of the keys that match."""
    parts = {key: pattern.search(key) for key in keys}
    return {key: part.group().strip("/._") for key, part in parts.items() if part}


@contextlib.contextmanager
def readable(
    path: str,
    kind: str,
    raised: tuple[type[Exception], ...],
    remedy: str = "copy it again",
) -> Iterator[None]:
    """Turns what a library raises about a damaged file into one line.

    Raises:
        ValueError: an exception of `raised` occurred; names the path and its `kind`.
    """
    try:
        yield
    except raised as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise errors.InputError(
            f"{path}: not a readable {kind} ({reason:.300}); {remedy}"
        ) from error


# HDF5 raises these, depending on which part is cut off.
readable_hdf5 = functools.partial(
    readable,
    kind="HDF5 file",
    raised=(OSError, RuntimeError, KeyError),
    remedy="copy it again, whole",
)


def open_hdf5(path: str) -> dict[str, Any]:
    """{path in the file: array} of an HDF5 file, which stays open for them."""
    arrays = {}

    def visit(key, item):
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            arrays[key] = item

    with readable_hdf5(path):
        h5py.File(path).visititems(visit)
    return arrays
