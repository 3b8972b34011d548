"""The base of open files of weights, one class a format."""

import contextlib
import functools
import math
import os
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from contract import errors
from modeling.checkpoints import names
from modeling.networks import catalogue

_MOST_GROUPS = 32  # levels of an HDF5 file; names of weights have fewer than ten
MAX_RATIO = 100  # of sizes unpacked and packed; weights are random, and hardly shrink


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
        return catalogue.sizes(self.shapes, self.format)

    def shape_of(self, name: names.Name) -> tuple[int, ...]:
        """The shape of the array that `read` returns, before it is read."""
        shape = self.shapes[name.key(self.format)]
        is_theirs = self.format == "hugging_face"
        return name.shape_from_hugging_face(shape) if is_theirs else shape

    def read(self, name: names.Name) -> np.ndarray:
        """The array of a variable as a model holds it, in the dtype stored."""
        raise NotImplementedError


class Renamed(WeightsFile):
    """Variables of open files under the keys of another network.

    `places` is {key: (file, the row of the variable there)}.
    """

    def __init__(self, source, format, places):
        self.source, self.format, self._places = source, format, places
        self.shapes = {
            key: tuple(file.shapes[row.key(file.format)])
            for key, (file, row) in places.items()
        }
        held = {prefix for file, _ in places.values() for prefix in file.prefixes}
        self.prefixes = tuple(sorted(held))

    def shape_of(self, name):
        file, row = self._places[name.key(self.format)]
        return file.shape_of(row)

    def read(self, name):
        file, row = self._places[name.key(self.format)]
        return file.read(row)


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


def check_numbers(path: str, shapes: Iterable[tuple[int, ...]], size: int) -> None:
    """Refuses arrays of more numbers than a file has bytes, before memory is taken.

    Raises:
        InputError: the `shapes` have more than `size` numbers.
    """
    if (count := sum(map(math.prod, shapes))) > size:
        raise errors.InputError(
            f"{path}: describes {count:,} numbers in {size:,} bytes; copy it again"
        )


def check_is_file(path: str) -> None:
    """Refuses what is no regular file, such as a pipe, which a reader waits for.

    Raises:
        InputError: there is something else under that name.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise errors.InputError(f"{path}: is no regular file; copy the weights there")


def open_hdf5(path: str) -> dict[str, Any]:
    """{path in the file: array} of an HDF5 file, which stays open for them.

    Raises:
        InputError: the file is damaged, or refers to bytes that are elsewhere, which
            may be those of any file of the machine.
    """
    arrays: dict[str, Any] = {}
    check_is_file(path)

    # Neither may raise: what they return ends the visit.
    def visit(key, item):
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            arrays[key] = item
            if item.external or item.is_virtual:
                return key
        return key if key.count("/") >= _MOST_GROUPS else None

    def visit_link(key, link):
        return None if isinstance(link, h5py.HardLink) else key

    with readable_hdf5(path):
        file = h5py.File(path)
        wrong = file.visititems(visit) or file.visititems_links(visit_link)
    if wrong and wrong.count("/") >= _MOST_GROUPS:
        raise errors.InputError(
            f"{path}: has groups in more than {_MOST_GROUPS} levels; copy it again"
        )
    if wrong:
        raise errors.InputError(
            f"{path}: {wrong} refers to another place; save the weights in the file"
        )
    is_packed = any(array.compression for array in arrays.values())
    size = os.path.getsize(path) * (MAX_RATIO if is_packed else 1)
    check_numbers(path, (array.shape for array in arrays.values()), size)
    return arrays
