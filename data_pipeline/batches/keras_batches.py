"""Padded batches for Keras' `fit` on the backends that are not TensorFlow."""

from collections.abc import Callable, Sequence

import keras
import numpy as np

from contract import features
from data_pipeline.batches import batching, packing


class Batches(keras.utils.PyDataset):
    """As the tf.data.Dataset of batching.keras_training, in arrays.

    `order_of` makes the batches of an epoch, int [steps, B] of examples.
    """

    def __init__(
        self,
        examples: batching.Examples,
        order_of: Callable[[int], Sequence[np.ndarray]],
        pad_to: int | None,
    ):
        super().__init__()
        self._examples, self._order_of, self._pad_to = examples, order_of, pad_to
        self._epoch = -1
        self.on_epoch_end()

    def __len__(self):
        return len(self._order)

    def __getitem__(self, index):
        rows = self._order[index]
        batch = packing.gather(self._examples.packed, rows, self._pad_to)
        targets = self._examples.targets
        if features.LABEL_IDS not in targets:
            return batch
        labels = targets[features.LABEL_IDS]
        return batch, labels(rows) if callable(labels) else labels[rows]

    def on_epoch_end(self):
        self._epoch += 1
        self._order = self._order_of(self._epoch)
