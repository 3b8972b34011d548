r"""Prints the answers of an exported model, which stays loaded between questions.

Each argument is an example; a tab separates the texts of a pair:

    python -m serving.predictor --export_dir=output/demo/export "a text" "another"
    python -m serving.predictor --export_dir=output/squad/export $'question\tcontext'
    python -m serving.predictor --export_dir=output/tags/export "a sentence"

Or each line of a file or, with -, of standard input is one, and of the answers:

    python -m serving.predictor --input_file=texts.jsonl \
        --export_dir=output/demo/export

Or it answers over HTTP, as TensorFlow Serving's REST API does:

    python -m serving.predictor --serve \
        --export_dir=output/demo/export
"""

import os

from absl import flags

from cli import command_line, engine_flags, serve_flags
from contract import errors, tf_serving

FLAGS = flags.FLAGS


def define() -> None:
    """Defines the flags of `python -m serving.predictor`."""
    with command_line.heading("Model and vocabulary"):
        flags.DEFINE_string(
            "export_dir",
            None,
            "Directory of an exported version, or the directory of all versions.",
        )
        flags.DEFINE_string(
            "signature",
            tf_serving.DEFAULT_SIGNATURE,
            "Signature of the model to call; it must take texts.",
        )
    with command_line.heading("Data"):
        flags.DEFINE_string(
            "input_file", None, "File with one example per line; - is standard input."
        )
        flags.DEFINE_enum(
            "input_format",
            "jsonl",
            ["jsonl", "lines"],
            "jsonl: an object with the texts by name, or a string for a single text. "
            "lines: plain text, with a tab between the texts of a pair.",
        )
    with command_line.heading("Output"):
        flags.DEFINE_bool("json", False, "Print one JSON object per line.")
        flags.DEFINE_string(
            "output_file",
            None,
            "File for the predictions of --input_file, one JSON object per line. The "
            "default is standard output.",
        )
    engine_flags.define_shards()
    serve_flags.define()
    with command_line.heading("Server"):
        flags.DEFINE_string("model_name", "default", "Name of the model in URLs.")
    flags.register_multi_flags_validator(
        ["serve", "input_file"],
        lambda values: not (values["serve"] and values["input_file"]),
        "give --serve or --input_file, not both",
    )
    flags.register_multi_flags_validator(
        ["output_file", "input_file"],
        lambda values: bool(values["input_file"]) or not values["output_file"],
        "--output_file is for the answers to an --input_file; give one",
    )


def check() -> None:
    """Raises ValueError where a flag names a place that is not there."""
    path = FLAGS.export_dir or ""
    if path and "://" not in path and not os.path.isdir(path):
        raise errors.InputError(
            f"--export_dir={path}: no SavedModel there; train with --do_export first, "
            "and give OUTPUT_DIR/export, export_litert or export_onnx"
        )
    engine_flags.check_shards()
    command_line.check_files("input_file")
    serve_flags.check()
