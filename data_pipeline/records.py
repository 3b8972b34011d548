"""TFRecords under the original's names: fixed-length features, zero-padded."""

import os

import numpy as np
import tensorflow as tf

from data_pipeline import features

# The original's names of the splits' files.
_FILES = {"train": "train", "dev": "eval", "test": "predict"}


def _int64(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def write_classifier(directory, data, max_seq_length):
    """Writes run_classifier.py's train.tf_record, eval.tf_record, predict.tf_record.

    Args:
        directory: made if absent.
        data: classification.Data; each of its splits becomes a file.
        max_seq_length: length of the three inputs, in tokens.
    """
    tf.io.gfile.makedirs(directory)
    for split, packed in data.packed.items():
        path = os.path.join(directory, f"{_FILES[split]}.tf_record")
        write_split(path, packed, data.label_ids[split], max_seq_length)


def write_split(path, packed, label_ids, max_seq_length):
    """What run_classifier.py's file_based_convert_examples_to_features writes.

    One tf.train.Example an example, in order: input_ids, input_mask, segment_ids
    [max_seq_length], label_ids, is_real_example. Labels of a regression are floats.
    The file appears under its name when it is complete.

    Args:
        path: of the TFRecord file.
        packed: packing.Packed.
        label_ids: [N] int or float, or [N, C]; None writes 0, as the original does
            for test sets.
        max_seq_length: length of the three inputs, in tokens.
    """
    if label_ids is None:
        label_ids = np.zeros(len(packed), features.INTEGER)
    as_labels = (
        _int64
        if label_ids.dtype == features.INTEGER
        else lambda values: tf.train.Feature(
            float_list=tf.train.FloatList(value=values)
        )
    )
    one = _int64([1])
    temporary = f"{path}.incomplete"
    padding = [0] * max_seq_length
    tokens = packed.tokens.tolist()
    with tf.io.TFRecordWriter(temporary) as writer:
        for i, (start, end) in enumerate(
            zip(packed.splits[:-1].tolist(), packed.splits[1:].tolist(), strict=True)
        ):
            length, first = end - start, int(packed.first_lengths[i])
            pad = padding[length:]
            feature = {
                features.INPUT_IDS: _int64(tokens[start:end] + pad),
                features.INPUT_MASK: _int64([1] * length + pad),
                features.SEGMENT_IDS: _int64(
                    [0] * first + [1] * (length - first) + pad
                ),
                features.LABEL_IDS: as_labels(np.atleast_1d(label_ids[i]).tolist()),
                features.IS_REAL_EXAMPLE: one,
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    tf.io.gfile.rename(temporary, os.fspath(path), overwrite=True)


def classifier_spec(max_seq_length):
    """How tf.io.parse_single_example reads such a record (with int label_ids)."""
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    scalar = tf.io.FixedLenFeature([], tf.int64)
    return {
        **{name: sequence for name in features.ENCODER_INPUTS},
        features.LABEL_IDS: scalar,
        features.IS_REAL_EXAMPLE: scalar,
    }
