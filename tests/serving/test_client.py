"""Tests of serving/client.py against a model server on loopback, by both protocols."""

import concurrent.futures
import functools
import json
import pathlib
import random
import re
import socket
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import grpc
import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from cli import command_line
from serving import answers, client, export, predictor
from serving.protocol import servables
from tests.serving import model_server
from tests.serving import test_export as exports

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCHING = model_server.Batching(
    max_batch_size=32,
    batch_timeout_micros=20_000,
    num_batch_threads=2,
    max_enqueued_batches=100,
)
# Float32 rounding; a row of a batch is padded more than it is alone.
ROUNDING = 1e-5
# What random texts are made of, beside characters of all of Unicode.
WORDS = ["good", "bad", "film", "films", "a", ".", " ", "\u3000", "\0", "\u0301", "Ａ"]
WORDS += ["\U0001f600", "\u05d0", "GOOD", "ﬁlm", "[MASK]", "\u200b", "\ufeff", "字"]


class Served(NamedTuple):
    """A server, and what its models say without it."""

    server: model_server.Server
    folder: pathlib.Path
    version: servables.Version  # the first, alone

    def alone(self, text):
        """The answer of version 1 to a request of one text, str or bytes."""
        raw = text if isinstance(text, bytes) else text.encode()
        array = np.array([raw], object)
        return self.version.call("serving_default", {"text": array})


