"""Attention probabilities, from what the layers of an encoder put out.

They are computed apart from the network's own attention, which never keeps them.
"""

import dataclasses
from collections.abc import Sequence

from keras import ops

from contract import errors
from modeling import kernels


@dataclasses.dataclass(frozen=True)
class AttentionSpec:
    """Which maps are wanted, checked against a network; heads are counted from 0."""

    layers: tuple[int, ...]  # K: 0 is the first, -1 the last
    heads: tuple[int, ...]  # N


def choose(
    config, layers: Sequence[int] = (), heads: Sequence[int] = ()
) -> AttentionSpec:
    """Checks layers and heads; none stands for all of them.

    Raises:
        ValueError: the network has no such layer or head, or no attention.
    """
    if not hasattr(config, "num_attention_heads"):
        raise errors.InputError(
            f"--attention: the network is an {config.kind}, which has none; take BERT, "
            "GPT or GPT-2"
        )
    for flag, indices, count in (
        ("layers", layers, config.num_hidden_layers),
        ("heads", heads, config.num_attention_heads),
    ):
        for index in indices:
            if not -count <= index < count:
                raise errors.InputError(
                    f"--{flag}: there is no {index}, the network has {count}: choose "
                    f"among 0..{count - 1}, or -1..{-count} from the last to the first"
                )
    return AttentionSpec(
        tuple(layers) or tuple(range(config.num_hidden_layers)),
        tuple(h % config.num_attention_heads for h in heads)
        or tuple(range(config.num_attention_heads)),
    )


def compute(encoder, outputs, input_mask, spec: AttentionSpec):
    """The probabilities of keys T for each query S, float32 [B, K, N, S, T], undropped.

    A row of a token sums up to 1; rows and columns of padding are 0.

    Args:
        encoder: a bert.Network.
        outputs: of a call without dropout.
        input_mask: int [B, S], 1 for tokens.
    """
    hidden = [outputs["embedding_output"], *outputs["layer_outputs"]]
    mask = input_mask
    if encoder.config.is_left_to_right:
        mask = kernels.causal_mask(input_mask)
    bias = kernels.attention_bias(mask)  # [B, 1, 1 or S, T]
    is_token = ops.cast(input_mask, "float32")[:, None, :, None]  # [B, 1, S, 1]
    maps = []
    for layer in spec.layers:
        index = layer % len(encoder.blocks)
        weights = _probabilities(encoder.blocks[index], hidden[index], bias)
        maps.append(ops.take(weights * is_token, spec.heads, axis=1))
    return ops.stack(maps, axis=1)


def _probabilities(block, hidden, bias):
    """Softmax of scaled dot products (Vaswani et al., section 3.2.1): [B, N, S, T]."""
    if block.config.norm_first:
        hidden = block.attention_norm(hidden)
    query, key, _ = block.attention.project(hidden, hidden)  # [B, N, S, K] each
    scores = ops.cast(ops.einsum("bnsk,bntk->bnst", query, key), "float32")
    return ops.softmax(scores / query.shape[-1] ** 0.5 + bias)
