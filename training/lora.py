"""LoRA (Hu et al., 2021, arXiv:2106.09685): kernels that move in few dimensions.

A kernel is W + s A B, with W [D, F] as it was loaded, A [D, r], B [r, F] and s = alpha
/ r. Layers read the sum, so that those of every network stay as they are, and so do
evaluations, exports and what reads checkpoints. The optimizer moves A and B in its
place, by the chain rule from the gradient G of the sum:

    dA = s G B^T,  dB = s A^T G

Heads are trained whole, and all else stays.
"""

import contextlib
import dataclasses
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from contract import file_names
from modeling.checkpoints import adapters, names
from training import gradients_tf
from training.optimizers import clipped

_A, _B, _BASE = "lora_A", "lora_B", "lora_base"  # names in checkpoints


@dataclasses.dataclass(frozen=True)
class Lora:
    """What is trained of a network.

    Attributes:
        targets: as in adapters.find_targets.
        base: where the network comes from, for PEFT.
    """

    rank: int
    alpha: float
    targets: Sequence[str]
    base: str

    @contextlib.contextmanager
    def freezing(self, model: Any) -> Iterator[None]:
        """Within it a built model has the kernels of the targets and heads to train."""
        targets = adapters.find_targets(model.config, self.targets)
        frozen = [
            variable
            for variable in model.trainable_variables
            for path in [names.relative_path(variable)]
            if path not in targets and not model.config.spec.is_head(path)
        ]
        for variable in frozen:
            variable.trainable = False
        try:
            yield
        finally:
            for variable in frozen:
                variable.trainable = True

    def describe(self, model: Any) -> str:
        """The numbers of weights that are trained and that there are, in words."""
        rows = adapters.find_targets(model.config, self.targets)
        ends = sorted({adapters.module(row).split(".")[-1] for row in rows.values()})
        count = sum(
            self.rank * sum(variable.shape[-2:])
            if names.relative_path(variable) in rows
            else math.prod(variable.shape)
            for variable in model.trainable_variables
        )
        return (
            f"LoRA of rank {self.rank} in {', '.join(ends)}: trains {count:,} of "
            f"{model.count_params():,} weights, heads included"
        )

    def write(self, directory: str, model: Any, step: int) -> None:
        """Writes PEFT's two files for the checkpoint of a step, which the model has."""
        prefix = os.path.join(directory, f"{file_names.CHECKPOINT_PREFIX}-{step}")
        reader, pairs = tf.train.load_checkpoint(prefix), {}
        for row in adapters.find_targets(model.config, self.targets).values():
            if reader.has_tensor(f"{row.google}/{_A}"):  # a model may lack a pooler
                keys = (f"{row.google}/{name}" for name in (_A, _B))
                pairs[row.path] = tuple(map(reader.get_tensor, keys))
        adapters.write(directory, model, pairs, self)


class LowRank(clipped.ClippedOptimizer):
    """Moves A and B of kernels by another optimizer, and all else that is trained.

    Args:
        inner: the optimizer, not yet built.
        config: of the network.
        seed: of the first values of A.
    """

    def __init__(
        self, inner: clipped.ClippedOptimizer, lora: Lora, config: Any, seed: int
    ):
        super().__init__(0.0, clip_norm=inner.max_norm, name="low_rank")
        self._inner, self._lora, self._seed = inner, lora, seed
        self._targets = adapters.find_targets(config, lora.targets)
        self._scale = lora.alpha / lora.rank
        self._rows = lambda: []

    def build(self, variables):
        """Makes A and B, a copy of each kernel, W, and slots for what is moved.

        Its rows are (kernel, A, B, W), or one variable that is moved itself.
        """
        if not self.named_slots():
            rows = [self._make(variable) for variable in variables]
            # No list, which Keras would take for variables of the optimizer.
            self._rows = lambda: rows
            moved = [each for row in rows for each in _moved(row)]
            self._inner.check(moved)
            self._inner.build(moved)

    def _make(self, kernel):
        """The row of a kernel; what is no target is a row of its own."""
        path = names.relative_path(kernel)
        if path not in self._targets:
            return (kernel,)
        (width, units), rank = kernel.shape[-2:], self._lora.rank
        bound = 1.0 / math.sqrt(width)  # He's uniform one with a = sqrt(5), as in PEFT
        draw = keras.initializers.RandomUniform(
            -bound, bound, seed=zlib.crc32(f"{self._seed}/{path}".encode())
        )
        with contextlib.ExitStack() as scopes:
            for part in kernel.path.split("/"):
                scopes.enter_context(keras.name_scope(part))
            down = keras.Variable(draw, (width, rank), name=_A)
            up = keras.Variable("zeros", (rank, units), name=_B)
            base = keras.Variable("zeros", kernel.shape, name=_BASE)
        base.assign(kernel)
        return kernel, down, up, base

    def named_slots(self):
        """A, B, W and the slots of both beside a kernel; others beside theirs."""
        slots = {id(each): own for each, own in self._inner.named_slots()}
        rows = []
        for kernel, *parts in self._rows():
            own = dict(slots.get(id(kernel), {}))
            for part, name in zip(parts, (_A, _B, _BASE), strict=False):
                more = slots.get(id(part), {})
                own |= {name: part, **{f"{name}/{k}": v for k, v in more.items()}}
            rows.append((kernel, own))
        return rows

    def evaluation_weights(self):
        """None: of averages of A and B there would be no adapter."""
        assert not self._inner.evaluation_weights()
        return []

    def apply_reduced(self, gradients, learning_rate, step, *, only_finite=False):
        """As that of the inner optimizer, for A and B; then adds these to W."""
        rows, moved = self._rows(), []
        for row, gradient in zip(rows, gradients, strict=True):
            moved += self._gradients(row, gradient)
        norm = self._inner.apply_reduced(
            moved, learning_rate, step, only_finite=only_finite
        )
        kernels = [row for row in rows if len(row) > 1]
        go = [tf.constant(0.0)] * len(kernels)  # a gradient of None would leave them
        gradients_tf.update_all(self._update, kernels, go, [()] * len(kernels))
        return norm

    def _gradients(self, row, gradient):
        """The gradients of what is moved of a row, from that of its kernel."""
        if len(row) == 1 or gradient is None:
            return [gradient] * len(_moved(row))
        down, up = (gradients_tf.read(each.value) for each in row[1:3])
        gradient = tf.reshape(gradient, (down.shape[0], up.shape[1]))
        return [
            tf.matmul(gradient, self._scale * up, transpose_b=True),
            tf.matmul(self._scale * down, gradient, transpose_a=True),
        ]

    def _update(self, path, variable, slots, gradient, numbers):
        variable.assign(self._merge(*map(gradients_tf.read, slots)))

    def _merge(self, down, up, base):
        """W + s A B, in the shape of W."""
        return base + tf.reshape(self._scale * tf.matmul(down, up), base.shape)


def _moved(row):
    """The variables of a row that an optimizer moves."""
    return row[1:3] if len(row) > 1 else row
