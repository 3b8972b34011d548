"""BERT from its inputs to its outputs; modeling.py of google-research/bert, in Keras 3.

`seed` is two integers in training and None otherwise, which means no dropout.
See modeling/__init__.py for the axes.

Under a mixed policy of Keras (mixed_bfloat16, mixed_float16) variables stay float32
and matrix products are done in the half type. Embeddings, softmax and norms are
computed in float32, where small differences and sums over many terms decide.
"""

import math
from typing import Any

import keras
from keras import ops

from modeling import activations, dropout_sites, kernels, kernels_tf
from modeling.configs import keras_configs

_TRACED_BLOCKS = 4  # fewer are traced sooner one by one than as a function


def weight_init(config):
    """A new initializer on every call; sharing one would repeat its values."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def layer_norm(config, name, dtype=None):
    """Layer normalisation over the last axis, with the epsilon of the config."""
    return keras.layers.LayerNormalization(
        epsilon=config.layer_norm_epsilon,
        center=config.norm_bias,
        name=name,
        dtype=dtype,
    )


def dense(config, units, name, dtype=None, *, use_bias=True):
    """An affine map to a last axis of `units`, initialised as the original does."""
    return Dense(
        units,
        use_bias=use_bias,
        kernel_initializer=weight_init(config),
        name=name,
        dtype=dtype,
    )


@keras_configs.register
class Dense(keras.layers.Dense):
    """A keras.layers.Dense on rows, so that the bias is added within the product.

    TensorFlow fuses the two, and a gelu in its erf form, where no reshape is between.

    Call shapes: [R, D] or [B, S, D] -> the same with a last axis of `units`.
    """

    quantize = keras_configs.refuse_quantization

    def call(self, inputs, training=False):
        return self.activation(affine(inputs, self.kernel, self.bias, training))


def affine(inputs, kernel, bias=None, training=False):
    """Inputs [..., D] @ kernel [D, F] + bias [F], computed on rows."""
    if len(inputs.shape) == 2:
        return kernels.affine(inputs, kernel, bias, training=training)
    rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
    rows = affine(rows, kernel, bias, training)
    shape = *kernels.shape_for_reshape(inputs)[:-1], kernel.shape[-1]
    return ops.reshape(rows, shape)


class Embeddings(keras_configs.Configured, keras.layers.Layer):
    """Sum of word, segment and position embeddings (BERT section 3, Figure 2).

    modeling.py: embedding_lookup and embedding_postprocessor. The sum is float32 under
    every policy: a table is never cast for its lookup, and its gradient is float32.

    Call shapes: input_ids, segment_ids, position_ids [B, S] int, None for 0, 1, ... ->
    [B, S, D] of the compute dtype.
    """

    owner = None  # of a generator: the embeddings, built before, that it shares

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.norm = layer_norm(config, "layer_norm", self.given_dtype)
        # Where there are no segments, or no table of positions.
        self.token_type_embeddings = self.position_embeddings = None
        self.projection = None
        if config.has_projection:
            size, dtype = config.hidden_size, self.given_dtype
            self.projection = dense(config, size, "projection", dtype)

    def build(self, input_shape, *_):
        config = self.config
        if self.projection:
            self.projection.build((*input_shape, config.embedding_size))
        if self.owner:
            for name in (*config.table_rows, "norm"):
                setattr(self, name, getattr(self.owner, name))
            return
        for name, rows in config.table_rows.items():
            variable = self.add_weight(
                shape=(rows, config.embedding_size),
                initializer=weight_init(config),
                name=name,
                autocast=False,
            )
            setattr(self, name, variable)
        self.norm.build((*input_shape, config.embedding_size))

    def table(self, seed=None):
        """The table of words, for an output layer that shares it."""
        return self.word_embeddings

    def call(self, input_ids, segment_ids, position_ids=None, seed=None, table=None):
        input_ids, segment_ids = map(kernels.as_integers, (input_ids, segment_ids))
        words = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, S, D]
        others = self.look_up_segments(segment_ids)  # [B, S, D]
        if self.position_embeddings is not None:
            length = ops.shape(input_ids)[1]
            others = others + self.look_up_positions(position_ids, length)
        site = dropout_sites.EMBEDDINGS
        hidden = kernels.norm_of_sum(
            self.norm, words, others, rate=0.0, seed=seed, site=site
        )
        rate = self.config.hidden_dropout_prob
        hidden = kernels.dropout(hidden, rate, seed, site)  # [B, S, E]
        return self.projection(hidden) if self.projection else hidden

    def look_up_positions(self, position_ids, length):
        """The vectors of positions, float32 [S, E], or [B, S, E] of position_ids."""
        positions = ops.cast(self.position_embeddings, "float32")
        first = self.config.first_position
        if position_ids is None:
            return positions[first : first + length]
        # A product has a dense gradient, whose norm does not depend on the packing.
        return ops.take(1.0 * positions, first + position_ids, axis=0)

    def look_up_segments(self, segment_ids):
        """The vectors of segments, int [B, S] -> float32 [B, S, E]."""
        if self.token_type_embeddings is None:
            width = self.word_embeddings.shape[1]
            return ops.zeros((*ops.shape(segment_ids), width))
        if not self.config.type_vocab_size:  # RoBERTa: all are of the first segment
            segment_ids = ops.zeros_like(segment_ids)
        # A product, not a gather: the gradient of two rows is summed, not scattered.
        kinds = self.token_type_embeddings.shape[0]
        segments = ops.one_hot(segment_ids, kinds, dtype="float32")
        return ops.matmul(segments, self.token_type_embeddings)


class SelfAttention(keras_configs.Configured, keras.layers.Layer):
    """Multi-head attention of a sequence to itself (Vaswani et al., section 3.2.2).

    modeling.py: attention_layer. The mask is data, not a rule: it may be any [B, 1 or
    S, T] pattern of ones (attend) and zeros.

    Call shapes: hidden [B, T, D], attention_bias [B, 1, 1 or S, T] float32, queries
    [B, S, D], by default hidden -> [B, S, D].
    """

    arguments = ("config", "site")
    parts: tuple[str, ...] = ("query", "key", "value", "output_projection")

    def __init__(self, config, site, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the bias stays float32
        self.config = config
        self.site = site
        self._make_projections()
        self.joined = None  # by kernels_tf.joined_projections

    def _make_projections(self):
        size = self.config, self.config.hidden_size
        self.query = dense(*size, "query", self.given_dtype)
        self.key = dense(*size, "key", self.given_dtype)
        self.value = dense(*size, "value", self.given_dtype)
        self.output_projection = dense(*size, "output", self.given_dtype)

    def _split_heads(self, x):
        heads, width = self.config.num_attention_heads, self.config.hidden_size
        shape = *kernels.shape_for_reshape(x)[:2], heads, width // heads
        return ops.transpose(ops.reshape(x, shape), (0, 2, 1, 3))

    def project_query(self, queries):
        """[B, S, D] -> [B, N, S, K]."""
        return self._split_heads(self.query(queries))

    def project(self, hidden, queries):
        """Query [B, N, S, K], and key and value [B, N, T, K]."""
        if self.joined:
            return self.joined(hidden, queries)
        key, value = self.key(hidden), self.value(hidden)
        return self.project_query(queries), *map(self._split_heads, (key, value))

    @property
    def scale(self):
        """Factor of the products of queries and keys."""
        config = self.config
        return 1.0 / math.sqrt(config.hidden_size // config.num_attention_heads)

    def mix(self, query, key, value, attention_bias, seed, learned=None):
        """The values as `kernels.attend` weighs them, [B, S, N, K]."""
        mixed = kernels.attend(
            query,
            key,
            value,
            attention_bias,
            scale=self.scale,
            rate=self.config.attention_probs_dropout_prob,
            seed=seed,
            site=self.site,
            learned=learned,
        )  # [B, N, S, K]
        return ops.transpose(mixed, (0, 2, 1, 3))

    def call(
        self,
        hidden,
        attention_bias,
        queries=None,
        seed=None,
        cache=None,
        learned=None,
    ):
        queries = hidden if queries is None else queries
        query, key, value = self.project(hidden, queries)
        if cache is not None:
            key, value = cache.extend(key, value)
        mixed = self.mix(query, key, value, attention_bias, seed, learned)
        mixed = ops.reshape(mixed, kernels.shape_for_reshape(queries))
        return self.output_projection(mixed)


class EncoderBlock(keras_configs.Configured, keras.layers.Layer):
    """Attention and feed-forward, each followed by a residual and a norm.

    modeling.py: transformer_model. The norm comes after the sum, as in Vaswani et al.;
    gpt.GptBlock can put it before.

    Call shapes: hidden [B, T, D], attention_bias [B, 1, 1 or S, T] float32, positions
    int [B, S], or None for all, cache a LayerCache, or None -> [B, S, D], at the
    positions.
    """

    arguments = ("config", "index")
    attention_kind: Any = SelfAttention
    dense_kind: Any = staticmethod(dense)
    call_traced: Any = None  # kernels_tf.trace_once of the network's blocks

    def __init__(self, config, index, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the bias stays float32
        self.config = config
        self.index = index
        self.site = dropout_sites.first_of_block(index)
        dtype, make_dense = self.given_dtype, self.dense_kind
        width, inner_width = config.hidden_size, config.intermediate_size
        self.attention = self.attention_kind(
            config, self.site, name="attention", dtype=dtype
        )
        self.attention_norm = layer_norm(config, "attention_norm", dtype)
        self.ffn_in = make_dense(config, inner_width, name="ffn_in", dtype=dtype)
        self.ffn_out = make_dense(config, width, name="ffn_out", dtype=dtype)
        self.ffn_norm = layer_norm(config, "ffn_norm", dtype)

    def build(self, input_shape, *_):
        for layer in (self.attention, self.attention_norm, self.ffn_in, self.ffn_norm):
            layer.build(input_shape)
        self.ffn_out.build((*input_shape[:-1], self.config.intermediate_size))

    def __call__(self, *inputs, seed=None, **options):
        if self.call_traced is None or seed is None:
            return super().__call__(*inputs, seed=seed, **options)
        return self.call_traced(self, *inputs, seed=seed)

    def call(self, hidden, attention_bias, positions=None, seed=None, cache=None):
        rate, site = self.config.hidden_dropout_prob, self.site
        queries = hidden if positions is None else kernels.take_rows(hidden, positions)
        x = self.attention(hidden, attention_bias, queries, seed=seed, cache=cache)
        x = kernels.norm_of_sum(
            self.attention_norm, queries, x, rate, seed, site + 1
        )  # [B, S, D]
        outer = self._feed_forward(x, seed)
        return kernels.norm_of_sum(self.ffn_norm, x, outer, rate, seed, site + 2)

    def _feed_forward(self, x, seed):
        inner = self.ffn_in(ops.reshape(x, (-1, self.config.hidden_size)))  # [B * S, F]
        inner = activations.activate(
            self.config.hidden_act, inner, training=seed is not None
        )
        return ops.reshape(self.ffn_out(inner), kernels.shape_for_reshape(x))


class Network(keras_configs.NetworkLayer):
    """Embeddings and blocks; BertEncoder and GptDecoder add what follows them.

    Call shapes:
        input_ids, input_mask, segment_ids [B, S] int -> dict of
            embedding_output [B, S, D], layer_outputs L x [B, S, D],
            sequence_output [B, S, D] (the last layer), pooled_output [B, D] float32.

    `seed` (two integers) draws dropout; with None the network is deterministic. Without
    the argument it is as in `keras_configs.NetworkLayer`.
    `positions`, int [B, P], are those of the last layer that are read; it computes no
    other, sequence_output is [B, P, D], and the first is pooled. Without them that is
    the first token, from left to right the last. `table` is the result of
    `embeddings.table` for the seed, if it was called before.
    `recompute` trades time for memory: training keeps only what enters and leaves a
    block, and recomputes what lies between for the gradient (Chen et al., 2016).
    """

    embeddings_kind: type = Embeddings
    block_kind: type = EncoderBlock
    traces_once = True  # blocks whose sites of dropout follow each other

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        self.is_causal = config.is_left_to_right
        # Where the vector of a text is, as in `kernels.pool_tokens`.
        self.text_place = "last" if self.is_causal else "first"
        dtype = self.given_dtype
        self.embeddings = self.embeddings_kind(config, name="embeddings", dtype=dtype)
        self.blocks = self.make_blocks(config.num_hidden_layers)

    def make_blocks(self, count):
        """So many blocks, each with weights of its own."""
        config, dtype = self.config, self.given_dtype
        blocks = [
            self.block_kind(config, index, name=f"block_{index}", dtype=dtype)
            for index in range(count)
        ]
        if self.traces_once and config.num_hidden_layers >= _TRACED_BLOCKS:
            call_traced = kernels_tf.trace_once(blocks[0])
            for block in blocks:
                block.call_traced = call_traced
        return blocks

    def build(self, input_shape, *_):
        self.embeddings.build(input_shape)
        for block in self.blocks:
            block.build((*input_shape, self.config.hidden_size))

    def call(
        self,
        input_ids,
        input_mask,
        segment_ids,
        positions=None,
        seed=keras_configs.FRESH,
        table=None,
        training=None,
    ):
        if seed is keras_configs.FRESH:
            seed = self.fresh_seed(training)
        first = self.embeddings(input_ids, segment_ids, seed=seed, table=table)
        hidden = self.walk(first, input_mask, None, seed)
        last = self.end([first, *hidden][-1], input_mask, positions, seed)
        hidden.append(last["sequence_output"])
        return {"embedding_output": first, "layer_outputs": hidden, **last}

    def walk(self, hidden, mask, position_ids, seed):
        """The outputs of all blocks but the last, a list of [R, S, D].

        `position_ids`, int [R, S], are places of tokens in their texts; None for 0, 1,
        and so on. Embeddings have read them; rotations need them as well.
        """
        bias, outputs = self.bias(mask, position_ids=position_ids), []
        for block in self.blocks[:-1]:
            hidden = self.run(block, (hidden,), bias, None, seed=seed)
            outputs.append(hidden)
        return outputs

    def visible(self, input_mask):
        """The keys of each query, as `kernels.attention_bias` takes them."""
        return kernels.causal_mask(input_mask) if self.is_causal else input_mask

    def bias(self, mask, positions=None, position_ids=None):
        """What blocks take as attention_bias, of all queries or of those at positions.

        A network may add to it what `run` hands to the blocks apart; `position_ids` are
        as in `walk`.
        """
        mask = self.visible(mask)
        if positions is not None and len(mask.shape) == 3:
            mask = kernels.take_rows(mask, positions)
        return kernels.attention_bias(mask)

    def end(self, hidden, input_mask, positions, seed):
        """sequence_output and pooled_output, from the input of the last block."""
        bias = self.bias(input_mask, positions)
        hidden = self.run(self.blocks[-1], (hidden,), bias, positions, seed=seed)
        hidden = self.finish(hidden, training=seed is not None)
        place = self.text_place if positions is None else "first"
        pooled = self._pool(kernels.pool_tokens(hidden, input_mask, place))
        return {"sequence_output": hidden, "pooled_output": pooled}

    def run(self, block, hidden, *others, seed):
        def run(*hidden):  # what gradients flow to
            return block(*hidden, *others, seed=seed)

        if seed is None or not self.recompute:
            return run(*hidden)
        # The seed is no state, so masks are the same in both passes.
        return keras.remat(run)(*hidden)

    def finish(self, hidden, *, training):
        """The sequence_output, of the last block's output."""
        return hidden

    def _pool(self, hidden):
        return ops.cast(hidden, "float32")


