"""Tests of serving/protocol/warmup.py: what a server is warmed up with."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from serving import export
from serving.protocol import servables, warmup
from tests.serving.protocol import test_rest

MOST_RECORDS = 1000  # that TensorFlow Serving reads
MORE = len("[MASK]") - len("a")  # characters of the first word of each text


class Model(export.ServedModel):
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


def test_export_holds_requests_that_its_signatures_answer(tmp_path, monkeypatch):
    for name in ("tensorflow_serving", "tensorflow_serving.apis"):
        monkeypatch.setitem(sys.modules, name, None)  # an export does without
    version_dir = export.save(Model(), str(tmp_path), {})
    monkeypatch.undo()
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


def record(signature_name, **inputs):
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.name = "any"
    request.model_spec.signature_name = signature_name
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return log.SerializeToString()


class Warmed:
    """A version that notes its requests, and a directory for its export."""

    def __init__(self, folder, signatures=test_rest.SIGNATURES):
        self.requests = []
        self.version = servables.Version(signatures, self.call)
        self.folder = folder
        self.path = folder / "assets.extra" / warmup.FILE_NAME
        self.path.parent.mkdir()

    def call(self, name, arrays):
        actual = {key: array.tolist() for key, array in arrays.items()}
        self.requests.append((name, actual))
        return {}

    def write(self, *records):
        with tf.io.TFRecordWriter(str(self.path)) as writer:
            for one in records:
                writer.write(one)

    def warmed(self):
        servables.warm(self.version, str(self.folder))
        return self.requests


@pytest.fixture
def server(tmp_path):
    return Warmed(tmp_path)


def test_version_is_warmed_by_what_its_export_holds(server):
    other = prediction_log_pb2.PredictionLog()
    other.classify_log.request.model_spec.name = "any"
    pair = {"text_a": ["a", "b"], "text_b": [b"\xff", b""]}
    server.write(
        *(record("", text=["x"]), other.SerializeToString(), record("pair", **pair)),
        record("number", x=np.float32([1.5])),
    )
    assert server.warmed() == [
        ("serving_default", {"text": [b"x"]}),
        ("pair", {"text_a": [b"a", b"b"], "text_b": [b"\xff", b""]}),
        ("number", {"x": [1.5]}),
    ]


def test_version_whose_export_holds_nothing_is_asked_one_text(server, tmp_path):
    assert server.warmed() == [("serving_default", {"text": [b"a"]})]
    (tmp_path / "numbers").mkdir()
    numbers = {"serving_default": test_rest.SIGNATURES["number"]}
    assert Warmed(tmp_path / "numbers", numbers).warmed() == []


def cut_off(server):
    server.write(record("", text=["x"]), record("", text=["y"]))
    server.path.write_bytes(server.path.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cut_off, "truncated record"),
        (
            lambda server: server.path.write_bytes(b"not records at all"),
            "corrupted record",
        ),
        (
            lambda server: server.write(record("", text=["x"]), b"\x32\xff"),
            "no request",
        ),
        (
            lambda server: server.write(
                record("", text=["x"]), record("of", text=["y"])
            ),
            'Serving signature name: "of" not found',
        ),
    ],
)
def test_requests_that_cannot_be_asked_are_one_warning(spoil, reason, server, caplog):
    spoil(server)
    requests = server.warmed()
    (printed,) = [entry.getMessage() for entry in caplog.records]
    assert printed.startswith(
        f"{server.folder}: not all warm-up requests were answered ("
    )
    assert reason in printed and "\n" not in printed
    if b"not" not in server.path.read_bytes():
        assert requests == [("serving_default", {"text": [b"x"]})]
