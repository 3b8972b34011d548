"""One training step on the devices: forward, backward, gradients, update.

A batch is cut for replicas, and a replica's share into micro-batches, of which only one
is in memory at a time. Losses are shares of the whole batch, so that the gradients of
all parts just add up.

float16 needs a scaled loss (Micikevicius et al., 2018, section 3.2): small gradients
vanish in it, so the loss is multiplied by a scale before the backward pass and
gradients are divided by it. An overflow skips the step and halves the scale; many steps
without one double it.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from contract import errors, features
from modeling import losses
from training import batch_parts, gradients_tf, run_plan
from training.optimizers import clipped

FIRST_SCALE = 2.0**15
# Good steps in a row after which the scale is doubled.
GROWTH_STEPS = 2000
# The scale does not grow beyond, where it would end as infinity; Apex has the same.
LARGEST_SCALE = 2.0**24
# A scale below means that the numbers overflow whatever it is.
SMALLEST_SCALE = 1.0


class Scaling(NamedTuple):
    """float32 scale, a power of 2, and int32 finite steps since it last changed."""

    scale: tf.Tensor
    good_steps: tf.Tensor

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Scaling":
        """The Scaling in a checkpoint's state, or the first one."""
        return cls(
            tf.constant(state.get("loss_scale", FIRST_SCALE), tf.float32),
            tf.constant(state.get("good_steps", 0), tf.int32),
        )

    def to_state(self) -> dict[str, Any]:
        """The numbers that `from_state` reads, for a JSON file."""
        return {
            "loss_scale": float(self.scale),
            "good_steps": int(self.good_steps),
        }

    def update(self, is_finite: tf.Tensor) -> "Scaling":
        """The Scaling after a step whose gradients were finite, or were not."""
        good_steps = tf.where(is_finite, self.good_steps + 1, 0)
        grows = good_steps >= GROWTH_STEPS
        factor = tf.where(is_finite, tf.where(grows, 2.0, 1.0), 0.5)
        scale = tf.minimum(self.scale * factor, LARGEST_SCALE)
        return Scaling(scale, tf.where(grows, 0, good_steps))


# AutoGraph would spend long searching Keras for branches on tensors; there are none.
graph_function = functools.partial(tf.function, autograph=False)


