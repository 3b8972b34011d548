"""Rows of text with labels, as the network reads them."""

import collections
import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from absl import logging

from contract import errors, features, file_names, outcomes, wording
from contract.tensorflow_later import tf
from data_pipeline import findings, label_maps
from data_pipeline.batches import batching, tf_records
from data_pipeline.classification import encoding, label_checks, labels, sources, tasks
from data_pipeline.tables import labelled
from data_pipeline.text import base

# The original's names of the splits' files.
_RECORD_NAMES = {"train": "train", "dev": "eval", "test": "predict"}


@dataclasses.dataclass(frozen=True, repr=False)
class LabelledSplit(batching.Split):
    """The rows of one split."""

    table: labelled.Table
    label_ids: Any  # of Labels.encode, or encode_sets to learn; None without labels
    label_set: labels.Labels

    def contents(self) -> str:
        """As of Split, and the windows of the rows."""
        counts = self.packed.counts
        if counts is None:
            return super().contents()
        most = f"{counts.sum()} windows, at most {counts.max(initial=0)} of one"
        return f"{super().contents()}, {most}"

    def targets(self) -> dict[str, Any]:
        if self.label_ids is None:
            return {}
        if isinstance(self.label_ids, labels.MultiHot):
            return {features.LABEL_IDS: functools.partial(_gather, self.label_ids)}
        return {features.LABEL_IDS: self.label_ids}

    def target_arrays(self) -> list[Any]:
        return [] if self.label_ids is None else [self.label_ids]

    def names(self, indices: np.ndarray) -> list[str]:
        """Such as "train.tsv:17 (id 42)"."""
        lines, ids = self.table.lines, self.table.example_ids
        return [f"{self.path}:{lines[i]} (id {ids[i]})" for i in indices]

    def summary(self) -> outcomes.Summary:
        counts: collections.Counter[str] = collections.Counter()
        kind, separator = self.label_set.problem_type, self.label_set.separator
        if kind != "regression" and self.label_ids is not None:
            for cell in self.table.labels or ():
                is_set = kind == "multi_label"
                names = labels.split_labels(cell, separator) if is_set else (cell,)
                counts.update(map(str, names))
        summary = dataclasses.replace(
            super().summary(), unit="rows", labels=dict(counts)
        )
        if windows := self.label_set.windows:
            means = f"cut to {windows.max_windows} windows of --max_seq_length"
            summary = dataclasses.replace(summary, cut_means=means)
        return summary


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class LabelledData:
    """The rows of a run, read, checked and packed."""

    splits: dict[str, LabelledSplit]  # by "train", "dev", "test"
    label_set: labels.Labels
    metrics: tuple[str, ...]  # scores that people report for the task
    encode: encoding.Encoder
    asked: tuple[str, ...]  # names as task, flags or rows order them, not the head
    submission: str = ""  # the file that the site of the task takes; "" for none
    findings: tuple[str, ...] = ()  # warnings of the rows, for the report

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(rows)}" for name, rows in self.splits.items())
        names = self.label_set.names
        labels = f", {len(names)} labels: {wording.first_of(names)}" if names else ""
        return f"<LabelledData: {self.problem_type}, {sizes} rows{labels}>"

    @property
    def problem_type(self) -> str:
        return self.label_set.problem_type

    def examples(self, split: str) -> batching.Examples:
        return self.splits[split].examples()

    def class_weights(self, spec: str | None) -> np.ndarray | None:
        """labels.class_weights of the training rows; None without those or `spec`."""
        if not spec or "train" not in self.splits:
            return None
        names = self.label_set.names
        if spec != "balanced" and self.asked != names:
            raise errors.InputError(
                f"--class_weights={spec}: the model has labels in another order; give "
                f"--labels={','.join(names)}"
            )
        label_ids = self.splits["train"].label_ids
        return labels.class_weights(spec, label_ids, self.label_set)


