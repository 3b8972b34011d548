"""Orders of training rows for losses that compare the texts of a batch."""

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
    """Examples of which no batch has a text twice, by the ids in their `targets`."""

    def training_order(self, **settings: Any) -> np.ndarray:
        """As `batching.training_order`, not by length; rows without a place wait.

        Prints how many wait for their first batch after an epoch or more.
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
    """Batches int32 [num_steps, batch_size] of rows of a stream, in its order.

    Their texts are all different, by `text_ids` int32 [N, G].
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
                    f"a batch has {count} rows, and all {len(ids) - count} others have "
                    f"one of its texts; lower --train_batch_size={batch_size}"
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


@dataclasses.dataclass(frozen=True)
class GroupedExamples(batching.Examples):
    """Examples whose `targets` have labels, `rows_per_label` next to another.

    A label with fewer rows has all of them together, and the last group takes the rest.
    """

    rows_per_label: int = 2

    def training_order(self, **settings: Any) -> np.ndarray:
        """As `batching.training_order`, not by length; an epoch has whole batches."""
        size, steps = settings["batch_size"], settings["num_steps"]
        if len(self) < size:
            return super().training_order(**settings)
        epochs: list[np.ndarray] = []
        while len(epochs) * (len(self) // size) < steps:
            rng = np.random.default_rng([*np.ravel(settings["seed"]), len(epochs)])
            rows = self._grouped(rng)
            epochs.append(rows[: len(rows) // size * size].reshape(-1, size))
        return np.concatenate(epochs)[:steps].astype(np.int32)

    def _grouped(self, rng: np.random.Generator) -> np.ndarray:
        """All rows, int [N]: those of a label in groups, and groups by chance."""
        rows = rng.permutation(len(self))
        labels = np.asarray(self.targets[features.LABEL_IDS])[rows]
        rows, labels = rows[order := np.argsort(labels, kind="stable")], labels[order]
        _, starts, label, counts = np.unique(labels, True, True, True)
        places = np.arange(len(rows)) - starts[label]
        # The last group of a label has the rows that fill no other one.
        last = np.maximum(counts // self.rows_per_label - 1, 0)[label]
        group = np.minimum(places // self.rows_per_label, last)
        is_first = np.diff(group, prepend=-1) + np.diff(label, prepend=-1) != 0
        number = np.cumsum(is_first) - 1
        return rows[np.argsort(rng.permutation(number[-1] + 1)[number], kind="stable")]
