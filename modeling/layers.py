"""The layers of the encoder; modeling.py of google-research/bert, in Keras 3.

Randomness is an argument: `seed` is an int64 [2] tensor in training and None
otherwise, and None means no dropout. See modeling/__init__.py for the axes.

Under a mixed policy of Keras (mixed_bfloat16, mixed_float16) variables stay float32
and matrix products are done in the half type. Embeddings, softmax and norms are
computed in float32, where small differences and sums over many terms decide.
"""

import math
from typing import Any

import keras
from keras import ops

from modeling.configs import keras_configs
from modeling.operations import fast_norms, fast_ops, token_masks

SITES_PER_BLOCK = 3  # of dropout: attention, its output, the output


def weight_init(config):
    """A new initializer on every call; sharing one would repeat its values."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def layer_norm(config, name, dtype=None):
    """Layer normalisation over the last axis, with the epsilon of the config."""
    return keras.layers.LayerNormalization(
        epsilon=config.layer_norm_epsilon, name=name, dtype=dtype
    )


def dense(config, units, name, dtype=None):
    """An affine map to a last axis of `units`, initialised as the original does."""
    return Dense(units, kernel_initializer=weight_init(config), name=name, dtype=dtype)


@keras_configs.register
class Dense(keras.layers.Dense):
    """A keras.layers.Dense on rows, so that the bias is added within the product.

    TensorFlow fuses the two, and a gelu in its erf form, where no reshape is between.

    Call shapes: [R, D] or [B, S, D] -> the same with a last axis of `units`.
    """

    quantize = keras_configs.refuse_quantization

    def call(self, inputs):
        return self.activation(affine(inputs, self.kernel, self.bias))


def affine(inputs, kernel, bias=None):
    """Inputs [..., D] @ kernel [D, F] + bias [F], computed on rows."""
    if len(inputs.shape) == 2:
        product = ops.matmul(inputs, kernel)
        return product if bias is None else ops.add(product, bias)
    rows = affine(ops.reshape(inputs, (-1, inputs.shape[-1])), kernel, bias)
    return ops.reshape(rows, (*fast_ops.known_shape(inputs)[:-1], kernel.shape[-1]))


def activation(config, x, *, fused):
    """config.hidden_act; `fused` as in `fast_ops.gelu`."""
    match config.hidden_act:
        case "gelu_tanh":
            return fast_ops.gelu(x, approximate=True, fused=fused)
        case "gelu_erf":
            return fast_ops.gelu(x, approximate=False, fused=fused)
        case "relu":
            return ops.relu(x)
        case "tanh":
            return ops.tanh(x)
        case _:
            return x


class Embeddings(keras_configs.Configured, keras.layers.Layer):
    """Sum of word, segment and position embeddings (BERT section 3, Figure 2).

    modeling.py: embedding_lookup and embedding_postprocessor. The sum is float32 under
    every policy: a table is never cast for its lookup, and its gradient is float32.

    Call shapes: input_ids, segment_ids, position_ids [B, S] int, None for 0, 1, ... ->
    [B, S, D] of the compute dtype.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.norm = layer_norm(config, "layer_norm", self.given_dtype)

    def build(self, input_shape, *_):
        config = self.config
        for name, rows in (
            ("word_embeddings", config.vocab_size),
            ("token_type_embeddings", config.type_vocab_size),
            ("position_embeddings", config.max_position_embeddings),
        ):
            variable = self.add_weight(
                shape=(rows, config.hidden_size),
                initializer=weight_init(config),
                name=name,
                autocast=False,
            )
            setattr(self, name, variable)
        self.norm.build((*input_shape, config.hidden_size))

    def table(self, seed=None):
        """The table of words, for an output layer that shares it."""
        return self.word_embeddings

    def call(self, input_ids, segment_ids, position_ids=None, seed=None, table=None):
        input_ids, segment_ids = map(keras_configs.whole, (input_ids, segment_ids))
        words = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, S, D]
        # A product, not a gather: the gradient of two rows is summed, not scattered.
        kinds = ops.one_hot(segment_ids, self.config.type_vocab_size, dtype="float32")
        kinds = ops.matmul(kinds, self.token_type_embeddings)  # [B, S, D]
        positions = ops.cast(self.position_embeddings, "float32")
        if position_ids is None:
            positions = positions[: ops.shape(input_ids)[1]]  # [S, D]
        else:
            positions = ops.take(positions, position_ids, axis=0)
        hidden = fast_norms.norm_of_sum(
            self.norm, words, kinds + positions, rate=0.0, seed=seed, site=0
        )
        return fast_ops.dropout(hidden, self.config.hidden_dropout_prob, seed, site=0)


