"""The layers of the encoder; modeling.py of google-research/bert, in Keras 3.

Randomness is an argument: `seed` is an int64 [2] tensor in training and None
otherwise, and None means no dropout. See modeling/__init__.py for the axes.

Under a mixed policy of Keras (mixed_bfloat16, mixed_float16) variables stay float32
and matrix products are done in the half type. Embeddings, softmax and norms are
computed in float32, where small differences and sums over many terms decide.
"""

import math

import keras
from keras import ops

from modeling import fast_ops, keras_configs

MASK_ADDER = -10000.0  # to the scores of padding (modeling.py, attention_layer)
SITES_PER_BLOCK = 3  # of dropout: attention, its output, the output


def weight_init(config):
    """A new initializer on every call; sharing one would repeat its values."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def layer_norm(config, name):
    """Layer normalisation over the last axis, with the epsilon of the config."""
    return keras.layers.LayerNormalization(epsilon=config.layer_norm_epsilon, name=name)


def dense(config, units, name, dtype=None):
    """An affine map to a last axis of `units`, initialised as the original does."""
    return Dense(units, kernel_initializer=weight_init(config), name=name, dtype=dtype)


@keras_configs.registered
class Dense(keras.layers.Dense):
    """A keras.layers.Dense on rows, so that the bias is added within the product.

    TensorFlow fuses the two, and a gelu in its erf form, where no reshape is between.

    Call shapes: [R, D] or [B, S, D] -> the same with a last axis of `units`.
    """

    def call(self, inputs):
        if len(inputs.shape) == 2:
            return ops.add(ops.matmul(inputs, self.kernel), self.bias)
        rows = self.call(ops.reshape(inputs, (-1, inputs.shape[-1])))
        return ops.reshape(rows, (*ops.shape(inputs)[:-1], self.units))


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

    Call shapes: input_ids, segment_ids [B, S] int -> [B, S, D] of the compute dtype.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.norm = layer_norm(config, "layer_norm")

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

    def call(self, input_ids, segment_ids, seed=None):
        input_ids, segment_ids = map(keras_configs.whole, (input_ids, segment_ids))
        words = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, S, D]
        # A product, not a gather: the gradient of two rows is summed, not scattered.
        kinds = ops.one_hot(segment_ids, self.config.type_vocab_size, dtype="float32")
        kinds = ops.matmul(kinds, self.token_type_embeddings)  # [B, S, D]
        length = ops.shape(input_ids)[1]
        positions = ops.cast(self.position_embeddings, "float32")[:length]  # [S, D]
        hidden = fast_ops.norm_of_sum(
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

    def __init__(self, config, site, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the mask adder stays float32
        self.config = config
        self.site = site
        self.query = dense(config, config.hidden_size, "query")
        self.key = dense(config, config.hidden_size, "key")
        self.value = dense(config, config.hidden_size, "value")
        self.output_projection = dense(config, config.hidden_size, "output")
        self.joined = None  # by joined_weights

    def build(self, input_shape, *_):
        for layer in (self.query, self.key, self.value, self.output_projection):
            layer.build(input_shape)

    def _split_heads(self, x):
        heads = self.config.num_attention_heads
        batch, length = ops.shape(x)[0], ops.shape(x)[1]
        x = ops.reshape(x, (batch, length, heads, self.config.hidden_size // heads))
        return ops.transpose(x, (0, 2, 1, 3))

    def project_query(self, queries):
        """What each head asks with: [B, S, D] -> [B, N, S, K]."""
        return self._split_heads(self.query(queries))

    def _project(self, hidden, queries):
        if self.joined:
            return self.joined(hidden, queries)
        key, value = self.key(hidden), self.value(hidden)
        return self.project_query(queries), *map(self._split_heads, (key, value))

    def call(self, hidden, mask_adder, queries=None, seed=None):
        config = self.config
        queries = hidden if queries is None else queries
        mixed = fast_ops.attend(
            *self._project(hidden, queries),
            mask_adder,
            scale=1.0 / math.sqrt(config.hidden_size // config.num_attention_heads),
            rate=config.attention_probs_dropout_prob,
            seed=seed,
            site=self.site,
        )  # [B, N, S, K]
        mixed = ops.transpose(mixed, (0, 2, 1, 3))  # [B, S, N, K]
        return self.output_projection(ops.reshape(mixed, ops.shape(queries)))


class EncoderBlock(keras_configs.Configured, keras.layers.Layer):
    """Attention and feed-forward, each followed by a residual and a norm.

    modeling.py: transformer_model. The norm comes after the sum, as in Vaswani et al.;
    later networks put it before.

    Call shapes: hidden [B, T, D], mask_adder [B, 1, 1 or S, T] float32, positions int
    [B, S], or None for all -> [B, S, D], what is put out at these positions.
    """

    arguments = ("config", "index")

    def __init__(self, config, index, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the mask adder stays float32
        self.config = config
        self.index = index
        self.site = 1 + index * SITES_PER_BLOCK
        self.attention = SelfAttention(config, self.site, name="attention")
        self.attention_norm = layer_norm(config, "attention_norm")
        self.ffn_in = dense(config, config.intermediate_size, "ffn_in")
        self.ffn_out = dense(config, config.hidden_size, "ffn_out")
        self.ffn_norm = layer_norm(config, "ffn_norm")

    def build(self, input_shape, *_):
        for layer in (self.attention, self.attention_norm, self.ffn_in, self.ffn_norm):
            layer.build(input_shape)
        self.ffn_out.build((*input_shape[:-1], self.config.intermediate_size))

    def call(self, hidden, mask_adder, positions=None, seed=None):
        rate = self.config.hidden_dropout_prob
        queries = hidden
        if positions is not None:
            places = ops.expand_dims(positions, -1)
            queries = ops.take_along_axis(hidden, places, axis=1)
        attended = self.attention(hidden, mask_adder, queries, seed=seed)  # [B, S, D]
        attended = fast_ops.norm_of_sum(
            self.attention_norm, queries, attended, rate, seed, self.site + 1
        )
        rows = ops.reshape(attended, (-1, self.config.hidden_size))
        inner = self.ffn_in(rows)  # [B * S, F]
        inner = activation(self.config, inner, fused=seed is not None)
        outer = ops.reshape(self.ffn_out(inner), ops.shape(attended))  # [B, S, D]
        return fast_ops.norm_of_sum(
            self.ffn_norm, attended, outer, rate, seed, self.site + 2
        )


def mask_adder(input_mask):
    """What to add to the scores, float32 [B, 1, 1 or S, T]: 0, or -10000 for padding.

    `input_mask` is int [B, T], 1 for real tokens, or [B, S, T] for any pattern.
    """
    mask = ops.cast(input_mask, "float32")
    axes = (1, 2) if len(input_mask.shape) == 2 else 1
    return (1.0 - ops.expand_dims(mask, axes)) * MASK_ADDER
