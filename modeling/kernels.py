"""The kernels of the networks, in keras.ops: attention, gelu, norms, dropout, masks.

TensorFlow runs them as they are without a `seed`, also in exported graphs, whose server
may lack XLA. In training `seed` is int64 [2] of (run and replica, step), `site`
numbers the place of dropout in the network, and `kernels_tf` compiles them.
"""

import math

from keras import ops

from modeling import kernels_tf

MASK_BIAS = -10000.0  # to the scores of padding (modeling.py, attention_layer)
_CUBIC, _SQRT_2_BY_PI = 0.044715, math.sqrt(2 / math.pi)  # of the tanh form of gelu


def affine(rows, kernel, bias, *, training):
    """Rows [R, D] @ kernel [D, F] + bias [F], or without one where it is None."""
    if training and rows.dtype == "float32":
        return kernels_tf.affine(rows, kernel, bias)
    product = ops.matmul(rows, kernel)
    return product if bias is None else ops.add(product, bias)


def attend(query, key, value, bias, *, scale, rate, seed, site, learned=None):
    """dropout(softmax(scale * query key^T + bias)) value; softmax in float32.

    query [B, N, S, K], key and value [B, N, T, K] of one dtype, bias float32 [B, 1 or
    N, 1 or S, T] -> [B, N, S, K]. In training the bias gets no gradient, but `learned`
    gets it: a term that the bias contains, [1 or B, N, S, T]. It is never added here.
    """
    if seed is not None:
        mask = _mask(rate, seed, site)
        return kernels_tf.attend(
            query, key, value, bias, mask, scale=scale, learned=learned
        )
    # Scaling the query instead of the scores: the same sum, S / K times cheaper.
    scores = ops.einsum("bnsk,bntk->bnst", query * scale, key)
    weights = ops.softmax(ops.cast(scores, "float32") + bias)
    return ops.matmul(ops.cast(weights, value.dtype), value)


def gelu(x, *, approximate, training):
    """Gaussian error linear unit (Hendrycks and Gimpel, 2016).

    In float32, since in bfloat16 it is off by up to 75 % where 1 + tanh is small and
    takes twice the time, fused. `approximate` chooses google-research/bert's tanh form.
    """
    if training:
        return _fused_gelu((x,), approximate=approximate)
    return _gelu(x, approximate=approximate)


def _gelu(x, mask=(), *, approximate):
    y = ops.cast(x, "float32")
    if approximate:
        # In tf.nn.gelu's order TensorFlow computes it within the product before.
        cube = y * (_CUBIC * ops.square(y))
        y = (0.5 * y) * (1.0 + ops.tanh(_SQRT_2_BY_PI * (y + cube)))
    else:
        y = ops.gelu(y, approximate=False)
    return ops.cast(y, x.dtype)


def norm_of_sum(layer, residual, x, rate, seed, site):
    """layer(residual + dropout(x)) of two tensors [..., D] of one dtype.

    `layer` is a keras.layers.LayerNormalization over the last axis; the result has its
    compute dtype.
    """
    weights, settings = norm_arguments(layer)
    if seed is None:
        return _norm_of_sum(residual, x, *weights, **settings)
    mask = kernels_tf.keep_mask(rate, seed, site)
    return _fused_norm_of_sum((residual, x), weights, mask, **settings)


def norm(layer, x, *, training):
    """A keras.layers.LayerNormalization of `x` [..., D], in its compute dtype."""
    weights, settings = norm_arguments(layer)
    if training:
        return _fused_norm((x,), weights, **settings)
    return normalize(x, *weights, **settings)


def sum_and_norm(layer, residual, x, rate, seed, site):
    """Residual + dropout(x), float32, and the norm of that sum; both [..., D].

    `residual` is float32, `x` of the compute dtype; `layer` as in `norm`.
    """
    weights, settings = norm_arguments(layer)
    if seed is None:
        return _sum_and_norm(residual, x, *weights, **settings)
    mask = _mask(rate, seed, site)
    return _fused_sum_and_norm((residual, x), weights, mask, **settings)


def residual_sum(residual, x, rate, seed, site):
    """Residual + dropout(x), float32 [..., D], of a float32 and any other tensor."""
    if seed is None or not rate:
        return add(residual, x)
    return _fused_add((residual, x), mask=kernels_tf.keep_mask(rate, seed, site))


def _mask(rate, seed, site):
    """The kernels_tf.Mask of a place, or () where it drops nothing."""
    return kernels_tf.keep_mask(rate, seed, site) if rate else ()


def _sum_and_norm(residual, x, *weights, mask=(), **settings):
    total = add(residual, x, mask)
    return total, normalize(total, *weights, **settings)


