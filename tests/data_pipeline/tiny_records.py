"""Pretraining records of eight tokens, through protobuf's own serializer."""

import pathlib

import numpy as np
import tensorflow as tf

from data_pipeline.pretraining import metadata

LENGTH, PREDICTIONS = 8, 2
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmno"]
METADATA = {
    "max_seq_length": LENGTH,
    "max_predictions_per_seq": PREDICTIONS,
    "masking": "word_piece",
    "masked_lm_prob": 0.15,
    "sentence_task": "next",
    "do_lower_case": True,
    "vocab_size": len(VOCAB),
    "vocab_digest": metadata.vocab_digest(VOCAB),
    "dupe_factor": 5,
    "short_seq_prob": 0.1,
    "random_seed": 12345,
}


def values(number, *, has_masks=True):
    """The features of a record; its number is in the second and third token."""
    length = 4 + number % 5
    ids = [2, 5 + number // 10 % 10, 5 + number % 10, *[6] * (length - 4), 3]
    pad = [0] * (LENGTH - length)
    actual = {
        "input_ids": ids + pad,
        "input_mask": [1] * length + pad,
        "segment_ids": [0, 0] + [1] * (length - 2) + pad,
        "next_sentence_labels": [number % 2],
    }
    if has_masks:
        actual["masked_lm_positions"] = [1, 0]
        actual["masked_lm_ids"] = [5 + number % 15, 0]
        actual["masked_lm_weights"] = [1.0, 0.0]
    return actual


def number_of(input_ids):
    """The numbers of records, by their tokens [..., LENGTH]; below 100."""
    input_ids = np.asarray(input_ids)
    return (input_ids[..., 1] - 5) * 10 + input_ids[..., 2] - 5


def serialized(actual):
    def feature(name, items):
        if isinstance(items[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=items))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=items))

    named = {name: feature(name, items) for name, items in actual.items()}
    example = tf.train.Example(features=tf.train.Features(feature=named))
    return example.SerializeToString()


def write(path, records, *, about=None):
    """Writes features, or bytes as they are, and with `about` the metadata beside them.

    Args:
        path: of the file.
        records: as `values` makes them.
        about: {} for METADATA as it is, or what differs from it; None for no metadata.
    """
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            is_raw = isinstance(record, bytes)
            writer.write(record if is_raw else serialized(record))
    if about is not None:
        counted = {
            "num_instances": len(records),
            "num_bytes": pathlib.Path(path).stat().st_size,
        }
        metadata.write(str(path), metadata.Metadata(**METADATA | counted | about))
    return str(path)


def write_numbered(path, start, stop, *, about=None, has_masks=True):
    records = [values(number, has_masks=has_masks) for number in range(start, stop)]
    return write(path, records, about=about)


def starts(path):
    """The byte at which each record begins, and the size of the file."""
    actual = [0]
    for record in tf.data.TFRecordDataset(path):
        actual.append(actual[-1] + len(record.numpy()) + 16)
    return actual
