"""What runs on the devices: some training steps, or one batch of predictions."""

import tensorflow as tf

from training import accumulation

SUM = tf.distribute.ReduceOp.SUM


def train_function(
    model, optimizer, objective, strategy, *, seed, jit_compile, micro_batches=1
):
    """Builds the compiled function that does training steps.

    Args:
        model: called as model(features, training=True, seed=...).
        optimizer: a training.optimizer.BertAdam built on the trainable variables.
        objective: has counts(features) and totals(features, outputs), both dicts of
            float32 scalars by part; the loss is the sum of total / count. Its
            metrics(features, outputs) are pairs of total and count by name.
        strategy: the tf.distribute.Strategy under whose scope the model was made.
        seed: of dropout; with the step, the replica, the micro-batch and the place in
            the network it decides each mask.
        jit_compile: compile the forward and backward pass with XLA.
        micro_batches: equal parts of a replica's batch whose gradients are summed
            before the one update; only one of them is in memory at a time.

    Returns:
        A tf.function (iterator, rates [at least n] float32, n int32, step int64) ->
        dict of float32 scalars: over these n steps the means of loss, of its parts and
        of gradient_norm, the metrics, and the sums of examples and tokens. It is
        traced anew where rates has another length, so fill it up.
    """
    replica_step = _replica_step(
        model,
        optimizer,
        objective,
        strategy.num_replicas_in_sync,
        seed,
        _forward_backward(model, objective, jit_compile),
        micro_batches,
    )

    def one_step(iterator, rate, step):
        results = strategy.run(replica_step, args=(next(iterator), rate, step))
        return _sum_of_replicas(strategy, results)

    @tf.function
    def steps(iterator, rates, count, step):
        sums = one_step(iterator, rates[0], step)
        for i in tf.range(1, count):
            more = one_step(iterator, rates[i], step + tf.cast(i, tf.int64))
            sums = tf.nest.map_structure(tf.add, sums, more)
        divisor = tf.cast(count, tf.float32)
        return {
            **{name: value / divisor for name, value in sums["means"].items()},
            **{
                name: tf.math.divide_no_nan(total, number)
                for name, (total, number) in sums["metrics"].items()
            },
            **sums["sums"],
        }

    return steps


def _sum_of_replicas(strategy, results):
    return tf.nest.map_structure(
        lambda value: strategy.reduce(SUM, value, axis=None), results
    )


def _forward_backward(model, objective, jit_compile):
    """Features, counts of the whole batch, dropout seed -> losses, metrics, gradients.

    Losses are parts of the whole batch's, so they add up like gradients. A variable
    that the objective does not reach has the gradient None.
    """
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function(jit_compile=True if jit_compile else None)
    def forward_backward(features, counts, dropout_seed):
        with tf.GradientTape() as tape:
            outputs = model(features, training=True, seed=dropout_seed)
            totals = objective.totals(features, outputs)
            losses = {name: totals[name] / counts[name] for name in totals}
            loss = tf.add_n(list(losses.values()))
        metrics = objective.metrics(features, outputs)
        return losses, metrics, tape.gradient(loss, variables)

    return forward_backward


def _replica_step(
    model, optimizer, objective, replicas, seed, forward_backward, micro_batches
):
    """One step as one replica does it: features, rate, step -> its share of results."""

    def replica_step(features, rate, step):
        context = tf.distribute.get_replica_context()
        # The count of the whole batch, so that gradients of replicas just add up.
        counts = context.all_reduce(SUM, objective.counts(features))
        replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
        first_seed = (seed * replicas + replica) * micro_batches

        def part(number, micro_batch):
            dropout_seed = tf.stack([first_seed + number, step])
            return forward_backward(micro_batch, counts, dropout_seed)

        if micro_batches == 1:
            losses, metrics, gradients = part(0, features)
        else:
            losses, metrics, gradients = accumulation.sum_of_parts(
                part, features, micro_batches
            )
        # As optimization.py: what has no gradient is left alone, undecayed.
        reached = [i for i, value in enumerate(gradients) if value is not None]
        reduced = context.all_reduce(SUM, [gradients[i] for i in reached])
        for i, value in zip(reached, reduced, strict=True):
            gradients[i] = value
        norm = optimizer.apply_reduced(gradients, rate, step)
        mask = features["input_mask"]
        loss = tf.add_n(list(losses.values()))
        return {
            "means": {"loss": loss, **losses, "gradient_norm": norm / replicas},
            "metrics": metrics,
            "sums": {
                "examples": tf.cast(tf.shape(mask)[0], tf.float32),
                "tokens": tf.cast(tf.reduce_sum(mask), tf.float32),
            },
        }

    return replica_step


def evaluate_function(model, objective, strategy, *, jit_compile):
    """Builds the compiled function that scores one batch, without dropout.

    Outputs stay on the devices: of [B, P, V] logits nothing but sums comes back.

    Returns:
        A tf.function: features [B, ...] -> {"totals": {part: ...}, "counts": {part:
        ...}, "metrics": {name: (total, count)}}, float32 scalars of the whole batch.
    """

    @tf.function(jit_compile=True if jit_compile else None)
    def forward(features):
        outputs = model(features, training=False)
        return {
            "totals": objective.totals(features, outputs),
            "counts": objective.counts(features),
            "metrics": objective.metrics(features, outputs),
        }

    @tf.function(reduce_retracing=True)
    def evaluate(features):
        return _sum_of_replicas(strategy, strategy.run(forward, args=(features,)))

    return evaluate


def predict_function(model, strategy, *, jit_compile):
    """Builds the compiled function that runs the model on one batch, without dropout.

    Returns:
        A tf.function: features [B, ...] -> the model's dict of outputs, whole batch.
    """

    @tf.function(jit_compile=True if jit_compile else None)
    def forward(features):
        return model(features, training=False)

    @tf.function(reduce_retracing=True)
    def predict(features):
        outputs = strategy.run(forward, args=(features,))
        return {name: strategy.gather(value, axis=0) for name, value in outputs.items()}

    return predict
