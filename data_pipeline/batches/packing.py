"""Token ids of one or two texts to what the encoder reads: rows end to end, and grids.

The packing rule of the original (convert_single_example, _truncate_seq_pair).
"""

import dataclasses
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from contract import features
from contract.tensorflow_later import tf

_DIGESTED_ROWS = 1 << 12  # at a time; targets may be made of rows that are looked at


@dataclasses.dataclass(frozen=True, repr=False)
class Packed:
    """N examples, each of G packed sequences without padding, end to end."""

    # int32 [sum of lengths], [CLS] A [SEP] or [CLS] A [SEP] B [SEP]; where a token is a
    # row of characters, int16 [sum of lengths, C]
    tokens: np.ndarray
    splits: np.ndarray  # int64 [N * G + 1], where sequences begin and the last one ends
    first_lengths: np.ndarray  # int32 [N * G], tokens of segment 0: [CLS] A [SEP]
    num_truncated: int = 0  # examples that lost tokens to the length limit
    num_sequences: int = 1  # G, which follow each other: one for each answer, or order
    counts: np.ndarray | None = None  # int64 [N], where examples differ in G

    @property
    def sequence_lengths(self):
        """int64 [N * G], tokens a sequence."""
        return np.diff(self.splits)

    @property
    def lengths(self):
        """int64 [N], tokens of the longest sequence of an example.

        Where examples differ in G, tokens of all its sequences.
        """
        if self.counts is not None:
            return np.diff(self.splits[row_splits(self.counts)])
        lengths = self.sequence_lengths.reshape(-1, self.num_sequences)
        return lengths.max(axis=1, initial=0)

    def sequences(self, examples):
        """The sequences of examples int [B], end to end."""
        if self.counts is not None:
            starts = row_splits(self.counts)[examples]
            return ranges(starts, self.counts[examples])
        each = np.arange(self.num_sequences)
        return (examples[:, np.newaxis] * self.num_sequences + each).ravel()

    def __len__(self):
        if self.counts is not None:
            return len(self.counts)
        return (len(self.splits) - 1) // self.num_sequences

    def __repr__(self):
        return f"<Packed: {len(self)} examples, {len(self.tokens)} tokens>"


