"""Writes BERT and its relatives as operations of ONNX.

A graph is a `serving.onnx_graph.Graph`, whose methods take and return the names of
tensors. Embeddings, attention and gelu are the fused operations of the domain
com.microsoft, which ONNX Runtime and OpenVINO have.
"""

from typing import Any

import numpy as np

from contract import features as feature_names
from modeling import kernels


class Writer:
    """Writes a network of bert.EncoderBlocks; other networks replace its methods.

    Args:
        graph: where the operations go.
        model: a built model of `network` and its head.
    """

    def __init__(self, graph: Any, model: Any):
        self.graph, self.model, self.config = graph, model, model.config

    def encoder(self, only_first: bool = False) -> str:
        """The last layer [B, S, D]; `only_first`, [B, 1, D] at the first token."""
        hidden = self.embed(self.model.network.embeddings)
        passes = self.model.network.blocks
        *blocks, last = (getattr(each, "block", each) for each in passes)
        for block in blocks:
            hidden = self.block(block, hidden, self.attention(block.attention, hidden))
        if not only_first:
            return self.block(last, hidden, self.attention(last.attention, hidden))
        first = self.first(hidden)
        mixed = self.attention_of(last.attention, hidden, first)
        return self.block(last, first, mixed)

    def first(self, hidden):
        """[B, S, D] -> [B, 1, D]."""
        begin, end = (self.graph.constant(str(n), [n]) for n in (0, 1))
        return self.graph.node("Slice", hidden, begin, end, end)

    def pooled(self) -> str:
        """What the logits of a BertClassifier are computed of, [B, D]."""
        graph, model = self.graph, self.model
        if pooling := model.reading.pooling:
            rows = graph.pooled(self.encoder(pooling == "cls"), pooling)
            return graph.normalized(rows) if model.reading.is_normalized else rows
        first = self.encoder(only_first=True)
        rows = graph.node("Squeeze", first, graph.constant("1", [1]))
        if not model.uses_pooler:
            head = model.classifier
            kernel = graph.constant("dense", np.asarray(head.dense.kernel).T)
            rows, bias = graph.node("MatMul", rows, kernel), head.dense.bias
            return graph.activate(head.settings[0], rows, graph.weight(bias))
        layer = model.network.pooler
        weights = graph.weight(layer.kernel), graph.weight(layer.bias)
        return graph.node("Tanh", graph.node("Gemm", rows, *weights))

    def tokens(self, head: Any) -> str:
        """What the logits of a head of tokens are computed of, [B, S, D]."""
        return self.encoder()

    def embed(self, layer):
        """The input of the first block, [B, S, D]."""
        first, ids, segments = self.config.first_position, feature_names.SEGMENT_IDS, ""
        positions = np.asarray(layer.position_embeddings)[first:]
        if self.config.type_vocab_size:
            segments = self.graph.weight(layer.token_type_embeddings)
        else:  # segments are not read, so each token has the same vector of them
            ids, positions = "", positions + layer.look_up_segments([[0]])[0]
        hidden, _ = self.graph.fused(
            "EmbedLayerNormalization",
            feature_names.INPUT_IDS,
            ids,
            self.graph.weight(layer.word_embeddings),
            self.graph.constant("positions", np.float32(positions)),
            segments,
            self.graph.weight(layer.norm.gamma),
            self.graph.weight(layer.norm.beta),
            count=2,
            epsilon=layer.norm.epsilon,
        )
        projection = getattr(layer, "projection", None)
        return self.graph.dense(projection, hidden) if projection else hidden

    def attention(self, layer, hidden):
        """Attention of all tokens to all: [B, S, D] -> [B, S, D]."""
        others = self.attention_bias(is_first=False)
        # The quantizer of dynamic int8 leaves out the bias of a fused operation.
        if self.graph.splits_products or (others and self.graph.is_quantized):
            return self._attend(layer, hidden, hidden, others)
        parts = layer.query, layer.key, layer.value
        return self.graph.fused(
            "Attention",
            hidden,
            self.graph.joined(parts, "kernel"),
            self.graph.joined(parts, "bias"),
            feature_names.INPUT_MASK,
            *(["", *others] if others else ()),  # after what was read before
            **self._attention_settings(),
        )

    def attention_of(self, layer, hidden, queries):
        """Attention of the first token to all: [B, S, D], [B, 1, D] -> [B, 1, D]."""
        others = self.attention_bias(is_first=True)
        return self._attend(layer, hidden, queries, others)

    def _attend(self, layer, hidden, queries, others):
        graph, parts = self.graph, (layer.query, layer.key, layer.value)
        query = graph.node("MatMul", queries, graph.weight(layer.query.kernel))
        both = graph.node("MatMul", hidden, graph.joined(parts[1:], "kernel"))
        return graph.fused(
            "MultiHeadAttention",
            query,
            *graph.node("Split", both, count=2, axis=-1, num_outputs=2),
            graph.joined(parts, "bias"),
            feature_names.INPUT_MASK,
            *others,
            **self._attention_settings(),
        )

    def attention_bias(self, is_first):
        """A tensor to add to the scores, or none, of all queries or of the first."""
        return ()

    def _attention_settings(self):
        return {
            "num_heads": self.config.num_attention_heads,
            "mask_filter_value": kernels.MASK_BIAS,
        }

    def block(self, block, queries, mixed):
        """The part of an EncoderBlock after its attention."""
        graph, dense = self.graph, block.attention.output_projection
        hidden = self.norm_of_sum(block.attention_norm, queries, mixed, dense)
        inner = graph.node("MatMul", hidden, graph.weight(block.ffn_in.kernel))
        bias = graph.weight(block.ffn_in.bias)
        inner = graph.activate(self.config.hidden_act, inner, bias)
        return self.norm_of_sum(block.ffn_norm, hidden, inner, block.ffn_out)

    def norm_of_sum(self, norm, residual, x, dense):
        """norm(residual + dense(x))."""
        graph, weights = self.graph, (norm.gamma, norm.beta)
        x = graph.node("Add", graph.dense(dense, x), residual)
        weights = map(graph.weight, weights)
        return graph.node("LayerNormalization", x, *weights, epsilon=norm.epsilon)
