"""Vectors of tokens and of texts, from the layers of an encoder (BERT section 5.3)."""

import dataclasses
import math
from collections.abc import Sequence

from keras import ops

from contract import errors
from modeling import kernels
from modeling.features import layer_choices

SEPARATE = "none"  # as a combination: each layer has a vector
# Of texts: the vector of [CLS] (of a network that reads from left to right, of the last
# token); the mean or the largest values over the tokens; the vector of the last token.
TEXT_POOLINGS = ("cls", "mean", "max", "last")
_MIN_NORM = 1e-12  # shorter vectors are not scaled up to length 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorSpec:
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
) -> VectorSpec:
    """Checks which vectors are wanted of a network.

    Args:
        layers: for SEPARATE alone, by default the last four, as the original has it; 0
            is the first, -1 the last of the L layers.
        combine: SEPARATE or a name in layer_choices.COMBINATIONS.
        weights: one for each summed layer, the last layer's first; none: a plain sum.

    Raises:
        ValueError: the network has no such layer, or the weights do not fit.
    """
    merge, flag = "separate", "--layers:"
    if layers is None:
        layers = layer_choices.LAST_4
    elif combine != SEPARATE:
        raise errors.InputError(
            f"--combine={combine} names its layers itself; leave out --layers or "
            "--combine"
        )
    elif not layers:
        raise errors.InputError("--layers is empty; give numbers such as -1,-2")
    if combine != SEPARATE:
        layers, merge = layer_choices.COMBINATIONS[combine]
        flag = f"--combine={combine} needs"
    states = layer_choices.choose_layers(layers, config.num_hidden_layers, flag)
    _check_weights(weights, merge, combine, len(states))
    return VectorSpec(
        names=tuple(layers) if merge == "separate" else (combine,),
        width=config.hidden_size * (len(states) if merge == "concat" else 1),
        states=states,
        merge=merge,
        weights=tuple(weights) or (1.0,) * len(states),
        pooling=pooling,
        is_normalized=normalize,
        is_left_to_right=config.is_left_to_right,
    )


def choose_all(config, **settings) -> VectorSpec:
    """Those of the embeddings and of each layer, K = L + 1; settings of `choose`."""
    layers = range(config.num_hidden_layers)
    spec = choose(config, **settings | {"layers": layers})
    return dataclasses.replace(
        spec, names=(layer_choices.EMBEDDING, *spec.names), states=(0, *spec.states)
    )


def _check_weights(weights, merge, combine, num_states):
    if weights and (merge != "sum" or num_states == 1):
        raise errors.InputError(
            f"--layer_weights has no meaning with --combine={combine}; leave it out, "
            "or choose sum_last_4 or sum_all"
        )
    if weights and len(weights) != num_states:
        raise errors.InputError(
            f"--layer_weights has {len(weights)} numbers, --combine={combine} sums "
            f"{num_states} layers; give one for each, the last layer's first"
        )
    if not all(map(math.isfinite, weights)):
        raise errors.InputError(
            f"--layer_weights={','.join(map(str, weights))} are not all finite; give "
            "numbers such as 0.4,0.3,0.2,0.1"
        )


def encode(model, spec: VectorSpec, features, *, pools: bool):
    """The result of `compute` for a models.BertModel, without K where K is 1.

    Vectors are those of tokens unless it `pools`, whatever the spec has.
    """
    if not pools:
        spec = dataclasses.replace(spec, pooling="none")
    outputs = model.encode(features, None)
    values = compute(outputs, features["input_mask"], spec)
    return values if len(spec.names) > 1 else ops.squeeze(values, -2)


def compute(outputs, input_mask, spec: VectorSpec):
    """The chosen vectors, float32 [B, S, K, W], or [B, K, W] where tokens are pooled.

    `input_mask` is int [B, S], 1 for tokens, [CLS] and [SEP] among them.
    """
    values = layer_choices.read_layers(outputs, spec.states, spec.merge, spec.weights)
    if spec.pooling != "none":
        place = "last" if spec.is_left_to_right else "first"
        place = "mean" if spec.pooling == "mean" else place
        values = kernels.pool_tokens(values, input_mask, place)  # [B, K, W]
    return normalize(values) if spec.is_normalized else values


def of_texts(model, features, seed, pooling):
    """The last layer of a models.BertModel, pooled: float32 [R, D] of rows [R, S]."""
    reads_one = pooling == "cls"
    place = model.pooled_position(features) if reads_one else None
    hidden = model.encode(features, seed, place)["sequence_output"]
    hidden = ops.cast(hidden, "float32")
    return hidden[:, 0] if reads_one else pool(hidden, features["input_mask"], pooling)


def pool(values, input_mask, pooling):
    """Vectors of texts, [B, S, ...] -> [B, ...]: their tokens' mean, max or last."""
    if pooling != "max":
        return kernels.pool_tokens(values, input_mask, pooling)
    axes = tuple(range(2, len(values.shape)))
    is_token = ops.expand_dims(ops.cast(input_mask, "bool"), axes)
    return ops.max(ops.where(is_token, values, -math.inf), axis=1)


def normalize(values):
    """Vectors [..., W], scaled to the length 1; those of 0 stay."""
    norm = ops.sqrt(ops.sum(values * values, axis=-1, keepdims=True))
    return values / ops.maximum(norm, _MIN_NORM)
