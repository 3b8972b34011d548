"""Long short-term memory, from left to right and from right to left at once.

Gates are in the order i, j, f, o; the bias of 1 of the forget gate is added when it
runs, not stored. These are the conventions of TensorFlow's LSTMCell.

What does not wait for the step before is one matrix product for all steps: in training
those that give the gradients of weights and inputs, and for small batches and on other
devices than processors that of the inputs. Rows of the batch are the last axis: a
product of a large matrix with a few columns takes less time than one of a few rows with
it. docs/results.md has what each saves.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from modeling import kernels_tf

_FORGET_BIAS = 1.0
# Added to gates where there is no token, so that a cell's state passes unchanged: the
# tanh of half of it is 1 in every type.
_SHUT = 1e4
# From so many on, a processor takes less time for one product of input and state in
# each step than for that of all inputs before, which has to be added to the state's.
_MANY_ROWS = 24


class Weights(NamedTuple):
    """Those of one direction; a cell has D values, an output P, an input I."""

    kernel: Any  # [I + P, 4 D]
    bias: Any  # [4 D]
    projection: Any = None  # [D, P]; without it an output is the cell's, and P is D


class States(NamedTuple):
    """States carried from step to step; direction 0 reads from left to right."""

    cell: Any  # [2, B, D] float32
    hidden: Any  # [2, B, P] float32


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
        trains: keeps what the gradient needs, which then takes less time.

    Returns:
        A pair of outputs [B, T, P], and the states after the last token that each
        direction read.
    """
    shape, width = tf.shape(inputs[0]), inputs[0].shape[-1]
    if states is None:
        states = zero_states(shape[0], weights)
    keeps = None
    if mask is not None:
        mask = tf.cast(mask, tf.bool)
        inputs, mask = _trim(inputs, mask)
        keeps = tf.transpose(mask)[:, None]  # [T, 1, B]
    run = _Run(
        width,
        inputs[0].dtype,
        keeps,
        cell_clip,
        projection_clip,
        States(*(tf.transpose(tf.stop_gradient(x), (0, 2, 1)) for x in states)),
    )
    directions = [
        _Direction(tf.transpose(x, (2, 1, 0)), *each)
        for x, each in zip(inputs, weights, strict=True)
    ]
    hiddens, after = (run.trained if trains else run.plain)(directions)
    outputs = []
    for x in hiddens:
        y = x if keeps is None else tf.where(keeps, x, 0.0)
        y = tf.cast(tf.transpose(y, (2, 0, 1)), run.dtype)  # [B, T, P]
        outputs.append(tf.pad(y, ((0, 0), (0, shape[1] - tf.shape(y)[1]), (0, 0))))
    return tuple(outputs), States(*(tf.transpose(x, (0, 2, 1)) for x in after))


def _trim(inputs, mask):
    """Both without the steps at the end that are padding in all rows."""
    steps = tf.range(1, tf.shape(mask)[1] + 1)
    longest = kernels_tf.select_by_device(
        lambda: tf.reduce_max(tf.where(mask, steps, 1)), lambda: tf.shape(mask)[1]
    )
    return [x[:, :longest] for x in inputs], mask[:, :longest]


class _Direction(NamedTuple):
    """The inputs of one direction, and its weights."""

    steps: Any  # [I, T, B]
    kernel: Any  # [I + P, 4 D] float32
    bias: Any  # [4 D] float32
    projection: Any = None  # [D, P] float32


class _Maps(NamedTuple):
    """The affine maps of a step of one direction."""

    gates: Any  # time, hidden state [P, B] -> [4 D, B], each times its `_halves`
    projected: Any  # [D, B] -> [P, B]


def _halves(units):
    """Factors of gates, [4 D]: one half for those that are sigmoids.

    A sigmoid of x is (1 + tanh(x / 2)) / 2, and one tanh of all gates takes half the
    time of three sigmoids and a tanh.
    """
    return np.repeat(np.array([0.5, 1.0, 0.5, 0.5], np.float32), units)


