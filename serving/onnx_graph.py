"""A network and its head as an ONNX graph, without dropout.

The record of the network has what writes the network: see
`modeling.networks.bert_onnx`. Batch and length are free.
"""

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper

from contract import export_formats
from contract import features as feature_names
from modeling import models, text_encoder
from modeling.checkpoints import names

_OPSETS = {"": 18, "com.microsoft": 1}
_IR_VERSION = 10
_GELUS = {"gelu_erf": "BiasGelu", "gelu_tanh": "FastGelu"}
_ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "mish": "Mish", "linear": "Identity"}
_SIGMOIDS = {"silu": 1.0, "quick_gelu": 1.702}  # x * sigmoid(factor * x)
_SHARES = {"classification": "Softmax", "multi_label": "Sigmoid"}


def build(
    model: Any, problem_type: str | None, quantization: str = "none"
) -> ModelProto:
    """The graph of a built model: features int32 [B, S] -> outputs as of `model`.

    Args:
        model: a BertClassifier, BertTagger, BertSpanPredictor or TextEncoder; see
            `onnx_runtime.check`.
        problem_type: of a classifier whose `probabilities` are an output as well.
        quantization: of the graph, which follows.
    """
    graph, count = Graph(model, quantization), model.num_classes
    network = model.config.spec.onnx(graph, model)
    if isinstance(model, models.BertClassifier):
        logits = graph.logits(network.pooled(), model.classifier)
        outputs = {"logits": logits}
        if problem_type is not None:
            share = _SHARES.get(problem_type, "Identity")
            outputs["probabilities"] = graph.node(share, logits)
        return graph.finish(outputs, ["B", count])
    if isinstance(model, text_encoder.TextEncoder):
        return graph.finish({"vectors": graph.vectors(network)}, ["B", model.width])
    if isinstance(model, models.BertTagger):
        outputs = {"logits": graph.logits(network.tokens(model.tagger), model.tagger)}
        return graph.finish(outputs, ["B", "S", count])
    logits = graph.logits(network.tokens(model.span), model.span)  # [B, S, 2]
    axis = graph.constant("last", [-1])
    sides = graph.node("Split", logits, count=2, axis=-1, num_outputs=2)
    starts, ends = (graph.node("Squeeze", side, axis) for side in sides)
    return graph.finish({"start_logits": starts, "end_logits": ends}, ["B", "S"])


