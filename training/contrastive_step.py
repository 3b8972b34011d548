"""Steps of losses that compare all rows of a batch, in the memory of a micro-batch.

Gao et al., 2021: all vectors are computed first, without what gradients need; then the
loss and its gradients by vector; then each micro-batch once more, with its share of
these. Dropout follows from seed and step, so both passes drop the same entries, and
gradients are those of the whole batch.
"""

from collections.abc import Sequence

import tensorflow as tf

from modeling import contrastive
from training import batch_parts, train_step


class ContrastiveTrainStep(train_step.TrainStep):
    """A TrainStep for a model of {"vectors": [B, ...]}, whose objective reads these.

    The objective may gather the vectors of all replicas, which no compiled function
    can do: XLA is not used.
    """

    def _replica_gradients(self, batch, counts, first_seed, step, scale):
        def seed(number):
            return tf.stack([first_seed + tf.cast(number, tf.int64), step])

        count = self._micro_batches
        if count == 1:
            return self._gradients(batch, counts, seed(0), scale)
        vectors = self._vectors(batch, seed)
        with tf.GradientTape() as tape:
            tape.watch(vectors)
            outputs = {"vectors": vectors}
            parts, loss = self._loss(batch, outputs, counts, scale)
        upstream = batch_parts.split_parts(tape.gradient(loss, vectors), count)

        def gradients(number, micro_batch):
            with tf.GradientTape() as tape:
                values = self._model(micro_batch, training=True, seed=seed(number))
            by_variable = tape.gradient(
                values["vectors"],
                self._variables,
                output_gradients=tf.gather(upstream, number),
            )
            return [self._optimizer.prepare_for_sum(each) for each in by_variable]

        return {
            "losses": parts,
            "gradients": train_step.sum_of_parts(gradients, batch, count),
            "metrics": self._objective.metrics(batch, outputs),
        }

    def _vectors(self, batch, seed):
        """The vectors of all micro-batches, [B, ...], computed one after another."""
        count = self._micro_batches
        parts = {
            name: batch_parts.split_parts(value, count) for name, value in batch.items()
        }

        def encode(number):
            part = {name: tf.gather(value, number) for name, value in parts.items()}
            return self._model(part, training=True, seed=seed(number))["vectors"]

        vectors = tf.map_fn(
            encode,
            tf.range(count),
            fn_output_signature=tf.float32,
            parallel_iterations=1,
        )  # [micro-batches, b, ...]
        return tf.reshape(vectors, tf.concat([[-1], tf.shape(vectors)[2:]], axis=0))


def scope(dimensions: Sequence[int] = ()) -> contrastive.Scope:
    """The Scope of an objective that compares the rows of all replicas."""

    def gather(rows):
        context = tf.distribute.get_replica_context()
        count, index = context.num_replicas_in_sync, context.replica_id_in_sync_group
        if count == 1:
            return rows
        # A sum, whose gradients TensorFlow has on several hosts, too.
        whole = batch_parts.place_part(rows, index, count)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, whole)

    def first(size):
        return size * tf.distribute.get_replica_context().replica_id_in_sync_group

    return contrastive.Scope(dimensions, gather, first)
