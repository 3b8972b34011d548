"""Tests of serving/protocol/warmup.py: what a server is warmed up with."""

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from serving import export
from serving.protocol import servables, warmup
from tests.serving.protocol import test_rest

MOST_RECORDS = 1000  # that TensorFlow Serving reads
MORE = len("[MASK]") - len("a")  # characters of the first word of each text


class Model(export.ServedModel):
    """Signatures of strings, of words in rows, and of numbers."""

    def __init__(self):
        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, "words")])
        def count(words):
            return {"count": tf.reduce_sum(tf.strings.length(words), axis=1)}

        super().__init__(
            (),
            serving_default=export.text_function(
                lambda a, b: {"size": tf.strings.length(a) + tf.strings.length(b)},
                *("text_a", "text_b"),
            ),
            words=count,
            ids=export.ids_function(lambda features: {"x": features["input_ids"]}),
        )


def logs(version_dir):
    path = f"{version_dir}/assets.extra/tf_serving_warmup_requests"
    return [
        prediction_log_pb2.PredictionLog.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(path)
    ]


def test_export_holds_requests_that_its_signatures_answer(tmp_path):
    version_dir = export.save(Model(), str(tmp_path), {})
    requests = [log.predict_log.request for log in logs(version_dir)]
    assert len(requests) <= MOST_RECORDS
    names = [request.model_spec.signature_name for request in requests]
    assert names == [
        *["serving_default"] * len(warmup.LENGTHS),
        *["words"] * len(warmup.LENGTHS),
    ]
    signatures = tf.saved_model.load(version_dir).signatures
    for request, length in zip(requests, warmup.LENGTHS * 2, strict=True):
        name = request.model_spec.signature_name
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        outputs = signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})
        if name == "words":
            assert inputs["words"].shape == (1, length)
            np.testing.assert_array_equal(outputs["count"], [length + MORE])
        else:
            assert sorted(inputs) == ["text_a", "text_b"]
            assert len(inputs["text_a"][0].split()) == length
            size = 2 * (2 * length - 1 + MORE)
            np.testing.assert_array_equal(outputs["size"], [size])


def test_requests_hold_nothing_that_the_protocol_does_not_know(tmp_path):
    """Each byte of a record is a field of the public definition."""
    path = str(tmp_path / warmup.FILE_NAME)
    warmup.write(path, Model().signatures())
    for record in tf.data.TFRecordDataset(path):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        known = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        known.DiscardUnknownFields()
        assert known == log and log.WhichOneof("log_type") == "predict_log"
        assert known.SerializeToString(deterministic=True) == record.numpy()


class Recorder:
    """A version that records its requests, and a directory for its export."""

    def __init__(self, folder, signatures=test_rest.SIGNATURES):
        self.requests = []
        self.version = servables.Version(signatures, self.call)
        self.folder = str(folder)

    def call(self, name, arrays):
        values = {key: array.tolist() for key, array in arrays.items()}
        self.requests.append((name, values))
        return {}


def test_each_signature_of_texts_is_warmed_up(tmp_path):
    recorder = Recorder(tmp_path)
    servables.warm(recorder.version, recorder.folder)
    count = len(warmup.LENGTHS)
    names = [name for name, _ in recorder.requests]
    assert names.count("serving_default") == names.count("pair") == count
    assert "number" not in names
    shortest = recorder.requests[names.index("serving_default")][1]
    assert shortest == {"text": [b"[MASK] a a a"]}
    assert recorder.requests[names.index("pair")][1].keys() == {"text_a", "text_b"}


def test_model_that_fails_is_one_warning(tmp_path, caplog):
    recorder = Recorder(tmp_path)

    def fail(name, arrays):
        raise servables.invalid("no such word\nand a traceback")

    recorder.version.call = fail
    servables.warm(recorder.version, recorder.folder)
    (line,) = [entry.getMessage() for entry in caplog.records]
    assert line.startswith(f"{tmp_path}: not all warm-up requests were answered (no su")
    assert "\n" not in line
