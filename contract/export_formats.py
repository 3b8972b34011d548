"""The formats of exports, which flags, run directories and exporters share."""

from contract import errors

SAVED_MODEL = "saved_model"
FORMATS = (SAVED_MODEL, "litert", "onnx")  # values of --export_format
QUANTIZATIONS = ("none", "dynamic_int8", "float16")  # of --quantization


def folder(export_format: str) -> str:
    """The folder of an output directory that holds the versions of a format."""
    return "export" if export_format == SAVED_MODEL else f"export_{export_format}"


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
