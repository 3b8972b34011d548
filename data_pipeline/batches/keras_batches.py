"""Examples of a split as Keras' `fit`, `evaluate` and `predict` take them."""

import itertools

import numpy as np
import tensorflow as tf

from contract import errors, features
from data_pipeline.batches import batching


def training(
    examples: batching.Examples,
    batch_size: int,
    *,
    seed: int = 1,
    group_by_length: bool = True,
    pad_to: int | None = None,
) -> tf.data.Dataset:
    """Pairs of features and labels; each time through is an epoch in an order anew.

    All batches are full, so an epoch leaves out less than a batch, others each time.
    As `batching.training_order` otherwise; pass `shuffle=False` to `fit`, which has no
    part in the order.

    Raises:
        ValueError: there are fewer examples than a batch has.
    """
    if len(examples) < batch_size:
        raise errors.InputError(
            f"batch_size={batch_size} is more than the {len(examples)} examples; lower "
            "it"
        )
    num_steps = len(examples) // batch_size
    epochs = itertools.count()

    def order():
        yield from examples.training_order(
            batch_size=batch_size,
            num_steps=num_steps,
            seed=[seed, next(epochs)],
            group_by_length=group_by_length,
        )

    spec = tf.TensorSpec([batch_size], features.INTEGER)
    rows = tf.data.Dataset.from_generator(order, output_signature=spec)
    rows = rows.apply(tf.data.experimental.assert_cardinality(num_steps))
    return _pairs(examples.batches(rows, pad_to))


def in_order(
    examples: batching.Examples, batch_size: int, *, pad_to: int | None = None
) -> tf.data.Dataset:
    """Features, with labels where there are any, in the order of the rows."""
    indices = np.arange(len(examples), dtype=features.INTEGER)
    rows = tf.data.Dataset.from_tensor_slices(indices).batch(batch_size)
    return _pairs(examples.batches(rows, pad_to))


def _pairs(dataset):
    def split(batch):
        batch = dict(batch)
        labels = batch.pop(features.LABEL_IDS)
        return batch, labels

    has_labels = features.LABEL_IDS in dataset.element_spec
    return dataset.map(split) if has_labels else dataset
