"""Residuals and norms in one pass, each a custom gradient; see fast_ops.

Without a seed nothing is dropped and nothing is compiled, for exported graphs.
"""

import tensorflow as tf

from modeling.operations import fast_ops


def norm_of_sum(layer, residual, x, rate, seed, site):
    """layer(residual + dropout(x)) of two tensors [..., D] of one dtype.

    `layer` is a keras.layers.LayerNormalization over the last axis; the result has its
    compute dtype. Without a seed there is no dropout and nothing is compiled.
    """
    gamma, beta = tf.convert_to_tensor(layer.gamma), tf.convert_to_tensor(layer.beta)
    if seed is None:
        total = tf.cast(residual, tf.float32) + tf.cast(x, tf.float32)
        normal, _ = _normalized(total, layer.epsilon)
        return tf.cast(normal * gamma + beta, layer.compute_dtype)
    mask = fast_ops.keep_mask(rate, seed, site)

    @tf.custom_gradient
    def fused(residual, x, gamma, beta):
        y, normal, scale = _norm_forward(
            *(fast_ops.tiled(residual), fast_ops.tiled(x), gamma, beta, mask),
            epsilon=layer.epsilon,
            dtype=layer.compute_dtype,
        )

        def backward(upstream):
            to_sum, to_x, to_gamma, to_beta = _norm_backward(
                fast_ops.tiled(upstream), normal, scale, gamma, mask, dtype=x.dtype
            )
            to_residual, to_x = (fast_ops.untiled(t, x) for t in (to_sum, to_x))
            return to_residual, to_x, to_gamma, to_beta

        return fast_ops.untiled(y, x), backward

    return fused(residual, x, gamma, beta)


@fast_ops.by_xla
def _norm_forward(residual, x, gamma, beta, mask, *, epsilon, dtype):
    """The norm [R, D], and for the gradient that before gamma, and its scale [R, 1]."""
    total = tf.cast(residual, tf.float32) + fast_ops.drop(x, mask)
    normal, scale = _normalized(total, epsilon)
    return tf.cast(normal * gamma + beta, dtype), normal, scale


def _normalized(x, epsilon):
    """float32 `x` with a mean of 0 and a variance of 1, and what it was scaled by."""
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)
    return centred * scale, scale


@fast_ops.by_xla
def _norm_backward(upstream, normal, scale, gamma, mask, *, dtype):
    """Gradients of residual, x, gamma and beta; rows that were added give zeros."""
    to_sum, to_gamma, to_beta = _to_norm(upstream, normal, scale, gamma)
    to_x = tf.cast(fast_ops.drop(to_sum, mask), dtype)
    return tf.cast(to_sum, dtype), to_x, to_gamma, to_beta


def _to_norm(upstream, normal, scale, gamma):
    """Float32 gradients of what is normalised, and of gamma and beta."""
    upstream = tf.cast(upstream, tf.float32)
    scaled = upstream * gamma
    mean = tf.reduce_mean(scaled, -1, keepdims=True)
    slope = tf.reduce_mean(scaled * normal, -1, keepdims=True)
    to_input = scale * (scaled - mean - normal * slope)
    return to_input, tf.reduce_sum(upstream * normal, 0), tf.reduce_sum(upstream, 0)


def norm(layer, x, *, fused):
    """A keras.layers.LayerNormalization of `x` [..., D], in its compute dtype.

    `fused` compiles with XLA; see `fast_ops.gelu`.
    """
    gamma, beta = tf.convert_to_tensor(layer.gamma), tf.convert_to_tensor(layer.beta)
    if not fused:
        normal, _ = _normalized(tf.cast(x, tf.float32), layer.epsilon)
        return tf.cast(normal * gamma + beta, layer.compute_dtype)

    @tf.custom_gradient
    def fused_norm(x, gamma, beta):
        y, normal, scale = _plain_forward(
            *(fast_ops.tiled(x), gamma, beta),
            epsilon=layer.epsilon,
            dtype=layer.compute_dtype,
        )

        def backward(upstream):
            to_x, to_gamma, to_beta = _plain_backward(
                fast_ops.tiled(upstream), normal, scale, gamma, dtype=x.dtype
            )
            return fast_ops.untiled(to_x, x), to_gamma, to_beta

        return fast_ops.untiled(y, x), backward

    return fused_norm(x, gamma, beta)


