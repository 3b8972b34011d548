r"""Prints predictions of TensorFlow Serving, or of a server with the same protocol.

Each argument is one example; a tab separates the texts of a pair:

    python -m serving.client --address=localhost:8500 --model=messages "a text"
    python -m serving.client --address=localhost:8501 --rest --model=squad \
        $'question\tcontext'

gRPC needs the extra `serving`. --rest needs no extra package and starts faster. The
output has the format of serving.predictor.
"""

from collections.abc import Sequence

from absl import flags

from cli import command_line
from contract import errors, json_files, tf_serving
from serving import answers, client

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of `python -m serving.client`."""
    with command_line.heading("Model and vocabulary"):
        flags.DEFINE_string("address", None, "Address of the server, as HOST:PORT.")
        flags.DEFINE_bool("rest", False, "Use the REST API instead of gRPC.")
        flags.DEFINE_string("model", None, "Name of the model on the server.")
        flags.DEFINE_integer(
            "model_version", 0, "Version of the model; 0 for the newest.", lower_bound=0
        )
        flags.DEFINE_string(
            "signature",
            tf_serving.DEFAULT_SIGNATURE,
            "Signature of the model to call.",
        )
        flags.DEFINE_string(
            "label_map_file",
            None,
            "label_map.json of the export, in assets.extra, for the names of all "
            "labels. A server returns only the name of the predicted label.",
        )
        flags.DEFINE_integer(
            "batch_size", 32, "Maximum number of examples per request.", lower_bound=1
        )
        command_line.define_float(
            "timeout_seconds", 30, "Timeout of a request in seconds.", lower_bound=0.001
        )
    with command_line.heading("Output"):
        flags.DEFINE_bool("json", False, "Print one JSON object per line.")


def main() -> None:
    """The command, from its flags to the end of the process."""
    command_line.parse(define_flags, loads_tensorflow=False)
    if not FLAGS.rest:
        command_line.expect_tensorflow()
    command_line.run(run)


def run(argv: Sequence[str]) -> None:
    """Prints the answers to the texts argv[1:]."""
    with errors.explained():
        if not (FLAGS.address and FLAGS.model and argv[1:]):
            raise errors.InputError(
                'give --address=HOST:PORT, --model=NAME and texts: "one" "another"'
            )
        columns = answers.texts(argv[1:])
        labels = _read_labels(FLAGS.label_map_file) if FLAGS.label_map_file else None
        calls = client.connect(
            FLAGS.address,
            FLAGS.model,
            FLAGS.model_version,
            FLAGS.timeout_seconds,
            by_rest=FLAGS.rest,
        )
        rows = client.predict(
            calls, FLAGS.signature, columns, labels=labels, batch_size=FLAGS.batch_size
        )
        for line in answers.lines(argv[1:], rows, as_json=FLAGS.json):
            print(line)


def _read_labels(path):
    try:
        with open(path, encoding="utf-8") as file:
            return answers.label_names(json_files.parse(file.read()))
    except (OSError, ValueError) as error:
        raise errors.InputError(
            f"--label_map_file={path}: cannot be read ({error}); give "
            "OUTPUT_DIR/export/<n>/assets.extra/label_map.json"
        ) from error