@contextlib.contextmanager
def graphs_as_traced() -> Iterator[None]:
    """Within, Grappler rewrites no graph of a function that the process calls."""
    option = "disable_meta_optimizer"
    before = tf.config.optimizer.get_experimental_options().get(option, False)
    tf.config.optimizer.set_experimental_options({option: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({option: before})


class TrainStep:
    """The compiled function that does training steps.

    Args:
        plan: has the strategy, the seed of dropout, beside step, replica, micro-batch
            and place in the network, and `micro_batches`, equal parts of a replica's
            batch whose gradients are summed before the one update. With `scales_loss`,
            for float16, a step that overflows changes no weight.
        model: called as model(features, training=True, seed=...).
        optimizer: built on the trainable variables.
        objective: the loss is the sum over its parts of total / count.
        stop: float32 variable of this process, not 0 when asked to stop. If any process
            has it set, all end the call after the same step.
    """

    def __init__(
        self,
        plan: run_plan.Plan,
        model: Any,
        optimizer: clipped.ClippedOptimizer,
        objective: losses.Objective,
        *,
        stop: tf.Variable | None = None,
    ):
        self._model, self._optimizer = model, optimizer
        self._variables = [each.value for each in model.trainable_variables]
        self._objective, self._strategy = objective, plan.strategy
        self._replicas = plan.strategy.num_replicas_in_sync
        self._seed, self._micro_batches = plan.seed, plan.micro_batches
        self._scales_loss, self._stop = plan.scales_loss, stop
        jit_compile = plan.jit_compile
        is_alone = self._replicas == self._micro_batches == 1
        self._keeps_slices = optimizer.supports_sparse and is_alone and not jit_compile
        self._compiled_gradients = graph_function(
            self._gradients, jit_compile=True if jit_compile else None
        )
        self.compiled = graph_function(self._steps)
        self._rewrites_graphs = plan.rewrites_graphs

    def __call__(
        self,
        iterator: Any,
        rates: tf.Tensor,
        count: tf.Tensor,
        step: tf.Tensor,
        scaling: Scaling,
    ) -> tuple[dict[str, tf.Tensor], Scaling]:
        """Does `count` steps, fewer on `stop` or a result that is not finite.

        It is traced anew for each length of rates.

        Args:
            rates: float32 of the steps, at least `count`.
            count: int32 scalar.
            step: int64 scalar, the steps done before.

        Returns:
            Float32 scalars of these `steps`, and the next Scaling: means of loss, its
            parts and gradient_norm; metrics; sums of examples, tokens and `skipped`.
        """
        arguments = iterator, rates, count, step, scaling
        if self._rewrites_graphs:
            return self.compiled(*arguments)
        with graphs_as_traced():
            return self.compiled(*arguments)

    def _steps(self, iterator, rates, count, step, scaling):
        """The loop of a call, whose sums are one vector while it runs.

        Which values a step sums is known once it is traced, and the loop wants a start
        before.
        """
        structures: list[Any] = []  # of the sums

        def add_step(done, _, sums, scaling):
            number = step + tf.cast(done, tf.int64)
            stop = tf.constant(0.0) if self._stop is None else self._stop.read_value()
            results = self._strategy.run(
                self._replica_step,
                args=(next(iterator), rates[done], number, scaling.scale, stop),
            )
            results = first_replica(self._strategy, results)
            if self._scales_loss:
                scaling = scaling.update(is_finite=results["skipped"] == 0.0)
            structures.append(results)
            sums += tf.stack(tf.nest.flatten(results))
            return done + 1, _goes_on(results), sums, scaling

        scalar, vector = tf.TensorShape([]), tf.TensorShape([None])
        done, _, sums, scaling = tf.while_loop(
            lambda done, goes_on, *_: tf.logical_and(done < count, goes_on),
            add_step,
            (0, True, tf.zeros([1]), scaling),
            (scalar, scalar, vector, Scaling(scalar, scalar)),
            parallel_iterations=1,
        )
        sums = tf.unstack(sums, len(tf.nest.flatten(structures[0])))
        sums = tf.nest.pack_sequence_as(structures[0], sums)
        return _summarize(sums, tf.cast(done, tf.float32)), scaling

    def _replica_step(self, batch, rate, step, scale, stop):
        """One step of one replica; sums over all of them of what a call returns."""
        context = tf.distribute.get_replica_context()
        # The count of the whole batch, so that gradients of replicas just add up.
        counts = sum_over_replicas(self._objective.counts(batch))
        replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
        first_seed = (self._seed * self._replicas + replica) * self._micro_batches
        scale = scale if self._scales_loss else None
        results = self._replica_gradients(batch, counts, first_seed, step, scale)
        gradients = gradients_tf.sum_over_replicas(results["gradients"])
        if self._scales_loss:
            share = 1.0 / scale  # exact, for a power of 2
            gradients = [gradients_tf.multiply(value, share) for value in gradients]
        norm = self._optimizer.apply_reduced(
            gradients, rate, step, only_finite=self._scales_loss
        )
        parts = results["losses"]
        means = {"loss": tf.add_n(list(parts.values())), **parts}
        means["gradient_norm"] = norm / self._replicas
        skipped = tf.constant(0.0)
        if self._scales_loss:
            is_applied = tf.math.is_finite(norm)
            means = {name: tf.where(is_applied, v, 0.0) for name, v in means.items()}
            skipped = tf.where(is_applied, 0.0, 1.0)
        mask = batch[features.INPUT_MASK]
        sums = sum_over_replicas(
            {
                "means": means,
                "metrics": results["metrics"],
                "sums": {
                    "examples": tf.cast(tf.shape(mask)[0], tf.float32),
                    "tokens": tf.cast(tf.reduce_sum(mask), tf.float32),
                },
                "skipped": skipped,
                "stop": stop,
            }
        )
        # A sum of 12 twelfths is not 1.
        return {**sums, "skipped": sums["skipped"] / self._replicas}

    def _replica_gradients(self, batch, counts, first_seed, step, scale):
        """`_gradients` of a replica's batch, summed over its micro-batches."""
        seeds = first_seed, step
        part = functools.partial(self._part, counts=counts, seeds=seeds, scale=scale)
        if self._micro_batches == 1:
            return part(0, batch)
        return sum_of_parts(part, batch, self._micro_batches)

    def _part(self, number, batch, *, counts, seeds, scale):
        """`_gradients` of the micro-batch of this number."""
        first_seed, step = seeds
        dropout_seed = tf.stack([first_seed + number, step])
        return self._compiled_gradients(batch, counts, dropout_seed, scale)

    def _gradients(self, batch, counts, dropout_seed, scale):
        """Losses, metrics and gradients of loss * scale; a scale of None is 1.

        Counts are those of the whole batch. A variable that the objective does not
        reach has the gradient None.
        """
        with tf.GradientTape() as tape:
            outputs = self._model(batch, training=True, seed=dropout_seed)
            parts, loss = self._loss(batch, outputs, counts, scale)
        gradients = tape.gradient(loss, self._variables)
        if not self._keeps_slices:
            gradients = [self._optimizer.prepare_for_sum(each) for each in gradients]
        return {
            "losses": parts,
            "gradients": gradients,
            **self._measures(batch, outputs),
        }

    def _loss(self, batch, outputs, counts, scale):
        """{part: loss}, and the sum of the parts * scale, which is 1 where None."""
        totals = self._objective.totals(batch, outputs)
        parts = {name: totals[name] / counts[name] for name in totals}
        loss = tf.add_n(list(parts.values()))
        return parts, loss if scale is None else loss * scale

    def _measures(self, batch, outputs):
        """Values beside losses and gradients, which are summed over parts."""
        return {"metrics": self._objective.metrics(batch, outputs)}


def _goes_on(sums):
    means = sums["means"]
    is_finite = tf.math.is_finite(means["loss"] + means["gradient_norm"])
    return tf.logical_and(is_finite, sums["stop"] == 0.0)


def _summarize(sums, done):
    counted = tf.maximum(done - sums["skipped"], 1.0)
    return {
        **{name: value / counted for name, value in sums["means"].items()},
        **{
            name: tf.math.divide_no_nan(total, number)
            for name, (total, number) in sums["metrics"].items()
        },
        **sums["sums"],
        "skipped": sums["skipped"],
        "stop": sums["stop"],
        "steps": done,
    }


def sum_over_replicas(structure: Any) -> Any:
    """Sums scalars over all replicas in one exchange; all of them must call it."""
    vector = tf.stack(tf.nest.flatten(structure))
    context = tf.distribute.get_replica_context()
    vector = context.all_reduce(tf.distribute.ReduceOp.SUM, vector)
    return tf.nest.pack_sequence_as(structure, tf.unstack(vector))


def first_replica(strategy: tf.distribute.Strategy, results: Any) -> Any:
    """The results of this process's first replica."""
    local = strategy.experimental_local_results
    return tf.nest.map_structure(lambda value: local(value)[0], results)


def check_batch_size(batch_size: int, micro_batches: int, replicas: int) -> None:
    """Raises InputError unless the batch divides by replicas and micro-batches."""
    if batch_size % (micro_batches * replicas):
        raise errors.InputError(
            f"--train_batch_size={batch_size} cannot be cut into "
            f"--gradient_accumulation_steps={micro_batches} parts on {replicas} "
            f"replicas; choose a multiple of {micro_batches * replicas}"
        )


def sum_of_parts(
    function: Callable[[tf.Tensor, dict[str, tf.Tensor]], Any],
    batch: Mapping[str, tf.Tensor],
    count: int,
) -> Any:
    """The sum of a function over `count` equal parts of a batch, 2 or more, one by one.

    The function maps the number of the part, int64, and its features to a structure of
    tensors or None; the batch has tensors [B, ...], B a multiple of `count`.
    """
    parts = {
        name: batch_parts.split_parts(value, count) for name, value in batch.items()
    }

    def part(number):
        micro_batch = {name: tf.gather(value, number) for name, value in parts.items()}
        return function(tf.cast(number, tf.int64), micro_batch)

    structure = part(tf.constant(0))
    first = [leaf for leaf in tf.nest.flatten(structure) if leaf is not None]
    # Nothing else orders the parts, and all at once they would need all the memory.
    with tf.control_dependencies(first):
        second = tf.constant(1)

    def body(number, sums):
        more = [leaf for leaf in tf.nest.flatten(part(number)) if leaf is not None]
        return number + 1, [a + b for a, b in zip(sums, more, strict=True)]

    _, sums = tf.while_loop(
        lambda number, _: number < count, body, (second, first), parallel_iterations=1
    )
    leaves = iter(sums)
    return tf.nest.map_structure(
        lambda leaf: None if leaf is None else next(leaves), structure
    )
