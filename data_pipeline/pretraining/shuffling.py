"""The order in which the records of many files are trained on.

It is a pure function of files, counts and seed. A resumed run finds its place by the
counts and skips whole groups of files without opening them.
"""

import numpy as np
import tensorflow as tf

from data_pipeline.batches import packing

# Files read at the same time; the original's number of parallel readers.
GROUP_FILES = 4
# Records that are shuffled together: some megabytes.
WINDOW_RECORDS = 4096
# Read from each of these files at once; object stores take long to answer.
_READ_BYTES = 1 << 22


def records_of(files):
    """For `windows`: the serialized records of each TFRecord file, strings."""
    files = tf.constant(files)

    def read(index):
        return tf.data.TFRecordDataset(files[index], buffer_size=_READ_BYTES)

    return read


def numbers_of(counts):
    """For `windows`: record numbers from 0, int64, across files; opens none of them."""
    begins = tf.constant(packing.row_splits(counts))

    def number(index):
        return tf.data.Dataset.range(begins[index], begins[index + 1])

    return number


def windows(read, counts, seed, start):
    """Windows of records, for ever, from a position on; epoch after epoch.

    In each epoch the files are shuffled and read in groups of four, one record of each
    after another; of this stream, each window of 4,096 records is shuffled. An epoch
    has every record once, and its last window ends with it. `read` is `records_of` or
    `numbers_of` the files; `counts` are the records in each.

    Returns:
        tf.data.Dataset of [WINDOW_RECORDS] values, fewer where an epoch begins or ends.

    Differs from google-research/bert: training records are shuffled within windows of
    4,096 instead of a buffer of 100, and in an order that follows from the seed, so
    that a resumed run goes on with the records it would have seen.
    """
    counts = np.asarray(counts)
    epoch, position = divmod(start, int(counts.sum()))
    later = tf.data.Dataset.range(epoch + 1, np.iinfo(np.int64).max)
    return _epoch(read, counts, seed, epoch, position).concatenate(
        later.flat_map(lambda number: _epoch(read, counts, seed, number, 0))
    )


def _epoch(read, counts, seed, epoch, position):
    """Windows of an epoch, an int or a graph's int64, from an int position on."""
    epoch_seed = tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])
    with tf.device("CPU"):
        order = _shuffled(tf.range(len(counts)), epoch_seed)
    window = position // WINDOW_RECORDS
    passed = surplus = 0
    if window:
        before = window * WINDOW_RECORDS
        passed, surplus = _passed_groups(counts[order.numpy()], before)
    groups = tf.data.Dataset.from_tensor_slices(order).batch(GROUP_FILES).skip(passed)
    records = groups.flat_map(lambda group: _in_turn(read, group)).skip(surplus)

    def shuffle(number, records):
        number_seed = tf.random.experimental.stateless_fold_in(epoch_seed, number)
        shuffled = _shuffled(records, number_seed)
        return shuffled[tf.maximum(position - number * WINDOW_RECORDS, 0) :]

    return records.batch(WINDOW_RECORDS).enumerate(window).map(shuffle)


def _shuffled(values, seed):
    # The algorithm is named because the default one depends on the device.
    return tf.random.experimental.stateless_shuffle(values, seed, alg="philox")


def _passed_groups(counts, position):
    """How many groups end at or before a position, and how far after them it is."""
    ends = np.cumsum(np.add.reduceat(counts, np.arange(0, len(counts), GROUP_FILES)))
    passed = int(np.searchsorted(ends, position, side="right"))
    return passed, position - (int(ends[passed - 1]) if passed else 0)


def _in_turn(read, group):
    """One record of each file after another; longer files go on alone."""
    # Without parallel calls, which take three times as long for records that small.
    files = tf.data.Dataset.from_tensor_slices(group)
    return files.interleave(read, cycle_length=GROUP_FILES)
