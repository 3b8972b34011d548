"""Training's operations between matrix products, fused for TensorFlow.

XLA compiles one function for each direction, so that a tensor is read and written once
instead of once an operation. Dropout masks are computed where they are used, from a
hash of the place, and never stored. docs/results.md has what each saves.
"""

import contextlib
import functools
from typing import NamedTuple

import keras
import tensorflow as tf

from modeling import dropout_sites

# Multipliers of lowbias32, by C. Wellons.
_HASH = (0x7FEB352D, 0x846CA68B)
# XLA compiles for each shape; padding to whole tiles leaves few. Rows keep their width,
# and what is elementwise has this one, so that no new length of a batch is compiled.
_TILE_ROWS, _TILE_COLUMNS = 256, 1024
_NARROW_STRIDES, _MORE_COLUMNS = (512, 1024), 16  # of _kernel_gradient, in float32


def compile_with_xla(function):
    """The function, compiled; tensors come first, then settings by name.

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


def fuse(function, *, is_linear=False):
    """A function of rows, compiled together with its gradient.

    `function` takes tensors [R, D], then weights, then `mask=` and settings, and
    returns one or more tensors [R, D]; rows of zeros have to add nothing to gradients.
    The backward pass repeats what it needs of the forward one, within its kernel;
    where the function `is_linear` it keeps no input for that.

    Returns:
        A function of tensors [..., D], weights, `mask` and settings.
    """

    @compile_with_xla
    def forward(tensors, mask, **settings):
        return function(*tensors, mask=mask, **settings)

    @compile_with_xla
    def backward(tensors, mask, upstream, **settings):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            outputs = function(*tensors, mask=mask, **settings)
        return tape.gradient(outputs, tensors, output_gradients=upstream)

    def call(rows, weights=(), mask=(), **settings):
        @tf.custom_gradient
        def run(*tensors):
            tiles = [tile_rows(x) for x in tensors[: len(rows)]]
            tiles += tensors[len(rows) :]
            dtypes = [x.dtype for x in tiles]

            def gradients(*upstream):
                to_outputs = [tile_rows(x) for x in upstream]
                inputs = tiles
                if is_linear:
                    inputs = [tf.zeros_like(to_outputs[0], kind) for kind in dtypes]
                to_inputs = backward(
                    inputs,
                    mask,
                    to_outputs if len(upstream) > 1 else to_outputs[0],
                    **settings,
                )
                to_rows = [untile_rows(x, upstream[0]) for x in to_inputs[: len(rows)]]
                return [*to_rows, *to_inputs[len(rows) :]]

            outputs = forward(tiles, mask, **settings)
            shaped = tf.nest.map_structure(
                lambda y: untile_rows(y, tensors[0]), outputs
            )
            return shaped, gradients

        # Variables would not count as arguments.
        return run(*map(tf.convert_to_tensor, (*rows, *weights)))

    return call


def affine(rows, kernel, bias=None):
    """Rows @ kernel + bias, whose gradient multiplies by a transposed copy of kernel.

    In float32 oneDNN multiplies by a transposed matrix itself in up to 1.25 times as
    long. TensorFlow makes one of a transpose of two axes and the product after it, and
    leaves alone what is cut from three.
    """

    @tf.custom_gradient
    def run(rows, kernel, *biases):
        def gradients(upstream):
            transposed = tf.transpose(kernel[None], [0, 2, 1])[0]
            return (
                tf.matmul(upstream, transposed),
                _kernel_gradient(rows, upstream),
                *(tf.raw_ops.BiasAddGrad(out_backprop=upstream) for _ in biases),
            )

        product = tf.matmul(rows, kernel)
        return tf.nn.bias_add(product, *biases) if biases else product, gradients

    # Variables would not count as arguments.
    biases = () if bias is None else (bias,)
    return run(*map(tf.convert_to_tensor, (rows, kernel, *biases)))


def _kernel_gradient(rows, upstream):
    """The product of the transposed rows and `upstream`, the wider one at the right.

    Without AVX-512, oneDNN takes 1.2 times as long with the wider one at the left, and
    up to 1.9 times where the rows of the right one lie 2 or 4 kB apart, which the
    cache maps to few places: these get columns of zeros.
    """
    left, right = rows.shape[-1], upstream.shape[-1]
    if left > right:
        return tf.transpose(_kernel_gradient(upstream, rows))
    if left < right and right in _NARROW_STRIDES:
        wide = tf.pad(upstream, [[0, 0], [0, _MORE_COLUMNS]])
        return tf.matmul(rows, wide, transpose_a=True)[:, :right]
    return tf.matmul(rows, upstream, transpose_a=True)


def select_by_device(on_cpu, elsewhere):
    """The result of on_cpu() on a processor, of the other on devices and in XLA.

    For what takes less time where shapes may follow from values: XLA has to know them.
    """
    device = tf.raw_ops.DeviceIndex(device_names=["CPU"])  # 1 for XLA, on any device
    return tf.switch_case(device, [on_cpu], elsewhere)


def make_seed(state):
    """The seed of a step, int64 [2], of a keras.random.SeedGenerator's numbers."""
    return tf.cast(state, tf.int64)