def row_splits(lengths):
    """Where rows of these lengths begin and the last one ends, int64 [N + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def cut(splits: np.ndarray, max_tokens: int) -> Iterator[slice]:
    """Slices of rows with at most so many tokens together, or of one row."""
    start = 0
    while start < len(splits) - 1:
        end = np.searchsorted(splits, splits[start] + max_tokens, side="right") - 1
        end = max(int(end), start + 1)
        yield slice(start, end)
        start = end


def ranges(starts, lengths):
    """The numbers starts[i] .. starts[i] + lengths[i] - 1 for each i, end to end."""
    ends = np.cumsum(lengths, dtype=np.int64)
    shift = np.asarray(starts, np.int64) - ends + lengths
    return np.repeat(shift, lengths) + np.arange(ends[-1] if len(ends) else 0)


def digest(packed: Packed, *targets) -> str:
    """Eight hexadecimal digits that differ where sequences or target arrays differ."""
    value, counts = 0, () if packed.counts is None else (packed.counts,)
    for array in (packed.tokens, packed.splits, *counts, *targets):
        for start in range(0, len(array), _DIGESTED_ROWS):
            rows = array[start : start + _DIGESTED_ROWS]
            value = zlib.crc32(np.ascontiguousarray(rows).tobytes(), value)
    return f"{value:08x}"


def budgets(length_a, length_b, limit, module=tf):
    """The numbers of tokens that A and B keep when together they may have `limit`.

    Equal to _truncate_seq_pair, which pops one token at a time from the longer text
    and, of two equally long ones, from B. Lengths are int [N] of `module`, tf or np.
    """
    half = limit - limit // 2  # the larger half goes to A
    keep_a = module.minimum(length_a, module.maximum(limit - length_b, half))
    return keep_a, module.minimum(length_b, limit - keep_a)


def head(rows, keep):
    """The first tokens of ragged rows [B, (S)], as many as `keep`, int [B]."""
    starts = rows.row_starts()
    wanted = tf.ragged.range(starts, starts + tf.cast(keep, starts.dtype))
    return tf.gather(rows.values, wanted)


def num_special(special, is_pair) -> int:
    """Tokens that `pack` puts around a text, or around and between two."""
    if special.start_id is None:
        return 0
    return 2 + len(special.delimiter_ids) * bool(is_pair)


def pack(ids_a, ids_b, *, special, max_seq_length):
    """[CLS] A [SEP] or [CLS] A [SEP] B [SEP] (BERT Figure 2), as TensorFlow operations.

    A single text keeps its beginning; of a pair, the longer text loses tokens first.

    Args:
        ids_a: ragged int32 [B, (S)], or [B, (S), C] where a token is a row.
        ids_b: likewise, or None for single texts.
        special: has start_id, delimiter_ids (two </s> for RoBERTa) and end_id, as a
            tokenizer; where they are None, single texts stand alone.
        max_seq_length: counts the special tokens.

    Returns:
        Tokens like `ids_a`; int32 [B], lengths of segment 0, which stands before B.
    """
    length_a = tf.cast(ids_a.row_lengths(), tf.int32)
    if special.start_id is None:
        assert ids_b is None
        keep_a = tf.minimum(length_a, max_seq_length)
        return head(ids_a, keep_a), keep_a
    rows = ids_a.nrows()
    start, end, *delimiters = (
        _column(rows, token)
        for token in (special.start_id, special.end_id, *special.delimiter_ids)
    )
    room = max_seq_length - num_special(special, ids_b is not None)
    if ids_b is None:
        keep_a = tf.minimum(length_a, room)
        tokens = tf.concat([start, head(ids_a, keep_a), end], axis=1)
        return tokens, keep_a + 2
    length_b = tf.cast(ids_b.row_lengths(), tf.int32)
    keep_a, keep_b = budgets(length_a, length_b, room)
    first, second = head(ids_a, keep_a), head(ids_b, keep_b)
    tokens = tf.concat([start, first, *delimiters, second, end], axis=1)
    return tokens, keep_a + 1 + len(delimiters)


def _column(rows, token):
    """The same token in each of B rows, [B, 1] or [B, 1, C]."""
    token = tf.convert_to_tensor(token)
    shape = tf.concat([[rows, 1], tf.shape(token, rows.dtype)], axis=0)
    return tf.broadcast_to(token, shape)


def grids(packed: Packed, length: int, rows: Any = slice(None)):
    """As `pad`, in arrays [N, length], of sequences chosen by a slice or int [N]."""
    lengths = np.minimum(packed.sequence_lengths[rows], length)[:, np.newaxis]  # [N, 1]
    places = ranges(packed.splits[:-1][rows], lengths[:, 0])
    positions = np.arange(length)
    is_real = positions < lengths
    is_second = is_real & (positions >= packed.first_lengths[rows][:, np.newaxis])
    input_ids = np.zeros(is_real.shape + packed.tokens.shape[1:], features.INTEGER)
    input_ids[is_real] = packed.tokens[places]
    return {
        features.INPUT_IDS: input_ids,
        features.INPUT_MASK: is_real.astype(features.INTEGER),
        features.SEGMENT_IDS: is_second.astype(features.INTEGER),
    }


def gather(packed: Packed, indices: np.ndarray, length: int | None = None):
    """As `pad` of the examples int [B], without TensorFlow, in arrays."""
    count, rows = packed.num_sequences, packed.sequences(indices)
    longest = packed.sequence_lengths[rows].max(initial=0)
    padded = grids(packed, length or longest, rows)
    if packed.counts is not None:
        counts = packed.counts[indices][:, np.newaxis]
        is_real = np.arange(counts.max(initial=0)) < counts  # [B, G]
        whole = {n: (*is_real.shape, *grid.shape[1:]) for n, grid in padded.items()}
        filled = {name: np.zeros(whole[name], features.INTEGER) for name in padded}
        for name, grid in padded.items():
            filled[name][is_real] = grid
        return filled
    shape = (len(indices), count)[: 1 + (count > 1)]
    return {
        name: grid.reshape(*shape, *grid.shape[1:]) for name, grid in padded.items()
    }


def unpad(tokens, first_lengths, num_sequences=1, num_truncated=0) -> Packed:
    """The results of `pack` for one batch, as arrays."""
    return Packed(
        tokens.values.numpy(),
        tokens.row_splits.numpy().astype(np.int64),
        first_lengths.numpy().astype(features.INTEGER),
        num_truncated,
        num_sequences,
    )


def pack_ids(ids_a, ids_b, *, special, max_seq_length, num_sequences=1) -> Packed:
    """As `pack` and `unpad`, in arrays; counts the examples that are cut.

    Operations called one by one would take a text as long as a small network does.
    """
    is_pair = ids_b is not None
    assert special.start_id is not None or not is_pair
    texts = [ids_a, ids_b] if is_pair else [ids_a]
    room = max_seq_length - num_special(special, is_pair)
    splits = [each.row_splits.numpy() for each in texts]
    lengths = [np.diff(each) for each in splits]
    kept: Any = [np.minimum(lengths[0], room)]
    if is_pair:
        kept = budgets(lengths[0], lengths[1], room, np)
    parts = [
        (each.values.numpy(), starts[:-1], keep)
        for each, starts, keep in zip(texts, splits, kept, strict=True)
    ]
    first_lengths = kept[0]
    if special.start_id is not None:
        none = np.zeros_like(first_lengths)
        start, end, *delimiters = (
            (np.array([token], parts[0][0].dtype), none, none + 1)
            for token in (special.start_id, special.end_id, *special.delimiter_ids)
        )
        first_lengths = first_lengths + 1 + (len(delimiters) if is_pair else 1)
        between = delimiters if is_pair else []
        parts = [start, parts[0], *between, *parts[1:], end]
    is_cut = (sum(lengths) > room).reshape(-1, num_sequences).any(axis=1)
    first_lengths = first_lengths.astype(features.INTEGER)
    tokens, row_starts = _join(parts)
    count = int(is_cut.sum())
    return Packed(tokens, row_starts, first_lengths, count, num_sequences)


def _join(parts):
    """Rows of parts (values, starts, lengths), end to end: their values and splits."""
    values, each_starts, each_lengths = zip(*parts, strict=True)
    before = row_splits([len(each) for each in values])[:-1]
    starts = np.stack(each_starts, axis=1) + before  # [B, parts]
    lengths = np.stack(each_lengths, axis=1)
    places = ranges(starts.ravel(), lengths.ravel())
    return np.concatenate(values)[places], row_splits(lengths.sum(axis=1))


def take(packed: Packed, rows: np.ndarray) -> Packed:
    """The same examples in the order of `rows`, int [N]."""
    counts = None if packed.counts is None else packed.counts[rows]
    rows = packed.sequences(rows)
    lengths = packed.sequence_lengths[rows]
    return Packed(
        packed.tokens[ranges(packed.splits[rows], lengths)],
        row_splits(lengths),
        packed.first_lengths[rows],
        packed.num_truncated,
        packed.num_sequences,
        counts,
    )


def concatenate(parts: Sequence[Packed]) -> Packed:
    """The sequences of all parts, in order."""
    return Packed(
        np.concatenate([part.tokens for part in parts]),
        row_splits(np.concatenate([part.sequence_lengths for part in parts])),
        np.concatenate([part.first_lengths for part in parts]),
        sum(part.num_truncated for part in parts),
        parts[0].num_sequences,
        None
        if parts[0].counts is None
        else np.concatenate([part.counts for part in parts]),
    )


def pad_rows(rows: Sequence[Any]) -> "dict[str, tf.Tensor]":
    """As `pad` of N rows of ids, int [S] each, of one text."""
    lengths = [len(ids) for ids in rows]
    tokens = tf.RaggedTensor.from_row_lengths(np.concatenate(rows), lengths)
    return pad(tokens, tf.constant(lengths))


def pad(tokens, first_lengths, length: int | None = None, num_sequences=1):
    """The three inputs of the encoder, each int32 [B, S], from the results of `pack`.

    Rows are filled up with 0 as in the original, whatever the id of [PAD], to `length`
    tokens or the longest row. Examples of G = `num_sequences` have [B, G, S]; where a
    token is a row of C characters, input_ids have [..., C].
    """
    whole = [None, length, *tokens.shape[2:]]
    input_ids = tf.cast(tokens.to_tensor(0, shape=whole), tf.int32)  # [B, S]
    positions = tf.range(tf.shape(input_ids)[1])[None]  # [1, S]
    lengths = tf.cast(tokens.row_lengths(), tf.int32)[:, None]  # [B, 1]
    is_real = positions < lengths
    is_second = tf.logical_and(is_real, positions >= first_lengths[:, None])
    inputs = {
        features.INPUT_IDS: input_ids,
        features.INPUT_MASK: tf.cast(is_real, tf.int32),
        features.SEGMENT_IDS: tf.cast(is_second, tf.int32),
    }
    if num_sequences == 1:
        return inputs
    shape = -1, num_sequences, length or tf.shape(input_ids)[1]
    return {
        name: tf.reshape(grid, (*shape, *grid.shape[2:]))
        for name, grid in inputs.items()
    }


def at_least_one_column(grids):
    """Widens empty features to S = 1: no network takes inputs [0, 0]."""

    def widened(grid):
        more = [0, tf.cast(tf.shape(grid)[1] == 0, tf.int32)]
        return tf.pad(grid, [[0, 0], more, *[[0, 0]] * (grid.shape.rank - 2)])

    return {name: widened(grid) for name, grid in grids.items()}


def shift_right(
    labels: "tf.Tensor", is_real: "tf.Tensor", tokens: features.DecoderTokens
) -> "tf.Tensor":
    """The decoder_input_ids of targets: the start token, and all but their last one.

    Labels are int32 [B, T], with end tokens, padded; `is_real` is bool [B, T]. Returns
    int32 [B, T], padded.
    """
    start = tf.fill([tf.shape(labels)[0], 1], tf.cast(tokens.start, labels.dtype))
    read = tf.concat([start, labels[:, :-1]], axis=1)  # [B, T]
    # What stands behind the last real place is the end token or padding.
    return tf.where(is_real, read, tf.cast(tokens.padding, labels.dtype))


def encode(
    tokenizer: Any, texts: "tf.Tensor", max_seq_length: int
) -> "dict[str, tf.Tensor]":
    """The encoder's features of single texts, string [B]: int32 [B, S], cut, padded."""
    with tf.device("CPU:0"):  # where string operations are
        ids = tokenizer.tokenize(texts)
        return pad(*pack(ids, None, special=tokenizer, max_seq_length=max_seq_length))
