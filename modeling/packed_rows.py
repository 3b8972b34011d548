"""Sequences that share rows, so that a network computes little for padding.

The features of a batch stay [B, S]. Two more lay its tokens into R rows of S, which the
embeddings and all blocks but the last compute in their place: a token attends to those
of its sequence alone, and positions count from its beginning. Results are those of
[B, S] but for rounding and the places that dropout is drawn at.
"""

from typing import Any, NamedTuple

from keras import ops

from contract import features as feature_names


def encode(network, features, seed, positions=None, table=None):
    """sequence_output and pooled_output of a bert.Network; as there, arguments too."""
    rows = PackedRows(
        features[feature_names.PACKED_SOURCES], features[feature_names.PACKED_STARTS]
    )
    inputs = (
        rows.pack(features[feature_names.INPUT_IDS]),
        rows.pack(features[feature_names.SEGMENT_IDS]),
    )
    places = rows.position_ids()
    first = network.embeddings(*inputs, places, seed=seed, table=table)
    hidden = [first, *network.walk(first, rows.attention_mask(), places, seed)][-1]
    # The last block may compute a few positions, which are those of [B, S].
    mask = features[feature_names.INPUT_MASK]
    return network.end(rows.unpack(hidden), mask, positions, seed)


class PackedRows(NamedTuple):
    """Where the tokens of [B, S] lie in the rows.

    Attributes:
        sources: int32 [R, S], each token's place in the flattened [B, S]; -1 for none.
        starts: int32 [B], where each sequence begins in the flattened [R, S].
    """

    sources: Any
    starts: Any

    @property
    def length(self):
        """S."""
        return ops.shape(self.sources)[1]

    def pack(self, values):
        """Values int [B, S] in the rows, [R, S]; those of padding are arbitrary."""
        return ops.take(ops.reshape(values, (-1,)), ops.maximum(self.sources, 0))

    def position_ids(self):
        """Places of tokens in their sequences, int [R, S]."""
        return ops.maximum(self.sources, 0) % self.length

    def attention_mask(self):
        """The keys of each query, int32 [R, S, S]: those of the same sequence."""
        sequences = self.sources // self.length  # -1 for padding
        is_same = sequences[:, :, None] == sequences[:, None, :]
        return ops.cast(is_same, "int32")

    def unpack(self, hidden):
        """Vectors [R, S, D] of tokens as [B, S, D]; those of padding are arbitrary."""
        rows = ops.reshape(hidden, (-1, hidden.shape[-1]))
        places = self.starts[:, None] + ops.arange(self.length)
        return ops.take(rows, ops.minimum(places, ops.shape(rows)[0] - 1), axis=0)
