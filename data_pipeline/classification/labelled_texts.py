"""Rows of text with labels, to what the model reads."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from contract import features, wording
from data_pipeline.classification import label_sets, sources, tables
from data_pipeline.examples import batching, packing
from data_pipeline.text import tokenization
from terminal import progress

# Rows tokenized at a time: enough to keep the operations busy, little to hold.
_CHUNK_ROWS = 8192


def encoder(
    tokenizer: tokenization.Tokenizer,
    max_seq_length: int,
    pair_input: str = "joined",
) -> Callable[..., Any]:
    """Text to packed tokens as one TensorFlow function, for training and serving alike.

    From text_a [B] string and text_b [B] or None, it returns what packing.pack returns
    and the lengths before truncation, int64 [B]. With a `pair_input` of "both_orders"
    an example is two sequences, A before B and B before A. With `choices` [B, C] string
    it is C: text_a, and each of them behind text_b and a space, if there is a text_b.
    """

    def encode(text_a, text_b=None, choices=None):
        ids_a = tokenizer.tokenize(text_a)
        if choices is not None:
            ids_a, ids_b = _with_each(tokenizer, ids_a, text_b, choices)
        else:
            ids_b = None if text_b is None else tokenizer.tokenize(text_b)
            if pair_input == "both_orders":
                ids_a, ids_b = _both_orders(ids_a, ids_b)
        tokens, first_lengths = packing.pack(
            ids_a, ids_b, special=tokenizer, max_seq_length=max_seq_length
        )
        counts = ids_a.row_lengths() + (2 if ids_b is None else 3)
        if ids_b is not None:
            counts += ids_b.row_lengths()
        return tokens, first_lengths, counts

    return encode


def text_names(label_set: label_sets.LabelSet, has_pairs: bool) -> tuple[str, ...]:
    """What an example consists of, as those call it who ask an exported model.

    "choices" is there once for each, since they are one input, string [B, C].
    """
    if label_set.problem_type == "choice":
        question = ("question",) if has_pairs else ()
        return ("context", *question, *("choices" for _ in label_set.names))
    return ("text_a", "text_b") if has_pairs else ("text",)


def features_of(
    encode: Callable[..., Any], label_set: label_sets.LabelSet, *texts: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The model's inputs for texts [B] and, the last of a choice, choices [B, C]."""
    if label_set.problem_type == "choice":
        tokens, first_lengths, _ = encode(*texts[:-1], choices=texts[-1])
    else:
        tokens, first_lengths, _ = encode(*texts)
    return packing.pad(tokens, first_lengths, num_sequences=label_set.num_sequences)


def _with_each(tokenizer, contexts, questions, choices):
    """Ids of a context and an answer for each choice, [B * C, (S)] both."""
    count = tf.shape(choices)[1]
    answers = tf.reshape(choices, [-1])
    if questions is not None:
        answers = tf.strings.join([tf.repeat(questions, count), answers], " ")
    rows = tf.repeat(tf.range(tf.shape(choices)[0]), count)
    return tf.gather(contexts, rows), tokenizer.tokenize(answers)


def _both_orders(ids_a, ids_b):
    """Ids of first and second texts of A before B and B before A, [B * 2, (S)] both."""
    both = tf.concat([ids_a, ids_b], axis=0)
    first = tf.range(ids_a.nrows())
    second = first + ids_a.nrows()
    orders = tf.stack([first, second], axis=1), tf.stack([second, first], axis=1)
    return [tf.gather(both, tf.reshape(order, [-1])) for order in orders]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledTexts:
    """The rows of a run, read, checked and packed; by split, "train", "dev", "test"."""

    tables: dict[str, tables.Table]
    packed: dict[str, packing.Packed]
    label_ids: dict[str, np.ndarray | None]  # of LabelSet.encode, or None
    label_set: label_sets.LabelSet
    metrics: tuple[str, ...]  # scores that people report for the task
    encode: Callable[..., Any]  # what `encoder` returns
    has_pairs: bool  # whether an example is two texts, or has a question with choices
    takes_text: bool = True  # whether exports can contain `encode`

    @property
    def problem_type(self) -> str:
        """classification, choice, multi_label or regression."""
        return self.label_set.problem_type

    @property
    def kind(self) -> str:
        """What the hub calls this kind of task."""
        is_choice = self.problem_type == "choice"
        return "multiple-choice" if is_choice else "text-classification"

    @property
    def identity(self) -> dict[str, Any]:
        """What must match, besides tokens and labels, to resume a run."""
        form = self.label_set.pair_input
        told = {} if form == "joined" else {"pair_input": form}
        return {"labels": list(self.label_set.names), **told}

    @property
    def text_names(self) -> tuple[str, ...]:
        """`text_names` of these rows."""
        return text_names(self.label_set, self.has_pairs)

    @property
    def served_features(self) -> Callable[..., Any] | None:
        """`features`, where the tokenizer is TensorFlow operations; else None."""
        return self.features if self.takes_text else None

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The model's inputs for texts in the order of `text_names`."""
        return features_of(self.encode, self.label_set, *texts)

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
    tokenizer: tokenization.Tokenizer,
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
    for table in rows.values():
        _check_form(table, label_set)
    encode = encoder(tokenizer, max_seq_length, label_set.pair_input)
    packed, count = {}, label_set.num_sequences
    for split, table in rows.items():
        packed[split] = featurize(table, encode, max_seq_length, count)
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
        takes_text=tokenizer.in_graph,
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


def _check_form(table: tables.Table, label_set: label_sets.LabelSet) -> None:
    """Raises ValueError where the rows are not what the network is to read."""
    if label_set.pair_input == "both_orders" and table.text_b is None:
        raise ValueError(
            f"{table.path}: --pair_input=both_orders reads two texts in both orders, "
            "and the rows have one; give --text_b_column, or leave the flag out"
        )
    found, names = table.choices, label_set.names
    if found and len(found[0]) != len(names):
        raise ValueError(
            f"{table.path}:{table.lines[0]}: {len(found[0])} choices, and "
            f"{len(names)} are expected, {wording.listing(names)}; all rows of a model "
            "have equally many"
        )


def featurize(
    table: tables.Table,
    encode: Callable[..., Any],
    max_seq_length: int,
    num_sequences: int = 1,
) -> packing.Packed:
    """Packs every row of a table; convert_examples_to_features.

    `encode` comes from `encoder` with the same limit, given to count truncated rows;
    `num_sequences` is how many it makes of a row.
    """
    chunks = []
    name = f"tokenizing {os.path.basename(table.path)}: row"
    for rows in progress.slices(len(table.text_a), _CHUNK_ROWS, name):
        texts = [tf.constant(table.text_a[rows], tf.string)]
        if table.text_b is not None:
            texts.append(tf.constant(table.text_b[rows], tf.string))
        more = {}
        if table.choices is not None:
            more["choices"] = tf.constant(table.choices[rows], tf.string)
        tokens, first_lengths, counts = encode(*texts, **more)  # a trace takes longer
        is_cut = counts.numpy().reshape(-1, num_sequences) > max_seq_length
        cut = int(np.sum(is_cut.any(axis=1)))
        chunk = packing.unpad(tokens, first_lengths, num_sequences)
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
