"""The format of an export, a SavedModel or LiteRT: chooses and recognizes it."""

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import saved_model_pb2

from contract import atomic_files, errors
from serving import export, litert
from serving.protocol import servables


def save(
    module: export.ServedModel,
    output_dir: str,
    files: Mapping[str, str],
    *,
    export_format: str,
    quantization: str,
    server_config: bool = False,
) -> str:
    """Writes the next version below output_dir/export or output_dir/export_litert.

    Prints the size of a LiteRT export beside that of the weights.

    Args:
        files: as in `export.save`.
        export_format: "saved_model" or "litert".
        quantization: "none", "dynamic_int8" or "float16"; for LiteRT.
        server_config: as in `export.save`; for SavedModels.
    """
    is_litert = export_format == "litert"
    target = os.path.join(output_dir, "export_litert" if is_litert else "export")
    write = writer(export_format, quantization)
    path = export.save(module, target, files, server_config, write)
    if is_litert:
        print(f"{quantization}: {litert.describe_size(module, path)}")
    return path


def check(export_format: str, lstms: str) -> None:
    """Raises InputError where a format cannot hold a model.

    `lstms` names its part that is made of LSTMs; "" for none.
    """
    if export_format == "litert" and lstms:
        raise errors.InputError(
            f"--export_format=litert has no operation for the LSTMs of {lstms}; leave "
            "it out: a SavedModel holds them"
        )


def writer(
    export_format: str, quantization: str
) -> Callable[[export.ServedModel, str], None]:
    """The function with which `export.save` writes a format.

    Raises:
        InputError: a SavedModel is to be quantized.
    """
    if export_format == "saved_model":
        if quantization != "none":
            raise errors.InputError(
                f"--quantization={quantization} is for LiteRT exports; add "
                "--export_format=litert"
            )
        return export.write_saved_model
    return functools.partial(litert.write, quantization=quantization)


def network_opener(export_format: str, lstms: str = "") -> Callable[[str], Any]:
    """A function of an export's path to the network that is scored for the model.

    It returns None for a SavedModel, because that computes the same numbers.
    """
    check(export_format, lstms)
    if export_format == "saved_model":
        return lambda path: None
    litert.check_installed()
    return litert.open_network


def is_version(directory: str) -> bool:
    """Whether a directory is an export, of either format."""
    path = os.path.join(directory, "saved_model.pb")
    return tf.io.gfile.exists(path) or litert.is_in(directory)


def open_version(directory: str) -> servables.Version:
    """Loads one export.

    Raises:
        InputError: it is damaged, or LiteRT is needed and not installed.
    """
    opens = servables.open_version
    if litert.is_in(directory):
        litert.check_installed()
        opens = litert.open_version
    verbosity = logging.get_verbosity()
    # TensorFlow logs the traceback of a damaged fingerprint.pb, which nothing needs.
    logging.set_verbosity(logging.FATAL)
    try:
        return opens(directory)
    except Exception as error:  # damaged bytes make TensorFlow raise any type
        raise errors.InputError(
            f"{_damaged_file(directory)}: cannot be loaded ({type(error).__name__}: "
            f"{atomic_files.reason(error)}); copy {directory} again, or export the "
            "model again"
        ) from error
    finally:
        logging.set_verbosity(verbosity)


def _damaged_file(directory):
    """The missing or damaged file of an export that cannot be loaded."""
    if litert.is_in(directory):
        try:
            litert.Network(directory)
        except Exception:
            return os.path.join(directory, litert.MODEL)
        directory = os.path.join(directory, litert.TEXTS)
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
