"""Operations that are TensorFlow's own, because a benchmark pays for them.

The rest of modeling is written with keras.ops. In training, what lies between two
matrix products is compiled by XLA, one function for each direction, so that a tensor is
read and written once instead of once an operation. Dropout masks are computed where
they are used, from a hash of the place, and never stored. docs/performance.md has what
each saves.
"""

import functools
import math
from typing import NamedTuple

import tensorflow as tf
from keras import ops

_MAX_SITES = 4096  # places that draw dropout in one step: 3 a layer and a few heads
# XLA compiles for each shape; padding to whole tiles leaves few. Rows keep their width,
# and what is elementwise has this one, so that no new length of a batch is compiled.
_TILE_ROWS, _TILE_COLUMNS = 256, 1024
_CUBIC, _SQRT_2_BY_PI = 0.044715, math.sqrt(2 / math.pi)  # of the tanh form of gelu


def known_shape(x):
    """The shape of x for a reshape: -1 for an axis that alone is not known.

    To ask for a size takes operations, and where a product is ready besides,
    TensorFlow hands one of the two to another thread.
    """
    shape = tuple(x.shape)
    if shape.count(None) > 1:
        return ops.shape(x)
    return tuple(-1 if size is None else size for size in shape)


def by_xla(function):
    """The function, compiled by XLA; tensors come first, then settings by name.

    Traces for known and unknown shapes are apart, because a trace for any shape would
    be taken for a known one as well, and a TPU wants to know its shapes.
    """
    compile_it = functools.partial(tf.function, jit_compile=True, autograph=False)
    known, unknown = compile_it(function), compile_it(function)

    @functools.wraps(function)
    def call(*tensors, **settings):
        values = tf.nest.flatten(tensors)
        is_known = all(value.shape.is_fully_defined() for value in values)
        return (known if is_known else unknown)(*tensors, **settings)

    return call


def by_device(on_processors, elsewhere):
    """What on_processors() gives on a processor, on other devices or by XLA the other.

    For what takes less time where shapes may follow from values: XLA has to know them.
    """
    device = tf.raw_ops.DeviceIndex(device_names=["CPU"])  # 1 for XLA, on any device
    return tf.switch_case(device, [on_processors], elsewhere)


class _Mask(NamedTuple):
    """What decides which elements dropout keeps.

    The rate is tensors, so that a function is compiled once for all rates, 0 included.
    """

    keys: tf.Tensor  # random uint32 [2] for a place and a step
    threshold: tf.Tensor  # uint32; an element is kept if its hash is not below
    scale: tf.Tensor  # float32; multiplies what is kept


def dropout(x, rate, seed, site):
    """Sets a share `rate` (0..1) of `x` [..., D] to zero and scales the rest up.

    `seed` is int64 [2] of (run and replica, step), or None for no dropout; `site`
    numbers the place in the network. Equal seeds and sites give equal masks on every
    device and for every type, so a resumed run equals an uninterrupted one.

    Differs from google-research/bert: the masks follow from the seed.
    """
    if seed is None or rate == 0:
        return x
    mask = keep_mask(rate, seed, site)

    def dropped_like(value):
        value = tf.convert_to_tensor(value)  # a table's gradient is IndexedSlices
        dropped = _dropped(flat_tiles(value), mask, dtype=value.dtype)
        return unflattened(dropped, value)

    @tf.custom_gradient
    def compiled(x):
        return dropped_like(x), dropped_like

    return compiled(tf.convert_to_tensor(x))


def keep_mask(rate, seed, site):
    """The mask of one place and step."""
    numbers = tf.random.stateless_uniform(
        [2],
        seed=tf.stack([seed[0], seed[1] * _MAX_SITES + site]),
        minval=None,
        maxval=None,
        dtype=tf.int32,
        alg="philox",
    )
    return _Mask(
        tf.bitcast(numbers, tf.uint32),
        tf.constant(round(rate * 2**32), tf.uint32),
        tf.constant(1.0 / (1.0 - rate), tf.float32),
    )


@by_xla
def _dropped(x, mask, *, dtype):
    return tf.cast(drop(x, mask), dtype)


def drop(x, mask):
    """Dropout in float32, which compiled functions inline.

    An element stays if a hash of its index is large: multiplications and shifts that
    spread each bit over all others (the constants are those of lowbias32, by C.
    Wellons), with a random key before each multiplication. It takes no longer than
    reading the tensor; Philox takes five times as long.
    """
    bits = tf.cast(tf.reshape(tf.range(tf.size(x)), tf.shape(x)), tf.uint32)
    bits = _spread(bits ^ mask.keys[0], 16) * tf.constant(0x7FEB352D, tf.uint32)
    bits = _spread(bits ^ mask.keys[1], 15) * tf.constant(0x846CA68B, tf.uint32)
    is_kept = _spread(bits, 16) >= mask.threshold
    return tf.where(is_kept, tf.cast(x, tf.float32) * mask.scale, 0.0)


def _spread(bits, places):
    return bits ^ tf.bitwise.right_shift(bits, tf.constant(places, tf.uint32))


