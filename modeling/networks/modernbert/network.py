"""The layers of ModernBERT (Warner et al., 2024, arXiv:2412.13663), and its heads."""

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from modeling import activations, bert, dropout_sites, kernels, kernels_tf, rotary
from modeling.configs import keras_configs
from modeling.features import attention_maps
from modeling.networks.modernbert import config as config_lib
from modeling.networks.modernbert import windows as windows_lib


class View(NamedTuple):
    """What blocks of one kind see: attention_bias, and the rotation of positions."""

    bias: Any
    rotation: rotary.Rotation


def _dense(config, units, name, dtype, *, use_bias, is_output=False):
    """A dense layer; what is added to a sum begins smaller, by the number of sums."""
    is_smaller = is_output and config.scales_outputs
    scale = math.sqrt(2 * config.num_hidden_layers) if is_smaller else 1
    init = keras.initializers.TruncatedNormal(stddev=config.initializer_range / scale)
    return ModernBertDense(
        units, use_bias=use_bias, kernel_initializer=init, name=name, dtype=dtype
    )


@keras_configs.register
class ModernBertDense(bert.Dense):
    """A bert.Dense of which some columns, a slice, may be computed alone."""

    def call(self, inputs, columns=None, training=False):
        kernel, bias = self.kernel, self.bias
        if columns is not None:
            kernel = kernel[:, columns]
            bias = bias if bias is None else bias[columns]
        return bert.affine(inputs, kernel, bias, training)


class ModernBertEmbeddings(bert.Embeddings):
    """The vectors of words, normed."""

    def call(self, input_ids, segment_ids, position_ids=None, seed=None, table=None):
        words = ops.take(self.word_embeddings, kernels.as_integers(input_ids), axis=0)
        words = kernels.norm(self.norm, words, training=seed is not None)
        rate, site = self.config.embedding_dropout, dropout_sites.EMBEDDINGS
        return ops.cast(kernels.dropout(words, rate, seed, site), "float32")


