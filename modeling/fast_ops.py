"""The operations that are TensorFlow's own, because a benchmark pays for them.

Everything else in this package is written with keras.ops. Measured on two cores,
forward and backward, on [4096, 1536] and [32, 12, 128, 128]: gelu 20.8 ms with
TensorFlow's operations and 5.7 ms as two fused functions; dropout 19.6 ms as a
keras.layers.Dropout and 4.6 ms as below (benchmarks/layers.py).
"""

import tensorflow as tf

# Distinct places that draw dropout in one step: 3 a layer and a few heads.
_MAX_SITES = 4096


def dropout(x, rate, seed, site):
    """Sets a share of `x` to zero and scales the rest up; a function of the seed.

    Args:
        x: any shape, floating point.
        rate: share set to zero, 0..1.
        seed: int64 [2] of (run and replica, step), or None for no dropout.
        site: number of this place in the network, so that places differ.

    Returns:
        A tensor like `x`. Equal seeds and sites give equal masks, on every device,
        which makes a resumed run equal to an uninterrupted one.
    """
    if seed is None or rate == 0.0:
        return x
    counter = seed[1] * _MAX_SITES + site
    return tf.nn.experimental.stateless_dropout(
        x, rate, seed=tf.stack([seed[0], counter]), rng_alg="philox"
    )


def gelu(x, *, approximate, fused):
    """Gaussian error linear unit (Hendrycks and Gimpel, 2016).

    Args:
        x: any shape, floating point.
        approximate: True for the tanh form of google-research/bert, False for erf.
        fused: compile forward and backward with XLA. Wanted in training; not in
            exported graphs, whose server may lack XLA.
    """
    if not fused:
        return tf.nn.gelu(x, approximate=approximate)
    return _fused_gelu_tanh(x) if approximate else _fused_gelu_erf(x)


def _fused(function):
    """`function` as two XLA functions, one a direction, instead of 20 passes."""

    @tf.function(jit_compile=True)
    def forward(x):
        return function(x)

    @tf.function(jit_compile=True)
    def backward(x, upstream):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x, output_gradients=upstream)

    @tf.custom_gradient
    def fused(x):
        return forward(x), lambda upstream: backward(x, upstream)

    return fused


_fused_gelu_tanh = _fused(lambda x: tf.nn.gelu(x, approximate=True))
_fused_gelu_erf = _fused(lambda x: tf.nn.gelu(x, approximate=False))