class Shouting(export.ServedModel):
    """A version whose answers are plainly not those of the other."""

    def __init__(self):
        def shout(text):
            size = tf.cast(tf.strings.length(text), tf.float32)
            return {"probabilities": tf.stack([size, -size], axis=1)}

        super().__init__((), serving_default=export.text_function(shout, "text"))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Version 1 is a classifier, version 2 counts bytes."""
    folder = tmp_path_factory.mktemp("served") / "export"
    exports.make("classification", 1, folder)
    export.save(Shouting(), str(folder), {})
    with pytest.MonkeyPatch.context() as patch:
        # Loading takes longer than asking; a predictor takes what the server has.
        patch.setattr(tf.saved_model, "load", functools.cache(tf.saved_model.load))
        versions = {n: servables.open_version(str(folder / str(n))) for n in (1, 2)}
        with model_server.serving("m", versions, BATCHING) as server:
            yield Served(server, folder, versions[1])


def join(_, arrays):
    return {"joined": arrays["text_a"] + b"+" + arrays["text_b"]}


@pytest.fixture(scope="module")
def pairs():
    """A model of pairs that is quick to make; it has one output."""
    definition = meta_graph_pb2.SignatureDef()
    for tensors, names in (
        (definition.inputs, ("text_b", "text_a")),
        (definition.outputs, ("joined",)),
    ):
        for name in names:
            tensors[name].dtype = tf.string.as_datatype_enum
            tensors[name].tensor_shape.dim.add(size=-1)
    version = servables.Version({"serving_default": definition}, join)
    with model_server.serving("p", {3: version}, BATCHING) as server:
        yield Served(server, None, version)


def calls(served, protocol, model="m", version=0, timeout_seconds=30):
    address = getattr(served.server, protocol)
    by_rest = protocol == "rest"
    return client.connect(address, model, version, timeout_seconds, by_rest=by_rest)


PROTOCOLS = pytest.mark.parametrize("protocol", ["grpc", "rest"])
LABELS = ["no", "ja", "yes"]


def values(found):
    return [list(answer["probabilities"].values()) for answer in found]


@PROTOCOLS
def test_server_says_what_the_predictor_says(served, protocol):
    directory = str(served.folder / "1")
    expected = predictor.Predictor(directory).predict(exports.TEXTS)
    first = calls(served, protocol, version=1)
    columns = [exports.TEXTS]
    found = client.ask(first, "serving_default", columns, labels=LABELS, batch_size=2)
    assert [answer["label"] for answer in found] == [a["label"] for a in expected]
    assert [list(a["probabilities"]) for a in found] == [LABELS] * len(exports.TEXTS)
    np.testing.assert_allclose(values(found), values(expected), atol=ROUNDING)
    newest = client.ask(calls(served, protocol), "serving_default", columns)
    sizes = [len(text.encode()) for text in exports.TEXTS]
    # Nobody has named the columns.
    assert newest == [{"probabilities": {"0": n, "1": -n}} for n in sizes]


@PROTOCOLS
def test_pairs_are_asked_by_name(pairs, protocol):
    columns = answers.texts(["good\tbad", "a film\t\u5b57"])
    found = client.ask(calls(pairs, protocol, "p"), "serving_default", columns)
    assert found == [{"joined": "good+bad"}, {"joined": "a film+\u5b57"}]


def command(served, protocol, *arguments):
    """Runs the command in this process; returns its exit code."""
    address = getattr(served.server, protocol)
    given = [f"--address={address}", "--model=m", "--model_version=1"]
    given += ["--rest"] if protocol == "rest" else []
    before = set(flags.FLAGS)
    with pytest.MonkeyPatch.context() as patch:  # as where it runs as a program
        patch.setattr(client, "command_line", command_line, raising=False)
        client._define_flags()
    try:
        rest = flags.FLAGS(["client", *given, *arguments])
        return client._main(rest, flags.FLAGS)
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)


@PROTOCOLS
def test_command_prints_what_the_predictor_prints(served, protocol, capsys):
    label_map = served.folder / "1" / "assets.extra" / "label_map.json"
    texts = [text for text in exports.TEXTS if text]
    found = predictor.Predictor(str(served.folder / "1")).predict(texts)
    expected = "".join(f"{x}\n" for x in answers.lines(texts, found, as_json=False))
    code = command(served, protocol, f"--label_map_file={label_map}", *texts)
    assert (code, capsys.readouterr().out) == (0, expected)
    assert command(served, protocol, "--json", texts[0]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["text"], row["label"]) == (texts[0], expected.split()[3])
    assert command(served, protocol, texts[0]) == 0  # names only what has a name
    best = row["probabilities"].values()
    assert (
        capsys.readouterr().out == f"{texts[0]}\n    {row['label']} {max(best):.3f}\n"
    )


WRONG = [
    (["--model=other", "a"], "Servable not found for request: .*other"),
    (["--model_version=7", "a"], r"Servable not found for request: Specific\(m, 7\)"),
    (["--signature=no", "a"], "--signature=no: the model has ids, serving_default$"),
    (["--signature=ids", "a"], r"takes input_\w+ \[-1, -1\] of DT_INT32; this command"),
    (["a\tb"], "takes text for each example, 2 given; separate"),
    (["a", "a\tb"], "has 2 texts, the first argument has 1"),
    (["\udcff"], "is not UTF-8; convert it"),
    (["--address=localhost", "a"], "--address=localhost is not HOST:PORT; give it"),
    (["--address=http://localhost:8501", "a"], "is not HOST:PORT; give it such as"),
    (["--address=127.0.0.1:1", "a"], r"127.0.0.1:1: no server answers \(.*; start"),
    (["--label_map_file=/none", "a"], "cannot be read .*; give OUTPUT_DIR/export"),
    ([], "give --address=HOST:PORT, --model=NAME and texts"),
]


@PROTOCOLS
@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_error_is_one_line(served, protocol, arguments, message, capsys):
    assert command(served, protocol, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ")
    assert err.count("\n") == 1
    assert re.search(message, err.rstrip())


@PROTOCOLS
def test_silence_ends_after_the_timeout(served, protocol, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listening:  # and never answers
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        begin = time.monotonic()
        arguments = [f"--address={address}", "--timeout_seconds=0.3", "a"]
        assert command(served, protocol, *arguments) == 2
    assert time.monotonic() - begin < 5
    assert "no answer within 0.3 seconds; raise --timeout" in capsys.readouterr().err


def test_rest_on_this_machine_goes_through_no_proxy(served, monkeypatch):
    """Which would answer for its own localhost, or not at all."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert "serving_default" in calls(served, "rest").signatures()
    elsewhere = client.connect("model.example:8501", "m", 0, 5, by_rest=True)
    with pytest.raises(ValueError, match=r"no server answers \(.*refused"):
        elsewhere.signatures()


def test_other_port_is_named(served, capsys):
    assert command(served, "rest", f"--address={served.server.grpc}", "a") == 2
    assert "is this the REST port, 8501 by default?" in capsys.readouterr().err
    assert command(served, "grpc", f"--address={served.server.rest}", "a") == 2
    error = capsys.readouterr().err
    assert "(gRPC is port 8500 by default)" in error and error.count("\n") == 1


def test_missing_extra_is_named(served, monkeypatch, capsys):
    for name in ("tensorflow_serving", "tensorflow_serving.apis"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "serving.protocol.grpc_calls", raising=False)
    assert command(served, "grpc", "a") == 2
    assert "gRPC needs tensorflow_serving" in capsys.readouterr().err
    assert command(served, "rest", "a") == 0


