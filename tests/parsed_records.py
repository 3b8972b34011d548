"""Reads TFRecords of examples as google-research/bert reads them."""

import tensorflow as tf

SCALAR = tf.io.FixedLenFeature([], tf.int64)


def classifier_spec(max_seq_length):
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "label_ids": SCALAR,
        "is_real_example": SCALAR,
    }


def serialized(path):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def parsed(path, spec):
    return [
        {
            name: value.numpy().tolist()
            for name, value in tf.io.parse_single_example(record, spec).items()
        }
        for record in serialized(path)
    ]