def tiled(x):
    """[..., D] as rows [R, D], with rows of zeros up to a whole number of tiles."""
    rows = tf.reshape(x, [-1, x.shape[-1]])
    return tf.pad(rows, [[0, -tf.shape(rows)[0] % _TILE_ROWS], [0, 0]])


def untiled(rows, like):
    """The rows of a tensor in its shape, without those that were added."""
    return tf.reshape(rows[: tf.size(like) // like.shape[-1]], tf.shape(like))


def flat_tiles(x):
    """All elements in order as [R, C], with zeros up to a whole number of tiles."""
    flat = tf.reshape(x, [-1])
    missing = -tf.size(flat) % (_TILE_ROWS * _TILE_COLUMNS)
    return tf.reshape(tf.pad(flat, [[0, missing]]), [-1, _TILE_COLUMNS])


def unflattened(tiles, like):
    """The elements of `_flat_tiles` in the shape of a tensor."""
    return tf.reshape(tf.reshape(tiles, [-1])[: tf.size(like)], tf.shape(like))


def _repeated(x, times):
    """[..., 1] as [R, times]; as rows it takes less time than broadcasting."""
    return tf.tile(tf.reshape(x, [-1, 1]), [1, times])


def gelu(x, *, approximate, fused):
    """Gaussian error linear unit (Hendrycks and Gimpel, 2016).

    Computed in float32 and rounded once: in bfloat16 the result is off by up to 75 %
    where 1 + tanh is small, and the fused functions take twice the time. `approximate`
    chooses the tanh form of google-research/bert instead of erf. `fused` compiles with
    XLA: for training, not for exported graphs, whose server may lack XLA.
    """
    if not fused:
        return _gelu(x, approximate)

    @tf.custom_gradient
    def compiled(x):
        tiles = tiled(x)

        def backward(upstream):
            gradient = _gelu_backward(tiles, tiled(upstream), approximate=approximate)
            return untiled(gradient, upstream)

        return untiled(_gelu_forward(tiles, approximate=approximate), x), backward

    return compiled(x)


def _gelu(x, approximate):
    y = tf.cast(x, tf.float32)
    if approximate:
        # The terms of tf.nn.gelu, in the one order in which TensorFlow recognizes them
        # and computes them within the product before, where it has oneDNN's kernels.
        cube = y * (_CUBIC * tf.square(y))
        y = (0.5 * y) * (1.0 + tf.tanh(_SQRT_2_BY_PI * (y + cube)))
    else:
        y = tf.nn.gelu(y, approximate=False)
    return tf.cast(y, x.dtype)


@by_xla
def _gelu_forward(x, *, approximate):
    return _gelu(x, approximate)


@by_xla
def _gelu_backward(x, upstream, *, approximate):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = _gelu(x, approximate)
    return tape.gradient(y, x, output_gradients=upstream)


def attend(query, key, value, adder, *, scale, rate, seed, site):
    """dropout(softmax(scale * query key^T + adder)) value; softmax in float32.

    query [B, N, S, K], key and value [B, N, T, K] of one dtype, adder float32 [B, 1, 1
    or S, T] -> [B, N, S, K]. Without a seed there is no dropout and nothing is
    compiled.
    """

    def softmax(query, key):
        # Scaling the query instead of the scores: the same sum, S / K times cheaper.
        scores = tf.matmul(query * scale, key, transpose_b=True)  # [B, N, S, T]
        return tf.nn.softmax(tf.cast(scores, tf.float32) + adder)

    if seed is None:
        return tf.matmul(tf.cast(softmax(query, key), value.dtype), value)
    mask = keep_mask(rate, seed, site)

    @tf.custom_gradient
    def compiled(query, key, value):
        weights = softmax(query, key)
        tiles = flat_tiles(weights)
        dropped = _dropped(tiles, mask, dtype=value.dtype)
        dropped = unflattened(dropped, weights)
        mixed = tf.matmul(dropped, value)

        def backward(upstream):
            # What the softmax subtracts: the sum over T of dropped weights times their
            # gradients, which is one over K (Dao et al., 2022, appendix B.2).
            product = tf.cast(upstream * mixed, tf.float32)
            subtracted = tf.reduce_sum(product, -1, keepdims=True)
            to_dropped = tf.matmul(upstream, value, transpose_b=True)
            to_scores = _scores_backward(
                flat_tiles(to_dropped),
                tiles,
                flat_tiles(_repeated(subtracted, tf.shape(weights)[-1])),
                mask,
                scale=scale,
            )
            to_scores = unflattened(to_scores, weights)
            return (
                tf.matmul(to_scores, key),
                tf.matmul(to_scores, query, transpose_a=True),
                tf.matmul(dropped, upstream, transpose_a=True),
            )

        return mixed, backward

    return compiled(query, key, value)


@by_xla
def _scores_backward(to_dropped, weights, subtracted, mask, *, scale):
    to_scores = weights * (drop(to_dropped, mask) - subtracted) * scale
    return tf.cast(to_scores, to_dropped.dtype)
