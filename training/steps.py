"""What runs on the devices: training steps, or one batch of predictions."""

import functools
from typing import Any

import tensorflow as tf

from training.distribution import carried_states
from training.optimization import accumulation, loss_scale
from training.optimization import gradients as gradients_lib

SUM = tf.distribute.ReduceOp.SUM
# AutoGraph would spend long searching Keras for branches on tensors; there are none.
_graph = functools.partial(tf.function, autograph=False)
NOTHING = carried_states.CarriedStates()


def train_function(
    model,
    optimizer,
    objective,
    strategy,
    *,
    seed,
    jit_compile,
    micro_batches=1,
    scales_loss=False,
    stop=None,
    carried=NOTHING,
):
    """Builds the compiled function that does training steps.

    Args:
        model: called as model(features, training=True, seed=...).
        optimizer: a clipping.ClippedOptimizer built on the trainable variables.
        objective: has counts(features) and totals(features, outputs), both dicts of
            float32 scalars by part; the loss is the sum of total / count. Its
            metrics(features, outputs) are pairs of total and count by name.
        seed: of dropout, with step, replica, micro-batch and place in the network.
        micro_batches: equal parts of a replica's batch whose gradients are summed
            before the one update; only one of them is in memory at a time.
        scales_loss: for float16; a step that overflows changes no weight.
        stop: float32 variable of this process, not 0 when asked to stop. If any process
            has it set, all end the call after the same step.

    Returns:
        A tf.function (iterator, rates [at least n] float32, n int32, step int64,
            scaling a loss_scale.Scaling) -> (dict of float32 scalars, the next
            Scaling). It does n `steps`, fewer on `stop` or a result that is not finite,
            and returns over these: means of loss, its parts and gradient_norm; metrics;
            sums of examples, tokens and `skipped` steps. It is traced anew for each
            length of rates.
    """
    replica_step = _replica_step(
        optimizer,
        objective,
        strategy.num_replicas_in_sync,
        seed,
        _forward_backward(
            model,
            objective,
            carried,
            _summable(
                optimizer,
                is_alone=strategy.num_replicas_in_sync == micro_batches == 1,
                is_compiled=jit_compile,
            ),
            jit_compile,
        ),
        micro_batches,
        scales_loss,
        carried,
    )

    return _steps(_one_step(strategy, replica_step, scales_loss, stop))


def _steps(one_step):
    """The loop of `train_function`, whose sums are one vector while it runs.

    What a step sums is known once it is traced, and the loop wants a start before.
    """

    @_graph
    def steps(iterator, rates, count, step, scaling):
        structures: list[Any] = []  # of the sums

        def add_step(done, _, sums, scaling):
            number = step + tf.cast(done, tf.int64)
            more, scaling = one_step(iterator, rates[done], number, scaling)
            structures.append(more)
            sums += tf.stack(tf.nest.flatten(more))
            return done + 1, _goes_on(more), sums, scaling

        scalar, vector = tf.TensorShape([]), tf.TensorShape([None])
        done, _, sums, scaling = tf.while_loop(
            lambda done, goes_on, *_: tf.logical_and(done < count, goes_on),
            add_step,
            (0, True, tf.zeros([1]), scaling),
            (scalar, scalar, vector, loss_scale.Scaling(scalar, scalar)),
            parallel_iterations=1,
        )
        sums = tf.unstack(sums, len(tf.nest.flatten(structures[0])))
        sums = tf.nest.pack_sequence_as(structures[0], sums)
        return _results(sums, tf.cast(done, tf.float32)), scaling

    return steps


def _one_step(strategy, replica_step, scales_loss, stop):
    """One step on all replicas: iterator, rate, step, Scaling -> sums, Scaling."""

    def one_step(iterator, rate, step, scaling):
        stop_requested = tf.constant(0.0) if stop is None else stop.read_value()
        results = strategy.run(
            replica_step,
            args=(next(iterator), rate, step, scaling.scale, stop_requested),
        )
        sums = _of_first_replica(strategy, results)
        if scales_loss:
            scaling = loss_scale.updated(scaling, is_finite=sums["skipped"] == 0.0)
        return sums, scaling

    return one_step


def _of_first_replica(strategy, results):
    local = strategy.experimental_local_results
    return tf.nest.map_structure(lambda value: local(value)[0], results)


def _goes_on(sums):
    is_finite = tf.math.is_finite(
        sums["means"]["loss"] + sums["means"]["gradient_norm"]
    )
    return tf.logical_and(is_finite, sums["stop"] == 0.0)


def _results(sums, done):
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


def _sum_of_replicas(structure):
    """Sums scalars over all replicas in one exchange; all of them must call it."""
    vector = tf.stack(tf.nest.flatten(structure))
    vector = tf.distribute.get_replica_context().all_reduce(SUM, vector)
    return tf.nest.pack_sequence_as(structure, tf.unstack(vector))


def _summable(optimizer, *, is_alone, is_compiled):
    """How a gradient leaves the graph; slices, where nothing needs fixed shapes."""
    if optimizer.takes_rows and is_alone and not is_compiled:
        return lambda gradient: gradient
    return optimizer.summable


