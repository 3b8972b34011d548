"""TFRecords of tf.train.Examples from arrays, thousands at a time.

Building a message object for each record takes longer than everything else that makes
a pretraining record. The bytes here are those that protobuf's own serializer gives
(features in the order of their names).
"""

import itertools
import os
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from contract import atomic_files
from data_pipeline.examples import packing

# Sequences padded and encoded at a time.
_CHUNK_ROWS = 4096

# Tags of the messages: field number << 3 | 2 (length-delimited).
_FEATURES, _ENTRY, _KEY, _VALUE = b"\x0a", b"\x0a", b"\x0a", b"\x12"
_PACKED, _FLOATS, _INTEGERS = b"\x0a", b"\x12", b"\x1a"


class _Columns:
    """Byte columns of N records; not every record has each byte."""

    def __init__(self, rows):
        self.rows = rows
        self.blocks = []
        self.present = []
        self.sizes = np.zeros(rows, np.int64)

    def constant(self, data):
        """The same bytes in each record."""
        block = np.frombuffer(data, np.uint8)
        self._add(np.broadcast_to(block, (self.rows, len(block))), None)

    def bytes(self, data):
        """uint8 [N, W], all of them."""
        self._add(data, None)

    def varints(self, values):
        """Non-negative integers [N, L], in as many bytes as each needs."""
        values = np.asarray(values, np.uint32)
        width = max(-(-int(values.max(initial=0)).bit_length() // 7), 1)
        if width == 1:
            self._add(values.astype(np.uint8), None)
            return
        groups = np.empty((*values.shape, width), np.uint8)
        present = np.empty(groups.shape, bool)
        is_there = np.ones(values.shape, bool)  # whether anything is left for a byte
        for k in range(width):
            present[..., k] = is_there
            low = values.astype(np.uint8) & np.uint8(0x7F)
            values = values >> np.uint32(7)
            is_there = values > 0
            groups[..., k] = low | (is_there.view(np.uint8) << np.uint8(7))
        shape = (self.rows, -1)
        self._add(groups.reshape(shape), present.reshape(shape))

    def extend(self, other):
        """All columns of another."""
        self.blocks += other.blocks
        self.present += other.present
        self.sizes += other.sizes

    def message(self, tag, body):
        """A tag, the length of a body, and the body."""
        self.constant(tag)
        self.varints(body.sizes[:, None])
        self.extend(body)

    def _add(self, block, present):
        if present is None:
            self.sizes += block.shape[1]
            present = np.broadcast_to(np.True_, block.shape)
        else:
            self.sizes += np.count_nonzero(present, axis=1)
        self.blocks.append(block)
        self.present.append(present)


def records(arrays) -> Iterator[bytes]:
    """Yields the N records of `encode` one by one."""
    data, ends = encode(arrays)
    for start, end in itertools.pairwise(ends.tolist()):
        yield data[start:end]


def encode(arrays):
    """Serializes N records.

    Args:
        arrays: {feature name: [N, L] array}; integers (not negative, below 2^32)
            become an int64_list, floats a float_list.

    Returns:
        The bytes of all records end to end, and int64 [N + 1] where each begins and
        the last one ends.
    """
    rows = len(next(iter(arrays.values())))
    entries = _Columns(rows)
    for name in sorted(arrays):
        values = np.asarray(arrays[name])
        packed, kind, feature = _Columns(rows), _Columns(rows), _Columns(rows)
        if values.dtype.kind == "f":
            packed.bytes(np.ascontiguousarray(values, "<f4").view(np.uint8))
            tag = _FLOATS
        else:
            packed.varints(values)
            tag = _INTEGERS
        kind.message(_PACKED, packed)
        feature.message(tag, kind)
        entry = _Columns(rows)
        entry.constant(_KEY + bytes([len(name)]) + name.encode())
        entry.message(_VALUE, feature)
        entries.message(_ENTRY, entry)
    example = _Columns(rows)
    example.message(_FEATURES, entries)
    data = np.concatenate(example.blocks, axis=1)
    present = np.concatenate(example.present, axis=1)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(example.sizes)])
    return data[present].tobytes(), ends


def write(path, packed, columns, max_seq_length):
    """Writes one tf.train.Example a sequence, in order; whole under its name or absent.

    Args:
        path: of the TFRecord file; its directory is made if absent.
        packed: packing.Packed, which becomes input_ids, input_mask and segment_ids
            [max_seq_length], padded with 0 as in the original.
        columns: {feature name: [N] or [N, L] int (not negative) or float}.
        max_seq_length: in tokens, not less than that of any sequence.
    """
    with (
        atomic_files.replacing(os.fspath(path)) as (temporary,),
        tf.io.TFRecordWriter(temporary) as writer,
    ):
        for start in range(0, len(packed), _CHUNK_ROWS):
            rows = slice(start, start + _CHUNK_ROWS)
            arrays = packing.grids(packed, max_seq_length, rows)
            for name, values in columns.items():
                chosen = values[rows]
                arrays[name] = chosen.reshape(len(chosen), -1)
            for record in records(arrays):
                writer.write(record)
