"""The formats of exports, which flags, run directories and exporters share."""

import os

from contract import errors, remote_files

SAVED_MODEL = "saved_model"
FORMATS = (SAVED_MODEL, "litert", "onnx")  # values of --export_format
STATIC_INT8 = "static_int8"  # needs rows, on which scales of activations are calibrated
QUANTIZATIONS = ("none", "dynamic_int8", STATIC_INT8, "float16")  # of --quantization


def folder(export_format: str) -> str:
    """The folder of an output directory that holds the versions of a format."""
    return "export" if export_format == SAVED_MODEL else f"export_{export_format}"


def of_run(output_dir: str) -> list[tuple[str, str]]:
    """The exports of a run: (folder below its directory, format) of each."""
    folders = {folder(name): name for name in FORMATS}
    paths = remote_files.matching(output_dir, "export*/[0-9]*")
    names = {os.path.basename(os.path.dirname(path)) for path in paths}
    return [pair for pair in folders.items() if pair[0] in names]


def check(export_format: str, quantization: str, has_rows: bool | None = None) -> None:
    """Raises InputError where there is no such format, or it has no such weights.

    `has_rows`: whether there are rows to calibrate scales on; None where that is for
    later.
    """
    for name, value, values in (
        ("export_format", export_format, FORMATS),
        ("quantization", quantization, QUANTIZATIONS),
    ):
        if value not in values:
            raise errors.InputError(
                f"--{name}={value} is not one of {', '.join(values)}; choose one"
            )
    if quantization == STATIC_INT8 and export_format != "onnx":
        raise errors.InputError(
            f"--quantization={STATIC_INT8} is for ONNX exports; add "
            "--export_format=onnx"
        )
    if has_rows is not None and has_rows != (quantization == STATIC_INT8):
        raise errors.InputError(
            f"--quantization={quantization} calibrates no scales on rows; leave them "
            "out"
            if has_rows
            else f"--quantization={STATIC_INT8} calibrates scales on rows; give some "
            "like those that it will answer"
        )
    if quantization != "none" and export_format == SAVED_MODEL:
        raise errors.InputError(
            f"--quantization={quantization} is for LiteRT and ONNX exports; add "
            "--export_format=litert or onnx"
        )
    if quantization == "float16" and export_format == "onnx":
        raise errors.InputError(
            "--quantization=float16 is for LiteRT exports; ONNX exports have "
            f"--quantization=dynamic_int8 and {STATIC_INT8}"
        )
