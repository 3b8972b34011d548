"""Requests that a server answers before it takes traffic, so that no user waits.

TensorFlow Serving reads them from assets.extra of a SavedModel: TFRecords, at most
1,000, each a PredictionLog.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

FILE_NAME = "tf_serving_warmup_requests"
# Words of the texts: one for each buffer size and kernel that short, usual and long
# texts need. Longer ones are cut, or cost no more than the longest window.
LENGTHS = (4, 16, 64, 256)
_WORD = b"a"  # a token of nearly every vocabulary; where it is none, it is one [UNK]
# The network of `fill_mask` has nothing to do without one; elsewhere it is any text.
_FIRST_WORD = b"[MASK]"


def write(path: str, signatures: Mapping[str, Any]) -> None:
    """Writes the requests of each signature, {name: concrete function}, to a file."""
    with tf.io.TFRecordWriter(path) as writer:
        for name, function in signatures.items():
            positional, by_name = function.structured_input_signature
            specs = {spec.name: spec for spec in [*positional, *by_name.values()]}
            for inputs in requests(specs):
                log = prediction_log_pb2.PredictionLog()
                request = log.predict_log.request
                request.model_spec.signature_name = name  # servers name the model
                for key, array in inputs.items():
                    tensor = tf.make_tensor_proto(array, tf.string)
                    request.inputs[key].CopyFrom(tensor)
                writer.write(log.SerializeToString(deterministic=True))


def requests(specs: Mapping[str, tf.TensorSpec]) -> Iterator[dict[str, np.ndarray]]:
    """Inputs of a few lengths for a signature of texts, rows of texts or of words."""
    if not specs or any(spec.dtype != tf.string for spec in specs.values()):
        return
    for length in LENGTHS:
        words = [_FIRST_WORD, *[_WORD] * (length - 1)]
        text = b" ".join(words)
        yield {
            name: np.array(
                [text]
                if spec.shape.rank == 1
                else [words if spec.shape[1] is None else [text] * spec.shape[1]],
                object,
            )
            for name, spec in specs.items()
        }
