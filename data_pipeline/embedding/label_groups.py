"""Batches with several texts of each label, for the loss that compares them."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from contract import features
from data_pipeline.batches import batching


@dataclasses.dataclass(frozen=True)
class GroupedExamples(batching.Examples):
    """Examples whose `targets` have labels, `rows_per_label` or more next to another.

    A label with fewer rows has all of its rows together.
    """

    rows_per_label: int = 2

    def training_order(self, **settings: Any) -> np.ndarray:
        """As `batching.training_order`; an epoch leaves out rows that fill no batch.

        Texts are not grouped by length, whatever the settings.
        """
        size, steps = settings["batch_size"], settings["num_steps"]
        if len(self) < size:
            return super().training_order(**settings)
        batches: list[np.ndarray] = []
        for epoch in itertools.count():
            if len(batches) * (len(self) // size) >= steps:
                return np.concatenate(batches)[:steps].astype(np.int32)
            rng = np.random.default_rng([*np.ravel(settings["seed"]), epoch])
            rows = self._grouped(rng)
            batches.append(rows[: len(rows) // size * size].reshape(-1, size))
        raise AssertionError

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
