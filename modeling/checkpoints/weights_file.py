"""The base of open files of weights, one class a format."""

import contextlib
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

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
    """

    format: str
    source: str
    shapes: Mapping[str, tuple[int, ...]]
    states: Mapping[str, str] = types.MappingProxyType({})
    global_step: int | None = None

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
