"""Writes ModernBERT as operations of ONNX; its local layers have a mask [S, S]."""

import numpy as np

from contract import features as feature_names
from modeling import kernels, rotary
from modeling.networks import bert_onnx

_FLOAT = 1  # onnx.TensorProto.FLOAT; the package is not needed by those who only train


class RotaryWriter(bert_onnx.Writer):
    """Writes attention of turned queries and keys, whose projections are one."""

    def key_bias(self):
        """What scores of padding get: [B, 1, 1, S]."""
        node = self.graph.node
        mask = node("Cast", feature_names.INPUT_MASK, to=_FLOAT)
        bias = node("Mul", node("Sub", self.graph.number(1.0), mask), self.hidden())
        return node("Unsqueeze", bias, self.graph.constant("heads", [1, 2]))

    def hidden(self):
        """The number that is added to scores of keys that are not seen."""
        return self.graph.number(kernels.MASK_BIAS)

    def places(self):
        """0, 1, ... as float32 [S]."""
        node = self.graph.node
        zero, one = map(self.graph.number, (0.0, 1.0))
        length = node("Shape", feature_names.INPUT_IDS, start=1, end=2)
        return node(
            "Range", zero, node("Squeeze", node("Cast", length, to=_FLOAT)), one
        )

    def column(self, places):
        """[S] -> [S, 1]."""
        return self.graph.node("Unsqueeze", places, self.graph.constant("last", [-1]))

    def rotation(self, places, base):
        """A rotary.Rotation at places [S]: cos and sin, [S, K] each."""
        node, config = self.graph.node, self.config
        width = config.hidden_size // config.num_attention_heads
        speeds = np.tile(rotary.speeds(width, base), 2)
        signs = np.repeat(np.float32([-1, 1]), width // 2)
        speeds = self.graph.constant(f"speeds_{base}", speeds)
        angles = node("Mul", self.column(places), speeds)
        sin = node("Mul", node("Sin", angles), self.graph.constant("signs", signs))
        return node("Cos", angles), sin

    def mix(self, layer, x, bias, cos, sin):
        """A ModernBertAttention of x [B, S, D], whole: [B, S, D]."""
        graph, node, config = self.graph, self.graph.node, self.config
        x = graph.dense(layer.query_key_value, x)
        heads, size = config.num_attention_heads, config.hidden_size
        width = size // heads
        x = node("Reshape", x, graph.constant("split", [0, 0, 3 * heads, width]))
        x = node("Transpose", x, perm=[0, 2, 1, 3])  # [B, 3 N, S, K]
        parts = graph.constant("parts", [2 * heads, heads])
        both, value = node("Split", x, parts, count=2, axis=1)
        halves = node("Split", both, count=2, axis=-1, num_outputs=2)
        turned = node("Concat", *halves[::-1], axis=-1)
        both = node("Add", node("Mul", both, cos), node("Mul", turned, sin))
        query, key = node("Split", both, count=2, axis=1, num_outputs=2)
        scale = graph.number(width**-0.5)
        key = node("Transpose", key, perm=[0, 1, 3, 2])
        scores = node("MatMul", node("Mul", query, scale), key)
        weights = node("Softmax", node("Add", scores, bias), axis=-1)
        mixed = node("Transpose", node("MatMul", weights, value), perm=[0, 2, 1, 3])
        mixed = node("Reshape", mixed, graph.constant("joined", [0, 0, size]))
        return graph.dense(layer.output_projection, mixed)

    def gated(self, x, gate):
        """activation(x) * gate."""
        zeros = np.zeros(self.config.intermediate_size, np.float32)
        zeros = self.graph.constant(f"zeros_{len(zeros)}", zeros)
        active = self.graph.activate(self.config.hidden_act, x, zeros)
        return self.graph.node("Mul", active, gate)

    def norm(self, layer, x):
        weights = [
            self.graph.weight(w) for w in (layer.gamma, layer.beta) if w is not None
        ]
        return self.graph.node("LayerNormalization", x, *weights, epsilon=layer.epsilon)


class Writer(RotaryWriter):
    """Writes the network and the layers below the logits of its heads."""

    def encoder(self, only_first: bool = False) -> str:
        """The last layer [B, S, D]; `only_first`, [B, 1, D] at the first token."""
        graph, network = self.graph, self.model.network
        views = self._views()
        table = graph.weight(network.embeddings.word_embeddings)
        hidden = graph.node("Gather", table, feature_names.INPUT_IDS)
        hidden = self.norm(network.embeddings.norm, hidden)
        for block in network.blocks:
            hidden = self._block(block, hidden, *views[block.is_local])
        hidden = self.norm(network.final_norm, hidden)
        return self.first(hidden) if only_first else hidden

    def pooled(self) -> str:
        """What the logits of a BertClassifier are computed of, [B, D]."""
        if self.model.reading.pooling:
            return super().pooled()
        pooling = self.config.classifier_pooling
        hidden = self.encoder(only_first=pooling == "cls")
        pooled = self.graph.pooled(hidden, pooling)
        return self._transform(self.model.classifier, pooled)

    def tokens(self, head):
        """What the logits of a head of tokens are computed of, [B, S, D]."""
        return self._transform(head, self.encoder())

    def _transform(self, head, x):
        return self.norm(head.norm, self._activate(head.dense, x, self.config.head_act))

    def _activate(self, layer, x, name):
        zeros = np.zeros(layer.kernel.shape[-1], np.float32)
        bias = self.graph.constant(f"zeros_{len(zeros)}", zeros)
        return self.graph.activate(name, self.graph.dense(layer, x), bias)

    def _views(self):
        """The bias [B, 1, 1 or S, S], cos and sin [S, K] of global and local layers."""
        node, config = self.graph.node, self.config
        places, bias = self.places(), self.key_bias()
        distance = node("Abs", node("Sub", self.column(places), places))
        reach = self.graph.number(float(config.reach))
        is_near = node("LessOrEqual", distance, reach)
        near = node("Where", is_near, bias, self.hidden())
        return (
            (bias, *self.rotation(places, config.global_rope_theta)),
            (near, *self.rotation(places, config.local_rope_theta)),
        )

    def _block(self, block, hidden, *view):
        graph, node = self.graph, self.graph.node
        x = (
            hidden
            if block.attention_norm is None
            else self.norm(block.attention_norm, hidden)
        )
        hidden = node("Add", hidden, self.mix(block.attention, x, *view))
        x = graph.dense(block.ffn_in, self.norm(block.ffn_norm, hidden))
        x = self.gated(*node("Split", x, count=2, axis=-1, num_outputs=2))
        return node("Add", hidden, graph.dense(block.ffn_out, x))
