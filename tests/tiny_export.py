"""An export that takes no training: a classifier of texts by their length."""

import json

import tensorflow as tf

from contract import file_names
from serving import export


def write(folder, *labels):
    """Writes it for the labels of short texts and of long ones.

    Its answers are the same in every batch.
    """

    def classify(text):
        size = tf.strings.length(text)
        best = tf.gather(tf.constant(labels), tf.cast(size > 3, tf.int32))
        share = 1 / (2 + tf.cast(size, tf.float32))
        return {"probabilities": tf.stack([share, 1 - share], -1), "label": best}

    module = export.ServedModel(
        [], serving_default=export.text_function(classify, "text")
    )
    names = {file_names.LABEL_MAP: json.dumps(dict(zip("01", labels, strict=True)))}
    return export.save(module, str(folder), names)
