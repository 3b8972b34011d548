"""Lines of text, one example each, to batches of what the encoder reads.

A line `A ||| B` is a pair of texts, any other line one text, and a blank line a text
without a token; as in the original's extract_features.py. The file is read and
tokenized in chunks, which are cut into pools, and these into batches by length.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from contract import errors, features
from data_pipeline.batches import batching, packing
from data_pipeline.tables import text_rows
from data_pipeline.text import base

SEPARATOR = " ||| "
# Lines and characters tokenized at a time: enough to keep the operations busy and to
# find lines of similar length, little to hold.
_CHUNK_LINES = 8192
_CHUNK_CHARACTERS = 1 << 22
_KEPT_BYTES = 1 << 26  # of tokens, which are then not computed again


@dataclasses.dataclass(frozen=True)
class Size:
    """How much there is to do."""

    num_lines: int  # blank ones included
    num_tokens: int  # of all lines after cutting, with [CLS] and [SEP]
    num_truncated: int  # lines that are cut to the length limit
    unknown: tuple[int, int] = (0, 0)  # as Tokenizer.count_unknown
    # All lines, or none where they are many.
    chunks: tuple[packing.Packed, ...] = dataclasses.field(default=(), compare=False)


@dataclasses.dataclass(frozen=True)
class TextLines:
    """A file of lines, and how they become tokens."""

    path: str  # anything that tf.io.gfile opens, plain or gzip (.gz); UTF-8
    tokenizer: base.Tokenizer
    max_seq_length: int  # in tokens, [CLS] and [SEP] included; longer lines are cut
    needs_tokens: bool = False  # whether a line without any token is an error
    takes_pairs: bool = True  # whether the network has two segments, or reads none
    part: text_rows.Part = text_rows.WHOLE  # of the file, which lines are numbered in

    def check(self) -> None:
        """Reads all lines without tokenizing; raises what `measure` would find."""
        for _ in self._texts():
            pass

    def measure(self) -> Size:
        """Reads the file once; ValueError without lines, or for an empty one."""
        num_bytes, totals = 0, np.zeros(5, np.int64)
        chunks: list[packing.Packed] = []
        for packed in self._chunks():
            num_bytes += packed.tokens.nbytes
            chunks = [*chunks, packed] if num_bytes <= _KEPT_BYTES else []
            unknown = self.tokenizer.count_unknown(packed.tokens)
            totals += len(packed), len(packed.tokens), packed.num_truncated, *unknown
        *counts, num_unknown, num_words = totals.tolist()
        return Size(*counts, (num_unknown, num_words), tuple(chunks))

    def batches(
        self,
        batch_size: int,
        *,
        max_tokens: int,
        pad_to: int | None,
        by_length: bool = True,
        chunks: Sequence[packing.Packed] = (),
    ) -> tf.data.Dataset:
        """All lines in full batches; `by_length`, in an order that saves padding.

        A pool has at most `max_tokens`. All lines of one come before those of the next,
        so whoever restores the order of lines keeps as many tokens. `pad_to` is the
        length of every batch in tokens, or None for its longest line. `chunks` are
        those of `measure`; without them the file is read again.

        Returns:
            Dicts: input_ids, input_mask, segment_ids int32 [B, S], and unique_ids int64
            [B], the number of the line from 0; -1 marks filling to be dropped. Where a
            token is a row of characters, input_ids are [B, S, C].
        """

        def pools():
            first_line = self.part.first_line
            for packed in chunks or self._chunks():
                for rows in _cut(packed.splits, max_tokens):
                    yield _pool(packed, rows, first_line, batch_size, by_length)
                first_line += len(packed)

        def padded(tokens, splits, first_lengths, order, unique_ids):
            texts = tf.RaggedTensor.from_row_splits(tokens, splits)

            def gather(indices, ids):
                chosen = tf.gather(texts, indices), tf.gather(first_lengths, indices)
                grids = packing.pad(*chosen, pad_to)
                if not self._has_frame:
                    grids = packing.at_least_one_column(grids)
                return {**grids, features.UNIQUE_IDS: ids}

            rows = tf.data.Dataset.from_tensor_slices((order, unique_ids))
            return rows.map(gather)

        vector, matrix = [None], [None, batch_size]
        shape = self.tokenizer.token_shape
        signature = (
            tf.TensorSpec([None, *shape], tf.int16 if shape else tf.int32),
            tf.TensorSpec(vector, tf.int64),
            tf.TensorSpec(vector, tf.int32),
            tf.TensorSpec(matrix, tf.int32),
            tf.TensorSpec(matrix, tf.int64),
        )
        dataset = tf.data.Dataset.from_generator(pools, output_signature=signature)
        return dataset.flat_map(padded).prefetch(2)

    @property
    def _has_frame(self) -> bool:
        return self.tokenizer.start_id is not None

    def _texts(self):
        """Yields number, line and its two texts."""
        number = 0
        for number, line in text_rows.lines(self.path, self.part):
            texts = split(line)
            if texts[1] and not self.takes_pairs:
                raise errors.InputError(
                    f"{self.path}:{number}: is a pair of texts, and type_vocab_size is "
                    "1, so the network has one segment; give a text a line"
                )
            if texts[1] and not self._has_frame:
                raise errors.InputError(
                    f"{self.path}:{number}: is a pair of texts, and the vocabulary has "
                    "no special tokens for one; give a text a line, or a fine-tuned GPT"
                )
            yield number, line, texts
        if not number:
            raise errors.InputError(
                f"{self.path}: is empty; give a file with a text a line"
            )

    def _chunks(self) -> Iterator[packing.Packed]:
        chunk: list[tuple[str, str]] = []
        characters = 0
        for number, line, texts in self._texts():
            chunk.append(texts)
            characters += len(line)
            if len(chunk) == _CHUNK_LINES or characters >= _CHUNK_CHARACTERS:
                yield self._pack(chunk, number)
                chunk, characters = [], 0
        if chunk:
            yield self._pack(chunk, number)

    def _pack(self, chunk, last):
        """`pack` of lines, of which the last one has this number."""
        packed = pack(chunk, self.tokenizer, self.max_seq_length)
        empty = np.flatnonzero(packed.lengths == 0)
        if self.needs_tokens and len(empty):
            raise errors.InputError(
                f"{self.path}:{last - len(chunk) + 1 + empty[0]}: has no token, and so "
                "no vector of its text; remove the line, or leave out --pooling"
            )
        return packed


def split(line: str) -> tuple[str, str]:
    """The two texts of a line; the second is "" where it is one text.

    Carriage returns vanish wherever they stand, as in the file reader of TensorFlow
    that the original uses; of several separators the last one counts.
    """
    text = line.replace("\r", "").strip()
    first, separator, second = text.rpartition(SEPARATOR)
    return (first, second) if separator else (text, "")


def pack(
    pairs: list[tuple[str, str]], tokenizer: base.Tokenizer, max_seq_length: int
) -> packing.Packed:
    """[CLS] A [SEP], or [CLS] A [SEP] B [SEP] where B has a token; or A alone."""
    ids_a, ids_b = map(tokenizer.tokenize, zip(*pairs, strict=True))
    is_pair = ids_b.row_lengths().numpy() > 0
    single, paired = np.flatnonzero(~is_pair), np.flatnonzero(is_pair)
    limits = {"special": tokenizer, "max_seq_length": max_seq_length}
    parts = [packing.pack_ids(tf.gather(ids_a, single), None, **limits)]
    if len(paired):
        both = tf.gather(ids_a, paired), tf.gather(ids_b, paired)
        parts.append(packing.pack_ids(*both, **limits))
    back = np.argsort(np.concatenate([single, paired]))
    return packing.take(packing.concatenate(parts), back)


def _cut(splits: np.ndarray, max_tokens: int) -> Iterator[slice]:
    """Slices of rows with at most so many tokens together, or of one row."""
    start = 0
    while start < len(splits) - 1:
        end = np.searchsorted(splits, splits[start] + max_tokens, side="right") - 1
        end = max(int(end), start + 1)
        yield slice(start, end)
        start = end


def _pool(packed, rows, first_line, batch_size, by_length):
    """Some rows of a chunk as in Packed; int32 rows and int64 lines [steps, B]."""
    splits = packed.splits[rows.start : rows.stop + 1]
    tokens = packed.tokens[splits[0] : splits[-1]]
    lengths = np.diff(splits) if by_length else np.zeros(len(splits) - 1)
    order = batching.evaluation_order(lengths, batch_size).ravel()
    # Filling repeats the shortest row, where it costs least.
    order = np.roll(order, np.sum(order < 0)).reshape(-1, batch_size)
    is_filling = order < 0
    lines = first_line + rows.start + order.astype(np.int64)
    unique_ids = np.where(is_filling, -1, lines)
    order = np.where(is_filling, order[~is_filling][0], order)
    return tokens, splits - splits[0], packed.first_lengths[rows], order, unique_ids


def speller(vocab: Sequence[str]) -> Callable[[dict[str, tf.Tensor]], tf.Tensor]:
    """A function of features to their tokens, string [B, S]; "" where none is."""

    def spell(batch):
        with tf.device("CPU:0"):
            tokens = tf.gather(tf.constant(vocab), batch[features.INPUT_IDS])
            return tf.where(batch[features.INPUT_MASK] > 0, tokens, "")

    return spell
