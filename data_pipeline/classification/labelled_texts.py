"""Rows of text with labels, to what the model reads."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from contract import features
from data_pipeline.classification import label_sets, sources, tables
from data_pipeline.examples import batching, packing
from data_pipeline.text import tokenization
from terminal import progress

# Rows tokenized at a time: enough to keep the operations busy, little to hold.
_CHUNK_ROWS = 8192


def encoder(
    tokenizer: tokenization.BertTokenizer, max_seq_length: int
) -> Callable[..., Any]:
    """Text to packed tokens as one TensorFlow function, for training and serving alike.

    From text_a [B] string and text_b [B] or None, it returns what packing.pack returns
    and the lengths before truncation, int64 [B].
    """

    def encode(text_a, text_b=None):
        ids_a = tokenizer.tokenize(text_a)
        ids_b = None if text_b is None else tokenizer.tokenize(text_b)
        tokens, first_lengths = packing.pack(
            ids_a,
            ids_b,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=max_seq_length,
        )
        counts = ids_a.row_lengths() + (2 if ids_b is None else 3)
        if ids_b is not None:
            counts += ids_b.row_lengths()
        return tokens, first_lengths, counts

    return encode


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledTexts:
    """The rows of a run, read, checked and packed; by split, "train", "dev", "test"."""

    tables: dict[str, tables.Table]
    packed: dict[str, packing.Packed]
    label_ids: dict[str, np.ndarray | None]  # of LabelSet.encode, or None
    label_set: label_sets.LabelSet
    metrics: tuple[str, ...]  # scores that people report for the task
    encode: Callable[..., Any]  # what `encoder` returns
    has_pairs: bool  # whether an example is two texts

    @property
    def problem_type(self) -> str:
        """classification, multi_label or regression."""
        return self.label_set.problem_type

    def digest(self, split: str) -> str:
        """A short text that differs where tokens or labels of a split differ."""
        packed = self.packed[split]
        digest = packing.digest(packed, self.label_ids[split])
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
        return batching.Examples(
            self.packed[split],
            functools.partial(self.names, split),
            functools.partial(self.digest, split),
            {} if label_ids is None else {features.LABEL_IDS: label_ids},
        )


def load(
    source: sources.Source,
    splits: Iterable[str],
    tokenizer: tokenization.BertTokenizer,
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
        raise ValueError(
            f"{', '.join(table.path for table in rows.values())}: some have pairs of "
            "texts and some have single texts; check --text_b_column"
        )
    label_set = source.label_set(rows.get("train"), label_map)
    label_ids = {
        split: _label_ids(split, table, label_set) for split, table in rows.items()
    }
    encode = encoder(tokenizer, max_seq_length)
    packed = {}
    for split, table in rows.items():
        packed[split] = featurize(table, encode, max_seq_length)
        announce(split, table, packed[split], max_seq_length)
    task = source.task
    return LabelledTexts(
        tables=rows,
        packed=packed,
        label_ids=label_ids,
        label_set=label_set,
        metrics=task.metrics if task else default_metrics[label_set.problem_type],
        encode=encode,
        has_pairs=pairs.pop() if pairs else source.has_pairs,
    )


def announce(
    split: str, table: tables.Table, packed: packing.Packed, max_seq_length: int
) -> None:
    """Prints how many rows were read, and how long they are."""
    print(
        f"{split}: {len(packed)} examples from {table.path}, "
        f"{packed.lengths.mean():.1f} tokens on average, "
        f"{packed.num_truncated} cut to {max_seq_length}"
    )


def featurize(
    table: tables.Table, encode: Callable[..., Any], max_seq_length: int
) -> packing.Packed:
    """Packs every row of a table; convert_examples_to_features.

    `encode` comes from `encoder` with the same limit, given to count truncated rows.
    """
    chunks = []
    name = f"tokenizing {os.path.basename(table.path)}: row"
    for rows in progress.slices(len(table.text_a), _CHUNK_ROWS, name):
        texts = [tf.constant(table.text_a[rows], tf.string)]
        if table.text_b is not None:
            texts.append(tf.constant(table.text_b[rows], tf.string))
        tokens, first_lengths, counts = encode(*texts)  # a trace takes longer
        cut = int(np.sum(counts.numpy() > max_seq_length))
        chunk = packing.unpad(tokens, first_lengths)
        chunks.append(dataclasses.replace(chunk, num_truncated=cut))
    return packing.concatenate(chunks)


def _label_ids(
    split: str, table: tables.Table, label_set: label_sets.LabelSet
) -> np.ndarray | None:
    """The labels of a split as arrays; None for a test split without usable ones."""
    if split != "test":
        return label_set.encode(table)
    try:
        return None if table.labels is None else label_set.encode(table)
    except ValueError as error:
        logging.warning("the test rows are not scored: %s", error)
        return None
