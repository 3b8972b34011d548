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

    def __len__(self) -> int:
        return len(self.packed)

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
        return outcomes.Summary(
            path=self.path,
            count=len(self),
            unit=self.unit,
            lengths=self.packed.lengths,
            length_unit="tokens of a row",
            cut=self.packed.num_truncated,
        )

    def examples(self) -> batching.Examples:
        """The examples as training/driver.py takes them."""
        return batching.Examples(self.packed, self.names, self.digest, self.targets())


class WindowSplit(Split):
    """A split whose examples are windows of longer texts, one text after another."""

    unit: ClassVar[str] = "windows"

    @property
    def owners(self) -> np.ndarray:
        """The text of each window, int [N], ascending."""
        raise NotImplementedError

    def owner_name(self, owner: int) -> str:
        """The place of a text in the file, after its path: ":17"."""
        raise NotImplementedError

    def names(self, indices: np.ndarray) -> list[str]:
        """Such as "train.conll:17 (window 1 of 2)"."""
        owners = self.owners[indices]
        first = np.searchsorted(self.owners, owners, side="left")
        end = np.searchsorted(self.owners, owners, side="right")
        columns = owners, indices - first + 1, end - first
        return [
            f"{self.path}{self.owner_name(owner)} (window {number} of {count})"
            for owner, number, count in zip(*columns, strict=True)
        ]


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
