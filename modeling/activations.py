"""Activations of BERT's blocks beside gelu, which kernels.py has."""

from keras import ops

from modeling import kernels


def _gelu_10(x):
    return ops.clip(kernels.gelu(x, approximate=False, training=False), -10.0, 10.0)


# {name in BertConfig.hidden_act: function}; Hugging Face has the same names.
FUNCTIONS = {
    "linear": lambda x: x,
    "relu": ops.relu,
    "relu2": lambda x: ops.square(ops.relu(x)),
    "tanh": ops.tanh,
    "silu": ops.silu,
    "mish": lambda x: x * ops.tanh(ops.softplus(x)),
    "quick_gelu": lambda x: x * ops.sigmoid(1.702 * x),
    "gelu_10": _gelu_10,
}
