"""Rows of text with labels, to what the model reads."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from contract import errors, features
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, label_sets, sources, tables
from data_pipeline.text import base


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledTexts:
    """The rows of a run, read, checked and packed; by split, "train", "dev", "test"."""

    tables: dict[str, tables.Table]
    packed: dict[str, packing.Packed]
    label_ids: dict[str, Any]  # of LabelSet.encode, or encode_sets to learn; or None
    label_set: label_sets.LabelSet
    metrics: tuple[str, ...]  # scores that people report for the task
    encode: encoding.Encoder

    @property
    def problem_type(self) -> str:
        """classification, choice, multi_label or regression."""
        return self.label_set.problem_type

    def digest(self, split: str) -> str:
        """A short text that differs where tokens or labels of a split differ."""
        packed = self.packed[split]
        label_ids = self.label_ids[split]
        targets = [] if label_ids is None else [label_ids]
        digest = packing.digest(packed, *targets)
        return f"{len(packed)} examples, digest {digest}"

    def names(self, split: str, indices: np.ndarray) -> list[str]:
        """Names int [B] examples by their lines, such as "train.tsv:17 (id 42)".

        In a TensorFlow data set 17 is the number of the example, counted from 1.
        """
        table = self.tables[split]
        lines, ids = table.lines, table.example_ids
        return [f"{table.path}:{lines[i]} (id {ids[i]})" for i in indices]

    def class_weights(self, spec: str | None) -> np.ndarray | None:
        """label_sets.class_weights of the training rows; None without those or `spec`.

        Raises:
            ValueError: as there.
        """
        if not spec or "train" not in self.label_ids:
            return None
        label_ids: Any = self.label_ids["train"]
        return label_sets.class_weights(spec, label_ids, self.label_set)

    def examples(self, split: str) -> batching.Examples:
        """The rows of a split as training/fine_tuning.py takes them."""
        label_ids = self.label_ids[split]
        if isinstance(label_ids, label_sets.MultiHot):
            label_ids = functools.partial(_gather, label_ids)
        return batching.Examples(
            self.packed[split],
            functools.partial(self.names, split),
            functools.partial(self.digest, split),
            {} if label_ids is None else {features.LABEL_IDS: label_ids},
        )


def load(
    source: sources.Source,
    splits: Iterable[str],
    tokenizer: base.Tokenizer,
    max_seq_length: int,
    *,
    label_map: str,
    default_metrics: Mapping[str, tuple[str, ...]],
) -> LabelledTexts:
    """Reads, checks and packs splits among "train", "dev" and "test".

    `label_map` is the path of a trained run's label_map.json, or ""; `default_metrics`,
    by problem type, serve rows of no published task. Longer texts are cut and counted.

    Raises:
        ValueError: something is wrong with the rows.
    """
    rows: dict[str, tables.Table] = {}
    for split in splits:
        rows[split] = source.read(split, like=next(iter(rows.values()), None))
    pairs = {table.text_b is not None for table in rows.values()}
    if len(pairs) > 1:
        raise errors.InputError(
            f"{', '.join(table.path for table in rows.values())}: some have pairs of "
            "texts and some have single texts; check --text_b_column"
        )
    label_set = source.label_set(rows.get("train"), label_map)
    label_ids = {
        split: _label_ids(split, table, label_set) for split, table in rows.items()
    }
    has_pairs = pairs.pop() if pairs else source.has_pairs
    encode = encoding.Encoder(tokenizer, max_seq_length, label_set, has_pairs)
    for table in rows.values():
        encode.check(table)
    packed = {}
    for split, table in rows.items():
        packed[split] = encoding.featurize(table, encode)
        encoding.announce(split, table, packed[split], max_seq_length)
    task = source.task
    return LabelledTexts(
        tables=rows,
        packed=packed,
        label_ids=label_ids,
        label_set=label_set,
        metrics=task.metrics if task else default_metrics[label_set.problem_type],
        encode=encode,
    )


def _gather(matrix: label_sets.MultiHot, indices: tf.Tensor) -> tf.Tensor:
    """Rows [B] of a matrix, float32 [B, C], as TensorFlow operations."""
    rows = tf.gather(
        tf.RaggedTensor.from_row_splits(matrix.ids, matrix.splits), indices
    )
    places = tf.stack([rows.value_rowids(), tf.cast(rows.values, tf.int64)], axis=1)
    shape = tf.stack([tf.size(indices, tf.int64), matrix.num_columns])
    counts = tf.scatter_nd(places, tf.ones_like(rows.values), shape)
    return tf.cast(tf.ensure_shape(counts, [None, matrix.num_columns]) > 0, tf.float32)


def _label_ids(split: str, table: tables.Table, label_set: label_sets.LabelSet) -> Any:
    """The labels of a split as arrays; None for a test split without usable ones."""
    if split == "train" and label_set.problem_type == "multi_label":
        return label_set.encode_sets(table)
    if split != "test":
        return label_set.encode(table)
    try:
        return None if table.labels is None else label_set.encode(table)
    except ValueError as error:
        logging.warning("the test rows are not scored: %s", error)
        return None
