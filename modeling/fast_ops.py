"""The operations that are TensorFlow's own, because a benchmark pays for them.

Everything else in this package is written with keras.ops. Measured on two cores,
forward and backward, on [32, 128, 1536] and [32, 12, 128, 128]: gelu 23.8 ms with
TensorFlow's operations and 6.6 ms as two fused functions; dropout 24.4 ms as a
keras.layers.Dropout and 16.1 ms as below (benchmarks/layers.py).
"""

import tensorflow as tf

_MAX_SITES = 4096  # places that draw dropout in one step: 3 a layer and a few heads
# XLA compiles for each shape; padding rows to a multiple of this leaves few.
_TILE_ROWS = 256


def dropout(x, rate, seed, site):
    """Sets a share `rate` (0..1) of `x` to zero and scales the rest up.

    `seed` is int64 [2] of (run and replica, step), or None for no dropout; `site`
    numbers the place in the network. Equal seeds and sites give equal masks on every
    device and for every type, so a resumed run equals an uninterrupted one.

    Differs from google-research/bert: the masks follow from the seed, and the rate is
    rounded to a multiple of 2^-16 (0.1 becomes 0.100006), because drawing 16 random
    bits a value takes half the time of 32.
    """
    dropped = round(rate * 2**16)
    if seed is None or dropped == 0:
        return x
    size = tf.size(x)
    pairs = tf.random.stateless_uniform(
        [(size + 1) // 2],
        seed=tf.stack([seed[0], seed[1] * _MAX_SITES + site]),
        minval=None,
        maxval=None,
        dtype=tf.int32,
        alg="philox",
    )
    numbers = tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:size]
    is_kept = tf.reshape(numbers, tf.shape(x)) >= tf.constant(dropped, tf.uint16)
    scale = tf.constant(1.0 / (1.0 - dropped / 2**16), tf.float32)
    # bfloat16 has no number near 1 / 0.9: the mean would shrink by 0.16 %.
    scaled = tf.cast(x, tf.float32) * scale
    return tf.cast(tf.where(is_kept, scaled, tf.zeros([])), x.dtype)


def gelu(x, *, approximate, fused):
    """Gaussian error linear unit (Hendrycks and Gimpel, 2016).

    Computed in float32 and rounded once: in bfloat16 the result is off by up to 75 %
    where 1 + tanh is small, and the fused functions take twice the time. `approximate`
    chooses the tanh form of google-research/bert instead of erf. `fused` compiles with
    XLA: for training, not for exported graphs, whose server may lack XLA.
    """
    if not fused:
        return _gelu(x, approximate)
    return _fused_gelu_tanh(x) if approximate else _fused_gelu_erf(x)


def _gelu(x, approximate):
    y = tf.nn.gelu(tf.cast(x, tf.float32), approximate=approximate)
    return tf.cast(y, x.dtype)


def _fused(function):
    """Compiles each direction with XLA, instead of 20 passes over the tensor."""

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
        width = x.shape[-1]
        rows = tf.size(x) // width
        padding = [[0, -rows % _TILE_ROWS], [0, 0]]

        def tiled(value):
            return tf.pad(tf.reshape(value, [-1, width]), padding)

        def untiled(value):
            return tf.reshape(value[:rows], tf.shape(x))

        x_tiled = tiled(x)
        return untiled(forward(x_tiled)), lambda upstream: untiled(
            backward(x_tiled, tiled(upstream))
        )

    return fused


_fused_gelu_tanh = _fused(lambda x: _gelu(x, approximate=True))
_fused_gelu_erf = _fused(lambda x: _gelu(x, approximate=False))
