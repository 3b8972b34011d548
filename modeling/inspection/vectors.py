"""Vectors of tokens and of texts, from the layers of an encoder (BERT section 5.3)."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from keras import ops

from modeling.operations import token_masks

EMBEDDING = "embedding"
_LAST_4 = (-1, -2, -3, -4)
_ALL = "all layers"
# What one vector a token is made of, in the order of Table 7 of the paper: layers as
# the original counts them, and whether they are summed or put end to end.
COMBINATIONS: dict[str, tuple[Any, str]] = {
    EMBEDDING: (EMBEDDING, "sum"),
    "second_to_last": ((-2,), "sum"),
    "last": ((-1,), "sum"),
    "sum_last_4": (_LAST_4, "sum"),
    "concat_last_4": (_LAST_4, "concat"),
    "sum_all": (_ALL, "sum"),
}
SEPARATE = "none"  # as a combination: each layer has a vector of its own
POOLINGS = ("none", "cls", "mean")
_MIN_NORM = 1e-12  # shorter vectors are not scaled up to length 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """Which vectors are wanted, checked against a network.

    Attributes:
        names: K indices of layers, or the name of one combination (K = 1).
        width: W, values of a vector.
        states: indices into [embedding output, layer 1, ..., layer L].
        merge: separate, concat or sum.
        weights: of the states, for sum.
        pooling: none for vectors of tokens; cls or mean for vectors of texts.
        is_normalized: whether every vector is scaled to the length 1.
        is_left_to_right: of the network; cls then means its last token.
    """

    names: tuple[int | str, ...]
    width: int
    states: tuple[int, ...]
    merge: str
    weights: tuple[float, ...]
    pooling: str
    is_normalized: bool
    is_left_to_right: bool = False


def choose(
    config,
    *,
    layers: Sequence[int] | None = None,
    combine: str = SEPARATE,
    weights: Sequence[float] = (),
    pooling: str = "none",
    normalize: bool = False,
) -> Choice:
    """Checks which vectors are wanted of a network.

    Args:
        layers: for SEPARATE alone, by default the last four, as the original has it; 0
            is the first, -1 the last of the L layers.
        combine: SEPARATE or a name in COMBINATIONS.
        weights: one for each summed layer, the last layer's first; none: a plain sum.

    Raises:
        ValueError: the network has no such layer, or the weights do not fit.
    """
    depth = config.num_hidden_layers
    merge = "separate"
    if layers is None:
        layers = _LAST_4
    elif combine != SEPARATE:
        raise ValueError(
            f"--combine={combine} names its layers itself; leave out --layers or "
            "--combine"
        )
    if combine != SEPARATE:
        layers, merge = COMBINATIONS[combine]
        if layers == _ALL:
            layers = tuple(range(-1, -depth - 1, -1))
    if layers == EMBEDDING:
        states: tuple[int, ...] = (0,)
    else:
        _check_layers(layers, combine, depth)
        states = tuple(1 + layer % depth for layer in layers)
    _check_weights(weights, merge, combine, len(states))
    return Choice(
        names=tuple(layers) if merge == "separate" else (combine,),
        width=config.hidden_size * (len(states) if merge == "concat" else 1),
        states=states,
        merge=merge,
        weights=tuple(weights) or (1.0,) * len(states),
        pooling=pooling,
        is_normalized=normalize,
        is_left_to_right=config.is_left_to_right,
    )


def _check_weights(weights, merge, combine, num_states):
    if weights and (merge != "sum" or num_states == 1):
        raise ValueError(
            f"--layer_weights has no meaning with --combine={combine}; leave it out, "
            "or choose sum_last_4 or sum_all"
        )
    if weights and len(weights) != num_states:
        raise ValueError(
            f"--layer_weights has {len(weights)} numbers, --combine={combine} sums "
            f"{num_states} layers; give one for each, the last layer's first"
        )
    if not all(map(math.isfinite, weights)):
        raise ValueError(
            f"--layer_weights={','.join(map(str, weights))} are not all finite; give "
            "numbers such as 0.4,0.3,0.2,0.1"
        )


def _check_layers(layers, combine, depth):
    if not layers:
        raise ValueError("--layers is empty; give numbers such as -1,-2")
    for layer in layers:
        if not -depth <= layer < depth:
            flag = f"--combine={combine} needs" if combine != SEPARATE else "--layers:"
            raise ValueError(
                f"{flag} layer {layer}, and the network has {depth} (num_hidden_layers "
                f"in its config): {-depth}..-1 from the last to the first, or "
                f"0..{depth - 1}; choose among these"
            )


def of_features(model, choice: Choice, features, *, pools: bool):
    """What `compute` gives for a model of models.py, without K where K is 1.

    Vectors are those of tokens unless it `pools`, whatever the choice says.
    """
    if not pools:
        choice = dataclasses.replace(choice, pooling="none")
    outputs = model.encode(features, None)
    values = compute(outputs, features["input_mask"], choice)
    return values if len(choice.names) > 1 else ops.squeeze(values, -2)


def compute(outputs, input_mask, choice: Choice):
    """The chosen vectors, float32 [B, S, K, W], or [B, K, W] where tokens are pooled.

    `input_mask` is int [B, S], 1 for tokens, [CLS] and [SEP] among them.
    """
    states = [outputs["embedding_output"], *outputs["layer_outputs"]]
    chosen = [ops.cast(states[i], "float32") for i in choice.states]  # each [B, S, D]
    if choice.merge == "separate":
        values = ops.stack(chosen, axis=2)  # [B, S, K, D]
    elif choice.merge == "concat":
        values = ops.concatenate(chosen, axis=-1)[:, :, None]  # [B, S, 1, K * D]
    else:
        pairs = zip(choice.weights, chosen, strict=True)
        values = sum(weight * state for weight, state in pairs)[:, :, None]
    if choice.pooling == "cls":
        size, _, *rest = ops.shape(values)
        if choice.is_left_to_right:
            last = token_masks.last_position(input_mask)[..., None, None]
            values = ops.take_along_axis(values, last, axis=1)
        else:
            values = values[:, :1]
        # Cut out, for no rows may have no tokens.
        values = ops.reshape(values, (size, *rest))  # [B, K, W]
    elif choice.pooling == "mean":
        mask = ops.cast(input_mask, "float32")[:, :, None, None]  # [B, S, 1, 1]
        values = ops.sum(values * mask, axis=1) / ops.sum(mask, axis=1)  # [B, K, W]
    if choice.is_normalized:
        norm = ops.sqrt(ops.sum(values * values, axis=-1, keepdims=True))
        values = values / ops.maximum(norm, _MIN_NORM)
    return values
