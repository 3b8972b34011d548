"""What a decoder that reads an encoder's output has beside BERT's layers.

Sites of dropout are those of BERT's blocks; attention to the source has two more in
each, after those of all blocks.
"""

from keras import ops

from modeling import layers
from modeling.operations import fast_norms, fast_ops

SITES_OF_CROSS_ATTENTION = 2  # of dropout: its softmax, its output


class CrossAttention(layers.SelfAttention):
    """Attention of a target to a source (Vaswani et al., section 3.2.3).

    Call shapes: source [B, S, D], or its keys_and_values; mask_adder [B, 1, 1, S]
    float32; queries [B, T, D] -> [B, T, D].
    """

    def keys_and_values(self, source):
        """What targets attend to, to be computed once: 2 x [B, N, S, K]."""
        # Of the source as a query nothing is used, so a graph does not compute it.
        _, *pair = super().project(source, source)
        return tuple(pair)

    def project(self, hidden, queries):
        """Query [B, N, T, K], and key and value [B, N, S, K]."""
        if isinstance(hidden, list | tuple):
            return self.project_query(queries), *hidden
        return super().project(hidden, queries)


class DecoderBlock(layers.EncoderBlock):
    """Attention to itself, to the source, and feed-forward; a norm after each residual.

    Call shapes: hidden [R, T, D], source as in CrossAttention, mask_adder [R, 1, 1 or
    T, T], source_adder [B, 1, 1, S] float32, cache a LayerCache, or None -> [R, T, D].
    R is B or a multiple of it: the first R / B rows are of the first source, and so on.
    """

    def __init__(self, config, index, **kwargs):
        super().__init__(config, index, **kwargs)
        first = 1 + config.num_hidden_layers * layers.SITES_PER_BLOCK
        self.cross_site = first + index * SITES_OF_CROSS_ATTENTION
        self.cross_attention = CrossAttention(
            config, self.cross_site, name="cross_attention", dtype=self.given_dtype
        )
        self.cross_attention_norm = layers.layer_norm(
            config, "cross_attention_norm", self.given_dtype
        )

    def build(self, input_shape, *_):
        super().build(input_shape)
        self.cross_attention.build(input_shape)
        self.cross_attention_norm.build(input_shape)

    def call(self, hidden, source, mask_adder, source_adder, seed=None, cache=None):
        rate = self.config.hidden_dropout_prob
        x = self.attention(hidden, mask_adder, seed=seed, cache=cache)
        x = fast_norms.norm_of_sum(
            self.attention_norm, hidden, x, rate, seed, self.site + 1
        )  # [R, T, D]
        # Rows with one source ask as one: no target token hides another from it.
        rows = ops.reshape(x, (ops.shape(source_adder)[0], -1, x.shape[-1]))
        found = self.cross_attention(source, source_adder, rows, seed=seed)
        found = ops.reshape(found, fast_ops.known_shape(x))
        x = fast_norms.norm_of_sum(
            self.cross_attention_norm, x, found, rate, seed, self.cross_site + 1
        )
        outer = self._feed_forward(x, seed)
        return fast_norms.norm_of_sum(
            self.ffn_norm, x, outer, rate, seed, self.site + 2
        )
