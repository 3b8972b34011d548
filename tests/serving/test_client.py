"""Tests of serving/client.py: REST of serving.predictor, gRPC of the real stubs."""

import json
import pathlib
import re
import socket
import time
from typing import NamedTuple

import numpy as np
import pytest
from absl import flags

from cli import client_command
from serving import answers, client, predictor
from serving.protocol import servables
from tests.serving import prediction_service
from tests.serving import test_export as exports
from tests.serving.server import running

# Float32 rounding; a row of a batch is padded more than it is alone.
ROUNDING = 1e-5


class Served(NamedTuple):
    rest: str
    grpc: str
    folder: pathlib.Path


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "export"
    exports.make("classification", 1, folder)
    version = servables.open_version(str(folder / "1"))
    model = servables.Model("m", {1: version})
    with (
        running.running(model) as server,
        prediction_service.serving(model) as grpc,
    ):
        yield Served(server.address.removeprefix("http://"), grpc, folder)


def calls(served, protocol, model="m", version=0, timeout_seconds=30):
    address = getattr(served, protocol)
    by_rest = protocol == "rest"
    return client.connect(address, model, version, timeout_seconds, by_rest=by_rest)


PROTOCOLS = pytest.mark.parametrize("protocol", ["grpc", "rest"])
LABELS = ["no", "ja", "yes"]


def values(actual):
    return [list(answer["probabilities"].values()) for answer in actual]


@PROTOCOLS
def test_server_says_what_the_predictor_says(served, protocol):
    directory = str(served.folder / "1")
    expected = predictor.Predictor(directory).predict(exports.TEXTS)
    first = calls(served, protocol, version=1)
    columns = [exports.TEXTS]
    actual = client.predict(
        first, "serving_default", columns, labels=LABELS, batch_size=2
    )
    assert [answer["label"] for answer in actual] == [a["label"] for a in expected]
    assert [list(a["probabilities"]) for a in actual] == [LABELS] * len(exports.TEXTS)
    np.testing.assert_allclose(values(actual), values(expected), atol=ROUNDING)
    newest = client.predict(calls(served, protocol), "serving_default", columns)
    # Nobody has named the columns.
    assert all(list(answer["probabilities"]) == ["0", "1", "2"] for answer in newest)
    np.testing.assert_allclose(values(newest), values(expected), atol=ROUNDING)


def command(served, protocol, *arguments):
    address = getattr(served, protocol)
    own = [f"--address={address}", "--model=m", "--model_version=1"]
    own += ["--rest"] if protocol == "rest" else []
    before = set(flags.FLAGS)
    client_command.define_flags()
    try:
        client_command.run(flags.FLAGS(["client", *own, *arguments]))
    except SystemExit as ended:
        return ended.code
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
    return 0


@PROTOCOLS
def test_command_prints_what_the_predictor_prints(served, protocol, capsys):
    label_map = served.folder / "1" / "assets.extra" / "label_map.json"
    texts = [text for text in exports.TEXTS if text]
    actual = predictor.Predictor(str(served.folder / "1")).predict(texts)
    expected = "".join(f"{x}\n" for x in answers.lines(texts, actual, as_json=False))
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
    (["--signature=no", "a"], "--signature=no: .* model are ids, serving_default$"),
    (["--signature=ids", "a"], r"takes input_\w+ \[-1, -1\] of DT_INT32; this command"),
    (["a\tb"], "takes text for each example, 2 given; separate"),
    (["a", "a\tb"], "has 2 texts, the first argument has 1"),
    (["\udcff"], "which is not UTF-8"),
    (["--address=localhost", "a"], "--address=localhost is not HOST:PORT; give"),
    (
        ["--address=http://localhost:8501", "a"],
        "is not HOST:PORT; give an address such as",
    ),
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


def test_other_port_is_named(served, capsys):
    assert command(served, "rest", f"--address={served.grpc}", "a") == 2
    assert "is this the REST port, 8501 by default?" in capsys.readouterr().err
    assert command(served, "grpc", f"--address={served.rest}", "a") == 2
    error = capsys.readouterr().err
    assert "(gRPC is port 8500 by default)" in error and error.count("\n") == 1