class SelfAttention(keras_configs.Configured, keras.layers.Layer):
    """Multi-head attention of a sequence to itself (Vaswani et al., section 3.2.2).

    modeling.py: attention_layer. The mask is data, not a rule: it may be any [B, 1 or
    S, T] pattern of ones (attend) and zeros.

    Call shapes: hidden [B, T, D], mask_adder [B, 1, 1 or S, T] float32, queries
    [B, S, D], which are hidden if not given -> [B, S, D].
    """

    arguments = ("config", "site")
    map_names: tuple[str, ...] = ("query", "key", "value", "output_projection")

    def __init__(self, config, site, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the mask adder stays float32
        self.config = config
        self.site = site
        self._make_maps()
        self.joined = None  # by joined_weights

    def _make_maps(self):
        size = self.config, self.config.hidden_size
        self.query = dense(*size, "query", self.given_dtype)
        self.key = dense(*size, "key", self.given_dtype)
        self.value = dense(*size, "value", self.given_dtype)
        self.output_projection = dense(*size, "output", self.given_dtype)

    def build(self, input_shape, *_):
        for name in self.map_names:
            getattr(self, name).build(input_shape)

    def _split_heads(self, x):
        heads = self.config.num_attention_heads
        shape = *fast_ops.known_shape(x)[:2], heads, self.config.hidden_size // heads
        x = ops.reshape(x, shape)
        return ops.transpose(x, (0, 2, 1, 3))

    def project_query(self, queries):
        """What each head asks with: [B, S, D] -> [B, N, S, K]."""
        return self._split_heads(self.query(queries))

    def project(self, hidden, queries):
        """Query [B, N, S, K], and key and value [B, N, T, K]."""
        if self.joined:
            return self.joined(hidden, queries)
        key, value = self.key(hidden), self.value(hidden)
        return self.project_query(queries), *map(self._split_heads, (key, value))

    def call(self, hidden, mask_adder, queries=None, seed=None, cache=None):
        config = self.config
        queries = hidden if queries is None else queries
        query, key, value = self.project(hidden, queries)
        if cache is not None:
            key, value = cache.extend(key, value)
        mixed = fast_ops.attend(
            *(query, key, value),
            mask_adder,
            scale=1.0 / math.sqrt(config.hidden_size // config.num_attention_heads),
            rate=config.attention_probs_dropout_prob,
            seed=seed,
            site=self.site,
        )  # [B, N, S, K]
        mixed = ops.transpose(mixed, (0, 2, 1, 3))  # [B, S, N, K]
        return self.output_projection(ops.reshape(mixed, fast_ops.known_shape(queries)))


class EncoderBlock(keras_configs.Configured, keras.layers.Layer):
    """Attention and feed-forward, each followed by a residual and a norm.

    modeling.py: transformer_model. The norm comes after the sum, as in Vaswani et al.;
    `decoder.GptBlock` can put it before.

    Call shapes: hidden [B, T, D], mask_adder [B, 1, 1 or S, T] float32, positions int
    [B, S], or None for all, cache a LayerCache, or None -> [B, S, D], of the positions.
    """

    arguments = ("config", "index")
    attention_kind = SelfAttention
    dense_kind: Any = staticmethod(dense)

    def __init__(self, config, index, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the mask adder stays float32
        self.config = config
        self.index = index
        self.site = 1 + index * SITES_PER_BLOCK
        dtype, width = self.given_dtype, config.hidden_size
        self.attention = self.attention_kind(
            config, self.site, name="attention", dtype=dtype
        )
        self.attention_norm = layer_norm(config, "attention_norm", dtype)
        self.ffn_in = self.dense_kind(
            config, config.intermediate_size, name="ffn_in", dtype=dtype
        )
        self.ffn_out = self.dense_kind(config, width, name="ffn_out", dtype=dtype)
        self.ffn_norm = layer_norm(config, "ffn_norm", dtype)

    def build(self, input_shape, *_):
        for layer in (self.attention, self.attention_norm, self.ffn_in, self.ffn_norm):
            layer.build(input_shape)
        self.ffn_out.build((*input_shape[:-1], self.config.intermediate_size))

    def call(self, hidden, mask_adder, positions=None, seed=None, cache=None):
        rate, site = self.config.hidden_dropout_prob, self.site
        queries = (
            hidden if positions is None else token_masks.rows_at(hidden, positions)
        )
        x = self.attention(hidden, mask_adder, queries, seed=seed, cache=cache)
        x = fast_norms.norm_of_sum(
            self.attention_norm, queries, x, rate, seed, site + 1
        )  # [B, S, D]
        outer = self._feed_forward(x, seed)
        return fast_norms.norm_of_sum(self.ffn_norm, x, outer, rate, seed, site + 2)

    def _feed_forward(self, x, seed):
        inner = self.ffn_in(ops.reshape(x, (-1, self.config.hidden_size)))  # [B * S, F]
        inner = activation(self.config, inner, fused=seed is not None)
        return ops.reshape(self.ffn_out(inner), fast_ops.known_shape(x))
