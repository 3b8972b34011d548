"""Batches in which no text comes twice, for losses that take other rows as negatives.

The order is a pure function of seed and texts, so that a resumed run goes on with the
batch it would have seen.
"""

import collections
import dataclasses
import itertools

import numpy as np

from contract import errors, features
from data_pipeline.batches import batching

_LOOKED_AT = 4  # waiting rows that a batch may look at, for each of its own


@dataclasses.dataclass(frozen=True)
class DistinctExamples(batching.Examples):
    """Examples whose `targets` have the ids of their texts."""

    def training_order(self, **settings) -> np.ndarray:
        """As `batching.training_order`; rows that a batch has no place for wait.

        Texts are not grouped by length, whatever the settings.
        """
        size, steps = settings["batch_size"], settings["num_steps"]
        # Negatives may come twice: they are the wrong text for every row.
        ids = self.targets[features.TEXT_IDS][:, :2]
        # Twice the rows: those that still wait at the end are left out.
        settings |= {"num_steps": 2 * steps + 1, "group_by_length": False}
        stream = batching.training_order(self.packed.lengths, **settings).ravel()
        return without_repeats(stream, ids, size, steps)


def without_repeats(
    stream: np.ndarray, text_ids: np.ndarray, batch_size: int, num_steps: int
) -> np.ndarray:
    """Batches int32 [num_steps, batch_size] of rows whose texts are all different.

    Args:
        stream: int32 [M], rows in the order in which batches take them.
        text_ids: int32 [N, G], equal where texts are.

    Raises:
        ValueError: there are too few different texts for such batches.
    """
    rows = iter(stream.tolist())
    ids = [frozenset(row) for row in text_ids.tolist()]
    waiting: collections.deque[int] = collections.deque()
    batches = np.zeros((num_steps, batch_size), np.int32)
    for batch in batches:
        taken: set[int] = set()
        count, most = 0, min(len(waiting), _LOOKED_AT * batch_size)
        looked_at = iter([waiting.popleft() for _ in range(most)])
        candidates = itertools.chain(looked_at, rows)
        while count < batch_size:
            row = next(candidates, -1)
            if row < 0:
                raise errors.InputError(
                    f"batches of {batch_size} rows without a text twice cannot be made "
                    f"of {len(set(text_ids[:, 0].tolist()))} different first texts in "
                    f"{len(text_ids)} rows; lower --train_batch_size, or remove copies"
                )
            if not taken.isdisjoint(ids[row]):
                waiting.append(row)
                continue
            taken |= ids[row]
            batch[count] = row
            count += 1
        waiting.extend(looked_at)
    return batches
