"""Steps of losses that compare all rows of a batch, in the memory of a micro-batch.

Gao et al., 2021: all vectors are computed first, without what gradients need; then the
loss and its gradients by vector; then each micro-batch once more, with its share of
these. Dropout follows from seed and step, so both passes drop the same entries, and
gradients are those of the whole batch.
"""

import tensorflow as tf

from training import train_step


class CachedTrainStep(train_step.TrainStep):
    """A TrainStep for a model of {"vectors": [B, ...]}, whose objective reads these."""

    def _replica_gradients(self, batch, counts, first_seed, step, scale):
        count = self._micro_batches
        if count == 1:
            return super()._replica_gradients(batch, counts, first_seed, step, scale)
        parts = {
            name: train_step.split_parts(value, count) for name, value in batch.items()
        }

        def encode(number, micro_batch):
            seed = tf.stack([first_seed + tf.cast(number, tf.int64), step])
            return self._model(micro_batch, training=True, seed=seed)["vectors"]

        vectors = tf.map_fn(
            lambda number: encode(number, _take(parts, number)),
            tf.range(count),
            fn_output_signature=tf.float32,
            parallel_iterations=1,
        )  # [micro-batches, b, ...]
        vectors = tf.reshape(vectors, tf.concat([[-1], tf.shape(vectors)[2:]], axis=0))
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            outputs = {"vectors": vectors}
            totals = self._objective.totals(batch, outputs)
            losses = {name: totals[name] / counts[name] for name in totals}
            loss = tf.add_n(list(losses.values()))
            scaled = loss if scale is None else loss * scale
        upstream = train_step.split_parts(tape.gradient(scaled, vectors), count)

        def gradients(number, micro_batch):
            with tf.GradientTape() as tape:
                values = encode(number, micro_batch)
            by_variable = tape.gradient(
                values, self._variables, output_gradients=upstream[number]
            )
            return [self._optimizer.prepare_for_sum(each) for each in by_variable]

        return {
            "losses": losses,
            "gradients": train_step.sum_of_parts(gradients, batch, count),
            "metrics": self._objective.metrics(batch, outputs),
        }


def _take(parts, number):
    return {name: tf.gather(value, number) for name, value in parts.items()}