@fast_ops.by_xla
def _plain_forward(x, gamma, beta, *, epsilon, dtype):
    normal, scale = _normalized(tf.cast(x, tf.float32), epsilon)
    return tf.cast(normal * gamma + beta, dtype), normal, scale


@fast_ops.by_xla
def _plain_backward(upstream, normal, scale, gamma, *, dtype):
    to_x, to_gamma, to_beta = _to_norm(upstream, normal, scale, gamma)
    return tf.cast(to_x, dtype), to_gamma, to_beta


def sum_and_norm(layer, residual, x, rate, seed, site):
    """Residual + dropout(x), float32, and the norm of that sum; both [..., D].

    What a block that begins with its norms needs between attention and feed-forward.
    `residual` is float32, `x` of the compute dtype; `layer` as in `norm`.
    """
    gamma, beta = tf.convert_to_tensor(layer.gamma), tf.convert_to_tensor(layer.beta)
    if seed is None:
        total = residual + tf.cast(x, tf.float32)
        return total, norm(layer, total, fused=False)
    mask = fast_ops.keep_mask(rate, seed, site)

    @tf.custom_gradient
    def fused(residual, x, gamma, beta):
        total, y, normal, scale = _both_forward(
            *(fast_ops.tiled(residual), fast_ops.tiled(x), gamma, beta, mask),
            epsilon=layer.epsilon,
            dtype=layer.compute_dtype,
        )

        def backward(to_total, to_y):
            to_residual, to_x, to_gamma, to_beta = _both_backward(
                *(fast_ops.tiled(to_total), fast_ops.tiled(to_y)),
                *(normal, scale, gamma, mask),
                dtype=x.dtype,
            )
            to_residual, to_x = (fast_ops.untiled(t, x) for t in (to_residual, to_x))
            return to_residual, to_x, to_gamma, to_beta

        return (fast_ops.untiled(total, x), fast_ops.untiled(y, x)), backward

    return fused(residual, x, gamma, beta)


@fast_ops.by_xla
def _both_forward(residual, x, gamma, beta, mask, *, epsilon, dtype):
    total = residual + fast_ops.drop(x, mask)
    normal, scale = _normalized(total, epsilon)
    return total, tf.cast(normal * gamma + beta, dtype), normal, scale


@fast_ops.by_xla
def _both_backward(to_total, to_y, normal, scale, gamma, mask, *, dtype):
    to_sum, to_gamma, to_beta = _to_norm(to_y, normal, scale, gamma)
    to_sum += to_total
    to_x = tf.cast(fast_ops.drop(to_sum, mask), dtype)
    return to_sum, to_x, to_gamma, to_beta


def residual_sum(residual, x, rate, seed, site):
    """Residual + dropout(x), float32 [..., D], of a float32 and any other tensor."""
    if seed is None:
        return residual + tf.cast(x, tf.float32)
    mask = fast_ops.keep_mask(rate, seed, site)

    @tf.custom_gradient
    def fused(residual, x):
        total = _sum_forward(fast_ops.tiled(residual), fast_ops.tiled(x), mask)

        def backward(upstream):
            to_x = _sum_backward(fast_ops.tiled(upstream), mask, dtype=x.dtype)
            return upstream, fast_ops.untiled(to_x, x)

        return fast_ops.untiled(total, x), backward

    return fused(residual, x)


@fast_ops.by_xla
def _sum_forward(residual, x, mask):
    return residual + fast_ops.drop(x, mask)


@fast_ops.by_xla
def _sum_backward(upstream, mask, *, dtype):
    return tf.cast(fast_ops.drop(upstream, mask), dtype)
