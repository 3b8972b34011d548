"""Requests that a server answers before it takes traffic, so that no user waits.

TensorFlow Serving reads them from assets.extra of a SavedModel: TFRecords, at most
1,000, each a tensorflow.serving.PredictionLog. The few fields that they need are
described here, so that exporting does without tensorflow-serving-api.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from contract import errors

FILE_NAME = "tf_serving_warmup_requests"
# Words of the texts: one for each buffer size and kernel that short, usual and long
# texts need. Longer ones are cut, or cost no more than the longest window.
LENGTHS = (4, 16, 64, 256)
_WORD = "a"  # a token of nearly every vocabulary; where it is none, it is one [UNK]
# The network of `fill_mask` has nothing to do without one; elsewhere it is any text.
_FIRST_WORD = "[MASK]"
_PACKAGE = "warmup"  # not tensorflow.serving, whose own definitions may be loaded, too
_TENSOR = ".tensorflow.TensorProto"
# Message to its fields, (name, number, type); a type "X*" stands for many. Numbers are
# those of tensorflow_serving/apis/{prediction_log,predict,model}.proto. A map is, in
# bytes, a list of messages with `key` and `value`.
_MESSAGES = {
    "PredictionLog": [("predict_log", 6, "PredictLog")],
    "PredictLog": [("request", 1, "PredictRequest")],
    "PredictRequest": [("model_spec", 1, "ModelSpec"), ("inputs", 2, "Input*")],
    "ModelSpec": [("signature_name", 3, "string")],
    "Input": [("key", 1, "string"), ("value", 2, _TENSOR)],
}


def write(path: str, signatures: Mapping[str, Any]) -> None:
    """Writes requests of a few lengths to each signature that takes texts.

    Args:
        path: a local or remote file.
        signatures: concrete functions by name.
    """
    with tf.io.TFRecordWriter(path) as writer:
        for name, function in signatures.items():
            positional, by_name = function.structured_input_signature
            for inputs in _inputs([*positional, *by_name.values()]):
                writer.write(_record(name, inputs))


def read(path: str) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yields requests that `write`, or anyone, has written: signature, inputs by name.

    Those that are not for Predict, such as Classify's, are left out.

    Raises:
        ValueError: a record is no request.
        tf.errors.OpError: the file cannot be read, or is damaged.
    """
    message_class = _message_class()
    try:
        for record in tf.data.TFRecordDataset(path):
            log = message_class.FromString(record.numpy())
            if log.HasField("predict_log"):
                request = log.predict_log.request
                inputs = {i.key: tf.make_ndarray(i.value) for i in request.inputs}
                yield request.model_spec.signature_name, inputs
    except (message.DecodeError, TypeError) as error:
        raise errors.InputError(f"a record is no request: {error}") from error


def _inputs(specs: Sequence[tf.TensorSpec]) -> Iterator[dict[str, Any]]:
    """Examples for a signature of strings: texts, rows of texts, or rows of words."""
    if any(spec.dtype != tf.string for spec in specs):
        return
    for length in LENGTHS:
        words = [_FIRST_WORD, *[_WORD] * (length - 1)]
        yield {spec.name: _input(spec.shape, words) for spec in specs}


def _input(shape: tf.TensorShape, words: list[str]) -> list[Any]:
    text = " ".join(words)
    if shape.rank == 1:
        return [text]
    return [words] if shape[1] is None else [[text] * shape[1]]


def _record(signature_name: str, inputs: Mapping[str, Any]) -> bytes:
    """A serialized PredictionLog; no model is named, for servers give it the name."""
    log = _message_class()()
    request = log.predict_log.request
    request.model_spec.signature_name = signature_name
    for name, value in inputs.items():
        entry = request.inputs.add(key=name)
        entry.value.CopyFrom(tf.make_tensor_proto(value, tf.string))
    return log.SerializeToString(deterministic=True)


def _message_class():
    pool = descriptor_pool.Default()  # which has TensorProto
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3"
    )
    file.dependency.append("tensorflow/core/framework/tensor.proto")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            field = message.field.add(name=field_name, number=number)
            field.label = field.LABEL_REPEATED if "*" in kind else field.LABEL_OPTIONAL
            if kind == "string":
                field.type = field.TYPE_STRING
            else:
                kind = kind.rstrip("*")
                field.type = field.TYPE_MESSAGE
                field.type_name = kind if "." in kind else f".{_PACKAGE}.{kind}"
    pool.AddSerializedFile(file.SerializeToString())  # once more is no offence
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{_PACKAGE}.PredictionLog")
    )
