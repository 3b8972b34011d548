"""Which tokens are real, which sees which, and which is the last."""

from keras import ops

MASK_ADDER = -10000.0  # to the scores of padding (modeling.py, attention_layer)


def mask_adder(input_mask):
    """What to add to the scores, float32 [B, 1, 1 or S, T]: 0, or -10000 for padding.

    `input_mask` is int [B, T], 1 for real tokens, or [B, S, T] for any pattern.
    """
    mask = ops.cast(input_mask, "float32")
    axes = (1, 2) if len(input_mask.shape) == 2 else 1
    return (1.0 - ops.expand_dims(mask, axes)) * MASK_ADDER


def causal(input_mask):
    """Which keys each query sees, int [B, S, T]: real ones, none that follows it.

    `input_mask` is as in `mask_adder`.
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


def rows_at(x, positions):
    """The rows of `x` [B, T, ...] at int [B, S]: [B, S, ...].

    As gather_indexes of run_pretraining.py: in whole rows, which takes less than a
    tenth of the time of elements one by one.
    """
    size, length, *width = ops.shape(x)
    rows = length * ops.arange(size)[:, None] + ops.cast(positions, "int32")  # [B, S]
    return ops.take(ops.reshape(x, (-1, *width)), rows, axis=0)
