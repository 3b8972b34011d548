"""The rows of a run as the TFRecords that the original writes."""

import os

import numpy as np

from contract import features, file_names
from data_pipeline.batches import tf_records
from data_pipeline.classification import split as labelled_texts

# The original's names of the splits' files.
_RECORD_NAMES = {"train": "train", "dev": "eval", "test": "predict"}


def write(
    directory: str, data: labelled_texts.LabelledTexts, max_seq_length: int
) -> None:
    """Writes train.tf_record, eval.tf_record and predict.tf_record, one for each split.

    As file_based_convert_examples_to_features: the three inputs, label_ids (floats for
    regression; 0 for test rows without labels) and is_real_example. No file is written
    where a token is a row of characters: most of it would be filling.
    """
    if data.encode.tokenizer.token_shape:
        return
    for split in filter(data.packed.__contains__, _RECORD_NAMES):
        packed = data.packed[split]
        label_ids = data.label_ids[split]
        if label_ids is None:
            label_ids = np.zeros(len(packed), features.INTEGER)
        columns = {
            features.LABEL_IDS: label_ids,
            features.IS_REAL_EXAMPLE: np.ones(len(packed), features.INTEGER),
        }
        name = f"{_RECORD_NAMES[split]}{file_names.TF_RECORD_ENDING}"
        tf_records.write(os.path.join(directory, name), packed, columns, max_seq_length)