def trace_once(first):
    """A function of (layer, *inputs, seed) for layers with the structure of `first`.

    Weights and `site` are arguments of one function of the graph, which is traced,
    optimized and prepared to run once instead of once a layer.
    """

    # Its arguments are no constants: TensorFlow would make a function for each of them.
    @functools.partial(
        tf.function, autograph=False, experimental_attributes={"_noinline": True}
    )
    def traced(weights, inputs, seed):
        values = zip(first.variables, weights, strict=True)
        with keras.StatelessScope(state_mapping=values):
            return keras.layers.Layer.__call__(first, *inputs, seed=seed)

    def call(layer, *inputs, seed):
        weights = [tf.convert_to_tensor(each.value) for each in layer.variables]
        return traced(weights, inputs, LayerSeed.of(seed, layer.site - first.site))

    return call


class Mask(NamedTuple):
    """The numbers that decide which elements dropout keeps.

    The rate is tensors, so that a function is compiled once for all rates, 0 included.
    """

    keys: tf.Tensor  # random uint32 [2] for a place and a step
    threshold: tf.Tensor  # uint32; an element is kept if its hash is not below
    scale: tf.Tensor  # float32; multiplies what is kept


class LayerSeed(NamedTuple):
    """A seed for which the sites of a layer count from another number."""

    run: tf.Tensor
    first: tf.Tensor  # int64, of the step and the layer

    @classmethod
    def of(cls, seed, site):
        """The seed for a layer at this site, of the network's."""
        return cls(seed[0], seed[1] * (1 << dropout_sites.BITS) + site)


def keep_mask(rate, seed, site):
    """The mask of one place; `seed` is int64 [2] of (run and replica, step)."""
    seed = seed if isinstance(seed, LayerSeed) else LayerSeed.of(seed, 0)
    numbers = tf.random.stateless_uniform(
        [2],
        seed=tf.stack([seed.run, seed.first + site]),
        minval=None,
        maxval=None,
        dtype=tf.int32,
        alg="philox",
    )
    return Mask(
        tf.bitcast(numbers, tf.uint32),
        tf.constant(round(rate * 2**32), tf.uint32),
        tf.constant(1.0 / (1.0 - rate), tf.float32),
    )


def drop(x, mask):
    """Dropout in float32, which compiled functions inline.

    An element stays if a hash of its index is large: multiplications and shifts that
    spread each bit over all others (the constants are those of lowbias32, by C.
    Wellons), with a random key before each multiplication. It takes no longer than
    reading the tensor; Philox takes five times as long.
    """
    bits = tf.cast(tf.reshape(tf.range(tf.size(x)), tf.shape(x)), tf.uint32)
    bits = _spread(bits ^ mask.keys[0], 16) * tf.constant(_HASH[0], tf.uint32)
    bits = _spread(bits ^ mask.keys[1], 15) * tf.constant(_HASH[1], tf.uint32)
    is_kept = _spread(bits, 16) >= mask.threshold
    return tf.where(is_kept, tf.cast(x, tf.float32) * mask.scale, 0.0)


def _spread(bits, places):
    return bits ^ tf.bitwise.right_shift(bits, tf.constant(places, tf.uint32))


@compile_with_xla
def _drop_tiles(x, mask, *, dtype):
    return tf.cast(drop(x, mask), dtype)


def dropout(x, mask):
    """Dropout of a tensor of any shape; its gradient keeps nothing but the mask."""

    def drop_like(value):
        value = tf.convert_to_tensor(value)  # a table's gradient is IndexedSlices
        return _untile_flat(
            _drop_tiles(_tile_flat(value), mask, dtype=value.dtype), value
        )

    @tf.custom_gradient
    def run(x):
        return drop_like(x), drop_like

    return run(tf.convert_to_tensor(x))


def tile_rows(x):
    """[..., D] as rows [R, D], with rows of zeros up to a whole number of tiles."""
    rows = tf.reshape(x, [-1, x.shape[-1]])
    return tf.pad(rows, [[0, -tf.shape(rows)[0] % _TILE_ROWS], [0, 0]])