def load(
    source: sources.Source,
    names: Iterable[str],
    tokenizer: base.Tokenizer,
    max_seq_length: int,
    *,
    head: label_maps.Head | None,
    default_metrics: Mapping[str, tuple[str, ...]],
    num_texts: int | None = None,
    show: findings.Show = findings.hide,
) -> LabelledData:
    """Reads, checks and packs the splits `names`, of "train", "dev" and "test".

    `num_texts`, 1 or 2, is what weights that are not trained any further take.
    `head` is that of the weights that the run begins with. `default_metrics`, by
    problem type, are those of rows of no published task. `show` gets what is noticed.
    """
    rows = {name: source.read(name, show) for name in names}
    pairs = {table.text_b is not None for table in rows.values()}
    if len(pairs) > 1:
        raise errors.InputError(
            f"{', '.join(table.path for table in rows.values())}: give all pairs of "
            "texts, or all single ones; check --text_b_column"
        )
    rows, label_set, asked, noticed = label_checks.choose(rows, source, head, show)
    label_ids = {name: _label_ids(name, rows[name], label_set) for name in rows}
    has_pairs = pairs.pop() if pairs else source.has_pairs or num_texts == 2
    if num_texts and has_pairs != (num_texts == 2):
        paths = ", ".join(table.path for table in rows.values())
        given, wanted = (
            ("pairs", "single texts") if has_pairs else ("single texts", "pairs")
        )
        remedy = "leave it out" if has_pairs else "name the column of the second text"
        raise errors.InputError(
            f"{paths or '--text_b_column'}: {given}, and the weights were trained on "
            f"{wanted}, by their run.json; --text_b_column: {remedy}"
        )
    encode = encoding.Encoder(tokenizer, max_seq_length, label_set, has_pairs)
    for table in rows.values():
        encode.check(table)
    task, metrics = source.task, default_metrics[label_set.problem_type]
    return LabelledData(
        splits={
            name: pack(name, table, label_ids[name], encode, label_set, show)
            for name, table in rows.items()
        },
        label_set=label_set,
        metrics=task.metrics if task else metrics,
        encode=encode,
        asked=asked,
        submission=_submission(task, rows.get("test")),
        findings=findings.warnings(noticed),
    )


def _submission(task: tasks.Task | None, test: labelled.Table | None) -> str:
    name = os.path.basename(test.path) if test else ""
    return task.submission.get(name, "") if task else ""


def pack(
    name: str,
    table: labelled.Table,
    label_ids: Any,
    encode: encoding.Encoder,
    label_set: labels.Labels,
    show: findings.Show = findings.hide,
) -> LabelledSplit:
    """Packs the rows of a split, and shows how many they are and how long."""
    packed = encoding.featurize(table, encode)
    split = LabelledSplit(table.path, packed, table, label_ids, label_set)
    cut, notes = f"cut to {encode.max_seq_length}", ""
    if encode.windows:
        cut = f"cut to {encode.windows.max_windows} windows"
        cut += f" of {encode.max_seq_length}"
    elif packed.num_truncated and len(encode.text_names) == 1:
        notes = "; --long_texts=windows reads them whole"
    show([split.announcement(name, encode.tokenizer, cut, notes=notes)])
    return split


def _label_ids(name: str, table: labelled.Table, label_set: labels.Labels) -> Any:
    """The labels of a split as arrays; None for a test split without usable ones."""
    if name == "train" and label_set.problem_type == "multi_label":
        return label_set.encode_sets(table)
    if name != "test":
        return label_set.encode(table)
    try:
        return None if table.labels is None else label_set.encode(table)
    except ValueError as error:
        if any(cell != "" for cell in table.labels or ()):
            logging.warning("the test rows are not scored: %s", error)
        return None


def _gather(matrix: labels.MultiHot, indices: "tf.Tensor") -> "tf.Tensor":
    """Rows [B] of a matrix, float32 [B, C], as TensorFlow operations or an array."""
    if isinstance(indices, np.ndarray):
        return matrix[indices]
    rows = tf.gather(
        tf.RaggedTensor.from_row_splits(matrix.ids, matrix.splits), indices
    )
    places = tf.stack([rows.value_rowids(), tf.cast(rows.values, tf.int64)], axis=1)
    shape = tf.stack([tf.size(indices, tf.int64), matrix.num_columns])
    counts = tf.scatter_nd(places, tf.ones_like(rows.values), shape)
    return tf.cast(tf.ensure_shape(counts, [None, matrix.num_columns]) > 0, tf.float32)


def write_records(directory: str, data: LabelledData, max_seq_length: int) -> None:
    """Writes train.tf_record, eval.tf_record and predict.tf_record, one for each split.

    As file_based_convert_examples_to_features: the three inputs, label_ids (0 for rows
    without labels) and is_real_example. Rows of characters, mostly filling, get none.
    """
    if data.encode.tokenizer.token_shape:
        return
    for name, record_name in _RECORD_NAMES.items():
        if not (split := data.splits.get(name)):
            continue
        blank = np.zeros(len(split), features.INTEGER)
        columns = {
            features.LABEL_IDS: blank if split.label_ids is None else split.label_ids,
            features.IS_REAL_EXAMPLE: blank + 1,
        }
        path = os.path.join(directory, record_name + file_names.TF_RECORD_ENDING)
        tf_records.write(path, split.packed, columns, max_seq_length)
