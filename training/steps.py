"""What runs on the devices: some training steps, or one batch of predictions."""

import tensorflow as tf

SUM = tf.distribute.ReduceOp.SUM


def train_function(model, optimizer, objective, strategy, *, seed, jit_compile):
    """Builds the compiled function that does training steps.

    Args:
        model: called as model(features, training=True, seed=...).
        optimizer: a training.optimizer.BertAdam built on the trainable variables.
        objective: has counts(features) and totals(features, outputs), both dicts of
            float32 scalars by part; the loss is the sum of total / count.
        strategy: the tf.distribute.Strategy under whose scope the model was made.
        seed: of dropout; with the step, the replica and the place in the network it
            decides each mask.
        jit_compile: compile the forward and backward pass with XLA.

    Returns:
        A tf.function (iterator, rates [at least n] float32, n int32, step int64) ->
        dict of float32 scalars: over these n steps the means of loss, of its parts and
        of gradient_norm, and the sums of examples and tokens. It is traced anew where
        rates has another length, so fill it up.
    """
    replica_step = _replica_step(
        model, optimizer, objective, strategy.num_replicas_in_sync, seed, jit_compile
    )

    def one_step(iterator, rate, step):
        results = strategy.run(replica_step, args=(next(iterator), rate, step))
        return {
            name: strategy.reduce(SUM, value, axis=None)
            for name, value in results.items()
        }

    @tf.function
    def steps(iterator, rates, count, step):
        sums = one_step(iterator, rates[0], step)
        for i in tf.range(1, count):
            more = one_step(iterator, rates[i], step + tf.cast(i, tf.int64))
            sums = {name: sums[name] + more[name] for name in sums}
        divisor = tf.cast(count, tf.float32)
        return {
            name: value if name in ("examples", "tokens") else value / divisor
            for name, value in sums.items()
        }

    return steps


def _replica_step(model, optimizer, objective, replicas, seed, jit_compile):
    """One step as one replica does it: features, rate, step -> its share of results."""
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function(jit_compile=True if jit_compile else None)
    def forward_backward(features, counts, dropout_seed):
        with tf.GradientTape() as tape:
            outputs = model(features, training=True, seed=dropout_seed)
            totals = objective.totals(features, outputs)
            losses = {name: totals[name] / counts[name] for name in totals}
            loss = tf.add_n(list(losses.values()))
        return losses, tape.gradient(loss, variables)

    def replica_step(features, rate, step):
        context = tf.distribute.get_replica_context()
        # The count of the whole batch, so that gradients of replicas just add up.
        counts = context.all_reduce(SUM, objective.counts(features))
        replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
        dropout_seed = tf.stack([seed * replicas + replica, step])
        losses, gradients = forward_backward(features, counts, dropout_seed)
        gradients = context.all_reduce(SUM, gradients)
        norm = optimizer.apply_reduced(gradients, rate, step)
        mask = features["input_mask"]
        return {
            "loss": tf.add_n(list(losses.values())),
            **losses,
            "gradient_norm": norm / replicas,
            "examples": tf.cast(tf.shape(mask)[0], tf.float32),
            "tokens": tf.cast(tf.reduce_sum(mask), tf.float32),
        }

    return replica_step


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
