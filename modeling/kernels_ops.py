"""The kernels that kernels_tf fuses, in keras.ops, for JAX and PyTorch.

Dropout masks equal those of TensorFlow bit for bit. What follows from a seed are uint32
arrays of JAX in a compiled step, and of NumPy beside PyTorch, so that a step waits for
its device once: only operators that both have touch them.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from keras import backend, ops

FUSES_DROPOUT = False  # `attend` has none, as flash attention has none of ours
SITE_BITS = 12  # of places that draw dropout in one step: 3 a layer and a few heads
# Multipliers of lowbias32, by C. Wellons; see kernels_tf.drop.
HASH = (0x7FEB352D, 0x846CA68B)
_SIGN = 1 << 31
# Philox (Salmon et al., 2011), and the key with which TensorFlow mixes seeds.
_FACTORS = np.array([0xD2511F53, 0xCD9E8D57], np.uint32)
_WEYL = np.array([0x9E3779B9, 0xBB67AE85], np.uint32)
_SEEDS_KEY, _ROUNDS = np.array([0x3EC8F720, 0x02461E29], np.uint32), 10
_FIRST, _SECOND = np.eye(2, dtype=np.uint32)


def fuse(function, **_):
    """The function, of a tuple of rows, weights, `mask` and settings."""

    def call(rows, weights=(), mask=(), **settings):
        return function(*rows, *weights, mask=mask, **settings)

    return call


def affine(rows, kernel, bias):
    """Rows @ kernel + bias."""
    return ops.matmul(rows, kernel) + bias


def trace_once(_):
    """None: there is no function for all layers of a kind."""


def select_by_device(on_cpu, elsewhere):
    """The result of elsewhere(), which these backends compile."""
    return elsewhere()


def make_seed(state):
    """The seed of a step, two integers, of a keras.random.SeedGenerator's numbers."""
    if backend.backend() == "torch":
        return tuple(state.tolist())
    return state.astype("uint32")


class Mask(NamedTuple):
    """As kernels_tf.Mask; int32 keys, whose products wrap on every backend."""

    keys: Any
    threshold: int
    scale: float


def keep_mask(rate, seed, site):
    """As kernels_tf.keep_mask, () for a rate of 0; numbers of seeds have 31 bits."""
    if not rate:
        return ()
    run, step = seed
    low = run * _FIRST + step * (_SECOND << SITE_BITS) + site * _SECOND
    high = (step >> (32 - SITE_BITS)) * _SECOND
    even, odd = _philox(low, high, _SEEDS_KEY)
    key = even[0] * _FIRST + odd[0] * _SECOND
    even, odd = _philox(even * _SECOND, odd * _SECOND, key)
    keys = (even[0] * _FIRST + odd[0] * _SECOND).astype("int32")
    threshold = round(rate * 2**32) - _SIGN
    return Mask(ops.convert_to_tensor(keys), threshold, 1.0 / (1.0 - rate))


def _philox(even, odd, key):
    """Numbers 0 and 2, and 1 and 3, of those of a counter; all uint32 [2]."""

    def mix(_, state):
        even, odd, key = state
        high, low = _multiply(even, _FACTORS)
        return high[::-1] ^ odd ^ key, low[::-1], key + _WEYL

    # A loop, since unrolled rounds take minutes to compile. Arrays of one kind go in.
    zero = even ^ even
    return ops.fori_loop(0, _ROUNDS, mix, (even, odd, key + zero))[:2]


def _multiply(a, b):
    """The high and the low half of products of uint32."""
    (a_low, a_high), (b_low, b_high) = ((x & 0xFFFF, x >> 16) for x in (a, b))
    first = a_high * b_low + (a_low * b_low >> 16)
    second = a_low * b_high + (first & 0xFFFF)
    return a_high * b_high + (first >> 16) + (second >> 16), a * b


def drop(x, mask):
    """As kernels_tf.drop."""
    shape = ops.shape(x)
    bits = ops.reshape(ops.arange(math.prod(shape), dtype="int32"), shape)
    bits = _spread(bits ^ mask.keys[0], 16) * HASH[0]
    bits = _spread(bits ^ mask.keys[1], 15) * (HASH[1] - 2 * _SIGN)
    is_kept = (_spread(bits, 16) ^ -_SIGN) >= mask.threshold
    return ops.where(is_kept, ops.cast(x, "float32") * mask.scale, 0.0)


def _spread(bits, places):
    return bits ^ ((bits >> places) & ((1 << (32 - places)) - 1))


def dropout(x, mask):
    """As kernels_tf.dropout."""
    return ops.cast(drop(x, mask), x.dtype)


def attend(query, key, value, bias, _, *, scale):
    """`kernels.attend` by the kernel that the backend chooses; softmax in float32."""
    if backend.backend() == "torch":
        from torch.nn import functional

        bias = ops.cast(bias, query.dtype)
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, scale=scale
        )
    import jax

    rows = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    # Keras' kernel for TPUs ignores a bias, and so padding.
    flash = False if jax.default_backend() == "tpu" else None
    mixed = ops.dot_product_attention(
        *rows, bias=bias, scale=scale, flash_attention=flash
    )
    return ops.transpose(mixed, (0, 2, 1, 3))
