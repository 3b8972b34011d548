"""Lines of text, one example each, to batches of what the encoder reads.

A line `A ||| B` is a pair of texts and a blank line a text without a token, as in the
original's extract_features.py. The file is tokenized in chunks, which are cut into
pools, and these into batches by length.
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
        """Reads all lines without tokenizing, and refuses as `measure` does."""
        for _ in self._texts():
            pass

    def measure(self) -> Size:
        num_bytes, totals = 0, np.zeros(5, np.int64)
        chunks: list[packing.Packed] = []
        for packed in self._chunks():
            num_bytes += packed.tokens.nbytes
            chunks = [*chunks, packed] if num_bytes <= _KEPT_BYTES else []
            counts = self.tokenizer.count_unknown(packed.tokens)
            totals += len(packed), len(packed.tokens), packed.num_truncated, *counts
        num_lines, num_tokens, num_truncated, *of_words = totals.tolist()
        unknown, kept = (of_words[0], of_words[1]), tuple(chunks)
        return Size(num_lines, num_tokens, num_truncated, unknown, kept)

    def batches(
        self,
        batch_size: int,
        *,
        max_tokens: int,
        pad_to: int | None,
        chunks: Sequence[packing.Packed] = (),
    ) -> tf.data.Dataset:
        """All lines in full batches, in an order that saves padding.

        A pool has at most `max_tokens`, and comes before the next, so whoever restores
        the order of lines keeps as many. `pad_to` is the length of every batch, None
        for its longest line. Without `chunks` of `measure` the file is read again.

        Returns:
            Dicts: input_ids, input_mask, segment_ids int32 [B, S], and unique_ids int64
            [B], the number of the line from 0; -1 marks filling to be dropped. Where a
            token is a row of characters, input_ids are [B, S, C].
        """

        def padded():
            first_line = self.part.first_line
            for packed in chunks or self._chunks():
                for rows in packing.cut(packed.splits, max_tokens):
                    pool = _pool(packed.splits, rows, batch_size)
                    for indices, is_filling in zip(*pool, strict=True):
                        # No network takes inputs [B, 0].
                        longest = packed.lengths[indices].max(initial=1)
                        grids = packing.gather(packed, indices, pad_to or longest)
                        numbers = np.where(is_filling, -1, first_line + indices)
                        yield {**grids, features.UNIQUE_IDS: numbers}
                first_line += len(packed)

        grid = tf.TensorSpec([batch_size, pad_to], features.INTEGER)
        ids_shape = [batch_size, pad_to, *self.tokenizer.token_shape]
        signature = {
            features.INPUT_IDS: tf.TensorSpec(ids_shape, features.INTEGER),
            features.INPUT_MASK: grid,
            features.SEGMENT_IDS: grid,
            features.UNIQUE_IDS: tf.TensorSpec([batch_size], tf.int64),
        }
        dataset = tf.data.Dataset.from_generator(padded, output_signature=signature)
        return dataset.prefetch(2)

    def _texts(self):
        """Yields number, line and its two texts."""
        number = 0
        for number, line in text_rows.lines(self.path, self.part):
            texts = split(line)
            if texts[1] and not self.takes_pairs:
                raise errors.InputError(
                    f"{self.path}:{number}: is a pair of texts, and the network has one"
                    " segment (type_vocab_size=1); give a text a line"
                )
            if texts[1] and self.tokenizer.start_id is None:
                raise errors.InputError(
                    f"{self.path}:{number}: is a pair of texts, and the vocabulary has "
                    "no special tokens; give a text a line, or a fine-tuned GPT"
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

    As in the original, carriage returns vanish wherever they stand, and of several
    separators the last one counts.
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


def _pool(splits, rows, batch_size):
    """Rows of a pool in batches, int64 [steps, B], and which are filling, bool."""
    lengths = np.diff(splits[rows.start : rows.stop + 1])
    order = batching.evaluation_order(lengths, batch_size)
    # Filling repeats the shortest row, where it costs least.
    order = np.roll(order.ravel(), np.sum(order < 0)).reshape(-1, batch_size)
    is_filling = order < 0
    order = np.where(is_filling, order[~is_filling][0], order)
    return rows.start + order.astype(np.int64), is_filling


def speller(vocab: Sequence[str]) -> Callable[[dict[str, tf.Tensor]], tf.Tensor]:
    """A function of features to their tokens, string [B, S]; "" where none is."""

    def spell(batch):
        with tf.device("CPU:0"):
            tokens = tf.gather(tf.constant(vocab), batch[features.INPUT_IDS])
            return tf.where(batch[features.INPUT_MASK] > 0, tokens, "")

    return spell
