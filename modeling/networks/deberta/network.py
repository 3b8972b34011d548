"""DeBERTa-v2 and v3 (He et al., 2021, arXiv:2006.03654 and 2111.09543).

A score of attention is of content to content, of a query to the position of the key
relative to it, and of a key to that of the query (section 3.1 there, equation 4).
"""

import functools

import keras
import numpy as np
from keras import ops

from contract import errors
from modeling import activations, bert, dropout_sites, kernels
from modeling.configs import keras_configs


class DebertaEmbeddings(bert.Embeddings):
    """The sum of embeddings, if they are narrower projected, and then their norm.

    Call shapes: as bert.Embeddings.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        if self.projection:
            self.projection = bert.Dense(
                config.hidden_size,
                use_bias=False,
                kernel_initializer=bert.weight_init(config),
                name="projection",
                dtype=self.given_dtype,
            )

    def build(self, input_shape, *_):
        for name, rows in self.config.table_rows.items():
            shape, init = (rows, self.config.embedding_size), bert.weight_init
            variable = self.add_weight(
                shape, init(self.config), name=name, autocast=False
            )
            setattr(self, name, variable)
        if self.projection:
            self.projection.build((*input_shape, self.config.embedding_size))
        self.norm.build((*input_shape, self.config.hidden_size))

    def call(self, input_ids, segment_ids, position_ids=None, seed=None, table=None):
        input_ids, segment_ids = map(kernels.as_integers, (input_ids, segment_ids))
        words = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, S, E]
        others = self.look_up_segments(segment_ids)
        if self.config.position_biased_input:
            positions = ops.cast(self.position_embeddings, "float32")
            if position_ids is None:
                others += positions[: ops.shape(input_ids)[1]]
            else:  # with a dense gradient, as in bert.Embeddings
                others += ops.take(1.0 * positions, position_ids, axis=0)
        if self.projection:
            words = self.projection(words + others)
            others = ops.zeros_like(words)
        rate, site = self.config.hidden_dropout_prob, dropout_sites.EMBEDDINGS
        hidden = kernels.norm_of_sum(self.norm, words, others, 0.0, seed, site)
        return kernels.dropout(hidden, rate, seed, site)


class RelativePositions(keras_configs.Configured, keras.layers.Layer):
    """The vectors of relative positions, which all layers share."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config, self.norm = config, None
        if config.norm_rel_ebd == "layer_norm":
            self.norm = bert.layer_norm(config, "norm", self.given_dtype)

    def build(self, *_):
        shape = 2 * self.config.span, self.config.hidden_size
        init = bert.weight_init(self.config)
        self.table = self.add_weight(shape, init, name="table", autocast=False)
        if self.norm:
            self.norm.build(shape)

    def vectors(self):
        """[2 * span, D] of the compute dtype."""
        table = ops.convert_to_tensor(self.table)
        table = self.norm(table) if self.norm else table
        return ops.cast(table, self.compute_dtype)


@functools.cache
def rows_by_distance(longest, buckets, farthest):
    """The rows of the table, int32 [2 * longest], of distances to earlier tokens.

    The distances go down from longest - 1 to -longest; of those above half of the
    buckets, the logarithms are counted (DeBERTa's code, make_log_bucket_position).
    """
    places = np.arange(longest - 1, -longest - 1, -1)
    span = buckets or farthest
    if buckets:
        near = buckets // 2
        far = np.maximum(abs(places), near).astype(np.float32) / np.float32(near)
        share = np.log(far) / np.log(np.float32((farthest - 1) / near))
        logs = np.ceil(share * np.float32(near - 1)) + near
        places = np.where(abs(places) <= near, places, np.sign(places) * logs)
    return np.clip(places + span, 0, 2 * span - 1).astype(np.int32)


def skew(scores, first):
    """Numbers [B, N, T, 2T] by distance as [B, N, T, T] by place: j - i from `first`.

    Row i begins i numbers earlier than the one before it: as rows of one number less
    they are copied in whole, where a gather takes ten times as long.
    """
    size, heads, length, width = ops.shape(scores)
    flat = ops.reshape(scores, (size, heads, length * width))
    flat = flat[:, :, first : first + length * (width - 1)]
    return ops.reshape(flat, (size, heads, length, width - 1))[..., :length]


