"""Long short-term memory, from left to right and from right to left at once.

Gates are cut in the order i, j, f, o; the bias of 1 of the forget gate is added when it
runs, not stored. These are the conventions of TensorFlow's LSTMCell.

What does not wait for the step before is one matrix product for all steps: in training
those that give the gradients of weights and inputs, and for small batches and on other
devices than processors that of the inputs. Rows of the batch are the last axis, which
is why weights are turned first: a product of a large matrix with a few columns takes
less time than one of a few rows with it. docs/performance.md has what each saves.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from modeling.operations import fast_ops

_FORGET_BIAS = 1.0
# From so many on, a processor takes less time for one product of input and state in
# each step than for that of all inputs before, which has to be added to the state's.
_MANY_ROWS = 24


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
        inputs, mask = _cut(inputs, mask)
        keeps = tf.transpose(mask)[:, None]  # [T, 1, B]
    run = _Run(
        *(width, inputs[0].dtype, keeps, cell_clip, projection_clip),
        States(*(tf.transpose(tf.stop_gradient(x), (0, 2, 1)) for x in states)),
    )
    directions = list(map(_turned, inputs, weights))
    hiddens, after = (run.trained if trains else run.plain)(directions)
    outputs = []
    for x in hiddens:
        y = x if keeps is None else tf.where(keeps, x, 0.0)
        y = tf.cast(tf.transpose(y, (2, 0, 1)), run.dtype)  # [B, T, P]
        outputs.append(tf.pad(y, ((0, 0), (0, shape[1] - tf.shape(y)[1]), (0, 0))))
    return tuple(outputs), States(*(tf.transpose(x, (0, 2, 1)) for x in after))


def _cut(inputs, mask):
    """Both without the steps at the end that are padding in all rows."""
    steps = tf.range(1, tf.shape(mask)[1] + 1)
    longest = fast_ops.by_device(
        lambda: tf.reduce_max(tf.where(mask, steps, 1)), lambda: tf.shape(mask)[1]
    )
    return [x[:, :longest] for x in inputs], mask[:, :longest]


class _Direction(NamedTuple):
    """What one direction reads, and its weights, turned."""

    steps: Any  # [I, T, B]
    kernel: Any  # [4 D, I + P]
    bias: Any  # [4 D, 1] float32
    projection: Any = None  # [P, D]


def _turned(inputs, weights):
    """The direction of inputs [B, T, I].

    A sigmoid of x is (1 + tanh(x / 2)) / 2, and one tanh of all gates takes half the
    time of three sigmoids and a tanh. So those that are sigmoids are halved here.
    """
    dtype, units = inputs.dtype, weights.kernel.shape[-1] // 4
    halves = tf.repeat([0.5, 1.0, 0.5, 0.5], units)
    forget = tf.repeat([0.0, 0.0, _FORGET_BIAS, 0.0], units)
    turned = None
    if weights.projection is not None:
        turned = tf.cast(tf.transpose(weights.projection), dtype)
    return _Direction(
        tf.transpose(inputs, (2, 1, 0)),
        tf.cast(tf.transpose(weights.kernel * halves), dtype),
        ((weights.bias + forget) * halves)[:, None],
        turned,
    )


class _Step(NamedTuple):
    """What a step found and, for the gradient, what it began with; or all of them."""

    hidden: Any  # [P, B]
    cell: Any = None  # [D, B]
    hidden_before: Any = None
    cell_before: Any = None
    inner: Any = None  # [D, B], which is projected
    opened: Any = None  # [4 D, B], the tanh of halved gates


class _Run(NamedTuple):
    """What both directions share in one run of a layer."""

    width: int  # I
    dtype: Any  # of matrix products
    keeps: Any  # bool [T, 1, B], whether there is a token; or None: everywhere
    cell_clip: float
    projection_clip: float
    states: States  # [2, D, B] and [2, P, B]

    def plain(self, directions):
        """A pair of hidden states [T, P, B] float32, and the states that follow."""
        found, after = self._forward(directions, num_values=1)
        return [step.hidden.stack() for step in found], after

    def trained(self, directions):
        """The same with a gradient of its own."""

        @tf.custom_gradient
        def run(*tensors):
            half = len(tensors) // 2
            directions = _Direction(*tensors[:half]), _Direction(*tensors[half:])
            found, after = self._forward(directions, len(_Step._fields))

            def backward(*upstream):
                return self._backward(directions, found, upstream)

            return (*(step.hidden.stack() for step in found), *after), backward

        *hiddens, cell, hidden = run(
            *(x for d in directions for x in d if x is not None)
        )
        return hiddens, States(cell, hidden)

    def _forward(self, directions, num_values):
        """A pair of `_Step` of TensorArrays, the first values of each, and `States`."""
        num_rows = tf.shape(directions[0].steps)[2]
        is_joined = fast_ops.by_device(
            lambda: num_rows >= _MANY_ROWS, lambda: tf.constant(False)
        )
        arrays, ends = tf.cond(
            is_joined,
            lambda: self._steps(directions, map(self._joined, directions), num_values),
            lambda: self._steps(directions, map(self._apart, directions), num_values),
        )
        after = States(*map(tf.stack, zip(*ends, strict=True)))
        return [_Step(*values) for values in arrays], after

    def _steps(self, directions, gates, num_values):
        """What `_scan` returns, of functions of time and hidden state to [4 D, B]."""
        gates = list(gates)

        def step(k, time, cell_before, hidden_before):
            opened = tf.tanh(gates[k](time, hidden_before))
            i, j, f, o = tf.split(opened, 4)
            cell = 0.5 * ((f + 1.0) * cell_before + (i + 1.0) * j)
            cell = _clipped(cell, self.cell_clip)
            hidden = inner = 0.5 * (o + 1.0) * tf.tanh(cell)
            if directions[k].projection is not None:
                hidden = self._product(directions[k].projection, inner)
                hidden = _clipped(hidden, self.projection_clip)
            if self.keeps is not None:
                keep = self.keeps[time]
                cell = tf.where(keep, cell, cell_before)
                hidden = tf.where(keep, hidden, hidden_before)
            values = _Step(hidden, cell, hidden_before, cell_before, inner, opened)
            return (cell, hidden), values[:num_values]

        starts = tuple(zip(*map(tf.unstack, self.states), strict=True))
        length = tf.shape(directions[0].steps)[1]
        return _scan(step, length, starts, num_values)

    def _joined(self, direction):
        """Gates of input and hidden state in one product a step."""

        def gates(time, hidden):
            hidden = tf.cast(hidden, self.dtype)
            read = tf.concat([direction.steps[:, time], hidden], 0)
            return self._product(direction.kernel, read) + direction.bias

        return gates

    def _apart(self, direction):
        """The same where the inputs of all steps are one product before the loop."""
        steps = direction.steps
        rows = tf.reshape(steps, (self.width, -1))
        product = self._product(direction.kernel[:, : self.width], rows)
        shape = (-1, tf.shape(steps)[1], tf.shape(steps)[2])
        products = tf.reshape(product + direction.bias, shape)  # [4 D, T, B]
        recurrent = direction.kernel[:, self.width :]

        def gates(time, hidden):
            return products[:, time] + self._product(recurrent, hidden)

        return gates

    def _product(self, matrix, columns):
        return tf.cast(tf.matmul(matrix, tf.cast(columns, self.dtype)), tf.float32)

    def _backward(self, directions, found, upstream):
        """The gradients of all tensors of both directions."""
        *to_hiddens, to_last_cell, to_last_hidden = upstream
        recurrent = [tf.transpose(d.kernel[:, self.width :]) for d in directions]
        has_projection = directions[0].projection is not None
        projections = [tf.transpose(d.projection) for d in directions if has_projection]

        def step(k, time, to_cell, to_hidden):
            saved = _Step(*(array.read(time) for array in found[k]))
            to_hidden += to_hiddens[k][time]
            passed = 0.0, 0.0
            if self.keeps is not None:
                keep, both = self.keeps[time], (to_cell, to_hidden)
                passed = [tf.where(keep, 0.0, x) for x in both]
                to_cell, to_hidden = (tf.where(keep, x, 0.0) for x in both)
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
            to_gates = to_opened * (1.0 - saved.opened * saved.opened)
            to_before = self._product(recurrent[k], to_gates)
            state = to_cell * (f + 1.0) + passed[0], to_before + passed[1]
            return state, (to_gates, to_hidden)[: 1 + has_projection]

        ends = map(tf.unstack, (to_last_cell, to_last_hidden))
        starts, length = tuple(zip(*ends, strict=True)), tf.shape(to_hiddens[0])[0]
        arrays, _ = _scan(step, length, starts, 1 + has_projection, is_reversed=True)
        return [
            gradient
            for direction, step, values in zip(directions, found, arrays, strict=True)
            for gradient in self._to_tensors(direction, step, *map(_columns, values))
        ]

    def _to_tensors(self, direction, found, to_gates, to_hidden=None):
        """Gradients of one direction, of [4 D, T * B] and [P, T * B]."""
        rows, hidden = (
            tf.cast(x, self.dtype)
            for x in (direction.steps, _columns(found.hidden_before))
        )
        read = tf.concat([tf.reshape(rows, (self.width, -1)), hidden], 0)
        kernel = tf.transpose(direction.kernel[:, : self.width])
        to_steps = self._product(kernel, to_gates)
        gradients = [
            tf.cast(tf.reshape(to_steps, tf.shape(rows)), self.dtype),
            self._outer_sum(to_gates, read),
            tf.reduce_sum(to_gates, -1, keepdims=True),
        ]
        if to_hidden is not None:
            gradients.append(self._outer_sum(to_hidden, _columns(found.inner)))
        return gradients

    def _outer_sum(self, x, y):
        """The sum over all steps and rows of [M, T * B] by [N, T * B]: [M, N]."""
        x, y = tf.cast(x, self.dtype), tf.cast(y, self.dtype)
        return tf.matmul(x, y, transpose_b=True)


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


def _columns(array):
    """All steps of a TensorArray of [N, B] side by side: [N, T * B]."""
    steps = tf.transpose(array.stack(), (1, 0, 2))
    return tf.reshape(steps, (steps.shape[0], -1))


def _clipped(x, limit):
    return tf.clip_by_value(x, -limit, limit) if limit else x


def _unclipped(gradient, clipped, limit):
    """The gradient of `_clipped`, from that of its result."""
    return tf.where(tf.abs(clipped) < limit, gradient, 0.0) if limit else gradient
