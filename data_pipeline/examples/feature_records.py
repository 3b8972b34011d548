"""TFRecords under the original's names: fixed-length features, zero-padded."""

import os

import numpy as np
import tensorflow as tf

from contract import atomic_files, features, file_names
from data_pipeline.examples import packing, tf_examples

# The original's names of the splits' files.
_FILES = {"train": "train", "dev": "eval", "test": "predict"}
# Records encoded at a time.
_CHUNK_ROWS = 4096


def write(path, packed, columns, max_seq_length):
    """Writes one tf.train.Example a sequence, in order.

    The file appears under its name when it is complete.

    Args:
        path: of the TFRecord file; its directory is made if absent.
        packed: packing.Packed, which becomes input_ids, input_mask and segment_ids
            [max_seq_length].
        columns: {feature name: [N] or [N, L] int (not negative) or float}.
        max_seq_length: in tokens, not less than that of any sequence.
    """
    with (
        atomic_files.replacing(os.fspath(path)) as (temporary,),
        tf.io.TFRecordWriter(temporary) as writer,
    ):
        for start in range(0, len(packed), _CHUNK_ROWS):
            rows = slice(start, start + _CHUNK_ROWS)
            arrays = packing.grids(packed, max_seq_length, rows)
            for name, values in columns.items():
                chosen = values[rows]
                arrays[name] = chosen.reshape(len(chosen), -1)
            for record in tf_examples.records(arrays):
                writer.write(record)


def write_classifier(directory, data, max_seq_length):
    """Writes run_classifier.py's train.tf_record, eval.tf_record, predict.tf_record.

    What file_based_convert_examples_to_features writes: the three inputs, label_ids and
    is_real_example. Labels of a regression are floats; test rows without labels have 0,
    as in the original.

    Args:
        directory: made if absent.
        data: labelled_texts.Data; each of its splits becomes a file.
        max_seq_length: length of the three inputs, in tokens.
    """
    for split, packed in data.packed.items():
        label_ids = data.label_ids[split]
        if label_ids is None:
            label_ids = np.zeros(len(packed), features.INTEGER)
        columns = {
            features.LABEL_IDS: label_ids,
            features.IS_REAL_EXAMPLE: np.ones(len(packed), features.INTEGER),
        }
        path = os.path.join(directory, f"{_FILES[split]}{file_names.TF_RECORD_ENDING}")
        write(path, packed, columns, max_seq_length)


def write_squad(directory, questions, windows, max_seq_length):
    """Writes run_squad.py's train.tf_record or eval.tf_record.

    What its FeatureWriter writes: unique_ids and the three inputs; for training
    start_positions, end_positions and is_impossible as well.

    Args:
        directory: made if absent.
        questions: squad_files.Questions.
        windows: context_windows.Windows of them, for training where they have answers.
        max_seq_length: length of the three inputs, in tokens.
    """
    columns = {features.UNIQUE_IDS: windows.unique_ids}
    is_training = windows.start_positions is not None
    if is_training:
        columns |= {
            features.START_POSITIONS: windows.start_positions,
            features.END_POSITIONS: windows.end_positions,
            features.IS_IMPOSSIBLE: np.array(questions.is_impossible, features.INTEGER)[
                windows.question_index
            ],
        }
    name = _FILES["train" if is_training else "dev"]
    path = os.path.join(directory, f"{name}{file_names.TF_RECORD_ENDING}")
    write(path, windows.packed, columns, max_seq_length)


def classifier_spec(max_seq_length):
    """How tf.io.parse_single_example reads such a record (with int label_ids)."""
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    scalar = tf.io.FixedLenFeature([], tf.int64)
    return {
        **{name: sequence for name in features.ENCODER_INPUTS},
        features.LABEL_IDS: scalar,
        features.IS_REAL_EXAMPLE: scalar,
    }
