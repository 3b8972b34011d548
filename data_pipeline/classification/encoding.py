"""Texts of examples to packed sequences: of one, a pair, both orders, or choices."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from contract import errors, wording
from data_pipeline.batches import packing
from data_pipeline.classification import label_sets, tables
from data_pipeline.text import base
from terminal import progress

# Rows tokenized at a time: enough to keep the operations busy, little to hold.
_CHUNK_ROWS = 8192


@dataclasses.dataclass(frozen=True)
class Encoder:
    """Text to packed tokens by TensorFlow functions, for training and serving alike.

    Called with text_a [B] string and text_b [B] or None, it returns what packing.pack
    returns and the lengths before truncation, int64. An example is one sequence, or by
    its labels several that follow each other: A before B and B before A for a
    pair_input of "both_orders"; and for `choices` [B, C] string text_a with each of
    them, which stand behind text_b and a space, if there is a text_b.
    """

    tokenizer: base.Tokenizer
    max_seq_length: int  # in tokens, special ones included
    label_set: label_sets.LabelSet | None = None  # None for one sequence an example
    has_pairs: bool = False  # whether there is a text_b

    def __call__(self, text_a: Any, text_b: Any = None, choices: Any = None) -> Any:
        tokenize = self.tokenizer.tokenize
        ids_a, ids_b = tokenize(text_a), None
        if choices is not None:
            ids_a, ids_b = _with_each(self.tokenizer, ids_a, text_b, choices)
        elif text_b is not None:
            ids_b = tokenize(text_b)
            if self.label_set and self.label_set.pair_input == "both_orders":
                ids_a, ids_b = _both_orders(ids_a, ids_b)
        tokens, first_lengths = packing.pack(
            *(ids_a, ids_b),
            special=self.tokenizer,
            max_seq_length=self.max_seq_length,
        )
        counts = ids_a.row_lengths() + (2 if ids_b is None else 3)
        if ids_b is not None:
            counts += ids_b.row_lengths()
        return tokens, first_lengths, counts

    @property
    def num_sequences(self) -> int:
        """Sequences of an example."""
        return self.label_set.num_sequences if self.label_set else 1

    @property
    def ids_shape(self) -> tuple[int | None, ...]:
        """Of the input_ids of an example: (S,) or (G, S), then (C,) of characters."""
        outer = (self.num_sequences,) if self.num_sequences > 1 else ()
        return *outer, None, *self.tokenizer.token_shape

    @property
    def _is_choice(self) -> bool:
        return bool(self.label_set and self.label_set.problem_type == "choice")

    @property
    def task(self) -> str:
        """What the hub calls tasks of this kind."""
        return "multiple-choice" if self._is_choice else "text-classification"

    @property
    def text_names(self) -> tuple[str, ...]:
        """What an example consists of, as those call it who ask an exported model.

        "choices" is there once for each, since they are one input, string [B, C].
        """
        if self.label_set and self._is_choice:
            question = ("question",) if self.has_pairs else ()
            return ("context", *question, *("choices" for _ in self.label_set.names))
        return ("text_a", "text_b") if self.has_pairs else ("text",)

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The model's inputs for texts [B], the last of a choice choices [B, C]."""
        given: list[Any] = [*texts]
        more = {"choices": given.pop()} if self._is_choice else {}
        tokens, first_lengths, _ = self(*given, **more)
        return packing.pad(tokens, first_lengths, num_sequences=self.num_sequences)

    @property
    def served(self) -> Callable[..., Any] | None:
        """`features`, where the tokenizer is TensorFlow operations; else None."""
        return self.features if self.tokenizer.in_graph else None

    def checked(
        self,
        texts: Any,
        seconds: Any = None,
        choices: Any = None,
        *,
        num_texts: int | None = None,
    ) -> tuple[list[str], list[str] | None, Any]:
        """The arguments of `__call__` as lists, for texts that somebody gives.

        `num_texts` of an example are 1, or 2 for pairs; None for either.

        Raises:
            ValueError: they are not equally many, or not what the network reads.
        """
        if isinstance(texts, str) and choices is not None:
            choices = [choices]
        texts = listed("texts", texts)
        seconds = None if seconds is None else listed("seconds", seconds)
        for name, given in (("seconds", seconds), ("choices", choices)):
            if given is not None and len(given) != len(texts):
                raise errors.InputError(
                    f"{name}: {len(given)} are given for {len(texts)} texts; give one "
                    "for each text"
                )
        if num_texts not in (None, 1 if seconds is None else 2):
            wanted = "single texts; leave them out"
            if num_texts == 2:
                wanted = "pairs of texts; give one for each text"
            raise errors.InputError(f"seconds: the model was made for {wanted}")
        taken = self.num_sequences if self._is_choice else 0
        for row in choices or ((),):
            if len(row) != taken:
                raise errors.InputError(
                    f"choices: {len(row)} are given for a text, and the model takes "
                    f"{taken}; give a list of as many for each text"
                )
        return texts, seconds, choices

    def check(self, table: tables.Table) -> None:
        """Raises ValueError where the rows are not what the network is to read."""
        if not self.label_set:
            return
        label_set = self.label_set
        if label_set.pair_input == "both_orders" and table.text_b is None:
            raise errors.InputError(
                f"{table.path}: --pair_input=both_orders reads two texts in both "
                "orders, and the rows have one; give --text_b_column, or leave the "
                "flag out"
            )
        found, names = table.choices, label_set.names
        if found and len(found[0]) != len(names):
            raise errors.InputError(
                f"{table.path}:{table.lines[0]}: {len(found[0])} choices, and "
                f"{len(names)} are expected, {wording.listing(names)}; all rows of a "
                "model have equally many"
            )


def listed(name: str, texts: Any) -> list[str]:
    """A list of texts, called `name` in messages; a string is one text."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    for text in texts:
        if not isinstance(text, str):
            raise errors.InputError(
                f"{name}: {text!r:.60} is no string; give a list of texts"
            )
    return texts


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


def announce(
    split: str, table: tables.Table, packed: packing.Packed, max_seq_length: int
) -> None:
    """Prints how many rows were read, and how long they are."""
    print(
        f"{split}: {len(packed)} examples from {table.path}, "
        f"{packed.lengths.mean():.1f} tokens on average, "
        f"{packed.num_truncated} cut to {max_seq_length}"
    )


def featurize(table: tables.Table, encode: Encoder) -> packing.Packed:
    """Packs every row of a table, and counts those that are cut.

    convert_examples_to_features.
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
        is_cut = counts.numpy() > encode.max_seq_length
        cut = int(np.sum(is_cut.reshape(-1, encode.num_sequences).any(axis=1)))
        chunk = packing.unpad(tokens, first_lengths, encode.num_sequences)
        chunks.append(dataclasses.replace(chunk, num_truncated=cut))
    return packing.concatenate(chunks)
