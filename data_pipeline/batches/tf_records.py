"""TFRecords of tf.train.Examples from arrays, thousands at a time.

A message object for each record would take longer than all else that makes it. The
bytes are those of protobuf's own serializer (features in the order of their names).
"""

import itertools
import os
from collections.abc import Iterator, Mapping

import numpy as np

from contract import atomic_files, errors
from contract.tensorflow_later import tf
from data_pipeline.batches import packing
from terminal import progress

# Sequences padded and encoded at a time.
_CHUNK_ROWS = 4096

# Tags of the messages: field number << 3 | 2 (length-delimited).
_FEATURES, _ENTRY, _KEY, _VALUE = b"\x0a", b"\x0a", b"\x0a", b"\x12"
_PACKED, _FLOATS, _INTEGERS = b"\x0a", b"\x12", b"\x1a"


class _Columns:
    """Columns of bytes, a row for each of N records; not every row has each byte."""

    def __init__(self, rows: int):
        self.rows = rows
        self.blocks: list[np.ndarray] = []  # uint8 [N, W] each
        self.present: list[np.ndarray] = []  # bool, the same shapes
        self.sizes = np.zeros(rows, np.int64)

    def add(self, block, present=None):
        """Appends uint8 [N, W], by default all of it."""
        if present is None:
            self.sizes += block.shape[1]
            present = np.broadcast_to(np.True_, block.shape)
        else:
            self.sizes += np.count_nonzero(present, axis=1)
        self.blocks.append(block)
        self.present.append(present)

    def add_constant(self, data: bytes):
        block = np.frombuffer(data, np.uint8)
        self.add(np.broadcast_to(block, (self.rows, len(block))))

    def add_varints(self, values):
        """Appends integers 0..2^32-1 [N, L], in as many bytes as each needs."""
        for value in (np.min(values, initial=0), np.max(values, initial=0)):
            if not 0 <= value < 1 << 32:
                raise errors.InputError(
                    f"{value} is outside 0..{(1 << 32) - 1}; give other ids"
                )
        values = np.asarray(values, np.uint32)
        width = max(-(-int(values.max(initial=0)).bit_length() // 7), 1)
        if width == 1:
            self.add(values.astype(np.uint8))
            return
        groups = np.empty((*values.shape, width), np.uint8)
        present = np.empty(groups.shape, bool)
        has_more = np.ones(values.shape, bool)  # of the value, for another byte
        for k in range(width):
            present[..., k] = has_more
            low = values.astype(np.uint8) & np.uint8(0x7F)
            values = values >> np.uint32(7)
            has_more = values > 0
            groups[..., k] = low | (has_more.view(np.uint8) << np.uint8(7))
        shape = (self.rows, -1)
        self.add(groups.reshape(shape), present.reshape(shape))

    def add_message(self, tag: bytes, body: "_Columns"):
        self.add_constant(tag)
        self.add_varints(body.sizes[:, None])
        self.blocks += body.blocks
        self.present += body.present
        self.sizes += body.sizes


def records(arrays: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    """Serializes the rows of {feature name: [N, L] array}, and yields one by one.

    Integers (not negative, below 2^32) become an int64_list, floats a float_list.
    """
    rows = len(next(iter(arrays.values())))
    entries = _Columns(rows)
    for name in sorted(arrays):
        values = np.asarray(arrays[name])
        packed, kind, feature = _Columns(rows), _Columns(rows), _Columns(rows)
        if values.dtype.kind == "f":
            packed.add(np.ascontiguousarray(values, "<f4").view(np.uint8))
            tag = _FLOATS
        else:
            packed.add_varints(values)
            tag = _INTEGERS
        kind.add_message(_PACKED, packed)
        feature.add_message(tag, kind)
        entry = _Columns(rows)
        entry.add_constant(_KEY + bytes([len(name)]) + name.encode())
        entry.add_message(_VALUE, feature)
        entries.add_message(_ENTRY, entry)
    example = _Columns(rows)
    example.add_message(_FEATURES, entries)
    present = np.concatenate(example.present, axis=1)
    data = np.concatenate(example.blocks, axis=1)[present].tobytes()
    for start, end in itertools.pairwise(packing.row_splits(example.sizes).tolist()):
        yield data[start:end]


def write(
    path: str,
    packed: packing.Packed,
    columns: Mapping[str, np.ndarray],
    max_seq_length: int,
) -> None:
    """Writes a record for each example; the file is whole under its name or absent.

    Records have input_ids, input_mask and segment_ids, padded by `packing.pad`, with
    the G sequences of an example end to end; and `columns`, [N] or [N, L].
    """
    count = packed.num_sequences
    with (
        atomic_files.replacing(path) as (temporary,),
        tf.io.TFRecordWriter(temporary) as writer,
    ):
        name = f"writing {os.path.basename(path)}: row"
        for rows in progress.slices(len(packed), _CHUNK_ROWS, name):
            sequences = slice(rows.start * count, rows.stop * count)
            grids = packing.grids(packed, max_seq_length, sequences)
            size = count * max_seq_length
            arrays = {name: grid.reshape(-1, size) for name, grid in grids.items()}
            for name, values in columns.items():
                chosen = values[rows]
                arrays[name] = chosen.reshape(len(chosen), -1)
            for record in records(arrays):
                writer.write(record)