class DisentangledAttention(bert.SelfAttention):
    """Attention by content and by relative positions.

    Call shapes: as bert.SelfAttention, with `table` [2 * span, D] and positions of the
    queries int [B, S], or None for all.
    """

    @property
    def scale(self):
        """Smaller by the terms of relative positions, which are added to the scores."""
        return self.config.scale

    def _make_projections(self):
        super()._make_projections()
        size = self.config, self.config.hidden_size
        for name in ("position_key", "position_query"):
            if f"/{name}/" not in self.config.absent():
                setattr(self, name, bert.dense(*size, name, self.given_dtype))
                self.parts = (*self.parts, name)

    def call(
        self, hidden, table, attention_bias, queries=None, positions=None, seed=None
    ):
        queries = hidden if queries is None else queries
        query, key, value = self.project(hidden, queries)
        learned = self.position_scores(query, key, table, positions, seed)
        if learned is not None:
            attention_bias += ops.cast(learned, "float32")
        mixed = self.mix(query, key, value, attention_bias, seed, learned)
        mixed = ops.reshape(mixed, kernels.shape_for_reshape(queries))
        return self.output_projection(mixed)

    def position_scores(self, query, key, table, positions=None, seed=None):
        """The scaled terms of relative positions, [B, N, S, T]; None without any.

        Query and key are multiplied with the vectors of all distances in the text,
        [2T, D], and rows of the products are moved to where the keys are.
        """
        config, length = self.config, ops.shape(key)[2]
        if not (config.relative_attention and config.terms):
            return None
        site = self.site + dropout_sites.PER_BLOCK * config.num_hidden_layers
        table = kernels.dropout(table, config.hidden_dropout_prob, seed, site)
        longest = max(config.max_position_embeddings, key.shape[2] or 0)
        rows = rows_by_distance(longest, config.position_buckets, config.farthest)
        rows = ops.convert_to_tensor(rows)[longest - length : longest + length]
        vectors = self.position_vectors(ops.take(table, rows, axis=0))
        scores = []
        if "c2p" in vectors:
            product = ops.matmul(query, ops.transpose(vectors["c2p"], (0, 1, 3, 2)))
            if positions is None:
                scores.append(skew(product, length - 1))
            else:
                scores.append(_take_keys(product, positions, length))
        if "p2c" in vectors:
            upwards = ops.flip(vectors["p2c"], axis=2)  # the distances
            product = ops.matmul(key, ops.transpose(upwards, (0, 1, 3, 2)))
            product = skew(product, length)  # [B, N, T, all queries]
            if positions is None:
                scores.append(ops.transpose(product, (0, 1, 3, 2)))
            else:
                product = ops.transpose(product, (0, 3, 1, 2))
                product = kernels.take_rows(product, positions)
                scores.append(ops.transpose(product, (0, 2, 1, 3)))
        return sum(scores[1:], scores[0])

    def position_vectors(self, table):
        """{term: scaled vectors [1, N, R, K]} of rows [R, D] of relative positions."""
        keys, queries = self.key, self.query
        if not self.config.share_att_key:
            keys = getattr(self, "position_key", None)
            queries = getattr(self, "position_query", None)
        layers = {"c2p": keys, "p2c": queries}
        return {
            term: self.config.scale
            * self._split_heads(layers[term](ops.expand_dims(table, 0)))
            for term in self.config.terms
        }


def _take_keys(product, positions, length):
    """Scores [B, N, S, 2T] by distance, of queries at int [B, S], as [B, N, S, T]."""
    size, heads, count, width = ops.shape(product)
    rows = ops.reshape(ops.transpose(product, (0, 2, 3, 1)), (-1, heads))
    begins = width * ops.reshape(ops.arange(size * count), (size, count))
    begins = begins + length - 1 - ops.cast(positions, "int32")
    taken = ops.take(rows, ops.expand_dims(begins, -1) + ops.arange(length), axis=0)
    return ops.transpose(taken, (0, 3, 1, 2))


