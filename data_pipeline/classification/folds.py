"""Parts of labelled rows, each of which is held out once."""

import dataclasses

import numpy as np

from data_pipeline.batches import packing
from data_pipeline.classification import split as row_splits


def assign(labels: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The fold of each row, int [N] of 0 to `count` - 1; a label is in all alike.

    `labels` are ids or numbers [N], whose order the folds share; or zeros and ones
    [N, C], of which they are independent.
    """
    rows = np.random.default_rng(seed).permutation(len(labels))
    if labels.ndim == 1:
        rows = rows[np.argsort(labels[rows], kind="stable")]
    folds = np.empty(len(labels), np.int64)
    folds[rows] = np.arange(len(labels)) % count
    return folds


def take(split: row_splits.LabelledSplit, rows: np.ndarray) -> row_splits.LabelledSplit:
    """The rows int [N] of a split, which are named by their places among these."""
    return dataclasses.replace(
        split,
        packed=packing.take(split.packed, rows),
        label_ids=split.label_ids[rows],
    )