def _biases(bias):
    """Those of gates, [4 D], with what is added to the forget gate's."""
    forget = np.array([0.0, 0.0, _FORGET_BIAS, 0.0], np.float32)
    return bias + np.repeat(forget, bias.shape[0] // 4)


def _shut(units):
    """The numbers added to gates where there is no token, [4 D]."""
    return np.repeat(np.array([-_SHUT, 0.0, _SHUT, -_SHUT], np.float32), units)


class _Step(NamedTuple):
    """The values of a step that its gradient needs; or those of all steps."""

    hidden: Any  # [P, B]
    cell: Any = None  # [D, B]
    hidden_before: Any = None
    cell_before: Any = None
    inner: Any = None  # [D, B], which is projected
    opened: Any = None  # [4 D, B], the tanh of halved gates


class _Run(NamedTuple):
    """The settings and states that both directions share in one run of a layer."""

    width: int  # I
    dtype: Any  # of matrix products
    keeps: Any  # bool [T, 1, B], whether there is a token; or None: everywhere
    cell_clip: float
    projection_clip: float
    states: States  # [2, D, B] and [2, P, B]

    def plain(self, directions):
        """A pair of hidden states [T, P, B] float32, and the states that follow."""
        steps, after = self._forward(directions, num_values=1)
        return [step.hidden.stack() for step in steps], after

    def trained(self, directions):
        """The same with a gradient by hand."""

        @tf.custom_gradient
        def run(*tensors):
            half = len(tensors) // 2
            directions = _Direction(*tensors[:half]), _Direction(*tensors[half:])
            steps, after = self._forward(directions, len(_Step._fields))

            def backward(*upstream):
                return self._backward(directions, steps, upstream)

            return (*(step.hidden.stack() for step in steps), *after), backward

        # Variables would not count as arguments.
        tensors = (x for each in directions for x in each if x is not None)
        *hiddens, cell, hidden = run(*map(tf.convert_to_tensor, tensors))
        return hiddens, States(cell, hidden)

    def _forward(self, directions, num_values):
        """A pair of `_Step` of TensorArrays, the first values of each, and `States`."""
        num_rows = tf.shape(directions[0].steps)[2]
        is_joined = kernels_tf.select_by_device(
            lambda: num_rows >= _MANY_ROWS, lambda: tf.constant(False)
        )

        def steps(kind):
            return self._steps(directions, [*map(kind, directions)], num_values)

        arrays, ends = tf.cond(
            is_joined, lambda: steps(self._joined), lambda: steps(self._apart)
        )
        after = States(*map(tf.stack, zip(*ends, strict=True)))
        return [_Step(*values) for values in arrays], after

    def _steps(self, directions, maps, num_values):
        """The result of `_scan`."""

        def step(k, time, cell_before, hidden_before):
            opened = tf.tanh(maps[k].gates(time, hidden_before))
            i, j, f, o = tf.split(opened, 4)
            cell = 0.5 * ((f + 1.0) * cell_before + (i + 1.0) * j)
            cell = _clipped(cell, self.cell_clip)
            hidden = inner = 0.5 * (o + 1.0) * tf.tanh(cell)
            if directions[k].projection is not None:
                hidden = _clipped(maps[k].projected(inner), self.projection_clip)
            if self.keeps is not None:
                hidden = tf.where(self.keeps[time], hidden, hidden_before)
            values = _Step(hidden, cell, hidden_before, cell_before, inner, opened)
            return (cell, hidden), values[:num_values]

        starts = tuple(zip(*map(tf.unstack, self.states), strict=True))
        length = tf.shape(directions[0].steps)[1]
        return _scan(step, length, starts, num_values)

    def _joined(self, direction):
        """Gates of input and hidden state in one product a step."""
        units, kernel = direction.bias.shape[0] // 4, direction.kernel
        halves = _halves(units)
        if self.keeps is not None:  # one more input, which shuts the gates
            kernel = tf.concat([kernel, _shut(units)[None]], 0)
            is_padding = self._typed(tf.logical_not(self.keeps))
        kernel = self._typed(tf.transpose(kernel * halves))
        bias = (_biases(direction.bias) * halves)[:, None]

        def gates(time, hidden):
            read = [direction.steps[:, time], self._typed(hidden)]
            if self.keeps is not None:
                read.append(is_padding[time])
            return self._product(kernel, tf.concat(read, 0)) + bias

        if direction.projection is None:
            return _Maps(gates, None)
        projection = self._typed(tf.transpose(direction.projection))
        return _Maps(gates, lambda inner: self._product(projection, inner))

    def _apart(self, direction):
        """The same where the inputs of all steps are one product before the loop.

        Weights are as they lie: to turn them would take as long as many small products.
        """
        units, steps = direction.bias.shape[0] // 4, direction.steps
        halves = _halves(units)[:, None]
        of_inputs, recurrent = self._kernels(direction)
        rows = tf.reshape(steps, (self.width, -1))
        product = self._product(of_inputs, rows, turns=True)
        shape = (-1, tf.shape(steps)[1], tf.shape(steps)[2])
        products = tf.reshape(product + _biases(direction.bias)[:, None], shape)
        if self.keeps is not None:
            shut = _shut(units)[:, None, None]
            products += tf.where(self.keeps[:, 0], 0.0, shut)  # [4 D, T, B]

        def gates(time, hidden):
            sums = products[:, time] + self._product(recurrent, hidden, turns=True)
            return sums * halves

        if direction.projection is None:
            return _Maps(gates, None)
        projection = self._typed(direction.projection)
        return _Maps(gates, lambda inner: self._product(projection, inner, turns=True))

    def _kernels(self, direction):
        """The kernels [I, 4 D] and [P, 4 D] of inputs and of hidden states."""
        kernel = self._typed(direction.kernel)
        return kernel[: self.width], kernel[self.width :]

    def _typed(self, x):
        return tf.cast(x, self.dtype)

    def _product(self, matrix, columns, turns=False):
        product = tf.matmul(matrix, self._typed(columns), transpose_a=turns)
        return tf.cast(product, tf.float32)

    def _backward(self, directions, steps, upstream):
        """The gradients of all tensors of both directions."""
        *to_hiddens, to_last_cell, to_last_hidden = upstream
        recurrent = [self._kernels(direction)[1] for direction in directions]
        has_projection = directions[0].projection is not None
        projections = [self._typed(d.projection) for d in directions if has_projection]
        halves = _halves(directions[0].bias.shape[0] // 4)[:, None]

        def step(k, time, to_cell, to_hidden):
            saved = _Step(*(array.read(time) for array in steps[k]))
            to_hidden += to_hiddens[k][time]
            passed = 0.0
            if self.keeps is not None:
                passed = tf.where(self.keeps[time], 0.0, to_hidden)
                to_hidden -= passed
            to_inner = to_hidden
            if has_projection:
                to_hidden = _unclipped(to_hidden, saved.hidden, self.projection_clip)
                to_inner = self._product(projections[k], to_hidden)
            i, j, f, o = tf.split(saved.opened, 4)
            y, to_inner = tf.tanh(saved.cell), 0.5 * to_inner
            to_cell = to_cell + to_inner * (o + 1.0) * (1.0 - y * y)
            to_cell = 0.5 * _unclipped(to_cell, saved.cell, self.cell_clip)
            parts = to_cell * j, to_cell * (i + 1.0), to_cell * saved.cell_before
            to_opened = tf.concat([*parts, to_inner * y], 0)
            to_gates = to_opened * (1.0 - saved.opened * saved.opened) * halves
            to_before = self._product(recurrent[k], to_gates)
            state = to_cell * (f + 1.0), to_before + passed
            return state, (to_gates, to_hidden)[: 1 + has_projection]

        ends = map(tf.unstack, (to_last_cell, to_last_hidden))
        starts, length = tuple(zip(*ends, strict=True)), tf.shape(to_hiddens[0])[0]
        arrays, _ = _scan(step, length, starts, 1 + has_projection, is_reversed=True)
        return [
            gradient
            for direction, step, values in zip(directions, steps, arrays, strict=True)
            for gradient in self._to_tensors(direction, step, *map(_columns, values))
        ]

    def _to_tensors(self, direction, steps, to_gates, to_hidden=None):
        """Gradients of one direction, of [4 D, T * B] and [P, T * B]."""
        rows = tf.reshape(direction.steps, (self.width, -1))
        read = tf.concat([rows, self._typed(_columns(steps.hidden_before))], 0)
        to_steps = self._product(self._kernels(direction)[0], to_gates)
        gradients = [
            self._typed(tf.reshape(to_steps, tf.shape(direction.steps))),
            self._outer_sum(read, to_gates),
            tf.reduce_sum(to_gates, -1),
        ]
        if to_hidden is not None:
            gradients.append(self._outer_sum(_columns(steps.inner), to_hidden))
        return gradients

    def _outer_sum(self, x, y):
        """The sum over all steps and rows of [M, T * B] by [N, T * B]: [M, N]."""
        product = tf.matmul(self._typed(x), self._typed(y), transpose_b=True)
        return tf.cast(product, tf.float32)


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
        results = []
        for k, time in enumerate(times[::-1] if is_reversed else times):
            state, values = step(k, time, *states[k])
            pairs = zip(arrays[k], values, strict=True)
            results.append((state, tuple(a.write(time, x) for a, x in pairs)))
        return index + 1, *zip(*results, strict=True)

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


def _columns(array):
    """All steps of a TensorArray of [N, B] side by side: [N, T * B]."""
    steps = tf.transpose(array.stack(), (1, 0, 2))
    return tf.reshape(steps, (steps.shape[0], -1))


def _clipped(x, limit):
    return tf.clip_by_value(x, -limit, limit) if limit else x


def _unclipped(gradient, clipped, limit):
    """The gradient of `_clipped`, from that of its result."""
    return tf.where(tf.abs(clipped) < limit, gradient, 0.0) if limit else gradient
