"""The formats of exports, which flags, run directories and exporters share."""

import os

from contract import errors, remote_files

SAVED_MODEL = "saved_model"
FORMATS = (SAVED_MODEL, "litert", "onnx")  # values of --export_format
QUANTIZATIONS = ("none", "dynamic_int8", "float16")  # of --quantization


def folder(export_format: str) -> str:
    """The folder of an output directory that holds the versions of a format."""
    return "export" if export_format == SAVED_MODEL else f"export_{export_format}"


def of_run(output_dir: str) -> list[tuple[str, str]]:
    """The exports of a run: (folder below its directory, format) of each."""
    folders = [(folder(name), name) for name in FORMATS]
    return [
        (name, export_format)
        for name, export_format in folders
        if remote_files.matching(os.path.join(output_dir, name), "[0-9]*")
    ]


def check_quantization(export_format: str, quantization: str) -> None:
    """Raises InputError where a format does not have these weights."""
    if quantization != "none" and export_format == SAVED_MODEL:
        raise errors.InputError(
            f"--quantization={quantization} is for LiteRT and ONNX exports; add "
            "--export_format=litert or onnx"
        )
    if quantization == "float16" and export_format == "onnx":
        raise errors.InputError(
            "--quantization=float16 is for LiteRT exports; ONNX exports have "
            "--quantization=dynamic_int8"
        )
