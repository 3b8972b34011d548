"""Texts of examples to packed sequences: one text, a pair, both orders, or choices."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from contract import characters, errors, features, wording
from contract.tensorflow_later import tf
from data_pipeline.batches import packing
from data_pipeline.classification import choice_forms, labels, long_texts
from data_pipeline.tables import clue, labelled, memory_rows, text_rows
from data_pipeline.text import base
from terminal import progress

# Characters tokenized at a time, which take some 20 bytes each, and those that a row
# counts beside its own: enough to keep the operations busy, little to hold.
_CHUNK_CHARACTERS, _ROW_CHARACTERS = 1 << 24, 1 << 11


@dataclasses.dataclass(frozen=True)
class Encoder:
    """Text to packed tokens by TensorFlow functions, for training and serving alike.

    Called with text_a [B] string and text_b [B] or None, it returns the results of
    packing.pack. An example is one sequence, or several that follow each other: A
    before B, then B before A (pair_input of "both_orders"); or for each of choices
    [B, C], `text_a [SEP] text_b choice`, or the form of C3 or ChID (pair_input of
    "separate" or "cloze"). Windows of long texts are cut by `pack` and `cut_served`.
    """

    tokenizer: base.Tokenizer
    max_seq_length: int  # in tokens, special ones included
    label_set: labels.Labels | None = None  # None for one sequence an example
    has_pairs: bool = False  # whether there is a text_b

    def __call__(self, text_a: Any, text_b: Any = None, choices: Any = None) -> Any:
        ids_a, ids_b, _ = self._ids(text_a, text_b, choices)
        tokens, first_lengths = packing.pack(
            ids_a, ids_b, special=self.tokenizer, max_seq_length=self.max_seq_length
        )
        if self._form == "cloze":  # has one segment
            first_lengths = tf.cast(tokens.row_lengths(), tf.int32)
        return tokens, first_lengths

    @property
    def _form(self) -> str:
        return self.label_set.pair_input if self.label_set else "joined"

    def _ids(self, text_a, text_b=None, choices=None):
        """Ids of first and second texts, or None, and which are cut, if not by `pack`.

        Each is a row for each sequence.
        """
        if self._form == "separate":
            return choice_forms.separate(
                self.tokenizer, text_a, text_b, choices, self.max_seq_length
            )
        if self._form == "cloze":
            return choice_forms.cloze(
                self.tokenizer, text_a, choices, self.max_seq_length
            )
        return *self._plain_ids(text_a, text_b, choices), None

    def _plain_ids(self, text_a, text_b, choices):
        ids = self.tokenizer.tokenize(text_a)
        if choices is not None:
            return _with_each(self.tokenizer, ids, text_b, choices)
        if text_b is None:
            return ids, None
        both = ids, self.tokenizer.tokenize(text_b)
        return _both_orders(*both) if self._form == "both_orders" else both

    def pack(self, *columns: Any) -> packing.Packed:
        """Packs the rows of lists of texts, or None, and counts those that are cut."""
        if self.windows:
            return self._pack_windows(*columns)
        tensors = (c if c is None else tf.constant(c, tf.string) for c in columns)
        ids_a, ids_b, is_cut = self._ids(*tensors)  # a trace takes longer
        packed = packing.pack_ids(
            ids_a,
            ids_b,
            special=self.tokenizer,
            max_seq_length=self.max_seq_length,
            num_sequences=self.num_sequences,
        )
        if is_cut is None:
            return packed
        examples = is_cut.numpy().reshape(-1, self.num_sequences).any(axis=1)
        packed = dataclasses.replace(packed, num_truncated=int(examples.sum()))
        if self._form == "cloze":
            lengths = packed.sequence_lengths.astype(features.INTEGER)
            packed = dataclasses.replace(packed, first_lengths=lengths)
        return packed

    @property
    def windows(self) -> long_texts.Windows | None:
        """Those of long texts; None where these are cut."""
        return self.label_set.windows if self.label_set else None

    def _cut_windows(self, texts):
        """As `__call__` for each window; and as Windows.cut, what is of each text."""
        assert self.windows
        special, length = self.tokenizer, self.max_seq_length
        ids = special.tokenize(texts)
        excerpts, *of_texts = self.windows.cut(ids, special, length)
        packed = packing.pack(excerpts, None, special=special, max_seq_length=length)
        return packed, *of_texts

    def _pack_windows(self, texts, *others):
        self._check_single(*others)
        packed, counts, is_cut = self._cut_windows(tf.constant(texts, tf.string))
        return dataclasses.replace(
            packing.unpad(*packed),
            num_truncated=int(is_cut.numpy().sum()),
            counts=counts.numpy(),
        )

    def cut_served(
        self, texts: "tf.Tensor"
    ) -> "tuple[dict[str, tf.Tensor], tf.Tensor]":
        """The model's inputs for N windows of texts [B]; int64 [B], those of each."""
        with tf.device("CPU:0"):  # where string operations are
            packed, counts, _ = self._cut_windows(texts)
            return packing.pad(*packed), counts

    def _check_single(self, *others):
        if self.windows and any(other is not None for other in others):
            raise errors.InputError(
                "--long_texts=windows reads single texts, and these are pairs or have "
                "choices; give one text, or train without the flag"
            )

    @property
    def num_sequences(self) -> int:
        return self.label_set.num_sequences if self.label_set else 1

    @property
    def ids_shape(self) -> tuple[int | None, ...]:
        """Shape of an example's input_ids: (S,) or (G, S), then (C,) of characters."""
        outer = (self.num_sequences,) if self.num_sequences > 1 else ()
        return *outer, None, *self.tokenizer.token_shape

    @property
    def _is_choice(self) -> bool:
        return bool(self.label_set and self.label_set.problem_type == "choice")

    @property
    def task(self) -> str:
        return "multiple-choice" if self._is_choice else "text-classification"

    @property
    def text_names(self) -> tuple[str, ...]:
        """Names of an example's texts; "choices" stands there once per choice."""
        if self.label_set and self._is_choice:
            question = ("question",) if self.has_pairs else ()
            return ("context", *question, *("choices" for _ in self.label_set.names))
        return ("text_a", "text_b") if self.has_pairs else ("text",)

    def features(self, *texts: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """The model's inputs for texts [B], the last of a choice choices [B, C]."""
        choices = texts[-1] if self._is_choice else None
        if choices is not None:
            texts = texts[:-1]
        text_a, text_b = (*texts, None)[:2]
        tokens, first_lengths = self(text_a, text_b, choices)
        return packing.pad(tokens, first_lengths, num_sequences=self.num_sequences)

    @property
    def served(self) -> Callable[..., Any] | None:
        """`features`, where the tokenizer is TensorFlow operations; else None.

        Of windows `cut_served`.
        """
        serves = self.cut_served if self.windows else self.features
        return serves if self.tokenizer.in_graph else None

    def checked(
        self,
        texts: Any,
        seconds: Any = None,
        choices: Any = None,
        *,
        num_texts: int | None = None,
    ) -> tuple[list[str], list[str] | None, Any]:
        """The arguments of `__call__` as lists; `num_texts` is 1, 2 or either."""
        if isinstance(texts, str) and choices is not None:
            choices = [choices]
        if choices is not None:
            choices = memory_rows.ordered("choices", choices)
            choices = [listed(f"choices[{i}]", row) for i, row in enumerate(choices)]
        memory_rows.check_indexes({"texts": texts, "seconds": seconds})
        texts = listed("texts", texts)
        self._check_single(seconds, choices)
        seconds = None if seconds is None else listed("seconds", seconds)
        for name, values in (("seconds", seconds), ("choices", choices)):
            if values is not None and len(values) != len(texts):
                raise errors.InputError(
                    f"{name}: {len(values)} for {len(texts)} texts; give each text one"
                )
        if num_texts not in (None, 1 if seconds is None else 2):
            wanted = "single texts; leave them out"
            if num_texts == 2:
                wanted = "pairs of texts; give one for each text"
            raise errors.InputError(f"seconds: the model was made for {wanted}")
        count = self.num_sequences if self._is_choice else 0
        for row in [()] if choices is None else choices:
            if len(row) != count:
                raise errors.InputError(
                    f"choices: {len(row)} for a text; give {count} for each"
                )
        return texts, seconds, choices

    def check(self, table: labelled.Table) -> None:
        """Refuses rows that do not suit the labels, pair_input or windows."""
        self._check_single(table.text_b, table.choices)
        names = self.label_set.names if self.label_set else ()
        is_twice = self.label_set and self.label_set.pair_input == "both_orders"
        if is_twice and table.text_b is None:
            raise errors.InputError(
                f"{table.path}: --pair_input=both_orders reads two texts; give "
                "--text_b_column, or leave the flag out"
            )
        if self.label_set and self.label_set.pair_input in labels.CHOICE_FORMS:
            self._check_form(table)
        if self.label_set and table.choices and len(table.choices[0]) != len(names):
            raise errors.InputError(
                f"{table.path}:{table.lines[0]}: {len(table.choices[0])} choices; give "
                f"{len(names)}, {wording.listing(names)}"
            )

    def _check_form(self, table: labelled.Table) -> None:
        if table.choices is None:
            raise errors.InputError(
                f"{table.path}: --pair_input={self._form} is for choices; leave it out"
            )
        if self._form == "separate" and table.text_b is None:
            raise errors.InputError(
                f"{table.path}: --pair_input=separate has a question before each "
                "choice; give --text_b_column, or leave the flag out"
            )
        if self._form == "cloze":
            choice_forms.check_length(self.max_seq_length)
            for line, text in zip(table.lines, table.text_a, strict=True):
                if text.count(clue.BLANK) != 1:
                    raise errors.InputError(
                        f"{table.path}:{line}: {text!r:.40} has not one {clue.BLANK}, "
                        "the blank of --pair_input=cloze; correct it"
                    )


def listed(name: str, texts: Any, *, takes_bytes: bool = False) -> list[str]:
    """A list of texts, called `name` in messages; a string is one text.

    InputError is raised as in memory_rows.ordered, for an item that is no string, or
    where it `takes_bytes` no bytes, and for the path of a file.
    """
    if isinstance(texts, str) and text_rows.is_table(texts):
        raise errors.InputError(
            f"{name}={texts} is a file; give a list of its texts, or, for this one "
            "text, a list of it"
        )
    texts = [texts] if isinstance(texts, str) else memory_rows.ordered(name, texts)
    for i, text in enumerate(texts):
        if takes_bytes and isinstance(text, bytes):
            continue
        if not isinstance(text, str):
            raise errors.InputError(
                f"{name}: {' '.join(repr(text).split()):.60} is no string; give one for"
                " each text"
            )
        if not text.isascii():
            characters.check(text, f"{name}[{i}]")
    return texts


def refuse_empty(
    texts: list[str], seconds: list[str] | None, choices: list[list[str]] | None
) -> None:
    """Raises InputError for the first text of blanks, as a test file is refused."""
    named = {"texts": texts, "seconds": seconds or []}
    named |= {f"choices[{i}]": row for i, row in enumerate(choices or [])}
    for name, each in named.items():
        for i, text in enumerate(each):
            if not text.strip():
                raise errors.InputError(
                    f"{name}[{i}] is empty; fill it, remove the row, or pass "
                    "allow_empty_text=True"
                )


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


def featurize(table: labelled.Table, encode: Encoder) -> packing.Packed:
    """Packs every row, and counts those that are cut (convert_examples_to_features)."""
    columns = table.text_a, table.text_b, table.choices
    return pack(f"tokenizing {os.path.basename(table.path)}: row", encode, *columns)


def pack(name: str, encode: Encoder, *columns: Any) -> packing.Packed:
    """As `Encoder.pack`, for many rows; `name` is that of the progress."""
    present = [column for column in columns if column is not None]
    lengths = [
        sum(map(_length, row)) + _ROW_CHARACTERS for row in zip(*present, strict=True)
    ]
    chunks, total = [], len(lengths)
    with progress.Progress(name) as report:
        for rows in packing.cut(packing.row_splits(lengths), _CHUNK_CHARACTERS):
            report(rows.start, total)
            parts = [None if each is None else each[rows] for each in columns]
            chunks.append(encode.pack(*parts))
        report(total, total)
    return packing.concatenate(chunks)


def _length(text: str | Sequence[str]) -> int:
    """The characters of a text, or of choices."""
    return len(text) if isinstance(text, str) else sum(map(len, text))
