"""The base of open files of weights, one class a format."""

import contextlib
from collections.abc import Iterator, Mapping, Set
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
        states: the keys that hold no weights of a model: moments, buffers, copies.
    """

    format: str
    source: str
    shapes: Mapping[str, tuple[int, ...]]
    states: Set[str] = frozenset()
    global_step: int | None = None

    def sizes(self) -> Mapping[str, Any]:
        """{key of the config: value}, as far as shapes show it; {} if of no network."""
        return names.sizes(self.shapes, self.format)

    def read(self, name: names.Name) -> np.ndarray:
        """The array of a variable as a model holds it, in the dtype stored."""
        raise NotImplementedError


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
