"""Requests that a server answers before it takes traffic, so that no user waits.

TensorFlow Serving reads them from assets.extra of a SavedModel: TFRecords, at most
1,000, each a tensorflow.serving.PredictionLog. Its few fields are encoded here, so that
exporting does without tensorflow-serving-api.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

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
                writer.write(_encode_log(name, inputs))


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


def _encode_log(signature_name: str, inputs: Mapping[str, np.ndarray]) -> bytes:
    """A PredictionLog; no model is named, for servers give it the name.

    Numbers are those of tensorflow_serving/apis/{prediction_log,predict,model}.proto.
    """
    request = _field(1, _field(3, signature_name.encode()))  # model_spec
    for name, array in inputs.items():
        tensor = tf.make_tensor_proto(array, tf.string).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))  # predict_log, request


def _field(number: int, content: bytes) -> bytes:
    """A string or message as a field, in the encoding of protocol buffers."""
    size, digits = len(content), []
    while size > 127:
        digits.append(size % 128 + 128)
        size //= 128
    return bytes([number * 8 + 2, *digits, size]) + content
