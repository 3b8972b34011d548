"""An encoder and a decoder; transformers' EncoderDecoderModel of two BERTs."""

from keras import ops

from modeling import bert, dropout_sites, kernels
from modeling.configs import keras_configs


class CrossAttention(bert.SelfAttention):
    """Attention of a target to a source (Vaswani et al., section 3.2.3).

    Call shapes: source [B, S, D], or its keys_and_values; attention_bias [B, 1, 1, S]
    float32; queries [B, T, D] -> [B, T, D].
    """

    def keys_and_values(self, source):
        """The pair that targets attend to, to be computed once: 2 x [B, N, S, K]."""
        # Of the source as a query nothing is used, so a graph does not compute it.
        _, *pair = super().project(source, source)
        return tuple(pair)

    def project(self, hidden, queries):
        """Query [B, N, T, K], and key and value [B, N, S, K]."""
        if isinstance(hidden, list | tuple):
            return self.project_query(queries), *hidden
        return super().project(hidden, queries)


class DecoderBlock(bert.EncoderBlock):
    """Attention to itself, to the source, and feed-forward; a norm after each residual.

    Call shapes: hidden [R, T, D], source as in CrossAttention, attention_bias [R, 1,
    1 or T, T], source_bias [B, 1, 1, S] float32, cache a LayerCache, or None -> [R, T,
    D].
    R is B or a multiple of it: the first R / B rows are of the first source, and so on.
    """

    def __init__(self, config, index, **kwargs):
        super().__init__(config, index, **kwargs)
        self.cross_site = dropout_sites.first_of_cross_attention(
            config.num_hidden_layers, index
        )
        self.cross_attention = CrossAttention(
            config, self.cross_site, name="cross_attention", dtype=self.given_dtype
        )
        self.cross_attention_norm = bert.layer_norm(
            config, "cross_attention_norm", self.given_dtype
        )

    def build(self, input_shape, *_):
        super().build(input_shape)
        self.cross_attention.build(input_shape)
        self.cross_attention_norm.build(input_shape)

    def call(self, hidden, source, attention_bias, source_bias, seed=None, cache=None):
        rate = self.config.hidden_dropout_prob
        x = self.attention(hidden, attention_bias, seed=seed, cache=cache)
        x = kernels.norm_of_sum(
            self.attention_norm, hidden, x, rate, seed, self.site + 1
        )  # [R, T, D]
        # Rows with one source ask as one: no target token hides another from it.
        rows = ops.reshape(x, (ops.shape(source_bias)[0], -1, x.shape[-1]))
        read = self.cross_attention(source, source_bias, rows, seed=seed)
        read = ops.reshape(read, kernels.shape_for_reshape(x))
        x = kernels.norm_of_sum(
            self.cross_attention_norm, x, read, rate, seed, self.cross_site + 1
        )
        outer = self._feed_forward(x, seed)
        return kernels.norm_of_sum(self.ffn_norm, x, outer, rate, seed, self.site + 2)


class Decoder(bert.Network):
    """BERT's embeddings, and blocks that look to the left and at a source.

    Call shapes: input_ids, input_mask [B, T] int, source [B, S, D], source_mask [B, S]
    int -> the dict of bert.Network, without pooled_output.
    """

    block_kind = DecoderBlock
    traces_once = False

    def call(self, input_ids, input_mask, source, source_mask, seed=None):
        seed = dropout_sites.seed_of_decoder(seed)
        hidden = self.embeddings(input_ids, ops.zeros_like(input_ids), seed=seed)
        biases = (
            kernels.attention_bias(kernels.causal_mask(input_mask)),
            kernels.attention_bias(source_mask),
        )
        outputs = {"embedding_output": hidden, "layer_outputs": []}
        for block in self.blocks:
            hidden = self.run(block, (hidden, source), *biases, seed=seed)
            outputs["layer_outputs"].append(hidden)
        return {**outputs, "sequence_output": hidden}

    def read(self, source):
        """The source for blocks: a pair [B, N, S, K] for each."""
        return tuple(b.cross_attention.keys_and_values(source) for b in self.blocks)


class EncoderDecoder(keras_configs.NetworkLayer):
    """A BERT without pooler, and a decoder that reads its last layer.

    Call shapes: input_ids, input_mask, segment_ids [B, S], decoder_input_ids,
    decoder_mask [B, T] int -> the dict of `Decoder`, and "encoder_outputs", that of
    bert.Network. `seed` and `recompute` are as there.
    """

    parts = ("encoder", "decoder")

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        dtype = self.given_dtype
        self.encoder = bert.Network(
            config.encoder, recompute, name="encoder", dtype=dtype
        )
        self.decoder = Decoder(config.decoder, recompute, name="decoder", dtype=dtype)

    def call(
        self,
        input_ids,
        input_mask,
        segment_ids,
        decoder_input_ids,
        decoder_mask,
        seed=keras_configs.FRESH,
        training=None,
    ):
        if seed is keras_configs.FRESH:
            seed = self.fresh_seed(training)
        read = self.encoder(input_ids, input_mask, segment_ids, seed=seed)
        outputs = self.decoder(
            decoder_input_ids,
            decoder_mask,
            read["sequence_output"],
            input_mask,
            seed=seed,
        )
        return {**outputs, "encoder_outputs": read}
