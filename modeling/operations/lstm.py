"""Long short-term memory, from left to right and from right to left at once.

Gates are cut in the order i, j, f, o; the bias of 1 of the forget gate is added when it
runs, not stored. These are the conventions of TensorFlow's LSTMCell.

What does not wait for the step before is one matrix product for all steps: that of the
inputs, and in training those that give the gradients of weights and inputs.
docs/performance.md has what that saves.
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


class _Clips(NamedTuple):
    cell: float
    projection: float


def zero_states(batch_size, weights):
    """The states before the first token, of a pair of `Weights`."""
    units = weights[0].kernel.shape[-1] // 4
    width = units if weights[0].projection is None else weights[0].projection.shape[-1]
    shapes = States((2, batch_size, units), (2, batch_size, width))
    return States(*(tf.zeros(shape, tf.float32) for shape in shapes))


def bidirectional(
    inputs,
    weights,
    mask=None,
    states=None,
    *,
    cell_clip=0.0,
    projection_clip=0.0,
    trains=False,
):
    """Runs one layer of both directions.

    Args:
        inputs: a pair [B, T, I], for the forward and the backward direction; often the
            same tensor. Both are in the order of the text: the backward direction
            begins at the end. Their type is that of the matrix products and of the
            outputs.
        weights: a pair of `Weights`, float32.
        mask: [B, T], nonzero for tokens. States pass the others unchanged, and outputs
            there are 0. None: all are tokens.
        states: `States` to begin with; None: zeros. No gradient flows into them.
        cell_clip, projection_clip: the largest absolute value of a cell's state and of
            a projected output; 0: there is no limit.
        trains: keeps what the gradient needs, which then takes a third of the time.

    Returns:
        A pair of outputs [B, T, P], and the states after the last token that each
        direction read.
    """
    shape = tf.shape(inputs[0])
    if states is None:
        states = zero_states(shape[0], weights)
    states = States(*map(tf.stop_gradient, states))
    keeps = None
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        inputs, mask = _cut(inputs, mask)
        keeps = tf.transpose(mask)[..., None]  # [T, B, 1]
    steps = [tf.transpose(x, (1, 0, 2)) for x in inputs]  # [T, B, I]
    run = _Run(keeps, states, _Clips(cell_clip, projection_clip))
    hiddens, after = (run.trained if trains else run.plain)(steps, weights)
    outputs = []
    for x in hiddens:
        y = x if keeps is None else tf.where(keeps, x, 0.0)
        y = tf.cast(tf.transpose(y, (1, 0, 2)), inputs[0].dtype)
        outputs.append(tf.pad(y, ((0, 0), (0, shape[1] - tf.shape(y)[1]), (0, 0))))
    return tuple(outputs), after


def _cut(inputs, mask):
    """Both without the steps at the end that are padding in all rows.

    Where a graph knows the number of steps XLA may compile it, and they stay.
    """
    if not tf.executing_eagerly() and mask.shape[1] is not None:
        return inputs, mask
    places = tf.where(tf.reduce_any(mask, 0))[:, 0]
    longest = tf.reduce_max(tf.concat([places + 1, [1]], 0))
    return [x[:, :longest] for x in inputs], mask[:, :longest]


class _Run(NamedTuple):
    """What a layer runs with, beside its inputs and weights."""

    keeps: Any  # bool [T, B, 1], whether there is a token; or None: everywhere
    states: States
    clips: _Clips

    def plain(self, steps, weights):
        """A pair of hidden states [T, B, P] float32, and the states that follow."""
        arrays, after = self._forward(steps, weights, num_saved=0)
        return [kept[0].stack() for kept in arrays], after

    def trained(self, steps, weights):
        """The same with a gradient of its own."""
        has_projection = weights[0].projection is not None
        tensors = [*steps, *(x for w in weights for x in w[: 2 + has_projection])]

        @tf.custom_gradient
        def run(*tensors):
            steps, half = tensors[:2], len(tensors) // 2 + 1
            weights = Weights(*tensors[2:half]), Weights(*tensors[half:])
            arrays, after = self._forward(steps, weights, num_saved=3)
            hiddens, cells, inners, gates = zip(*arrays, strict=True)
            hiddens, cells = ([x.stack() for x in kept] for kept in (hiddens, cells))

            def backward(*upstream):
                saved = _Saved(hiddens, cells, inners, gates)
                return self._backward(steps, weights, saved, upstream)

            return (*hiddens, *after), backward

        *hiddens, cell, hidden = run(*tensors)
        return hiddens, States(cell, hidden)

    def _forward(self, steps, weights, num_saved):
        """TensorArrays of the hidden states and of what is saved, and the last states.

        Saved are up to three: cells [B, D], what is projected [B, D], gates [B, 4 D].
        """
        width = steps[0].shape[-1]
        products = [
            _product(x, w.kernel[:width], x.dtype) + _gate_bias(w.bias)
            for x, w in zip(steps, weights, strict=True)
        ]  # [T, B, 4 D]
        dtype = steps[0].dtype
        recurrent = [tf.cast(w.kernel[width:], dtype) for w in weights]
        has_projection = weights[0].projection is not None
        projections = [tf.cast(w.projection, dtype) for w in weights if has_projection]

        def step(k, time, cell, hidden):
            gates = products[k][time] + _product(hidden, recurrent[k], dtype)
            i, j, f, o = _opened(gates)
            new = [_clipped(f * cell + i * j, self.clips.cell)]
            inner = o * tf.tanh(new[0])
            new.append(inner)
            if has_projection:
                found = _product(inner, projections[k], dtype)
                new[1] = _clipped(found, self.clips.projection)
            if self.keeps is not None:
                old = cell, hidden
                keep = self.keeps[time]
                new = [tf.where(keep, *pair) for pair in zip(new, old, strict=True)]
            return tuple(new), (new[1], new[0], inner, gates)[: 1 + num_saved]

        length = tf.shape(steps[0])[0]
        starts = zip(*map(tf.unstack, self.states), strict=True)
        arrays, ends = _scan(step, length, tuple(starts), 1 + num_saved)
        return arrays, States(*map(tf.stack, zip(*ends, strict=True)))

    def _backward(self, steps, weights, saved, upstream):
        """The gradients of the steps and of the tensors of both weights."""
        *to_hiddens, to_last_cell, to_last_hidden = upstream
        width, dtype = steps[0].shape[-1], steps[0].dtype
        # Turned once, because a product turns its second matrix at every step.
        recurrent = [_turned(w.kernel[width:], dtype) for w in weights]
        has_projection = weights[0].projection is not None
        projections = [_turned(w.projection, dtype) for w in weights if has_projection]
        cells_before = _before(saved.cells, self.states.cell)

        def step(k, time, to_cell, to_hidden):
            to_hidden += to_hiddens[k][time]
            passed = 0.0, 0.0
            if self.keeps is not None:
                keep, both = self.keeps[time], (to_cell, to_hidden)
                passed = [tf.where(keep, 0.0, x) for x in both]
                to_cell, to_hidden = (tf.where(keep, x, 0.0) for x in both)
            to_inner = to_hidden
            if has_projection:
                hidden, limit = saved.hiddens[k][time], self.clips.projection
                to_hidden = _unclipped(to_hidden, hidden, limit)
                to_inner = _product(to_hidden, projections[k], dtype)
            cell, before = saved.cells[k][time], cells_before[k][time]
            i, j, f, o = _opened(saved.gates[k].read(time))
            y = tf.tanh(cell)
            to_cell = to_cell + to_inner * o * (1.0 - y * y)
            to_cell = _unclipped(to_cell, cell, self.clips.cell)
            to_gates = tf.concat(
                [
                    to_cell * j * i * (1.0 - i),
                    to_cell * i * (1.0 - j * j),
                    to_cell * before * f * (1.0 - f),
                    to_inner * y * o * (1.0 - o),
                ],
                -1,
            )
            to_before = _product(to_gates, recurrent[k], dtype)
            state = to_cell * f + passed[0], to_before + passed[1]
            return state, (to_gates, to_hidden)[: 1 + has_projection]

        length, ends = tf.shape(steps[0])[0], (to_last_cell, to_last_hidden)
        starts = tuple(zip(*map(tf.unstack, ends), strict=True))
        arrays, _ = _scan(step, length, starts, 1 + has_projection, is_reversed=True)
        to_steps, to_weights = [], []
        for k, hiddens in enumerate(_before(saved.hiddens, self.states.hidden)):
            to_gates = arrays[k][0].stack()  # [T, B, 4 D]
            inputs = _turned(weights[k].kernel[:width], dtype)
            to_steps.append(tf.cast(_product(to_gates, inputs, dtype), dtype))
            read = tf.concat([steps[k], tf.cast(hiddens, dtype)], -1)
            to_weights.append(_outer_sum(read, to_gates, dtype))
            # A product takes a fifth of the time of a sum over rows.
            ones = tf.ones_like(to_gates[..., :1])
            to_weights.append(_outer_sum(ones, to_gates, tf.float32)[0])
            if has_projection:
                inner, to_hidden = saved.inners[k].stack(), arrays[k][1].stack()
                to_weights.append(_outer_sum(inner, to_hidden, dtype))
        return *to_steps, *to_weights


class _Saved(NamedTuple):
    """Pairs of what the gradient needs; the latter two are TensorArrays."""

    hiddens: Any  # [T, B, P]
    cells: Any  # [T, B, D]
    inners: Any  # of [B, D], before the projection
    gates: Any  # of [B, 4 D], before sigmoid and tanh


def _scan(step, length, states, num_values, *, is_reversed=False):
    """Runs steps of both directions in one loop, so that they share the processors.

    Args:
        step: step(k, time, *state) -> (state, values), k the direction, of tensors.
        states: a pair to begin with.
        is_reversed: whether both begin where they ended.

    Returns:
        A pair of TensorArrays, one for each value, and the pair of last states.
    """

    def body(index, states, arrays):
        times = index, length - 1 - index
        found = []
        for k, time in enumerate(times[::-1] if is_reversed else times):
            state, values = step(k, time, *states[k])
            pairs = zip(arrays[k], values, strict=True)
            found.append((state, tuple(a.write(time, x) for a, x in pairs)))
        return index + 1, *zip(*found, strict=True)

    def array():
        return tf.TensorArray(tf.float32, length, clear_after_read=False)

    arrays = tuple(tuple(array() for _ in range(num_values)) for _ in range(2))
    _, states, arrays = tf.while_loop(
        lambda index, *_: index < length,
        body,
        (0, states, arrays),
        maximum_iterations=length,
    )
    return arrays, states


def _product(x, matrix, dtype):
    """The matrix product [..., N] of x [..., M], computed in a type, in float32."""
    rows = tf.reshape(tf.cast(x, dtype), (-1, x.shape[-1]))
    found = tf.cast(tf.matmul(rows, tf.cast(matrix, dtype)), tf.float32)
    return tf.reshape(found, (*tf.unstack(tf.shape(x)[:-1]), matrix.shape[-1]))


def _outer_sum(x, y, dtype):
    """The sum over all steps and rows of x [T, B, M] by y [T, B, N]: [M, N]."""
    x, y = (tf.reshape(tf.cast(z, dtype), (-1, z.shape[-1])) for z in (x, y))
    return tf.cast(tf.matmul(x, y, transpose_a=True), tf.float32)


def _turned(matrix, dtype):
    return tf.cast(tf.transpose(matrix), dtype)


def _gate_bias(bias):
    i, j, f, o = tf.split(bias, 4)
    return tf.concat([i, j, f + _FORGET_BIAS, o], 0)


def _opened(gates):
    """What i, j, f and o let through, each [B, D]."""
    i, j, f, o = tf.split(gates, 4, axis=-1)
    return tf.sigmoid(i), tf.tanh(j), tf.sigmoid(f), tf.sigmoid(o)


def _before(values, starts):
    """What each direction had before each step, of pairs [T, B, .] and [2, B, .]."""
    forward, backward = tf.unstack(starts[:, None])
    return (
        tf.concat([forward, values[0][:-1]], 0),
        tf.concat([values[1][1:], backward], 0),
    )


def _clipped(x, limit):
    return tf.clip_by_value(x, -limit, limit) if limit else x


def _unclipped(gradient, clipped, limit):
    """The gradient of `_clipped`, from that of its result."""
    return tf.where(tf.abs(clipped) < limit, gradient, 0.0) if limit else gradient
