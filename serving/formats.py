"""The format of an export, SavedModel, LiteRT or ONNX: chooses and recognizes it."""

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import saved_model_pb2

from contract import atomic_files, errors, export_formats
from data_pipeline.batches import packing
from modeling.features import head_config
from serving import export, onnx_runtime, runtimes
from serving.protocol import servables


def save(
    module: export.ServedModel,
    output_dir: str,
    files: Mapping[str, str],
    *,
    model: Any,
    export_format: str,
    quantization: str,
    calibration: packing.Packed | None = None,
    server_config: bool = False,
) -> str:
    """Writes the next version below output_dir/export, or export_litert, export_onnx.

    Prints the size of an export for another runtime beside that of the weights.

    Args:
        files: as in `export.save`.
        model: the model of the module.
        export_format: "saved_model", "litert" or "onnx".
        quantization: "none", "dynamic_int8" or, for LiteRT, "float16" and, for ONNX,
            "static_int8".
        calibration: examples of the task, for "static_int8".
        server_config: as in `export.save`; for SavedModels.
    """
    write = writer(export_format, quantization, model, calibration)
    target = os.path.join(output_dir, export_formats.folder(export_format))
    path = export.save(module, target, files, server_config, write)
    if export_format != export_formats.SAVED_MODEL:
        print(f"{quantization}: {runtimes.describe_size(module, path)}")
    return path


def check(
    export_format: str,
    config: Any,
    reading: Any,
    sequences: str = "single",
    takes_text: bool = True,
) -> None:
    """Raises InputError where a format cannot hold a model, or needs a package.

    Args:
        config: of the network.
        reading: the HeadConfig of the model.
        sequences: as of models.BertClassifier.
        takes_text: whether an export can have the tokenizer.
    """
    if export_format == export_formats.SAVED_MODEL:
        return
    if not takes_text:
        raise errors.InputError(
            f"--export_format={export_format} keeps the tokenizer beside the network, "
            "and GPT's is no TensorFlow operation; leave it out"
        )
    lstms = head_config.name_lstms(config, reading)
    if export_format == "litert" and lstms:
        raise errors.InputError(
            f"--export_format=litert has no operation for the LSTMs of {lstms}; leave "
            "it out: a SavedModel holds them"
        )
    if export_format == "onnx":
        onnx_runtime.check(config, reading, sequences)
    runtimes.check_installed(export_format)


def writer(
    export_format: str,
    quantization: str,
    model: Any,
    calibration: packing.Packed | None = None,
) -> Callable[[export.ServedModel, str], None]:
    """The function with which `export.save` writes a format.

    Raises:
        InputError: there is no such format, or it does not have such weights.
    """
    export_formats.check(export_format, quantization, bool(calibration))
    if export_format == export_formats.SAVED_MODEL:
        return export.write_saved_model
    return functools.partial(
        runtimes.write,
        export_format=export_format,
        model=model,
        quantization=quantization,
        calibration=calibration,
    )


def open_network(directory: str) -> Callable[..., dict[str, tf.Tensor]] | None:
    """An export, called as its model, to be scored in its place.

    Rows are computed as those of texts are, so that a score is that of the answers.

    None for a SavedModel, because that computes the same numbers.
    """
    if not runtimes.format_of(directory):
        return None
    run = runtimes.open_rows(directory)

    def forward(features, training=False):
        arrays = {name: np.asarray(grid) for name, grid in features.items()}
        return {k: tf.constant(v) for k, v in run(arrays).items()}

    return forward


def is_version(directory: str) -> bool:
    """Whether a directory is an export, of any format."""
    path = os.path.join(directory, "saved_model.pb")
    return tf.io.gfile.exists(path) or bool(runtimes.format_of(directory))


def open_version(directory: str) -> servables.Version:
    """Loads one export.

    Raises:
        InputError: it is damaged, or its runtime is not installed.
    """
    is_split = bool(runtimes.format_of(directory))
    opens = runtimes.open_version if is_split else servables.open_version
    logging.get_absl_logger().addFilter(_is_wanted)  # once, as it is one function
    try:
        return opens(directory)
    except errors.InputError:  # a package is missing
        raise
    except Exception as error:  # damaged bytes make TensorFlow raise any type
        raise errors.InputError(
            f"{_damaged_file(directory)}: cannot be loaded ({type(error).__name__}: "
            f"{atomic_files.reason(error)}); copy {directory} again, or export the "
            "model again"
        ) from error


def _is_wanted(record):
    """Whether a record is none of a damaged fingerprint.pb, which nothing needs."""
    return "Fingerprint was found, but" not in str(record.msg)


def _damaged_file(directory):
    """The missing or damaged file of an export that cannot be loaded."""
    if runtimes.format_of(directory):  # which has checksums, but of earlier versions
        return directory
    damaged = graph = os.path.join(directory, "saved_model.pb")
    prefix = os.path.join(directory, "variables", "variables")
    with contextlib.suppress(Exception):
        with tf.io.gfile.GFile(graph, "rb") as file:
            saved_model_pb2.SavedModel.FromString(file.read())
        damaged = f"{prefix}.index"
        weights = tf.train.load_checkpoint(prefix)
        damaged = f"{prefix}.data-00000-of-00001"
        for name in weights.get_variable_to_shape_map():
            weights.get_tensor(name)
        damaged = graph
    return damaged