def test_rest_starts_without_tensorflow(served):
    program = (
        "import runpy, sys\n"
        "try:\n    runpy.run_module('serving.client', run_name='__main__')\n"
        "finally:\n    print('tensorflow' in sys.modules, 'numpy' in sys.modules)\n"
    )
    arguments = ["--rest", f"--address={served.server.rest}", "--model=m", "good film"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, _, last = done.stdout.splitlines()
    assert (first, last) == ("good film", "False False")


# The server.


def stub(served):
    channel = grpc.insecure_channel(served.server.grpc)
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def request(texts, model="m", version=1, signature="", **others):
    """A PredictRequest for texts, str or bytes, and other inputs as they are."""
    found = predict_pb2.PredictRequest()
    found.model_spec.name, found.model_spec.signature_name = model, signature
    if version:
        found.model_spec.version.value = version
    if texts is not None:
        raw = [t if isinstance(t, bytes) else t.encode() for t in texts]
        others["text"] = np.array(raw, object)
    for name, value in others.items():
        found.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return found


def random_texts(count, seed):
    """Words, signs and characters of all of Unicode, which most often differ."""
    source = random.Random(seed)

    def piece():
        if source.random() < 0.75:
            return source.choice(WORDS)
        number = source.randrange(0x110000 - 0x800)
        return chr(number + 0x800 * (number >= 0xD800))  # no surrogates

    def text():
        pieces = [piece() for _ in range(source.randrange(16))]
        return source.choice(["", " "]).join(pieces)

    return [text() for _ in range(count)]


def ask_in_pieces(served, texts, seed, num_threads=16):
    """Probabilities of texts, asked by threads in requests of 1 to 7 rows."""
    source, pieces, start = random.Random(seed), [], 0
    while start < len(texts):
        pieces.append(texts[start : start + source.randrange(1, 8)])
        start += len(pieces[-1])
    predict = stub(served).Predict
    with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
        found = pool.map(lambda p: predict(request(p), timeout=60), pieces)
        arrays = [tf.make_ndarray(answer.outputs["probabilities"]) for answer in found]
    return np.concatenate(arrays)


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_mixed_batches_equal_single_calls(served, count):
    texts = random_texts(count, seed=5)
    batcher = served.server.batchers[1]
    batcher.sizes.clear()
    found = ask_in_pieces(served, texts, seed=6)
    expected = np.concatenate([served.alone(text)["probabilities"] for text in texts])
    np.testing.assert_allclose(found, expected, atol=ROUNDING, rtol=0)
    # A row of another would have been noticed.
    assert len(np.unique(expected.round(4), axis=0)) > count / 4
    assert np.abs(found[1:] - expected[:-1]).max() > 0.1
    assert sum(rows for _, rows in batcher.sizes) == count
    assert max(rows for _, rows in batcher.sizes) <= BATCHING.max_batch_size
    assert np.mean([tasks for tasks, _ in batcher.sizes]) > 1.5  # they were joined


@PROTOCOLS
def test_no_request_at_once_is_lost_or_swapped(served, protocol):
    count = 200
    texts = random_texts(count, seed=7)
    barrier = threading.Barrier(count)

    def ask(text):
        first = calls(served, protocol, version=1)
        barrier.wait(30)
        return first.predict("serving_default", {"text": [text]})

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        found = list(pool.map(ask, texts))
    shown = np.concatenate([answer["probabilities"] for answer in found])
    expected = np.concatenate([served.alone(text)["probabilities"] for text in texts])
    np.testing.assert_allclose(shown, expected, atol=ROUNDING, rtol=0)
    assert np.abs(shown[1:] - expected[:-1]).max() > 0.1


INVALID = grpc.StatusCode.INVALID_ARGUMENT
BAD = {
    "wrong type": (request(None, text=[1.0]), INVALID, "type float32, .* string"),
    "wrong shape": (request(None, text=[["a"]]), INVALID, r"shape \[1, 1\]"),
    "scalar": (request(None, text="a"), INVALID, r"shape \[\]"),
    "missing input": (request(None), INVALID, "takes text"),
    "other input": (request(["a"], more=["b"]), INVALID, "are more, text; .* text"),
    "signature": (request(["a"], signature="no"), INVALID, '"no" not found'),
    "internal signature": (
        *(request(None, signature="__saved_model_init_op"), INVALID),
        "not found",
    ),
    "too many rows": (request(["a"] * 33), INVALID, "33 is larger than .* size 32"),
    "version": (
        *(request(["a"], version=9), grpc.StatusCode.NOT_FOUND),
        r"Specific\(m, 9\)",
    ),
    "model": (
        *(request(["a"], "other", 0), grpc.StatusCode.NOT_FOUND),
        r"Latest\(other\)",
    ),
    "no model": (request(["a"], ""), INVALID, "Missing ModelSpec"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_request_has_a_code_and_a_reason(served, name):
    asked, code, message = BAD[name]
    with pytest.raises(grpc.RpcError, match=message) as caught:
        stub(served).Predict(asked, timeout=30)
    assert caught.value.code() == code


def test_pair_needs_both_texts(pairs):
    for given in ({"text_a": ["a"]}, {"text_a": ["a"], "text_b": ["a", "b"]}):
        with pytest.raises(grpc.RpcError) as caught:
            stub(pairs).Predict(request(None, "p", 3, **given), timeout=30)
        assert caught.value.code() == INVALID


STRANGE = {
    "empty": [""],
    "spaces": ["   "],
    "long": ["good film " * 100_000],
    "NUL": ["good\0film\0"],
    "broken": [b"bad \xff\xc3 film", b"\xe3\x81"],
    "no rows": [],
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_texts_spare_the_others(served, name):
    """They are answered, or refused, with good ones in the same batch or beside it."""
    predict = stub(served).Predict
    texts = random_texts(12, seed=8)
    asked = [request([text]) for text in texts]
    asked.insert(5, request(STRANGE[name]))
    found = [predict.future(one, timeout=30) for one in asked]
    strange = found.pop(5)
    if not STRANGE[name] or strange.exception():
        assert strange.exception() is None or strange.exception().code() == INVALID
    else:
        shown = tf.make_ndarray(strange.result().outputs["probabilities"])
        for row, text in zip(shown, STRANGE[name], strict=True):
            expected = served.alone(text)["probabilities"][0]
            np.testing.assert_allclose(row, expected, atol=ROUNDING)
    for text, one in zip(texts, found, strict=True):
        shown = tf.make_ndarray(one.result().outputs["probabilities"])
        expected = served.alone(text)["probabilities"]
        np.testing.assert_allclose(shown, expected, atol=ROUNDING)


def test_metadata_says_what_is_served(served):
    asked = get_model_metadata_pb2.GetModelMetadataRequest(
        metadata_field=["signature_def"]
    )
    asked.model_spec.name = "m"
    answer = stub(served).GetModelMetadata(asked, timeout=30)
    assert answer.model_spec.version.value == 2
    found = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(found)
    (info,) = found.signature_def["serving_default"].inputs.values()
    assert info.dtype == tf.string.as_datatype_enum
    asked.metadata_field.append("weights")
    with pytest.raises(grpc.RpcError, match="weights") as caught:
        stub(served).GetModelMetadata(asked, timeout=30)
    assert caught.value.code() == INVALID
    with pytest.raises(grpc.RpcError) as caught:
        asked = classification_pb2.ClassificationRequest()
        stub(served).Classify(asked, timeout=30)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


# Joining, with a function that waits instead of a model.


def batcher(call, **changes):
    given = {"max_batch_size": 4, "batch_timeout_micros": 50_000}
    given |= {"num_batch_threads": 1, "max_enqueued_batches": 2, **changes}
    return model_server.Batcher(call, model_server.Batching(**given))


def test_batch_waits_until_it_is_full_or_late():
    joined = batcher(lambda _, arrays: {"x": arrays["x"] * 2})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sizes = [3, 1, 2]  # the first two fill a batch, the third waits alone
        begin = time.monotonic()
        first, second = (
            pool.submit(joined, "f", {"x": np.full(n, n)}) for n in sizes[:2]
        )
        assert first.result(5)["x"].tolist() == [6, 6, 6]
        assert second.result(5)["x"].tolist() == [2]
        early = time.monotonic() - begin
        begin = time.monotonic()
        assert joined("f", {"x": np.full(2, 2)})["x"].tolist() == [4, 4]
        late = time.monotonic() - begin
    joined.close()
    assert early < 0.05 <= late
    assert joined.sizes == [(2, 4), (1, 2)]


def test_full_queue_refuses():
    go = threading.Event()
    started = threading.Event()

    def wait(_, arrays):
        started.set()
        assert go.wait(10)
        return arrays

    joined = batcher(wait, max_batch_size=1)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        running = [pool.submit(joined, "f", {"x": np.zeros(1)})]
        assert started.wait(10)
        running += [pool.submit(joined, "f", {"x": np.ones(1)}) for _ in range(2)]
        while len(joined._queues["f"]) < 2:
            time.sleep(0.001)
        with pytest.raises(tf.errors.UnavailableError, match="is full"):
            joined("f", {"x": np.ones(1)})
        go.set()
        assert [r.result(10)["x"].tolist() for r in running] == [[0], [1], [1]]
    joined.close()


def test_shapes_that_do_not_join_are_refused_together():
    joined = batcher(lambda _, arrays: arrays)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(joined, "f", {"x": np.ones((2, n))}) for n in (2, 3)]
        for one in asked:
            with pytest.raises(tf.errors.FailedPreconditionError, match="padding"):
                one.result(5)
    scalar = batcher(lambda _, arrays: {"x": arrays["x"][:1]})
    with pytest.raises(tf.errors.FailedPreconditionError, match="0th dimension"):
        scalar("f", {"x": np.ones(2)})
    joined.close()
    scalar.close()