class BertEncoder(Network):
    """Deep bidirectional Transformer (BERT section 3), or causal by its config."""

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        # In float32, because rounding its tanh to 1 would end its gradient.
        self.pooler = None
        if config.has_pooler:
            self.pooler = dense(config, config.hidden_size, "pooler", "float32")

    def build(self, input_shape, *_):
        super().build(input_shape)
        if self.pooler:
            self.pooler.build((input_shape[0], self.config.hidden_size))

    def _pool(self, hidden):
        if not self.pooler:
            return super()._pool(hidden)
        return ops.tanh(self.pooler(hidden))


class MaskedLMHead(keras_configs.Configured, keras.layers.Layer):
    """Predicts hidden tokens with the word embedding table (BERT section 3.1).

    run_pretraining.py: get_masked_lm_output, after its gather.

    Call shapes: [B, P, D] at the masked positions, word_embeddings [V, D] -> logits
    [B, P, V] float32.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        dtype, width = self.given_dtype, config.embedding_size
        self.transform = dense(config, width, "transform", dtype)
        self.norm = layer_norm(config, "layer_norm", dtype)

    def build(self, input_shape, *_):
        rows, width = self.config.vocab_size, self.config.embedding_size
        self.transform.build(input_shape)
        self.norm.build((*input_shape[:-1], width))
        self.bias = self.add_weight((rows,), "zeros", name="bias", autocast=False)
        if not self.config.tie_word_embeddings:
            init = weight_init(self.config)
            self.table = self.add_weight((rows, width), init, name="table")

    def call(self, masked, word_embeddings, training=False):
        hidden = self.transform(masked)
        hidden = self.norm(
            activations.activate(self.config.head_act, hidden, training=training)
        )
        is_tied = self.config.tie_word_embeddings
        table = ops.cast(word_embeddings if is_tied else self.table, hidden.dtype)
        table = ops.transpose(table)  # [D, V]
        if keras.backend.standardize_dtype(hidden.dtype) == "float32":
            # The bias within the product: a few rows take a fifth of the time so.
            return affine(hidden, table, self.bias)  # [B, P, V]
        return ops.cast(ops.matmul(hidden, table), "float32") + self.bias


class OutputProjection(keras_configs.Configured, keras.layers.Layer):
    """Logits from a [C, D] matrix that is used transposed, as the original stores it.

    GPT's, a [D, C] matrix, is drawn from a normal that is not truncated. The next
    sentence (BERT section 3.1, Task #2) has two classes.

    Call shapes: [..., D] -> [..., C] in float32.
    """

    arguments = ("units", "stddev", "is_gpt")
    only_dtype = "float32"

    def __init__(self, units, stddev, is_gpt=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.stddev = stddev
        self.is_gpt = is_gpt

    def build(self, input_shape):
        shape, kind = (self.units, input_shape[-1]), keras.initializers.TruncatedNormal
        if self.is_gpt:
            shape, kind = shape[::-1], keras.initializers.RandomNormal
        self.kernel = self.add_weight(shape, kind(stddev=self.stddev), name="kernel")
        self.bias = self.add_weight((self.units,), "zeros", name="bias")

    def call(self, inputs):
        kernel = self.kernel if self.is_gpt else ops.transpose(self.kernel)
        return ops.matmul(inputs, kernel) + self.bias
