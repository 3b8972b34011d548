"""Activations of BERT's blocks beside gelu, which kernels.py has."""

from keras import ops

from modeling import kernels, kernels_tf


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


def activate(name, x, *, training):
    """The activation of a name, as BertConfig.hidden_act has it, of x."""
    if name in ("gelu_tanh", "gelu_erf"):
        return kernels.gelu(x, approximate=name == "gelu_tanh", training=training)
    return FUNCTIONS[name](x)


def gate(name, parts, rate, seed, site):
    """dropout(activation(x) * y), in float32 (Shazeer, 2020, arXiv:2002.05202).

    `name` is as in BertConfig.hidden_act; `parts` are x and y, [..., F] of one dtype,
    or one tensor [..., 2 F] of both side by side. The result [..., F] has their dtype.
    """
    if seed is None:
        return _gate(*parts, name=name)
    mask = kernels_tf.keep_mask(rate, seed, site) if rate else ()
    return _fused_gate(parts, mask=mask, name=name)


def _gate(x, y=None, mask=(), *, name):
    if y is None:
        x, y = ops.split(x, 2, axis=-1)
    active = activate(name, ops.cast(x, "float32"), training=False)
    product = active * ops.cast(y, "float32")
    return ops.cast(kernels_tf.drop(product, mask) if mask else product, x.dtype)


_fused_gate = kernels_tf.fuse(_gate)
