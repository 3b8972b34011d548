"""Query, key and value weights side by side, for models that serve.

A sentence has too few rows to keep a processor busy: three products of [18, 384] with
[384, 384] take 1.7 times as long as one with [384, 1152]. Nothing is gained where
batches are large, so training keeps the variables of the original apart.
"""

import contextlib

import tensorflow as tf


@contextlib.contextmanager
def joined(model):
    """Joins them in every layer of the model's encoder for as long as the block runs.

    Yields the tf.Variables that inference then reads, some of them copies, which
    training does not change. Results are equal but for rounding.
    """
    whole, without_query = _attentions(model)
    for attention in whole:
        attention.joined = _Joined(attention, [attention.query])
    for attention in without_query:
        attention.joined = _Joined(attention, [])
    attentions = [*whole, *without_query]
    projections = [attention.joined for attention in attentions]
    apart = {id(w) for j in projections for part in j.parts for w in part.weights}
    kept = [weight.value for weight in model.variables if id(weight) not in apart]
    try:
        yield [*kept, *(v for j in projections for v in (j.kernel, j.bias))]
    finally:
        for attention in attentions:
            attention.joined = None


def _attentions(model):
    """The layers whose weights are apart: to be joined, and those but for the query."""
    network, kind = model.network, model.config.network
    if kind == "bert":
        own = [block.attention for block in network.blocks]
        return own[:-1], own[-1:]  # the last may compute queries at some positions only
    if kind == "encoder_decoder":  # whose decoder also asks what another text says
        sides = *network.encoder.blocks, *network.decoder.blocks
        crossing = [block.cross_attention for block in network.decoder.blocks]
        return [block.attention for block in sides], crossing
    return [], []  # of the others they are joined in any case


class _Joined:
    """What layers.SelfAttention computes first: hidden, queries -> query, key, value.

    Args:
        attention: the layer.
        first: [its query], or [] to leave that apart.
    """

    def __init__(self, attention, first):
        self._attention = attention
        self.parts = [*first, attention.key, attention.value]
        self.kernel, self.bias = (
            self._side_by_side("kernel"),
            self._side_by_side("bias"),
        )

    def _side_by_side(self, name):
        whole = tf.concat([getattr(part, name) for part in self.parts], axis=-1)
        return tf.Variable(tf.cast(whole, self.parts[0].compute_dtype), trainable=False)

    def __call__(self, hidden, queries):
        config, count = self._attention.config, len(self.parts)
        width, heads = config.hidden_size, config.num_attention_heads
        rows = tf.cast(tf.reshape(hidden, [-1, width]), self.kernel.dtype)
        rows = tf.matmul(rows, self.kernel) + self.bias
        if hidden.shape[1] == 1:  # token by token: nothing to transpose
            parts = [
                tf.reshape(part, [-1, heads, 1, width // heads])
                for part in tf.split(rows, count, axis=1)
            ]
        else:
            batch, length = tf.unstack(tf.shape(hidden)[:2])
            rows = tf.reshape(rows, [batch, length, count, heads, width // heads])
            parts = tf.unstack(tf.transpose(rows, [2, 0, 3, 1, 4]), count)
        # [B, N, T, K] each
        return parts if count == 3 else [self._attention.project_query(queries), *parts]