def _forward_backward(model, objective, carried, summable, jit_compile):
    """Features, counts, dropout seed, scale -> losses, metrics, gradients, states.

    Counts are those of the whole batch, so losses are shares of its and add up, as do
    gradients, those of loss * scale. A variable that the objective does not reach has
    the gradient None.
    """
    variables = [variable.value for variable in model.trainable_variables]

    @functools.partial(_graph, jit_compile=True if jit_compile else None)
    def forward_backward(features, counts, dropout_seed, scale):
        with tf.GradientTape() as tape:
            outputs = model(features, training=True, seed=dropout_seed)
            totals = objective.totals(features, outputs)
            losses = {name: totals[name] / counts[name] for name in totals}
            loss = tf.add_n(list(losses.values()))
            scaled = loss if scale is None else loss * scale
        metrics = objective.metrics(features, outputs)
        found = tape.gradient(scaled, variables)
        found = [summable(value) for value in found]
        return losses, metrics, found, carried.chosen(outputs)

    return forward_backward


def _in_parts(forward_backward, micro_batches):
    """`forward_backward` of a replica's batch, from the seed of its first part."""

    def gradients_of(features, counts, first_seed, step, scale):
        def part(number, micro_batch):
            dropout_seed = tf.stack([first_seed + number, step])
            *found, states = forward_backward(micro_batch, counts, dropout_seed, scale)
            states = {
                name: accumulation.placed(rows, number, micro_batches)
                for name, rows in states.items()
            }
            return *found, states

        if micro_batches == 1:
            return part(0, features)
        return accumulation.sum_of_parts(part, features, micro_batches)

    return gradients_of


def _replica_step(
    optimizer,
    objective,
    replicas,
    seed,
    forward_backward,
    micro_batches,
    scales_loss,
    carried,
):
    """One step on one replica: features, rate, step, scale, stop -> sums."""
    gradients_of = _in_parts(forward_backward, micro_batches)

    def replica_step(features, rate, step, scale, stop):
        context = tf.distribute.get_replica_context()
        # The count of the whole batch, so that gradients of replicas just add up.
        counts = _sum_of_replicas(objective.counts(features))
        replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
        first_seed = (seed * replicas + replica) * micro_batches
        losses, metrics, gradients, states = gradients_of(
            *(features | carried.rows(), counts, first_seed, step),
            scale if scales_loss else None,
        )
        carried.update(states)
        gradients = gradients_lib.sum_of_replicas(gradients)
        if scales_loss:
            gradients = [gradients_lib.divided(value, scale) for value in gradients]
        norm = optimizer.apply_reduced(gradients, rate, step, only_finite=scales_loss)
        means = {"loss": tf.add_n(list(losses.values())), **losses}
        means["gradient_norm"] = norm / replicas
        skipped = tf.constant(0.0)
        if scales_loss:
            is_applied = tf.math.is_finite(norm)
            means = {name: tf.where(is_applied, v, 0.0) for name, v in means.items()}
            skipped = tf.where(is_applied, 0.0, 1.0)
        mask = features["input_mask"]
        sums = _sum_of_replicas(
            {
                "means": means,
                "metrics": metrics,
                "sums": {
                    "examples": tf.cast(tf.shape(mask)[0], tf.float32),
                    "tokens": tf.cast(tf.reduce_sum(mask), tf.float32),
                },
                "skipped": skipped,
                "stop": stop,
            }
        )
        # A sum of 12 twelfths is not 1.
        return {**sums, "skipped": sums["skipped"] / replicas}

    return replica_step


def evaluate_function(model, objective, strategy, *, jit_compile, carried=NOTHING):
    """Builds the compiled function that scores one batch, without dropout.

    Features [B, ...] -> {"totals": {part: ...}, "counts": {part: ...}, "metrics":
    {name: (total, count)}}, float32 sums over the whole batch, so no logits leave the
    devices.
    """

    @functools.partial(_graph, jit_compile=True if jit_compile else None)
    def forward(features):
        outputs = model(features, training=False)
        return {
            "totals": objective.totals(features, outputs),
            "counts": objective.counts(features),
            "metrics": objective.metrics(features, outputs),
        }, carried.chosen(outputs)

    def replica_evaluate(features):
        found, states = forward(features | carried.rows())
        carried.update(states)
        return _sum_of_replicas(found)

    @functools.partial(_graph, reduce_retracing=True)
    def evaluate(features):
        results = strategy.run(replica_evaluate, args=(features,))
        return _of_first_replica(strategy, results)

    return evaluate


def predict_function(model, strategy, *, jit_compile):
    """Builds the compiled function from features [B, ...] to this process's outputs."""

    @functools.partial(_graph, jit_compile=True if jit_compile else None)
    def forward(features):
        return model(features, training=False)

    def replica_predict(features):
        # A function for each replica; `run` would share one, and its variables.
        return forward(features)

    def predict(features):
        outputs = strategy.run(replica_predict, args=(features,))
        # No exchange between devices, whose shapes must not change from call to call.
        return {
            name: tf.concat(strategy.experimental_local_results(value), axis=0)
            for name, value in outputs.items()
        }

    if jit_compile or strategy.num_replicas_in_sync > 1:
        return _graph(predict, reduce_retracing=True)
    traced = {}

    def predict_any_shape(features):
        # One trace for all shapes: retracing would make one of the first shape, too.
        names, rank = tuple(features), features["input_mask"].ndim
        any_size = [None] * rank
        if names not in traced:
            specs = {  # what each token has, such as its layer states, has one size
                name: tf.TensorSpec([*any_size, *v.shape[rank:]][: v.ndim], v.dtype)
                for name, v in features.items()
            }
            traced[names] = _graph(predict, input_signature=[specs])
        return traced[names](features)

    return predict_any_shape
