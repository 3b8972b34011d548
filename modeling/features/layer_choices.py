"""Which layers of a network are read, and what becomes of several of them."""

import numbers
from typing import Any

from keras import ops

from contract import errors
from modeling.features import head_config

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


def choose_layers(layers, depth, flag):
    """Indices into [embedding output, layer 1, ..., layer L] of such layers.

    `layers` are as in `COMBINATIONS`, or a caller's numbers: 0 is the first of the
    `depth` layers, -1 the last. `flag` is what messages begin with.

    Raises:
        ValueError: the network has no such layer.
    """
    if layers == EMBEDDING:
        return (0,)
    if layers == _ALL:
        layers = tuple(range(-1, -depth - 1, -1))
    for layer in layers:
        is_whole = isinstance(layer, numbers.Integral) and not isinstance(layer, bool)
        if not is_whole or not -depth <= layer < depth:
            raise errors.InputError(
                f"{flag} layer {layer!r}, and the network has {depth}; choose "
                f"0..{depth - 1}, or {-depth}..-1 from the first to the last"
            )
    return tuple(1 + layer % depth for layer in layers)


def choose_mix(config, layer_mix):
    """Indices of the states of a HeadConfig's layer_mix, and how they are merged.

    As `read_layers` takes them; of those that are weighted the first is the lowest.

    Raises:
        ValueError: there is no such mix, or the network has too few layers.
    """
    depth = config.num_hidden_layers
    if layer_mix == head_config.LEARNED:
        return tuple(range(depth + 1)), "separate"
    if layer_mix not in COMBINATIONS:
        known = ", ".join((*COMBINATIONS, head_config.LEARNED))
        raise errors.InputError(f"--layer_mix={layer_mix} is none of {known}")
    layers, merge = COMBINATIONS[layer_mix]
    return choose_layers(layers, depth, f"--layer_mix={layer_mix} needs"), merge


def read_layers(outputs, states, merge, weights=None):
    """States of a bert.Network's outputs, float32 [B, S, K, W].

    `merge` is separate, for K states; or concat or sum, for K = 1. `weights` are of
    the states in a sum, by default 1.
    """
    every = [outputs["embedding_output"], *outputs["layer_outputs"]]
    chosen = [ops.cast(every[i], "float32") for i in states]  # each [B, S, D]
    if merge == "separate":
        return ops.stack(chosen, axis=2)  # [B, S, K, D]
    if merge == "concat":
        return ops.concatenate(chosen, axis=-1)[:, :, None]  # [B, S, 1, K * D]
    if weights:
        chosen = [w * state for w, state in zip(weights, chosen, strict=True)]
    return sum(chosen[1:], chosen[0])[:, :, None]
