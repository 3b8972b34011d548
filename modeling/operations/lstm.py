"""Long short-term memory, from left to right and from right to left at once.

Gates are cut in the order i, j, f, o; the bias of 1 of the forget gate is added when it
runs, not stored. These are the conventions of TensorFlow's LSTMCell.
"""

from typing import Any, NamedTuple

import tensorflow as tf

_FORGET_BIAS = 1.0


class Weights(NamedTuple):
    """Those of one direction; a cell has D values, an output P, an input I."""

    kernel: Any  # [I + P, 4 D]
    bias: Any  # [4 D]
    projection: Any = None  # [D, P]; without it an output is the cell's, and P is D


class States(NamedTuple):
    """What is carried from step to step; direction 0 reads from left to right."""

    cell: Any  # [2, B, D] float32
    hidden: Any  # [2, B, P] float32


def zero_states(batch_size, weights):
    """The states before the first token, of a pair of `Weights`."""
    units = weights[0].kernel.shape[-1] // 4
    width = units if weights[0].projection is None else weights[0].projection.shape[-1]
    shapes = States((2, batch_size, units), (2, batch_size, width))
    return States(*(tf.zeros(shape, tf.float32) for shape in shapes))


def bidirectional(
    inputs, weights, mask=None, states=None, *, cell_clip=0.0, projection_clip=0.0
):
    """Runs one layer of both directions.

    Args:
        inputs: a pair [B, T, I], for the forward and the backward direction; often the
            same tensor. Both are in the order of the text: the backward direction
            begins at the end.
        weights: a pair of `Weights`.
        mask: [B, T], nonzero for tokens. States pass the others unchanged, and outputs
            there are 0. None: all are tokens.
        states: `States` to begin with; None: zeros. No gradient flows into them.
        cell_clip, projection_clip: the largest absolute value of a cell's state and of
            a projected output; 0: there is no limit.

    Returns:
        A pair of outputs [B, T, P], and the states after the last token that each
        direction read.
    """
    shape = tf.shape(inputs[0])
    if states is None:
        states = zero_states(shape[0], weights)
    states = States(*map(tf.stop_gradient, states))
    step = _stepper(weights, cell_clip, projection_clip)
    products = [_input_product(x, w) for x, w in zip(inputs, weights, strict=True)]
    keeps = None if mask is None else tf.transpose(tf.cast(mask, tf.bool))[..., None]

    def body(time, cells, hiddens, arrays):
        found = []
        for k, place in enumerate((time, shape[1] - 1 - time)):
            keep = None if keeps is None else keeps[place]
            cell, hidden = step(k, products[k][place], cells[k], hiddens[k])
            out = hidden
            if keep is not None:
                out = tf.where(keep, hidden, 0.0)
                cell = tf.where(keep, cell, cells[k])
                hidden = tf.where(keep, hidden, hiddens[k])
            found.append((cell, hidden, arrays[k].write(place, out)))
        return time + 1, *zip(*found, strict=True)

    arrays = tuple(tf.TensorArray(tf.float32, shape[1]) for _ in range(2))
    start = 0, tuple(tf.unstack(states.cell)), tuple(tf.unstack(states.hidden)), arrays
    _, cells, hiddens, arrays = tf.while_loop(
        lambda time, *_: time < shape[1], body, start
    )
    width = hiddens[0].shape[-1]
    outputs = []
    for array in arrays:
        stacked = tf.reshape(array.stack(), (shape[1], shape[0], width))
        outputs.append(tf.transpose(stacked, (1, 0, 2)))
    return tuple(outputs), States(tf.stack(cells), tf.stack(hiddens))


def _input_product(inputs, weights):
    """What the inputs give to the gates, [T, B, 4 D]."""
    width = inputs.shape[-1]
    rows = tf.reshape(tf.transpose(inputs, (1, 0, 2)), (-1, width))
    product = tf.matmul(rows, weights.kernel[:width]) + weights.bias
    shape = tf.shape(inputs)
    return tf.reshape(product, (shape[1], shape[0], product.shape[-1]))


def _stepper(weights, cell_clip, projection_clip):
    """A function from (direction, product [B, 4 D], cell, hidden) to the new states."""

    def step(k, product, cell, hidden):
        _, _, projection = weights[k]
        recurrent = weights[k].kernel[-hidden.shape[-1] :]
        gates = product + tf.matmul(hidden, recurrent)
        i, j, f, o = tf.split(gates, 4, axis=-1)
        cell = tf.sigmoid(f + _FORGET_BIAS) * cell + tf.sigmoid(i) * tf.tanh(j)
        cell = _clipped(cell, cell_clip)
        hidden = tf.sigmoid(o) * tf.tanh(cell)
        if projection is not None:
            hidden = _clipped(tf.matmul(hidden, projection), projection_clip)
        return cell, hidden

    return step


def _clipped(x, limit):
    return tf.clip_by_value(x, -limit, limit) if limit else x
