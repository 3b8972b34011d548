"""The network of a LiteRT export: model.tflite maps token ids to numbers."""

import os
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from contract import cores
from contract import features as feature_names
from serving import export
from terminal import native_log

PACKAGES = ("ai_edge_litert",)
MODEL = "model.tflite"  # the name that TF Serving's --prefer_tflite_model looks for
_NETWORK = "ids"  # the signature of MODEL


def convert(
    module: export.ServedModel, model: Any, quantization: str, calibration: Any
) -> bytes:
    """The network as a flatbuffer; batch and length are free.

    `quantization` is "none", "dynamic_int8" or "float16"; `model` and `calibration` are
    not read.
    """
    stages = module.network_stages()
    ids = export.ids_function(stages.forward, stages.ids_shape)
    network = export.ServedModel(module.variables, ids=ids)
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(network, directory, signatures=network.signatures())
        converter = tf.lite.TFLiteConverter.from_saved_model(
            directory, signature_keys=[_NETWORK]
        )
        if quantization != "none":  # weights become int8, sums are exact
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        return converter.convert()


class Network:
    """The network of an export: features int32 [B, S] -> {name: float32 array}.

    Shapes may change from call to call. Threads take turns, since an interpreter has
    one set of tensors.
    """

    def __init__(self, directory: str):
        from ai_edge_litert import interpreter

        with tf.io.gfile.GFile(os.path.join(directory, MODEL), "rb") as file:
            content = file.read()
        with native_log.quiet():  # it names its delegate
            opened = interpreter.Interpreter(
                model_content=content, num_threads=cores.usable()
            )
            self._run = opened.get_signature_runner(_NETWORK)
        self._lock = threading.Lock()
        # A damaged file is noticed when its operations are prepared, not before.
        shapes = {k: v["shape"] for k, v in self._run.get_input_details().items()}
        self._run(**{name: np.zeros(shape, np.int32) for name, shape in shapes.items()})

    def __call__(self, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
        names = feature_names.ENCODER_INPUTS
        arrays = {name: np.asarray(features[name], np.int32) for name in names}
        with self._lock:
            return self._run(**arrays)
