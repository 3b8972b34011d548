"""GPT and GPT-2: the encoder's layers, with their kernels, tables and norms.

finetune-transformer-lm (Radford et al., 2018) and gpt-2 (Radford et al., 2019).
"""

import keras
from keras import ops

from modeling import bert, dropout_sites, kernels
from modeling.configs import keras_configs


def normal(config, scale=1.0):
    """A new initializer on every call; GPT's normal is not truncated."""
    return keras.initializers.RandomNormal(stddev=scale * config.initializer_range)


class GptDense(keras_configs.Configured, keras.layers.Layer):
    """An affine map whose kernel [1, D, units] is that of a convolution of width 1.

    Call shapes: [R, D] or [B, S, D] -> the same with a last axis of `units`, or of the
    chosen `columns` (a slice).
    """

    arguments = ("config", "units")

    def __init__(self, config, units, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.units = units
        self._initializer = normal(config)

    def build(self, input_shape):
        shape = 1, input_shape[-1], self.units
        self.kernel = self.add_weight(shape, self._initializer, name="kernel")
        self.bias = self.add_weight((self.units,), "zeros", name="bias")

    def call(self, inputs, columns=None, training=False):
        kernel, bias = ops.squeeze(self.kernel, 0), ops.convert_to_tensor(self.bias)
        if columns is not None:
            kernel, bias = kernel[:, columns], bias[columns]
        return bert.affine(inputs, kernel, bias, training)


class GptEmbeddings(keras_configs.Configured, keras.layers.Layer):
    """Sum of token and position embeddings, without segments and norm.

    GPT has one table of both, tokens first, GPT-2 has two. As released, GPT drops
    entries of the table: wherever a token stands in the batch, and in the product that
    predicts the next one.

    Call shapes: as bert.Embeddings; float32 where norms come first.
    """

    def __init__(self, config, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config = config

    def build(self, input_shape, *_):
        config = self.config
        if config.norm_first:
            rows = config.max_position_embeddings
            self.word_embeddings = self._table("word_embeddings", config.vocab_size)
            self.position_embeddings = self._table("position_embeddings", rows, 0.5)
        else:
            name = "word_and_position_embeddings"
            self.word_embeddings = self._table(name, config.num_table_rows)

    def _table(self, name, rows, scale=1.0):
        return self.add_weight(
            shape=(rows, self.config.hidden_size),
            initializer=normal(self.config, scale),
            name=name,
            autocast=False,
        )

    def table(self, seed=None):
        """The table of tokens, with dropped entries where they are dropped there."""
        config = self.config
        if seed is None or not config.joined_table:
            return self.word_embeddings
        rate = config.embedding_dropout_prob
        return kernels.dropout(
            self.word_embeddings, rate, seed, dropout_sites.EMBEDDINGS
        )

    def call(self, input_ids, segment_ids, position_ids=None, seed=None, table=None):
        config = self.config
        input_ids = kernels.as_integers(input_ids)
        table = self.table(seed) if table is None else table
        if position_ids is None:
            position_ids = ops.arange(ops.shape(input_ids)[1])  # [S]
        # A product and a slice have dense gradients, whose norm does not depend on the
        # packing.
        if config.norm_first:
            table_of_positions = 1.0 * self.position_embeddings
        else:
            table_of_positions = ops.convert_to_tensor(table)[config.vocab_size :]
        positions = ops.take(table_of_positions, position_ids, axis=0)
        # No id may read a position: beyond the tokens it is beyond the table as well.
        beyond = ops.logical_or(input_ids < 0, input_ids >= config.vocab_size)
        input_ids = ops.where(beyond, table.shape[0], input_ids)
        hidden = ops.take(table, input_ids, axis=0) + positions  # [B, S, D]
        if not config.joined_table:
            rate = config.embedding_dropout_prob
            hidden = kernels.dropout(hidden, rate, seed, dropout_sites.EMBEDDINGS)
        return hidden if config.norm_first else ops.cast(hidden, self.compute_dtype)


class GptAttention(bert.SelfAttention):
    """Attention whose query, key and value come from one kernel [1, D, 3 D]."""

    parts: tuple[str, ...] = ("query_key_value", "output_projection")

    def _make_projections(self):
        config, width, dtype = self.config, self.config.hidden_size, self.given_dtype
        self.query_key_value = GptDense(
            config, 3 * width, name="query_key_value", dtype=dtype
        )
        self.output_projection = GptDense(config, width, name="output", dtype=dtype)

    def project(self, hidden, queries):
        """Query [B, N, S, K], and key and value [B, N, T, K]."""
        if queries is hidden:
            return self._split_parts(self.query_key_value(hidden))
        width = self.config.hidden_size
        query = self.query_key_value(queries, columns=slice(width))
        others = self.query_key_value(hidden, columns=slice(width, None))
        return *self._split_parts(query), *self._split_parts(others)

    def _split_parts(self, x):
        """[B, T, C * D] -> C x [B, N, T, K]."""
        heads, width = self.config.num_attention_heads, self.config.hidden_size
        shape = (*ops.shape(x)[:2], x.shape[-1] // width, heads, width // heads)
        parts = ops.transpose(ops.reshape(x, shape), (2, 0, 3, 1, 4))
        return ops.unstack(parts, x.shape[-1] // width)


class GptBlock(bert.EncoderBlock):
    """GPT's block is the encoder's; GPT-2's has its norms before both parts.

    There sums are float32 under every policy, for no norm bounds what they lose.
    """

    attention_kind = GptAttention
    dense_kind = GptDense

    def call(self, hidden, attention_bias, positions=None, seed=None, cache=None):
        if not self.config.norm_first:
            return super().call(hidden, attention_bias, positions, seed, cache)
        rate, site = self.config.hidden_dropout_prob, self.site
        x = kernels.norm(self.attention_norm, hidden, training=seed is not None)
        queries = x
        if positions is not None:
            hidden, queries = (kernels.take_rows(y, positions) for y in (hidden, x))
        x = self.attention(x, attention_bias, queries, seed=seed, cache=cache)
        hidden, x = kernels.sum_and_norm(
            self.ffn_norm, hidden, x, rate, seed, site + 1
        )  # [B, S, D]
        outer = self._feed_forward(x, seed)
        return kernels.residual_sum(hidden, outer, rate, seed, site + 2)


class TiedHead(keras_configs.Configured, keras.layers.Layer):
    """Predicts tokens with the table alone, as GPT and GPT-2 do; it has no weights.

    Call shapes: [B, S, D], table [rows, D] -> logits [B, S, V] float32, or one for each
    row of tokens and positions where the config has one table of both.
    """

    def __init__(self, config, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config = config

    def call(self, hidden, table, training=False):
        table = ops.convert_to_tensor(table)[: self.config.num_outputs]
        hidden = ops.cast(hidden, self.compute_dtype)
        table = ops.cast(table, self.compute_dtype)
        return ops.cast(ops.matmul(hidden, ops.transpose(table)), "float32")


class GptDecoder(bert.Network):
    """The network of GPT or GPT-2, by its config.

    layer_outputs are those of the blocks, the last one after GPT-2's final norm, as
    Hugging Face has them. pooled_output is the vector itself: there is no pooler.
    """

    embeddings_kind = GptEmbeddings
    block_kind = GptBlock

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        if config.norm_first:
            self.final_norm = bert.layer_norm(config, "final_norm", self.given_dtype)

    def build(self, input_shape, *_):
        super().build(input_shape)
        if self.config.norm_first:
            self.final_norm.build((*input_shape, self.config.hidden_size))

    def finish(self, hidden, *, training):
        """GPT-2's final norm."""
        if not self.config.norm_first:
            return hidden
        return kernels.norm(self.final_norm, hidden, training=training)
