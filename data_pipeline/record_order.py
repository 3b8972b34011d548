"""The order in which the records of many files are trained on.

It is a pure function of files, counts and seed, and nothing that grows with the corpus
is kept of it. A resumed run finds its place by the counts and passes over whole groups
of files without opening them.
"""

import numpy as np
import tensorflow as tf

# Files read at the same time; the original's number of parallel readers.
GROUP_FILES = 4
# Records that are shuffled together: some megabytes.
WINDOW_RECORDS = 4096
# Read from each of these files at once; object stores take long to answer.
_READ_BYTES = 1 << 22


def windows(files, counts, seed, start):
    """Serialized records for ever, from a position on; epoch after epoch.

    In each epoch the files are shuffled and read in groups of four, one record of each
    after another; of this stream, each window of 4,096 records is shuffled. An epoch
    has every record once, and its last window ends with it.

    Args:
        files: paths of TFRecord files.
        counts: number of records in each; one at least is there.
        seed: an int; equal seeds give equal orders.
        start: how many records to leave out.

    Returns:
        tf.data.Dataset of string [WINDOW_RECORDS]; at the start and at the end of an
        epoch fewer.

    Differs from google-research/bert: training records are shuffled within windows of
    4,096 instead of a buffer of 100, and in an order that follows from the seed, so
    that a resumed run goes on with the records it would have seen.
    """
    files, counts = tf.constant(files), np.asarray(counts)
    epoch, position = divmod(start, int(counts.sum()))
    later = tf.data.Dataset.range(epoch + 1, np.iinfo(np.int64).max)
    return _epoch(files, counts, seed, epoch, position).concatenate(
        later.flat_map(lambda number: _epoch(files, counts, seed, number, 0))
    )


def _epoch(files, counts, seed, epoch, position):
    """Windows of one epoch without its first `position` records.

    Args:
        files: string [F].
        counts: int [F], a NumPy array.
        seed: an int.
        epoch: an int; where `position` is 0 also an int64 scalar of a graph.
        position: an int below the number of records.
    """
    epoch_seed = tf.stack([tf.constant(seed, tf.int64), tf.cast(epoch, tf.int64)])
    with tf.device("CPU"):
        order = _shuffled(tf.range(len(counts)), epoch_seed)
    window = position // WINDOW_RECORDS
    passed = surplus = 0
    if window:
        before = window * WINDOW_RECORDS
        passed, surplus = _passed_groups(counts[order.numpy()], before)
    groups = tf.data.Dataset.from_tensor_slices(tf.gather(files, order))
    groups = groups.batch(GROUP_FILES).skip(passed)
    records = groups.flat_map(_in_turn).skip(surplus)

    def shuffle(number, records):
        number_seed = tf.random.experimental.stateless_fold_in(epoch_seed, number)
        shuffled = _shuffled(records, number_seed)
        return shuffled[tf.maximum(position - number * WINDOW_RECORDS, 0) :]

    return records.batch(WINDOW_RECORDS).enumerate(window).map(shuffle)


def _shuffled(values, seed):
    # The algorithm is named because the default one depends on the device.
    return tf.random.experimental.stateless_shuffle(values, seed, alg="philox")


def _passed_groups(counts, position):
    """How many groups end at or before a position, and how far behind them it is.

    Args:
        counts: int [F], records of the files in the order of the epoch.
        position: below their sum.
    """
    ends = np.cumsum(np.add.reduceat(counts, np.arange(0, len(counts), GROUP_FILES)))
    passed = int(np.searchsorted(ends, position, side="right"))
    return passed, position - (int(ends[passed - 1]) if passed else 0)


def _in_turn(files):
    """One record of each file after another; longer files go on alone."""
    # Without parallel calls, which take three times as long for records that small.
    return tf.data.Dataset.from_tensor_slices(files).interleave(
        lambda file: tf.data.TFRecordDataset(file, buffer_size=_READ_BYTES),
        cycle_length=GROUP_FILES,
    )