class ModernBertAttention(keras_configs.Configured, keras.layers.Layer):
    """Attention to all tokens, or to those that a window reaches.

    Call shapes: hidden [B, T, D], a View, positions int [B, S], or None for all -> [B,
    S, D], at the positions.
    """

    arguments = ("config", "site", "is_local")
    parts = ("query_key_value", "output_projection")

    def __init__(self, config, site, is_local, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the bias stays float32
        self.config, self.site, self.is_local = config, site, is_local
        width, dtype = config.hidden_size, self.given_dtype
        use_bias = config.attention_bias
        self.query_key_value = _dense(
            config, 3 * width, "query_key_value", dtype, use_bias=use_bias
        )
        self.output_projection = _dense(
            config, width, "output", dtype, use_bias=use_bias, is_output=True
        )

    def _split(self, x):
        """[B, T, C * D] -> [C, B, N, T, K]."""
        heads, width = self.config.num_attention_heads, self.config.hidden_size
        count, size = x.shape[-1] // width, width // heads
        shape = *kernels.shape_for_reshape(x)[:2], count, heads, size
        return ops.transpose(ops.reshape(x, shape), (2, 0, 3, 1, 4))

    def project(self, hidden, rotation, queries=None, of_queries=None):
        """Query [B, N, S, K], turned, key [B, N, T, K], turned, and value."""
        if queries is None:
            parts = self._split(self.query_key_value(hidden))
            return rotary.rotate(parts, rotation, 2)
        width = self.config.hidden_size
        queries = self.query_key_value(queries, columns=slice(width))
        others = self.query_key_value(hidden, columns=slice(width, None))
        return (
            *rotary.rotate(self._split(queries), of_queries, 1),
            *rotary.rotate(self._split(others), rotation, 1),
        )

    def call(self, hidden, view, positions=None, seed=None):
        if self.is_local:
            mixed = self._attend_near(hidden, view, seed)
            mixed = mixed if positions is None else kernels.take_rows(mixed, positions)
        else:
            turned = ()
            if positions is not None:
                queries = kernels.take_rows(hidden, positions)
                turned = queries, view.rotation.take(positions)
            parts = self.project(hidden, view.rotation, *turned)
            mixed = self._attend(*parts, view.bias, seed)
        return self.output_projection(mixed)

    def _attend(self, query, key, value, bias, seed):
        """[B, N, S, K] and so on -> [B, S, D]."""
        mixed = kernels.attend(
            query,
            key,
            value,
            bias,
            scale=query.shape[-1] ** -0.5,
            rate=self.config.attention_probs_dropout_prob,
            seed=seed,
            site=self.site,
        )
        mixed = ops.transpose(mixed, (0, 2, 1, 3))  # [B, S, N, K]
        shape = kernels.shape_for_reshape(mixed)[:2]
        return ops.reshape(mixed, (*shape, self.config.hidden_size))

    def _attend_near(self, hidden, view, seed):
        windows = windows_lib.Windows(ops.shape(hidden)[1], self.config.reach)
        rows = ops.reshape(windows.cut(hidden), (-1, windows.size, hidden.shape[-1]))
        parts = self._split(self.query_key_value(rows))
        heads, width = parts.shape[2], parts.shape[-1]
        # The rotation is [blocks, 1, C, K].
        shape = 3, -1, windows.count, heads, windows.size, width
        parts = rotary.rotate(ops.reshape(parts, shape), view.rotation, 2)
        query, key, value = (ops.reshape(x, (-1, *shape[3:])) for x in parts)
        key, value = map(windows.with_neighbours, (key, value))
        return windows.join(self._attend(query, key, value, view.bias, seed))


class ModernBertBlock(keras_configs.Configured, keras.layers.Layer):
    """x + attention(norm(x)), and to that its gated feed-forward, in float32.

    The first block has no norm before its attention, for the embeddings have one.

    Call shapes: as ModernBertAttention, hidden float32 -> float32.
    """

    arguments = ("config", "index")
    call_traced: Any = None  # kernels_tf.trace_once of the network's blocks

    def __init__(self, config, index, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config, self.index = config, index
        self.site, dtype = dropout_sites.first_of_block(index), self.given_dtype
        self.is_local = config.types_of_layers()[index] == config_lib.LOCAL
        self.attention = ModernBertAttention(
            config, self.site, self.is_local, name="attention", dtype=dtype
        )
        self.attention_norm = (
            bert.layer_norm(config, "attention_norm", dtype) if index else None
        )
        width, inner = config.hidden_size, config.intermediate_size
        use_bias = config.mlp_bias
        self.ffn_norm = bert.layer_norm(config, "ffn_norm", dtype)
        self.ffn_in = _dense(config, 2 * inner, "ffn_in", dtype, use_bias=use_bias)
        self.ffn_out = _dense(
            config, width, "ffn_out", dtype, use_bias=use_bias, is_output=True
        )

    def __call__(self, *inputs, seed=None):
        if self.call_traced is None or seed is None:
            return super().__call__(*inputs, seed=seed)
        return self.call_traced(self, *inputs, seed=seed)

    @property
    def kind(self):
        """Blocks of one kind have variables and computations of one form."""
        return self.is_local, self.index > 0

    def build(self, shape, *_):
        for layer in (self.attention_norm, self.attention, self.ffn_norm, self.ffn_in):
            if layer:
                layer.build(shape)
        self.ffn_out.build((*shape[:-1], self.config.intermediate_size))

    def attention_input(self, hidden, *, training):
        """What attention reads of the input of the block."""
        if self.attention_norm is None:
            return ops.cast(hidden, self.compute_dtype)
        return kernels.norm(self.attention_norm, hidden, training=training)

    def call(self, hidden, view, positions=None, seed=None):
        config, site = self.config, self.site
        x = self.attention_input(hidden, training=seed is not None)
        x = self.attention(x, view, positions, seed=seed)
        if positions is not None:
            hidden = kernels.take_rows(hidden, positions)
        rate = config.attention_probs_dropout_prob
        hidden, x = kernels.sum_and_norm(self.ffn_norm, hidden, x, rate, seed, site + 1)
        shape = kernels.shape_for_reshape(x)
        x = self._feed_forward(ops.reshape(x, (-1, config.hidden_size)), seed)
        return kernels.residual_sum(hidden, ops.reshape(x, shape), 0.0, seed, site)

    def _feed_forward(self, x, seed):
        config, inner = self.config, self.config.intermediate_size
        if seed is None:  # to cut the product would copy it
            halves = slice(inner), slice(inner, None)
            parts = tuple(self.ffn_in(x, columns=half) for half in halves)
        else:
            parts = (self.ffn_in(x),)
        rate, site = config.mlp_dropout, self.site + 2
        return self.ffn_out(
            activations.gate(config.hidden_act, parts, rate, seed, site)
        )


class ModernBertEncoder(bert.Network):
    """Embeddings, blocks, and a norm; pooled_output is without a pooler."""

    embeddings_kind = ModernBertEmbeddings
    block_kind = ModernBertBlock
    traces_once = False  # as one kind

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        self.final_norm = bert.layer_norm(config, "final_norm", self.given_dtype)
        if config.classifier_pooling == "mean":
            self.text_place = "mean"

    def make_blocks(self, count):
        """So many blocks; those of a kind are traced once."""
        blocks = super().make_blocks(count)
        for kind in {block.kind for block in blocks}:
            alike = [block for block in blocks if block.kind == kind]
            if len(alike) > 1:
                call_traced = kernels_tf.trace_once(alike[0])
                for block in alike:
                    block.call_traced = call_traced
        return blocks

    def build(self, shape, *_):
        super().build(shape)
        self.final_norm.build((*shape, self.config.hidden_size))

    def bias(self, mask, positions=None, position_ids=None):
        """The View of global blocks, and that of local ones."""
        config, length = self.config, ops.shape(mask)[-1]
        width = config.hidden_size // config.num_attention_heads
        places = ops.arange(length)[None] if position_ids is None else position_ids
        windows, rotation = (
            windows_lib.Windows(length, config.reach),
            rotary.Rotation.of,
        )
        near = rotation(windows.cut(places), width, config.local_rope_theta)
        if position_ids is None:
            places = places[0]
        whole = rotation(places, width, config.global_rope_theta)
        return (
            View(super().bias(mask, positions), whole),
            View(windows.bias(mask, config.reach), near),
        )

    def run(self, block, hidden, views, positions, *, seed):
        return super().run(block, hidden, views[block.is_local], positions, seed=seed)

    def finish(self, hidden, *, training):
        """The final norm."""
        return kernels.norm(self.final_norm, hidden, training=training)


class _Prediction(keras_configs.Configured, keras.layers.Layer):
    """ModernBertPredictionHead: a dense layer, its activation and a norm."""

    parts: tuple[str, ...] = ("dense", "norm")

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config, dtype = config, self.only_dtype or self.given_dtype
        self.dense = _dense(
            config,
            config.hidden_size,
            "dense",
            dtype,
            use_bias=config.classifier_bias,
            is_output=True,
        )
        self.norm = bert.layer_norm(config, "norm", dtype)

    def transform(self, hidden, *, training):
        """[..., D] -> [..., D]."""
        hidden = self.dense(hidden, training=training)
        hidden = activations.activate(self.config.head_act, hidden, training=training)
        return kernels.norm(self.norm, hidden, training=training)


class ModernBertTaskHead(_Prediction):
    """Logits of a classifier, of tags, or of choices.

    Call shapes: [B, D] -> [B, C], or [B, S, D] -> [B, S, C], float32.
    """

    arguments = ("config", "num_classes")
    parts = ("dense", "norm", "logits")
    only_dtype = "float32"

    def __init__(self, config, num_classes, **kwargs):
        super().__init__(config, **kwargs)
        self.num_classes = num_classes
        stddev = config.hidden_size**-0.5
        self.logits = bert.OutputProjection(num_classes, stddev, name="logits")

    def call(self, hidden, seed=None, is_shared=False):
        hidden = self.transform(hidden, training=seed is not None)
        rate, site = self.config.classifier_dropout, dropout_sites.HEAD
        return self.logits(kernels.dropout(hidden, rate, seed, site))


class ModernBertSpanHead(ModernBertTaskHead):
    """Start and end logits of an answer: [B, S, D] -> [B, S] float32 each."""

    def call(self, hidden, seed=None):
        logits = super().call(hidden, seed)
        return logits[..., 0], logits[..., 1]


class ModernBertMaskedLMHead(_Prediction):
    """Predicts hidden tokens; call shapes are as of bert.MaskedLMHead."""

    def build(self, shape, *_):
        super().build(shape)
        config, self.bias = self.config, None
        rows, width = config.vocab_size, config.hidden_size
        if config.decoder_bias:
            self.bias = self.add_weight((rows,), "zeros", name="bias", autocast=False)
        if not config.tie_word_embeddings:
            init = bert.weight_init(config)
            self.table = self.add_weight((rows, width), init, name="table")

    def call(self, masked, word_embeddings, training=False):
        hidden = self.transform(masked, training=training)
        is_tied = self.config.tie_word_embeddings
        table = ops.transpose(word_embeddings if is_tied else self.table)
        logits = bert.affine(hidden, ops.cast(table, hidden.dtype))  # [B, P, V]
        logits = ops.cast(logits, "float32")
        return logits if self.bias is None else logits + self.bias


def attention_weights(block, hidden, views):
    """As attention_maps.of_block; local blocks have zeros outside of their windows."""
    config, bias = block.config, views[0].bias
    places = ops.arange(ops.shape(hidden)[1])
    base = config.local_rope_theta if block.is_local else config.global_rope_theta
    width = config.hidden_size // config.num_attention_heads
    rotation = rotary.Rotation.of(places, width, base)
    hidden = block.attention_input(hidden, training=False)
    query, key, _ = block.attention.project(hidden, rotation)
    if block.is_local:
        is_near = ops.abs(places[:, None] - places) <= config.reach
        bias = ops.where(is_near, bias, kernels.MASK_BIAS)
    return attention_maps.weigh(query, key, bias)
