"""The base of all tasks' splits, and which window decides on a token."""

import dataclasses
from typing import Any, ClassVar

import numpy as np

from contract import outcomes
from contract.tensorflow_later import tf
from data_pipeline.batches import batching, packing


@dataclasses.dataclass(frozen=True)
class Split:
    """The N examples of one file or table, packed for the network."""

    path: str
    packed: packing.Packed
    unit: ClassVar[str] = "examples"  # of `packed`, for messages

    def __init_subclass__(cls) -> None:
        cls.__repr__ = Split.__repr__  # type: ignore[method-assign]

    def __len__(self) -> int:
        return len(self.packed)

    def __repr__(self) -> str:  # without texts, since notebooks are passed on
        return f"<{type(self).__name__}: {len(self)} {self.unit} of {self.path}>"

    def targets(self) -> dict[str, Any]:
        """{feature: values [N, ...]} as batching.batches takes them; {} without."""
        raise NotImplementedError

    def target_arrays(self) -> list[Any]:
        """The arrays that a digest covers besides the tokens."""
        return list(self.targets().values())

    def digest(self) -> str:
        """A short text that differs where tokens or targets differ."""
        digest = packing.digest(self.packed, *self.target_arrays())
        return f"{len(self.packed)} {self.unit}, digest {digest}"

    def names(self, indices: np.ndarray) -> list[str]:
        """Names int [B] examples by file and line, for messages."""
        raise NotImplementedError

    def summary(self) -> outcomes.Summary:
        """Counts and lengths of the rows, for reports."""
        raise NotImplementedError

    def examples(self) -> batching.Examples:
        """The examples as training/driver.py takes them."""
        return batching.Examples(self.packed, self.names, self.digest, self.targets())


def window_names(owners: np.ndarray, indices: np.ndarray) -> list[str]:
    """Names windows of texts `owners`, int [N], ascending, such as "window 2 of 3"."""
    first = np.searchsorted(owners, owners[indices], side="left")
    end = np.searchsorted(owners, owners[indices], side="right")
    numbers = zip(indices - first + 1, end - first, strict=True)
    return [f"window {number} of {count}" for number, count in numbers]


def best_windows(scores: Any, items: Any, windows: Any, count: Any) -> "tf.Tensor":
    """The window that decides on each item: of the highest score, the first.

    Args:
        scores: [K], of K pairs of an item and a window that shows it.
        items: int64 [K], below `count`.
        windows: int64 [K].
        count: number of items, each of which some window shows.

    Returns:
        int64 [count].
    """
    highest = tf.math.unsorted_segment_max(scores, items, count)
    best = tf.where(scores == tf.gather(highest, items))[:, 0]
    return tf.math.unsorted_segment_min(
        tf.gather(windows, best), tf.gather(items, best), count
    )
