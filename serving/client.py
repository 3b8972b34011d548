r"""Asks a model server, TensorFlow Serving or another with its protocol.

Each argument is an example; a tab separates the texts of a pair:

    python -m serving.client --address=localhost:8500 --model=messages "a text"
    python -m serving.client --address=localhost:8501 --rest --model=squad \
        $'question\tcontext'

gRPC needs the extra `serving`; --rest needs nothing and starts at once. Prints what
serving.predictor prints.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from contract import errors, json_files, tf_serving


def _define_flags():
    from absl import flags

    with command_line.heading("Model and vocabulary"):
        flags.DEFINE_string("address", None, "HOST:PORT of the server.")
        flags.DEFINE_bool("rest", False, "Ask by REST; by gRPC otherwise.")
        flags.DEFINE_string("model", None, "The name of the model at the server.")
        flags.DEFINE_integer(
            "model_version", 0, "Its version; 0 for the newest.", lower_bound=0
        )
        flags.DEFINE_string(
            "signature",
            tf_serving.DEFAULT_SIGNATURE,
            "Which of its functions to ask.",
        )
        flags.DEFINE_string(
            "label_map_file",
            None,
            "label_map.json of the export, in assets.extra: names the probabilities, "
            "of which a server names the best only.",
        )
        flags.DEFINE_integer(
            "batch_size", 32, "Most examples in a request.", lower_bound=1
        )
        command_line.define_float(
            "timeout_seconds", 30, "How long to wait for an answer.", lower_bound=0.001
        )
    with command_line.heading("Output"):
        flags.DEFINE_bool("json", False, "Print one JSON object a line.")


if __name__ == "__main__":  # before the imports that take seconds
    from cli import command_line

    command_line.parse(_define_flags, loads_tensorflow=False)

from serving import answers
from serving.protocol import rest_calls


def connect(
    address: str, model: str, version: int, timeout_seconds: float, *, by_rest: bool
) -> Any:
    """The calls of a model; ValueError where the extra for gRPC is not installed."""
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit()) or "/" in address:
        raise errors.InputError(
            f"--address={address} is not HOST:PORT; give it such as "
            f"localhost:{tf_serving.REST_PORT if by_rest else tf_serving.GRPC_PORT}"
        )
    if by_rest:
        return rest_calls.Calls(address, model, version, timeout_seconds)
    try:
        grpc_calls = importlib.import_module("serving.protocol.grpc_calls")
    except ModuleNotFoundError as error:
        raise errors.InputError(
            f"gRPC needs {error.name}, which is not installed; ask by --rest, or "
            "install the extra: pip install -c constraints.txt tensorflow-serving-api"
        ) from error
    return grpc_calls.Calls(address, model, version, timeout_seconds)


def ask(
    calls: Any,
    signature: str,
    columns: Sequence[Sequence[str]],
    *,
    labels: Sequence[str] | None = None,
    batch_size: int = 32,
) -> list[dict[str, Any]]:
    """A dict for each example, as `serving.predictor.Predictor.predict` gives them.

    Args:
        columns: the texts of the examples, a list for each text of an example.
        labels: of label_map.json, in its order; None if unknown.

    Raises:
        ValueError: the server does not answer, or not to such a request.
    """
    inputs, outputs = _described(calls.signatures(), signature)
    answers.check(columns, inputs, f"signature {signature}")
    found: list[dict[str, Any]] = []
    for start in range(0, len(columns[0]), batch_size):
        batch = [column[start : start + batch_size] for column in columns]
        given = calls.predict(signature, answers.inputs(inputs, batch))
        if set(given) == {""}:  # REST leaves out the name of the only output
            given = dict(zip(outputs, given.values(), strict=True))
        rows = answers.rows(given, labels or (), knows_labels=labels is not None)
        if len(rows) != len(batch[0]):
            raise errors.InputError(
                f"the server answers {len(rows)} times to {len(batch[0])} examples"
            )
        found += rows
    return found


def _described(
    signatures: Mapping[str, Any], wanted: str
) -> tuple[list[str], list[str]]:
    """Inputs and outputs of a signature that takes texts."""
    if wanted not in signatures:
        names = sorted(name for name in signatures if not name.startswith("__"))
        raise errors.InputError(
            f"--signature={wanted}: the model has {', '.join(names) or 'none'}"
        )
    inputs, counts = signatures[wanted]["inputs"], {}
    for name, info in sorted(inputs.items()):
        dims = info.get("tensor_shape", {}).get("dim", [])
        # One text of each example, or a fixed number of them.
        counts[name] = int(dims[1]["size"]) if len(dims) == 2 else 1
        if info["dtype"] != "DT_STRING" or len(dims) not in (1, 2) or counts[name] < 1:
            shape = ", ".join(dim["size"] for dim in dims)
            raise errors.InputError(
                f"--signature={wanted} takes {name} [{shape}] of {info['dtype']}; this "
                "command gives texts, for example to serving_default"
            )
    return answers.text_names(counts), sorted(signatures[wanted]["outputs"])


def _read_labels(path):
    try:
        with open(path, encoding="utf-8") as file:
            return answers.label_names(json_files.parse(file.read()))
    except (OSError, ValueError) as error:
        raise errors.InputError(
            f"--label_map_file={path}: cannot be read ({error}); give "
            "OUTPUT_DIR/export/<n>/assets.extra/label_map.json"
        ) from error


def _main(argv, flags):
    """Prints the answers to the texts argv[1:]; returns an exit code."""
    try:
        if not (flags.address and flags.model and argv[1:]):
            raise errors.InputError(
                'give --address=HOST:PORT, --model=NAME and texts: "one" "another"'
            )
        columns = answers.texts(argv[1:])
        labels = None
        if flags.label_map_file:
            labels = _read_labels(flags.label_map_file)
        calls = connect(
            *(flags.address, flags.model, flags.model_version, flags.timeout_seconds),
            by_rest=flags.rest,
        )
        found = ask(
            *(calls, flags.signature, columns),
            labels=labels,
            batch_size=flags.batch_size,
        )
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for line in answers.lines(argv[1:], found, as_json=flags.json):
        print(line)
    return 0


if __name__ == "__main__":
    from absl.flags import FLAGS

    if not FLAGS.rest:
        command_line.expect_tensorflow()
    command_line.run(lambda argv: _main(argv, FLAGS))
