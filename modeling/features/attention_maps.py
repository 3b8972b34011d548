"""Attention probabilities, from what the layers of an encoder put out.

They are computed apart from the network's own attention, which never keeps them.
"""

from keras import ops

from contract import errors


def compute(encoder, outputs, input_mask):
    """Probabilities of L layers and N heads, float32 [B, L, N, S, T], undropped.

    A row of a token, a query S, sums up to 1 over the keys T; rows and columns of
    padding are 0.

    Args:
        encoder: a bert.Network.
        outputs: of a call without dropout.
        input_mask: int [B, S], 1 for tokens.

    Raises:
        ValueError: the network has no attention.
    """
    if (weights := encoder.config.spec.attention_weights) is None:
        raise errors.InputError(
            f"attention: a network of {encoder.config.kind} has none to show; take "
            "BERT, GPT or GPT-2"
        )
    hidden = [outputs["embedding_output"], *outputs["layer_outputs"]]
    bias = encoder.bias(input_mask)  # [B, 1, 1 or S, T]
    is_token = ops.cast(input_mask, "float32")[:, None, :, None]  # [B, 1, S, 1]
    maps = [
        weights(block, x, bias) * is_token
        for block, x in zip(encoder.blocks, hidden[:-1], strict=True)
    ]
    return ops.stack(maps, axis=1)


def of_block(block, hidden, bias):
    """Softmax of scaled dot products (Vaswani et al., section 3.2.1): [B, N, S, T].

    `block` is a bert.EncoderBlock; the record of a network names this function where it
    holds for its blocks.
    """
    return of_attention(block.attention, hidden, bias)


def of_attention(attention, hidden, bias):
    """As `of_block`, of a bert.SelfAttention that reads `hidden`."""
    query, key, _ = attention.project(hidden, hidden)  # [B, N, S, K] each
    return weigh(query, key, bias)


def weigh(query, key, bias):
    """Softmax of the scaled products of two [B, N, S, K], and a bias of them."""
    scores = ops.cast(ops.einsum("bnsk,bntk->bnst", query, key), "float32")
    return ops.softmax(scores / query.shape[-1] ** 0.5 + bias)