class DebertaConvolution(keras_configs.Configured, keras.layers.Layer):
    """norm(x + act(convolution(hidden))), after the first block of v2's largest models.

    Call shapes: hidden and x [B, S, D], mask [B, S, 1], positions int [B, P] of x, or
    None for all -> as x.
    """

    def __init__(self, config, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.site = dropout_sites.first_of_block(config.num_hidden_layers) + 1
        self.norm = bert.layer_norm(config, "norm", self.given_dtype)

    def build(self, input_shape, *_):
        width, size = self.config.hidden_size, self.config.conv_kernel_size
        init = bert.weight_init(self.config)
        self.kernel = self.add_weight((width, width, size), init, name="kernel")
        self.bias = self.add_weight((width,), "zeros", name="bias")
        self.norm.build(input_shape)

    def call(self, hidden, x, mask, positions=None, seed=None):
        config, length = self.config, ops.shape(hidden)[1]
        reach = config.conv_kernel_size // 2
        hidden = ops.pad(hidden * mask, ((0, 0), (reach, reach), (0, 0)))
        shifted = [hidden[:, i : i + length] for i in range(config.conv_kernel_size)]
        kernel = ops.transpose(self.kernel)  # as PyTorch has it, [D, D, size]
        kernel = ops.reshape(kernel, (-1, config.hidden_size))
        kernel, bias = (ops.cast(each, hidden.dtype) for each in (kernel, self.bias))
        read = bert.affine(ops.concatenate(shifted, axis=-1), kernel, bias)
        if positions is not None:
            read = kernels.take_rows(read, positions)
        read = kernels.dropout(read, config.hidden_dropout_prob, seed, self.site)
        read = activations.activate(config.conv_act, read, training=seed is not None)
        return kernels.norm_of_sum(self.norm, x, read, 0.0, seed, self.site)


class DebertaBlock(bert.EncoderBlock):
    """A block of disentangled attention.

    Call shapes: as bert.EncoderBlock, with a table [2 * span, D] after hidden.
    """

    attention_kind = DisentangledAttention

    def call(self, hidden, table, attention_bias, positions=None, seed=None):
        rate, site = self.config.hidden_dropout_prob, self.site
        queries = hidden if positions is None else kernels.take_rows(hidden, positions)
        x = self.attention(hidden, table, attention_bias, queries, positions, seed=seed)
        x = kernels.norm_of_sum(self.attention_norm, queries, x, rate, seed, site + 1)
        outer = self._feed_forward(x, seed)
        return kernels.norm_of_sum(self.ffn_norm, x, outer, rate, seed, site + 2)


class DebertaEncoder(bert.Network):
    """Embeddings, the table of relative positions, and blocks; as bert.Network."""

    embeddings_kind = DebertaEmbeddings
    block_kind = DebertaBlock

    def __init__(self, config, recompute=False, **kwargs):
        super().__init__(config, recompute, **kwargs)
        dtype, self.relative, self.convolution = self.given_dtype, None, None
        if config.relative_attention:
            self.relative = RelativePositions(config, name="relative", dtype=dtype)
        if config.conv_kernel_size:
            kind, name = DebertaConvolution, "convolution"
            self.convolution = kind(config, name=name, dtype=dtype)

    def build(self, input_shape, *_):
        super().build(input_shape)
        for layer in filter(None, (self.relative, self.convolution)):
            layer.build((*input_shape, self.config.hidden_size))

    def bias(self, mask, positions=None, position_ids=None):
        """As in bert.Network, and the vectors of relative positions.

        Those within a text are the same wherever it lies in a row.
        """
        if self.convolution and len(mask.shape) == 3:
            raise errors.InputError(
                f"conv_kernel_size={self.config.conv_kernel_size}: the convolution of "
                "this DeBERTa would read over the ends of texts that share rows; leave "
                "--pack_sequences out"
            )
        table = self.relative.vectors() if self.relative else ops.zeros((0, 1))
        return super().bias(mask, positions), table

    def run(self, block, hidden, bias, positions, *, seed):
        mask, table = bias
        x = super().run(block, (*hidden, table), mask, positions, seed=seed)
        if not self.convolution or block is not self.blocks[0]:
            return x
        is_token = ops.cast(mask[:, 0, 0, :, None] == 0, x.dtype)
        return self.convolution(*hidden, x, is_token, positions, seed=seed)


def attention_weights(block, hidden, bias):
    """Probabilities of a DebertaBlock, as in attention_maps."""
    (mask, table), layer = bias, block.attention
    query, key, _ = layer.project(hidden, hidden)
    scores = ops.einsum("bnsk,bntk->bnst", query * layer.config.scale, key)
    learned = layer.position_scores(query, key, table)
    scores = scores if learned is None else scores + learned
    return ops.softmax(ops.cast(scores, "float32") + mask)
