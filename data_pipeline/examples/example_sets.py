"""The examples of one split, as training/fine_tuning.py takes them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from data_pipeline.examples import batching, packing


@dataclasses.dataclass(frozen=True)
class Examples:
    """The N examples of a split, whatever its task.

    Attributes:
        packed: their tokens.
        names: int [B] of indices -> what these examples are called in a message.
        digest: gives a short text that differs where tokens or targets differ.
        targets: {feature name: what is to be learned}, as in batching.batches.
    """

    packed: packing.Packed
    names: Callable[[np.ndarray], list[str]]
    digest: Callable[[], str]
    targets: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.packed)

    def training_order(self, **settings: Any) -> np.ndarray:
        """As batching.training_order."""
        return batching.training_order(self.packed.lengths, **settings)

    def evaluation_order(self, batch_size: int) -> np.ndarray:
        """As batching.evaluation_order."""
        return batching.evaluation_order(self.packed.lengths, batch_size)

    def batches(self, order: np.ndarray, pad_to: int | None) -> tf.data.Dataset:
        """As batching.batches."""
        return batching.batches(self.packed, order, targets=self.targets, pad_to=pad_to)