def products_of_activations(proto: ModelProto) -> list[str]:
    """The names of the MatMuls of a graph that have no weights, as of attention."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    return [
        node.name
        for node in proto.graph.node
        if node.op_type == "MatMul" and node.input[1] not in weights
    ]


class Graph:
    """Nodes and tensors; methods return the names of tensors.

    Attributes:
        is_quantized: whether weights will be int8.
        splits_products: whether each product of a block with weights is a MatMul, and
            none a part of a fused operation, whose scale could not be calibrated.
    """

    def __init__(self, model, quantization):
        self.model, self.is_quantized = model, quantization != "none"
        self.splits_products = quantization == export_formats.STATIC_INT8
        self._names = {
            id(variable): name.google for name, variable in names.named_variables(model)
        }
        self._nodes, self._tensors = [], {}

    def constant(self, name, value):
        """A tensor of the file; a name has one value."""
        tensor = numpy_helper.from_array(np.asarray(value), name)
        if self._tensors.setdefault(name, tensor) != tensor:
            raise ValueError(f"two constants are called {name}")
        return name

    def number(self, value):
        """A float32 of the file."""
        return self.constant(f"float {value}", np.float32(value))

    def weight(self, variable):
        """A variable, under the original's name."""
        value = np.asarray(variable, np.float32)
        return self.constant(self._names[id(variable)], value)

    def joined(self, layers, kind):
        """The kernels or biases of layers side by side."""
        variables = [getattr(layer, kind) for layer in layers]
        name = "+".join(self._names[id(variable)] for variable in variables)
        values = [np.asarray(variable, np.float32) for variable in variables]
        return self.constant(name, np.concatenate(values, axis=-1))

    def node(self, kind, *inputs, count=1, domain="", **attributes):
        """An operation of one output, or of `count`, which is a list then."""
        outputs = [f"{kind}_{len(self._nodes)}_{number}" for number in range(count)]
        node = helper.make_node(
            kind, inputs, outputs, name=outputs[0], domain=domain, **attributes
        )
        self._nodes.append(node)
        return outputs if count > 1 else outputs[0]

    def fused(self, kind, *inputs, **attributes):
        """An operation of com.microsoft."""
        return self.node(kind, *inputs, domain="com.microsoft", **attributes)

    def dense(self, layer, x):
        """Of a layer: x @ kernel, and + bias where it has one."""
        x = self.node("MatMul", x, self.weight(layer.kernel))
        return x if layer.bias is None else self.node("Add", x, self.weight(layer.bias))

    def activate(self, name, x, bias):
        """An activation, as activations.activate names it, of x + bias."""
        if gelu := _GELUS.get(name):
            return self.fused(gelu, x, bias)
        if name == "gelu_10":
            limits = map(self.number, (-10.0, 10.0))
            return self.node("Clip", self.fused("BiasGelu", x, bias), *limits)
        x = self.node("Add", x, bias)
        if name == "relu2":
            x = self.node("Relu", x)
            return self.node("Mul", x, x)
        if factor := _SIGMOIDS.get(name):
            scaled = self.node("Mul", x, self.number(factor))
            return self.node("Mul", x, self.node("Sigmoid", scaled))
        return self.node(_ACTIVATIONS[name], x)

    def vectors(self, network):
        """[B, W]: the vectors of texts, as text_encoder.TextEncoder computes them."""
        spec = self.model.text_vectors
        values = self.pooled(network.encoder(spec.pooling == "cls"), spec.pooling)
        for layer, projection in zip(
            self.model.projections, spec.projections, strict=True
        ):
            weights = [self.weight(variable) for variable in layer.weights]
            kind = _ACTIVATIONS[projection.activation]
            values = self.node(kind, self.node("Gemm", values, *weights))
        if spec.is_normalized:
            values = self.normalized(values)
        if not spec.truncate_dim:
            return values
        ends = (self.constant(str(i), [i]) for i in (0, spec.truncate_dim, 1))
        return self.node("Slice", values, *ends)

    def normalized(self, values):
        """Vectors [B, W], scaled to the length 1."""
        last = self.constant("last", [-1])
        norm = self.node("ReduceL2", values, last, keepdims=1)
        least = self.number(1e-12)
        return self.node("Div", values, self.node("Max", norm, least))

    def pooled(self, hidden, pooling):
        """[B, S, D] -> [B, D]; of cls, [B, 1, D]."""
        axis = self.constant("1", [1])
        if pooling == "cls":
            return self.node("Squeeze", hidden, axis)
        mask = self.node("Cast", feature_names.INPUT_MASK, to=TensorProto.FLOAT)
        mask = self.node("Unsqueeze", mask, self.constant("last", [-1]))  # [B, S, 1]
        if pooling == "max":
            is_token = self.node("Cast", mask, to=TensorProto.BOOL)
            hidden = self.node("Where", is_token, hidden, self.number(-np.inf))
            return self.node("ReduceMax", hidden, axis, keepdims=0)
        masked = self.node("Mul", hidden, mask)
        total = self.node("ReduceSum", masked, axis, keepdims=0)
        count = self.node("ReduceSum", mask, axis, keepdims=0)
        return self.node("Div", total, self.node("Max", count, self.number(1.0)))

    def logits(self, x, head):
        """[..., D] -> [..., C]; the kernel is used transposed."""
        kernel = self.constant("output_weights", np.asarray(head.logits.kernel).T)
        return self.node(
            "Add", self.node("MatMul", x, kernel), self.weight(head.logits.bias)
        )

    def finish(self, outputs, shape):
        """The model of the graph; `outputs` are {name: tensor}, all of one shape."""
        ends = [helper.make_node("Identity", [t], [n]) for n, t in outputs.items()]
        graph = helper.make_graph(
            [*self._nodes, *ends],
            "bert",
            [
                helper.make_tensor_value_info(name, TensorProto.INT32, ["B", "S"])
                for name in feature_names.ENCODER_INPUTS
            ],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name in outputs
            ],
            list(self._tensors.values()),
        )
        if self.splits_products:  # types that are not inferred after com.microsoft's
            products = [node for node in graph.node if node.op_type == "MatMul"]
            ends = {name for node in products for name in (*node.input, *node.output)}
            graph.value_info.extend(
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                for name in sorted(ends - self._tensors.keys())
            )
        opsets = [helper.make_opsetid(*pair) for pair in _OPSETS.items()]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        checker.check_model(proto)
        # Shapes are inferred; else the quantizer warns.
        helper.set_model_props(proto, {"onnx.quant.pre_process": "onnxruntime.quant"})
        return proto