def untile_rows(rows, like):
    """The rows of a tensor in its shape but for the width, without what was added."""
    shape, width = tf.shape(like), rows.shape[-1]
    if width != like.shape[-1]:
        shape = tf.concat([shape[:-1], [width]], axis=0)
    return tf.reshape(rows[: tf.size(like) // like.shape[-1]], shape)


def _tile_flat(x):
    """All elements in order as [R, C], with zeros up to a whole number of tiles."""
    flat = tf.reshape(x, [-1])
    missing = -tf.size(flat) % (_TILE_ROWS * _TILE_COLUMNS)
    return tf.reshape(tf.pad(flat, [[0, missing]]), [-1, _TILE_COLUMNS])


def _untile_flat(tiles, like):
    return tf.reshape(tf.reshape(tiles, [-1])[: tf.size(like)], tf.shape(like))


def attend(query, key, value, bias, mask, *, scale, learned=None):
    """`kernels.attend` with dropout, whose gradient keeps one [B, N, S, T] less."""

    @tf.custom_gradient
    def run(query, key, value, *learned):
        scores = tf.matmul(query * scale, key, transpose_b=True)  # [B, N, S, T]
        weights = tf.nn.softmax(tf.cast(scores, tf.float32) + bias)
        tiles = _tile_flat(weights)
        dropped = tf.cast(weights, value.dtype)
        if mask:
            dropped = _untile_flat(_drop_tiles(tiles, mask, dtype=value.dtype), weights)
        mixed = tf.matmul(dropped, value)

        def gradients(upstream):
            # What the softmax subtracts: the sum over T of dropped weights times their
            # gradients, which is one over K (Dao et al., 2022, appendix B.2).
            product = tf.cast(upstream * mixed, tf.float32)
            subtracted = tf.reshape(tf.reduce_sum(product, -1), [-1, 1])
            # As rows it takes less time than broadcasting.
            subtracted = tf.tile(subtracted, [1, tf.shape(weights)[-1]])
            to_dropped = tf.matmul(upstream, value, transpose_b=True)
            to_scores = _scores_backward(
                _tile_flat(to_dropped), tiles, _tile_flat(subtracted), mask, scale=scale
            )
            to_scores = _untile_flat(to_scores, weights)
            return (
                tf.matmul(to_scores, key),
                tf.matmul(to_scores, query, transpose_a=True),
                tf.matmul(dropped, upstream, transpose_a=True),
                *(_to_bias(to_scores, each, scale) for each in learned),
            )

        return mixed, gradients

    return run(query, key, value, *([] if learned is None else [learned]))


def _to_bias(to_scores, bias, scale):
    """The gradient of a bias from that of query key^T, summed where it was repeated."""
    repeated = [axis for axis, size in enumerate(bias.shape) if size == 1]
    total = tf.reduce_sum(tf.cast(to_scores, tf.float32), repeated, keepdims=True)
    return tf.cast(total / scale, bias.dtype)


@compile_with_xla
def _scores_backward(to_dropped, weights, subtracted, mask, *, scale):
    to_weights = drop(to_dropped, mask) if mask else tf.cast(to_dropped, tf.float32)
    to_scores = weights * (to_weights - subtracted) * scale
    return tf.cast(to_scores, to_dropped.dtype)


# What is joined of a layer's projections: in the last one, which may compute queries
# at some positions only, and of another sequence not the query.
EVERY, BUT_QUERY = ("query", "key", "value"), ("key", "value")


@contextlib.contextmanager
def joined_projections(model):
    """Puts query, key and value weights of each layer side by side, for serving.

    A sentence has too few rows to keep a processor busy: three products of [18, 384]
    with [384, 384] take 1.7 times as long as one with [384, 1152]. Nothing is gained
    where batches are large, so training keeps the variables of the original apart.

    Yields the tf.Variables that inference reads while the block runs, some of them
    copies, which training does not change. Results are equal but for rounding.
    """
    pairs = model.config.spec.joined_projections
    joined = [*pairs(model.network)] if pairs else []
    for attention, names in joined:
        attention.joined = JoinedProjections(attention, names)
    projections = [attention.joined for attention, _ in joined]
    apart = {id(w) for j in projections for part in j.parts for w in part.weights}
    kept = [weight.value for weight in model.variables if id(weight) not in apart]
    try:
        yield [*kept, *(v for j in projections for v in (j.kernel, j.bias))]
    finally:
        for attention, _ in joined:
            attention.joined = None


class JoinedProjections:
    """The projections of a bert.SelfAttention: hidden, queries -> query, key, value."""

    def __init__(self, attention, names):
        self._attention = attention
        self.parts = [getattr(attention, name) for name in names]
        self.kernel = self._side_by_side("kernel")
        self.bias = self._side_by_side("bias")

    def _side_by_side(self, name):
        whole = tf.concat([getattr(part, name) for part in self.parts], axis=-1)
        return tf.Variable(tf.cast(whole, self.parts[0].compute_dtype), trainable=False)

    def __call__(self, hidden, queries):
        config, count = self._attention.config, len(self.parts)
        width, heads = config.hidden_size, config.num_attention_heads
        rows = tf.cast(tf.reshape(hidden, [-1, width]), self.kernel.dtype)
        # No sum, which TensorFlow adds within the product only where it knows its size.
        rows = tf.nn.bias_add(tf.matmul(rows, self.kernel), self.bias)
        if hidden.shape[1] == 1:  # token by token: nothing to transpose
            parts = [
                tf.reshape(part, [-1, heads, 1, width // heads])
                for part in tf.split(rows, count, axis=1)
            ]
        else:
            batch, length = tf.unstack(tf.shape(hidden)[:2])
            rows = tf.reshape(rows, [batch, length, count, heads, width // heads])
            parts = tf.unstack(tf.transpose(rows, [2, 0, 3, 1, 4]), count)
        # [B, N, T, K] each
        return parts if count == 3 else [self._attention.project_query(queries), *parts]
