"""Which layers of a network are read, and what becomes of several of them."""

from typing import Any

from keras import ops

from contract import errors
from modeling.operations import token_masks

EMBEDDING = "embedding"
LAST_4 = (-1, -2, -3, -4)
_ALL = "all layers"
# What one vector a token is made of, in the order of Table 7 of the paper: layers as
# the original counts them, and whether they are summed or put end to end.
COMBINATIONS: dict[str, tuple[Any, str]] = {
    EMBEDDING: (EMBEDDING, "sum"),
    "second_to_last": ((-2,), "sum"),
    "last": ((-1,), "sum"),
    "sum_last_4": (LAST_4, "sum"),
    "concat_last_4": (LAST_4, "concat"),
    "sum_all": (_ALL, "sum"),
}


def states_of(layers, depth, flag):
    """Indices into [embedding output, layer 1, ..., layer L] of such layers.

    `layers` are as in `COMBINATIONS`, or numbers of one's own: 0 is the first of the
    `depth` layers, -1 the last. `flag` is what messages begin with.

    Raises:
        ValueError: the network has no such layer.
    """
    if layers == EMBEDDING:
        return (0,)
    if layers == _ALL:
        layers = tuple(range(-1, -depth - 1, -1))
    for layer in layers:
        if not -depth <= layer < depth:
            raise errors.InputError(
                f"{flag} layer {layer}, and the network has {depth} (num_hidden_layers "
                f"in its config): {-depth}..-1 from the last to the first, or "
                f"0..{depth - 1}; choose among these"
            )
    return tuple(1 + layer % depth for layer in layers)


def merged(outputs, states, merge, weights=None):
    """States of encoder.Network's outputs, float32 [B, S, K, W].

    `merge` is separate, for K states; or concat or sum, for K = 1. `weights` are of
    the states in a sum, by default 1.
    """
    held = [outputs["embedding_output"], *outputs["layer_outputs"]]
    chosen = [ops.cast(held[i], "float32") for i in states]  # each [B, S, D]
    if merge == "separate":
        return ops.stack(chosen, axis=2)  # [B, S, K, D]
    if merge == "concat":
        return ops.concatenate(chosen, axis=-1)[:, :, None]  # [B, S, 1, K * D]
    if weights:
        chosen = [w * state for w, state in zip(weights, chosen, strict=True)]
    return sum(chosen[1:], chosen[0])[:, :, None]


def of_text(values, input_mask, place):
    """One of the vectors of a text's tokens, [B, S, ...] -> [B, ...].

    `place` is first, last (of the real tokens), or mean, which is over these.
    """
    size, _, *width = ops.shape(values)
    if place == "mean":
        axes = tuple(range(2, 2 + len(width)))
        mask = ops.expand_dims(ops.cast(input_mask, values.dtype), axes)
        count = ops.maximum(ops.sum(mask, axis=1), 1)  # a text may have no tokens
        return ops.sum(values * mask, axis=1) / count
    if place == "last":
        values = token_masks.rows_at(values, token_masks.last_position(input_mask))
    # Cut out, for no rows may have no tokens.
    return ops.reshape(values[:, :1], (size, *width))
