"""Sums over micro-batches: equal parts of a batch, only one of them in memory."""

import tensorflow as tf

from contract import errors, wording


def check_batch_size(batch_size, micro_batches, replicas):
    """Raises ValueError unless the batch divides by replicas and micro-batches."""
    if batch_size % (micro_batches * replicas):
        raise errors.InputError(
            f"--train_batch_size={batch_size} is the whole batch of one update and "
            f"cannot be cut into --gradient_accumulation_steps={micro_batches} equal "
            f"parts on each of {wording.count(replicas, 'replica')}; choose a multiple "
            f"of {micro_batches * replicas}"
        )


def sum_of_parts(function, features, count):
    """The sum of a function over `count` equal parts of a batch, 2 or more, one by one.

    The function maps the number of the part, int64, and its features to a structure of
    tensors or None; `features` are tensors [B, ...], B a multiple of `count`.
    """
    parts = {name: cut(value, count) for name, value in features.items()}

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
    found = iter(sums)
    return tf.nest.map_structure(
        lambda leaf: None if leaf is None else next(found), structure
    )


def cut(value, count):
    """Equal parts of consecutive examples: [B, ...] -> [count, B / count, ...]."""
    parts = tf.reshape(value, tf.concat([[count, -1], tf.shape(value)[1:]], axis=0))
    size = value.shape[0] and value.shape[0] // count
    return tf.ensure_shape(parts, [count, size, *value.shape[1:]])


def placed(value, index, count):
    """The part that `cut` gives at `index`, in a whole that is 0 elsewhere."""
    if count == 1:
        return value
    size, index = tf.shape(value)[0], tf.cast(index, tf.int32)
    rows = [index * size, (count - 1 - index) * size]
    whole = tf.pad(value, tf.stack([rows, *([[0, 0]] * (len(value.shape) - 1))]))
    size = value.shape[0] and value.shape[0] * count
    return tf.ensure_shape(whole, [size, *value.shape[1:]])
