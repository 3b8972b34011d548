"""Batches in which no text comes twice, for losses that take other rows as negatives.

The order is a pure function of seed and texts, so that a resumed run goes on with the
batch it would have seen.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from contract import errors, features
from data_pipeline.batches import batching

_LOOKED_AT = 4  # waiting rows that a batch may look at, for each of its own


@dataclasses.dataclass(frozen=True)
class DistinctExamples(batching.Examples):
    """Examples whose `targets` have the ids of their texts."""

    def training_order(self, **settings: Any) -> np.ndarray:
        """As `batching.training_order`; rows that a batch has no place for wait.

        Texts are not grouped by length, whatever the settings. Prints how many rows
        still wait for their first batch after an epoch or more.
        """
        size, steps = settings["batch_size"], settings["num_steps"]
        # Negatives may come twice: the loss compares no texts of equal ids.
        ids = self.targets[features.TEXT_IDS][:, :2]
        order = without_repeats(self._stream(settings), ids, size, steps)
        unused = len(self) - len(np.unique(order))
        if unused and order.size >= len(self):
            print(
                f"batches: {unused} of {len(self)} rows are in none, since a batch has "
                "no text twice; train longer, or lower --train_batch_size"
            )
        return order

    def _stream(self, settings: dict[str, Any]) -> Iterator[int]:
        """Rows without end: the order of fewer steps begins that of more."""
        count, begun = 2 * settings["num_steps"] + 1, 0
        while True:
            changed = {"num_steps": count, "group_by_length": False}
            rows = batching.training_order(self.packed.lengths, **settings | changed)
            yield from rows.ravel()[begun:].tolist()
            begun, count = rows.size, 2 * count


def without_repeats(
    stream: Iterable[int], text_ids: np.ndarray, batch_size: int, num_steps: int
) -> np.ndarray:
    """Batches int32 [num_steps, batch_size] of rows whose texts are all different.

    Args:
        stream: rows in the order in which batches take them.
        text_ids: int32 [N, G], equal where texts are.

    Raises:
        ValueError: all rows have a text that a batch has already, before it is full.
    """
    rows = iter(stream)
    ids = [frozenset(row) for row in text_ids.tolist()]
    waiting: collections.deque[int] = collections.deque()
    # More rows of a frequent text would only wait; they come again with the next epoch.
    most_waiting = (2 * num_steps + 1) * batch_size
    batches = np.zeros((num_steps, batch_size), np.int32)
    for batch in batches:
        taken: set[int] = set()
        seen: set[int] = set()  # what is not taken then does not fit later, either
        count, most = 0, min(len(waiting), _LOOKED_AT * batch_size)
        looked_at = iter([waiting.popleft() for _ in range(most)])
        candidates = itertools.chain(looked_at, rows)
        while count < batch_size:
            if len(seen) == len(ids) or (row := next(candidates, -1)) < 0:
                raise errors.InputError(
                    f"a batch without a text twice has {count} rows, and all "
                    f"{len(ids) - count} others have one of its texts; lower "
                    f"--train_batch_size={batch_size}, or remove copies"
                )
            seen.add(row)
            if not taken.isdisjoint(ids[row]):
                if len(waiting) < most_waiting:
                    waiting.append(row)
                continue
            taken |= ids[row]
            batch[count] = row
            count += 1
        waiting.extend(looked_at)
    return batches