def norm_arguments(layer):
    """The weights and the settings of a layer for `normalize`; it may have no beta."""
    weights = filter(lambda weight: weight is not None, (layer.gamma, layer.beta))
    return tuple(map(ops.convert_to_tensor, weights)), {
        "epsilon": layer.epsilon,
        "dtype": layer.compute_dtype,
    }


def normalize(x, gamma, beta=None, mask=(), *, epsilon, dtype):
    """Layer normalisation of x [..., D], computed in float32; `mask` is not read."""
    x = ops.cast(x, "float32")
    centred = x - ops.mean(x, -1, keepdims=True)
    variance = ops.mean(ops.square(centred), -1, keepdims=True)
    normal = centred * ops.rsqrt(variance + epsilon) * gamma
    return ops.cast(normal if beta is None else normal + beta, dtype)


def add(residual, x, mask=()):
    """Residual + x, without what a `kernels_tf.Mask` drops; float32."""
    x = kernels_tf.drop(x, mask) if mask else ops.cast(x, "float32")
    return ops.cast(residual, "float32") + x


def _norm_of_sum(residual, x, *weights, mask=(), **settings):
    return normalize(add(residual, x, mask), *weights, **settings)


_fused_gelu = kernels_tf.fuse(_gelu)
_fused_norm_of_sum = kernels_tf.fuse(_norm_of_sum)
_fused_norm = kernels_tf.fuse(normalize)
_fused_sum_and_norm = kernels_tf.fuse(_sum_and_norm)
_fused_add = kernels_tf.fuse(add, is_linear=True)


def dropout(x, rate, seed, site):
    """Sets a share `rate` (0..1) of `x` [..., D] to zero and scales the rest up.

    Without a seed it returns `x`. Equal seeds and sites give equal masks on every
    device and for every type, so a resumed run equals an uninterrupted one.

    Differs from google-research/bert: the masks follow from the seed.
    """
    if seed is None or rate == 0:
        return x
    return kernels_tf.dropout(x, kernels_tf.keep_mask(rate, seed, site))


def shape_for_reshape(x):
    """The shape of x for a reshape: -1 for an axis that alone is not known.

    To compute a size takes operations, and where a product is ready besides,
    TensorFlow hands one of the two to another thread.
    """
    shape = tuple(x.shape)
    if shape.count(None) > 1:
        return ops.shape(x)
    return tuple(-1 if size is None else size for size in shape)


def as_integers(ids):
    """Ids as integers: on several devices `fit` tries a model out with their means."""
    return ids if "int" in str(ids.dtype) else ops.cast(ids, "int32")


def attention_bias(attention_mask):
    """The numbers added to scores, float32 [B, 1, 1 or S, T]: 0, or -10000 for padding.

    `attention_mask` is int [B, T], 1 for real tokens, or [B, S, T] for any pattern.
    """
    mask = ops.cast(attention_mask, "float32")
    axes = (1, 2) if len(attention_mask.shape) == 2 else 1
    return (1.0 - ops.expand_dims(mask, axes)) * MASK_BIAS


def causal_mask(input_mask):
    """The keys of each query, int [B, S, T]: real ones, none that follows it.

    `input_mask` is as in `attention_bias`.
    """
    mask = input_mask if len(input_mask.shape) == 3 else input_mask[:, None]
    places = ops.arange(ops.shape(input_mask)[-1])
    return ops.where(places[:, None] >= places, mask, 0)


def last_position(input_mask):
    """The last real token, int32 [B, 1]; `input_mask` as there."""
    if len(input_mask.shape) == 3:
        input_mask = ops.max(input_mask, axis=1)
    count = ops.sum(ops.cast(input_mask, "int32"), axis=1, keepdims=True)
    return ops.maximum(count, 1) - 1


def take_rows(x, positions):
    """The rows of `x` [B, T, ...] at int [B, S]: [B, S, ...].

    As gather_indexes of run_pretraining.py, in whole rows: over ten times as fast.
    """
    size, length, *width = ops.shape(x)
    rows = length * ops.arange(size)[:, None] + ops.cast(positions, "int32")  # [B, S]
    return ops.take(ops.reshape(x, (-1, *width)), rows, axis=0)


def pool_tokens(values, input_mask, place):
    """One of the vectors of a text's tokens, [B, S, ...] -> [B, ...].

    `place` is first, last (of the real tokens), or mean, which is over these.
    """
    size, _, *width = ops.shape(values)
    if place == "mean":
        axes = tuple(range(2, 2 + len(width)))
        mask = ops.expand_dims(ops.cast(input_mask, values.dtype), axes)
        count = ops.maximum(ops.sum(mask, axis=1), 1)  # a text may have no tokens
        return ops.sum(values * mask, axis=1) / count
    if place == "last":
        values = take_rows(values, last_position(input_mask))
    # Cut out, for no rows may have no tokens.
    return ops.reshape(values[:, :1], (size, *width))
