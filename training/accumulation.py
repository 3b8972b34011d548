"""Sums over micro-batches: a batch in parts, of which one at a time is in memory."""

import tensorflow as tf


def check_batch_size(batch_size, micro_batches, replicas):
    """Refuses a batch that cannot be cut into equal parts.

    Args:
        batch_size: --train_batch_size, of all replicas and parts together.
        micro_batches: --gradient_accumulation_steps.
        replicas: devices that share a batch.

    Raises:
        ValueError: a part would not have a whole number of examples.
    """
    if micro_batches > 1 and batch_size % (micro_batches * replicas):
        raise ValueError(
            f"--train_batch_size={batch_size} is the whole batch of one update and "
            f"cannot be cut into --gradient_accumulation_steps={micro_batches} equal "
            f"parts on each of {replicas} replica(s); choose a multiple of "
            f"{micro_batches * replicas}"
        )


def sum_of_parts(function, features, count):
    """The sum of what a function returns for equal parts of a batch, one by one.

    Args:
        function: (number of the part int64, its features) -> structure of tensors,
            which may hold IndexedSlices and None.
        features: dict of tensors [B, ...], where B is a multiple of `count`.
        count: parts, 2 or more.

    Returns:
        The structure, each tensor summed over the parts. IndexedSlices are put one
        after another, in the order of the batch, so that they are those of the whole
        batch: their norm counts rows, not sums of rows.
    """
    parts = {name: _cut(value, count) for name, value in features.items()}

    def part(number):
        micro_batch = {name: tf.gather(value, number) for name, value in parts.items()}
        return function(tf.cast(number, tf.int64), micro_batch)

    structure = part(tf.constant(0))
    first = tf.nest.flatten(structure)
    # Nothing else orders the parts, and all at once they would need all the memory.
    with tf.control_dependencies(
        tf.nest.flatten([leaf for leaf in first if leaf is not None], True)
    ):
        second = tf.constant(1)

    def body(number, sums):
        more = tf.nest.flatten(part(number))
        pairs = zip(sums, more, strict=True)
        return number + 1, [_added(total, leaf, number) for total, leaf in pairs]

    _, sums = tf.while_loop(
        lambda number, _: number < count,
        body,
        (second, [_started(leaf, count) for leaf in first]),
        parallel_iterations=1,
    )
    ended = [_ended(total, leaf) for total, leaf in zip(sums, first, strict=True)]
    return tf.nest.pack_sequence_as(structure, ended)


def _cut(value, count):
    """[B, ...] -> [count, B / count, ...]."""
    return tf.reshape(value, tf.concat([[count, -1], tf.shape(value)[1:]], axis=0))


def _started(leaf, count):
    """What a loop carries along for one tensor, after the first part."""
    if leaf is None:
        return ()
    if isinstance(leaf, tf.IndexedSlices):
        return tuple(
            tf.TensorArray(part.dtype, count, element_shape=part.shape).write(0, part)
            for part in (leaf.values, leaf.indices)
        )
    return leaf


def _added(total, leaf, number):
    if leaf is None:
        return ()
    if isinstance(leaf, tf.IndexedSlices):
        return tuple(
            array.write(number, part)
            for array, part in zip(total, (leaf.values, leaf.indices), strict=True)
        )
    return total + leaf


def _ended(total, leaf):
    if leaf is None:
        return None
    if isinstance(leaf, tf.IndexedSlices):
        values, indices = (array.concat() for array in total)
        return tf.IndexedSlices(values, indices, leaf.dense_shape)
    return total
