"""Sends texts to a model server, TensorFlow Serving or another with its protocol.

python -m serving.client --address=localhost:8501 --rest --model=messages "a text"
"""

from collections.abc import Mapping, Sequence
from typing import Any

from contract import errors, tf_serving
from serving import answers
from serving.protocol import rest_calls


def connect(
    address: str, model: str, version: int, timeout_seconds: float, *, by_rest: bool
) -> Any:
    """The calls of a model."""
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdigit()) or "/" in address:
        raise errors.InputError(
            f"--address={address} is not HOST:PORT; give an address such as "
            f"localhost:{tf_serving.REST_PORT if by_rest else tf_serving.GRPC_PORT}"
        )
    if by_rest:
        return rest_calls.Calls(address, model, version, timeout_seconds)
    from serving.protocol import grpc_calls  # and with it TensorFlow

    return grpc_calls.Calls(address, model, version, timeout_seconds)


def predict(
    calls: Any,
    signature: str,
    columns: Sequence[Sequence[str]],
    *,
    labels: Sequence[str] | None = None,
    batch_size: int = 32,
) -> list[dict[str, Any]]:
    """A dict for each example, as `serving.predictor.Predictor.predict` returns them.

    Args:
        columns: the texts of the examples, a list for each text of an example.
        labels: of label_map.json, in its order; None if unknown.

    Raises:
        InputError: the server does not answer, or refuses the request.
    """
    inputs, outputs = _describe(calls.signatures(), signature)
    answers.check(columns, inputs, f"signature {signature}")
    rows: list[dict[str, Any]] = []
    for start in range(0, len(columns[0]), batch_size):
        batch = [column[start : start + batch_size] for column in columns]
        values = calls.predict(signature, answers.inputs(inputs, batch))
        if set(values) == {""}:  # REST leaves out the name of the only output
            values = dict(zip(outputs, values.values(), strict=True))
        answered = answers.rows(values, labels)
        if len(answered) != len(batch[0]):
            raise errors.InputError(
                f"the server returned {len(answered)} predictions for {len(batch[0])} "
                "examples; check --model and --signature"
            )
        rows += answered
    return rows


def _describe(
    signatures: Mapping[str, Any], wanted: str
) -> tuple[list[str], list[str]]:
    """Inputs and outputs of a signature that takes texts."""
    if wanted not in signatures:
        names = sorted(name for name in signatures if not name.startswith("__"))
        raise errors.InputError(
            f"--signature={wanted}: the signatures of the model are "
            f"{', '.join(names) or 'none'}"
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
                "command sends texts; choose another signature, such as serving_default"
            )
    return answers.text_names(counts), sorted(signatures[wanted]["outputs"])


if __name__ == "__main__":
    from cli import client_command

    client_command.main()
