"""Writes DeBERTa as operations of ONNX; no fused ones have its scores."""

import numpy as np

from contract import features as feature_names
from modeling import kernels
from modeling.networks import bert_onnx
from modeling.networks.deberta import network

_FLOAT, _INT = 1, 7  # types of tensors: float32, int64
_END = np.iinfo(np.int64).max


class Writer(bert_onnx.Writer):
    """As its base; vectors of relative positions are projected when it is written."""

    def __init__(self, graph, model):
        super().__init__(graph, model)
        self.is_first = False  # whether the last block has read one query alone
        node, ints = graph.node, self._ints
        shape = node("Shape", feature_names.INPUT_IDS)
        self.length = length = node("Slice", shape, ints(1), ints(2))
        before = node("Sub", length, ints(1))
        self.firsts = {"c2p": before, "p2c": length}
        mask = node("Cast", feature_names.INPUT_MASK, to=_FLOAT)
        self.mask = node("Unsqueeze", mask, ints(-1))  # [B, S, 1]
        mask = node("Sub", mask, graph.number(1.0))
        mask = node("Mul", mask, graph.number(-kernels.MASK_BIAS))
        self.bias = node("Unsqueeze", mask, ints(1, 2))
        config = self.config
        self.longest = longest = config.max_position_embeddings
        numbers = longest, config.position_buckets, config.farthest
        rows = network.rows_by_distance(*numbers)
        ends = [node(kind, ints(longest), length) for kind in ("Sub", "Add")]
        self.rows = {  # [2S] each, as distances go down, and as they go up
            term: node("Slice", graph.constant(f"distances of {term}", each), *ends)
            for term, each in (("c2p", rows), ("p2c", rows[::-1]))
        }

    def _ints(self, *values):
        return self.graph.constant(",".join(map(str, values)), np.array(values))

    def _cut(self, x, axis, begin, end):
        return self.graph.node("Slice", x, begin, end, self._ints(axis))

    def embed(self, layer):
        graph = self.graph
        words = graph.weight(layer.word_embeddings)
        hidden = graph.node("Gather", words, feature_names.INPUT_IDS)
        if self.config.position_biased_input:
            table = graph.weight(layer.position_embeddings)
            table = self._cut(table, 0, self._ints(0), self.length)
            hidden = graph.node("Add", hidden, table)
        if self.config.type_vocab_size:
            table = graph.weight(layer.token_type_embeddings)
            segments = graph.node("Gather", table, feature_names.SEGMENT_IDS)
            hidden = graph.node("Add", hidden, segments)
        if layer.projection:
            hidden = graph.dense(layer.projection, hidden)
        hidden = self._norm(layer.norm, hidden)
        self.embedded = graph.node("Mul", hidden, self.mask)
        return hidden

    def _norm(self, layer, x):
        weights = self.graph.weight(layer.gamma), self.graph.weight(layer.beta)
        kind = "LayerNormalization"
        return self.graph.node(kind, x, *weights, epsilon=layer.epsilon)

    def attention(self, layer, hidden):
        return self._attend(layer, hidden, hidden)

    def attention_of(self, layer, hidden, queries):
        self.is_first = True
        return self._attend(layer, hidden, queries)

    def _attend(self, layer, hidden, queries):
        node = self.graph.node
        query, key, value = (
            self._heads(self.graph.dense(part, x))
            for part, x in (
                (layer.query, queries),
                (layer.key, hidden),
                (layer.value, hidden),
            )
        )
        scale = self.graph.number(self.config.scale)
        turned = node("Transpose", key, perm=[0, 1, 3, 2])
        scores = node("Mul", node("MatMul", query, turned), scale)
        for term, table in self._tables(layer).items():
            x = query if term == "c2p" else key
            scores = node("Add", scores, self._moved(term, node("MatMul", x, table)))
        weights = node("Softmax", node("Add", scores, self.bias), axis=-1)
        mixed = node("Transpose", node("MatMul", weights, value), perm=[0, 2, 1, 3])
        return node("Reshape", mixed, self._ints(0, 0, self.config.hidden_size))

    def _heads(self, x):
        heads = self.config.num_attention_heads
        shape = 0, 0, heads, self.config.hidden_size // heads
        x = self.graph.node("Reshape", x, self._ints(*shape))
        return self.graph.node("Transpose", x, perm=[0, 2, 1, 3])

    def _tables(self, layer):
        """{term: vectors of all distances, [1, N, K, 2S]}."""
        graph, tables, table = self.graph, {}, self.model.network.relative
        vectors = layer.position_vectors(table.vectors()) if table else {}
        for term, each in vectors.items():
            each = np.asarray(each).transpose(0, 1, 3, 2)  # [1, N, K, 2 * span]
            name = f"{term} of {graph.weight(layer.query.kernel)}"
            each = graph.constant(name, each)
            tables[term] = graph.node("Gather", each, self.rows[term], axis=3)
        return tables

    def _moved(self, term, scores):
        """Numbers by distance in the places of queries and keys; as network.skew."""
        node, ints, count = self.graph.node, self._ints, self.length
        before = self.firsts["c2p"]
        if term == "c2p" and self.is_first:  # from distance 0 on
            return self._cut(scores, 3, before, node("Add", before, count))
        flat = node("Reshape", scores, ints(0, 0, -1))
        flat = self._cut(
            flat, 2, self.firsts[term], ints(-1 if term == "c2p" else _END)
        )
        shape = node("Concat", ints(0, 0), count, ints(-1), axis=0)
        scores = self._cut(node("Reshape", flat, shape), 3, ints(0), count)
        if term == "c2p":
            return scores
        scores = node("Transpose", scores, perm=[0, 1, 3, 2])
        return self._cut(scores, 2, ints(0), ints(1)) if self.is_first else scores

    def block(self, block, queries, mixed):
        x, node = super().block(block, queries, mixed), self.graph.node
        layer, size = self.model.network.convolution, self.config.conv_kernel_size
        if not layer or block is not self.model.network.blocks[0]:
            return x
        kernel = self.graph.constant("convolution", np.asarray(layer.kernel))
        turned = node("Transpose", self.embedded, perm=[0, 2, 1])
        read = node("Conv", turned, kernel, pads=[size // 2] * 2)
        read = node("Transpose", read, perm=[0, 2, 1])
        read = self.first(read) if self.is_first else read
        bias = self.graph.weight(layer.bias)
        read = self.graph.activate(self.config.conv_act, read, bias)
        return self._norm(layer.norm, node("Add", x, read))
